"""Trees with linear routers: LdSM and the sketch forest."""

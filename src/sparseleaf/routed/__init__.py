"""Trees whose nodes route sparse rows with linear routers."""

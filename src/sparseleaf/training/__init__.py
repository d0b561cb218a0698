"""Training: what every worker runs on its partition, and what the process that called ``fit`` does beside it."""

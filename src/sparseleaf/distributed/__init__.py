"""Training on several workers: communicators, and what starts the same training function on each of them."""

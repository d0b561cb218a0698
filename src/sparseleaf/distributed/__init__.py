"""Distributed training: communicators, and launchers that run the training function on every worker."""

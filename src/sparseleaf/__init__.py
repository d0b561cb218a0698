"""sparseleaf."""

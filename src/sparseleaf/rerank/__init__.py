"""Re-rankers: model stages that rescore the trees' candidate labels. One file each; see :mod:`.stage`."""

"""Re-rankers: stages that score the best labels of the trees again. One file each; see :mod:`.stage`."""

"""Fitting of calibrators and decision thresholds on validation rows."""

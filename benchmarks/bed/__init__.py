"""The test bed of the default settings: many small datasets, repeated splits, peers at their defaults."""

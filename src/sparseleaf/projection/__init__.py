"""Projections: sparse features to a few dense columns, fitted once and stored in the model."""

from sparseleaf.projection.linear import PROJECTIONS, Projection, choose_projection, fit_projection

__all__ = ["PROJECTIONS", "Projection", "choose_projection", "fit_projection"]

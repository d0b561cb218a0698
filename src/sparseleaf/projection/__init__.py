"""Linear projections of sparse features to few dense features, stored in the model."""

from sparseleaf.projection.fit import PROJECTIONS, choose_keep_raw, choose_projection, fit_projection
from sparseleaf.projection.leml import LEML
from sparseleaf.projection.linear import Projection

__all__ = ["LEML", "PROJECTIONS", "Projection", "choose_keep_raw", "choose_projection", "fit_projection"]

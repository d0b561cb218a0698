"""URIs of the labels of a classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.model.stage import Role
from sparseleaf.model.uris import LabelURIs

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


class LabelURIsMixin(ModelEstimator):
    """A classifier whose labels can have URIs."""

    @property
    def label_uris_(self) -> Array | None:
        """URIs of the labels in the order of ``classes_``, None for labels without one; None if there are none."""
        stage = self._model().stage(Role.URIS)
        return None if stage is None else np.array(stage.uris, object)

    def set_label_uris(self, uris: Mapping[Any, str] | Sequence[str | None] | Array | None) -> Self:
        """Store URIs of the labels in the model, for systems that identify labels by URI, such as Annif.

        Parameters
        ----------
        uris : mapping or sequence, or None
            URIs by label, where further labels are ignored; or one per label in the order of ``classes_``, None for
            labels without one. None removes all URIs.

        Returns
        -------
        self : object
            The classifier with the URIs.
        """
        model = self._model()
        if uris is None:
            stage = None
        elif isinstance(uris, Mapping):
            names = range(model.n_labels) if model.label_names is None else model.label_names.tolist()
            stage = LabelURIs.from_mapping(uris, list(names))
        else:
            listed = () if isinstance(uris, str | bytes) else tuple(uris)
            if len(listed) != model.n_labels:
                raise ValueError(
                    "The 'uris' parameter must be a mapping from labels to URIs, or have one URI for each of"
                    f" {model.n_labels:,} labels. Got {uris!r:.60} instead."
                )
            stage = LabelURIs.of(listed)
        self.model_ = model.with_stage(Role.URIS, stage)
        return self

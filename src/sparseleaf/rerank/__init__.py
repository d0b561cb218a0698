"""The last stage of any classifier: candidates of the trees, scored anew."""

from sparseleaf.rerank.centroids import MIXES, CentroidRerank

__all__ = ["MIXES", "CentroidRerank"]

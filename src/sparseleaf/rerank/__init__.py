"""The last stage of any classifier: candidates of the trees, scored anew."""

from typing import TypeAlias

from sparseleaf.rerank.centroids import MIXES, CentroidRerank
from sparseleaf.rerank.learned import LEARNED, LearnedRerank

Rerank: TypeAlias = CentroidRerank | LearnedRerank

KINDS = (*MIXES, *LEARNED)
"""Stages by name."""

__all__ = ["KINDS", "LEARNED", "MIXES", "CentroidRerank", "LearnedRerank", "Rerank"]

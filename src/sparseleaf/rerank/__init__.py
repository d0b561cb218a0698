"""The last stage of any classifier: candidates of the trees, scored anew."""

from typing import TypeAlias

from sparseleaf.rerank.bayes import BAYES, BayesRerank
from sparseleaf.rerank.centroids import MIXES, CentroidRerank
from sparseleaf.rerank.learned import LEARNED, LearnedRerank

Rerank: TypeAlias = CentroidRerank | LearnedRerank | BayesRerank

KINDS = (*MIXES, *LEARNED, BAYES)
"""Stages by name; the model file knows them by their place here."""

__all__ = ["BAYES", "KINDS", "LEARNED", "MIXES", "BayesRerank", "CentroidRerank", "LearnedRerank", "Rerank"]

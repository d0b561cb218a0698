"""Features from raw records: the text vectoriser, which is part of the model."""

from sparseleaf.features.stage import TextStage
from sparseleaf.features.text import TextVectorizer

__all__ = ["TextStage", "TextVectorizer"]

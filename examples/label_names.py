"""
Tagging texts with label names
==============================

Texts with tags: label names in, label names out, in a scikit-learn pipeline.
"""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from sparseleaf import SparseGBDTClassifier

TEXTS = {
    "bake the bread in a hot oven": ["food", "baking"],
    "knead the dough and let the bread rise": ["food", "baking"],
    "a cake with butter, sugar and eggs from the oven": ["food", "baking", "sweet"],
    "melt the chocolate with sugar and cream": ["food", "sweet"],
    "boil the soup with carrots and onions": ["food", "soup"],
    "a thick soup of onions and stock": ["food", "soup"],
    "the striker scored a goal in the final match": ["sport", "football"],
    "the keeper saved the goal and the match": ["sport", "football"],
    "a late goal, and the referee ended the match": ["sport", "football"],
    "she won the race on her new bicycle": ["sport", "cycling"],
    "the bicycle race climbs the mountain today": ["sport", "cycling"],
    "a puncture cost him the race on the mountain": ["sport", "cycling"],
    "the telescope showed rings around the planet": ["space"],
    "a rocket carried the telescope to orbit": ["space", "rockets"],
    "the rocket engine burned for two minutes": ["space", "rockets"],
    "orbit of the planet around its star": ["space"],
}

texts = [text for text in TEXTS for _ in range(3)]  # so few texts are only for show
tags = [TEXTS[text] for text in texts]

# tiny data: leaves of a single row are allowed, and every node may look at every word
trees = SparseGBDTClassifier(
    n_trees=60, learning_rate=0.2, min_samples_leaf=1, advanced={"colsample_bynode": 1.0}
)
tagger = make_pipeline(TfidfVectorizer(stop_words="english"), trees).fit(texts, tags)

new = ["sugar and butter for the bread", "a goal in the match", "the rocket reached orbit"]
print("labels that score at least 0.5:", tagger.predict(new))

# scores of the best three; a pipeline passes on predict only, so the two steps are taken one by one
labels, scores = trees.predict_topk(tagger[:-1].transform(new), k=3)
for text, names, values in zip(new, labels.tolist(), scores.tolist(), strict=True):
    found = [f"{name} {value:.2f}" for name, value in zip(names, values, strict=True) if name is not None]
    print(f"{text:32}", ", ".join(found))

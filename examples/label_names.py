"""
Suggesting labels by their names
================================

Subject headings have names. With them, a classifier suggests rare labels, and even labels that no training text has,
when their names occur in a text.
"""

import numpy as np

from sparseleaf import SketchForestClassifier
from sparseleaf.data import LabelInfo

TOPICS = {
    "s01": ["bread", "flour oven dough yeast"],
    "s02": ["soup", "onion stock spoon bowl"],
    "s03": ["cheese", "milk goat cellar rind"],
    "s04": ["football", "goal striker keeper match"],
    "s05": ["cycling", "race wheel mountain puncture"],
    "s06": ["swimming", "pool lane water crawl"],
    "s07": ["telescope", "lens mirror star night"],
    "s08": ["rocket", "engine launch orbit fuel"],
    "s09": ["comet", "tail ice sun dust"],
    "s10": ["planet", "rings moon crater gas"],
}
SUBJECTS = sorted(TOPICS)


def make_records(n, subjects, seed):
    """Texts with words of their two subjects, of which they usually have the names, too."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        chosen = sorted(rng.choice(subjects, 2, replace=False).tolist())
        words = []
        for subject in chosen:
            name, others = TOPICS[subject]
            words += [*rng.choice(others.split(), 2, replace=False), *([name] if rng.random() < 0.7 else [])]
        texts.append(" ".join(rng.permutation(words)))
        labels.append(chosen)
    return texts, labels


# %%
# Training texts have eight of the ten subjects only.
texts, labels = make_records(300, SUBJECTS[:8], 0)
names = {subject: name for subject, (name, _) in TOPICS.items()}
groups = {"s01": "food", "s02": "food", "s03": "food", "s04": "sport", "s05": "sport", "s06": "sport"}
info = LabelInfo(names, broader=groups | dict.fromkeys(SUBJECTS[6:], "space"))
clf = SketchForestClassifier(n_trees=5).fit(texts, labels, label_info=info)
print("labels without training texts:", clf.classes_[clf.model_.label_counts == 0])

# %%
# The other two are suggested by name. ``explain`` shows which words did it.
new = ["dust and ice in the tail of a comet", "the planet has rings and a moon", "a race over the mountain"]
suggested, scores = clf.predict_topk(new, k=2)
for text, ids, values in zip(new, suggested.tolist(), scores.tolist(), strict=True):
    print(
        f"{text:36}", ", ".join(f"{names[one]} {value:.2f}" for one, value in zip(ids, values, strict=True))
    )
print(clf.explain(new[:1], k=1))

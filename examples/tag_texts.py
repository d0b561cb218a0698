"""
Tagging texts
=============

Texts and lists of label names in, label names out. The classifier has a text vectorizer, which is part of the model and
of its file.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import sparseleaf
from sparseleaf import SparseGBDTClassifier, TextVectorizer
from sparseleaf.data import read

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
texts = [text for text in TEXTS for _ in range(3)]
tags = [TEXTS[text] for text in texts]

# %%
# So little data needs unusual parameters: leaves of a single row, and all words as split candidates in every node.
# ``vectorizer`` is needed only to change the default.
tagger = SparseGBDTClassifier(
    n_trees=60,
    learning_rate=0.2,
    min_samples_leaf=1,
    vectorizer=TextVectorizer(stop_words=["the", "and", "of"]),
    advanced={"colsample_bynode": 1.0},
).fit(texts, tags)

# %%
# ``predict`` returns the labels with a score of at least 0.5, ``predict_topk`` the k best and their scores.
new = ["sugar and butter for the bread", "a goal in the match", "the rocket reached orbit"]
print(tagger.predict(new))
labels, scores = tagger.predict_topk(new, k=3)
for text, names, values in zip(new, labels.tolist(), scores.tolist(), strict=True):
    best = [f"{name} {value:.2f}" for name, value in zip(names, values, strict=True) if name is not None]
    print(f"{text:32}", ", ".join(best))

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 2.5), layout="constrained", sharex=True)
for ax, text, names, values in zip(axes, new, labels.tolist(), scores.tolist(), strict=True):
    best = [(name, value) for name, value in zip(names, values, strict=True) if name is not None]
    ax.barh([name for name, _ in best], [value for _, value in best])
    ax.axvline(0.5, color="0.4", linestyle=":")  # the threshold of predict
    ax.invert_yaxis()
    ax.set(title=f"“{text}”", xlabel="score")
    ax.title.set_fontsize(9)

# %%
# Records are usually in a file, here JSON lines. Words of the title count twice. The saved model reads the same fields.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "records.jsonl"
    records = [{"title": text.split()[-1], "body": text, "tags": TEXTS[text]} for text in texts]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))

    rows = read(path, text=("title", "body"), labels="tags")
    fields = TextVectorizer(fields={"title": 2.0, "body": 1.0})
    tagger.set_params(vectorizer=fields).fit(rows.X, rows.y)
    tagger.save(path.with_suffix(".safetensors"))
    loaded = sparseleaf.load(path.with_suffix(".safetensors"))
print(loaded.predict([{"title": "Race", "body": "the bicycle race"}, {"title": "Onion soup"}]))

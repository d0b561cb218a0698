"""
Explaining predictions
======================

Why does a text get its labels? Contributions of its words, and the most similar training texts.
"""

import numpy as np
import pandas as pd

from sparseleaf import MultiGBDTRegressor, SketchForestClassifier

TOPICS = {
    "cooking": "bake bread flour oven butter salt soup garlic onion pepper",
    "sailing": "boat wind sail harbour wave anchor mast tide storm rope",
    "gardening": "seed soil garden rose compost prune salt rain worm shed",
}
rng = np.random.default_rng(0)
labels = [[str(one) for one in rng.choice(list(TOPICS), 1 + i % 2, replace=False)] for i in range(600)]
texts = [" ".join(rng.choice(" ".join(map(TOPICS.get, row)).split(), 8)) for row in labels]

model = SketchForestClassifier(n_trees=5, rerank="linear", advanced={"rerank_weight": 0.25})
model.fit(texts, labels)

# %%
# A new text, and why it is about cooking. The contributions of the words and the base add up to the score.
explanation = model.explain(["salt and pepper for a soup in a storm"], k=2, titles=texts, n_neighbours=2)
print(explanation)

best = explanation[0][0]
assert np.isclose(best.base + best.contributions.sum(), best.score, atol=1e-5)

# %%
# A notebook shows it as a table with bars.
explanation[0]

# %%
# What speaks for a label in general.
importances = model.label_importances(["sailing"], max_features=8).tocoo()
words = model.vectorizer_.get_feature_names_out()
print(
    {
        str(words[i]): round(float(value), 2)
        for i, value in zip(importances.col, importances.data, strict=True)
    }
)

# %%
# Numbers are explained in the same way: from the mean prediction to the prediction of one row.
days = pd.DataFrame(rng.random((2_000, 4)), columns=["sun", "rain", "wind", "day"])
sales = pd.DataFrame(
    {
        "ice cream": 10 * days.sun,
        "umbrellas": 8 * days.rain * (days.wind < 0.7),
        "kites": 5 * days.wind * (days.rain < 0.5),
    }
)
regressor = MultiGBDTRegressor(n_trees=100).fit(days, sales)
stormy = pd.DataFrame([[0.1, 0.9, 0.9, 0.5]], columns=days.columns)
print(regressor.explain(stormy, labels=["umbrellas", "ice cream"]))

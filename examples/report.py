"""
A report on a model
===================

How good is a model, on which labels, and why? One HTML file answers it: metrics, labels, trees and explained examples.
"""

import tempfile
from pathlib import Path

from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc

X, Y = make_xc(3_000, 500, 200, labels_per_row=3)
model = SketchForestClassifier(n_trees=10).fit(X[:2_000], Y[:2_000])
report = model.report(X[2_000:], Y[2_000:])

# %%
# A notebook shows the report. ``save`` writes a file that can be opened, mailed or published.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "report.html"
    report.save(path)
    print(path.name, "has all labels, trees and examples:", path.stat().st_size < 2_000_000)

# %%
# The numbers are available, too. Rare labels are harder: PSP@5 of frequent labels (head) and rare ones (tail).
print({name: round(report.metrics[name], 2) for name in ("precision@1", "ndcg@5", "recall@5", "psp@5")})
print({group["name"]: round(group["psp@5"], 2) for group in report.data["groups"]})

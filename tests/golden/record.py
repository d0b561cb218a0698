"""Record the predictions of this version: ``python -m tests.golden.record [CASE ...]``; all cases if none is named.

To be done where predictions are meant to change, with the reason in the commit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tests.golden.cases import all_cases

FILE = Path(__file__).parent / "predictions.npz"


def main(names):
    """Write the file."""
    recorded = {}
    if names:
        with np.load(FILE) as file:
            recorded = dict(file)
    for case, call in all_cases():
        if names and case not in names:
            continue
        for name, values in call().items():
            kind = np.uint8 if name == "predicted" else np.float32
            recorded[f"{case}|{name}"] = values.astype(kind)
    np.savez_compressed(FILE, **recorded)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Record the predictions of this version: ``python -m tests.golden.record``.

To be done where predictions are meant to change, with the reason in the commit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.golden.cases import all_cases

FILE = Path(__file__).parent / "predictions.npz"


def main():
    """Write the file."""
    found = {f"{case}|{name}": values for case, call in all_cases() for name, values in call().items()}
    packed = {
        name: values.astype(np.uint8 if name.endswith("predicted") else np.float32)
        for name, values in found.items()
    }
    np.savez_compressed(FILE, **packed)


if __name__ == "__main__":
    main()

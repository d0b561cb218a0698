"""
Checkpoints
===========

Kill a training without mercy, start it again, and get the model that it would have been.
"""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from sparseleaf.data import make_xc, save_xc

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    save_xc(folder / "train.txt.gz", *make_xc(1_000, 200, 100, labels_per_row=3, seed=1))
    command = [sys.executable, "-m", "sparseleaf", "train", "train.txt.gz", "--set", "n_trees=60", "-v"]
    checkpoint = ["--checkpoint", "run.ckpt", "--checkpoint-every", "5"]

    # kill -9 as soon as 30 trees are there
    with subprocess.Popen(
        [*command, *checkpoint, "-m", "never"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as training:
        assert training.stderr is not None
        for line in training.stderr:
            if line.startswith("tree 30/"):
                training.send_signal(signal.SIGKILL)
    print(f"killed; there is a model: {(folder / 'never').exists()}")

    # the same command goes on
    resumed = subprocess.run(
        [*command, *checkpoint, "-m", "resumed"], cwd=folder, check=True, capture_output=True, text=True
    )
    print(next(line for line in resumed.stderr.splitlines() if line.startswith("checkpoint")))

    subprocess.run([*command, "-m", "whole"], cwd=folder, check=True, capture_output=True)
    print(f"the same bytes: {(folder / 'resumed').read_bytes() == (folder / 'whole').read_bytes()}")

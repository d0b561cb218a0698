"""
Resume a killed training
========================

Kill a training with SIGKILL, run the same command again, and get a byte-identical model.
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

    # kill the process after 30 trees
    with subprocess.Popen(
        [*command, *checkpoint, "-m", "killed"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as training:
        assert training.stderr is not None
        for line in training.stderr:
            if line.startswith("tree 30/"):
                training.send_signal(signal.SIGKILL)
    print(f"killed; model written: {(folder / 'killed').exists()}")

    # the same command resumes from the checkpoint
    resumed = subprocess.run(
        [*command, *checkpoint, "-m", "resumed"], cwd=folder, check=True, capture_output=True, text=True
    )
    print(next(line for line in resumed.stderr.splitlines() if line.startswith("checkpoint")))

    subprocess.run([*command, "-m", "uninterrupted"], cwd=folder, check=True, capture_output=True)
    same = (folder / "resumed").read_bytes() == (folder / "uninterrupted").read_bytes()
    print(f"byte-identical to an uninterrupted training: {same}")

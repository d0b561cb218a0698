from __future__ import annotations

import random
import signal
import time

import pytest
from safetensors import safe_open

import sparseleaf
from sparseleaf.data import make_xc, save_xc


def trees_in(path):
    with safe_open(path, "np") as file:
        names = [n for n in ("trees.tree_nodes", "trees.inner_of_tree") if n in file.keys()]  # noqa: SIM118
        return len(file.get_tensor(names[0])) if names else 0


def test_the_same_command_goes_on_and_then_says_that_it_is_complete(cli, files, tmp_path):
    checkpoint = ("--checkpoint", tmp_path / "c", "--checkpoint-every", 2)
    command = ("train", files.train, "--valid", files.test, "-m")
    assert cli(*command, tmp_path / "part", *checkpoint, "-s", "n_trees=3").code == 0
    done = cli(*command, tmp_path / "all", *checkpoint, "-s", "n_trees=5")
    assert done.code == 0
    assert "3 trees; resuming training" in done.err
    again = cli(*command, tmp_path / "again", *checkpoint, "-s", "n_trees=5")
    assert "5 trees; training was complete" in again.err
    assert cli(*command, tmp_path / "whole", "-s", "n_trees=5").code == 0
    whole = (tmp_path / "whole").read_bytes()
    assert (tmp_path / "all").read_bytes() == (tmp_path / "again").read_bytes() == whole


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--checkpoint-every", "3"], "--checkpoint-every requires --checkpoint FILE"),
        (["--checkpoint", "c", "--checkpoint-every", "0"], "--checkpoint-every"),
        (["--checkpoint", "no/c"], "--checkpoint no/c: the directory"),
        (["--checkpoint", "m"], "--checkpoint m: the file must not be the model file"),
        (["--checkpoint", "{train}"], "is an input, too, and would be overwritten"),
        (
            ["--checkpoint", "old", "--seed", "3"],
            "checkpoint: 'old': the file belongs to another training: expected random_state",
        ),
        (["--checkpoint", "text"], "checkpoint: 'text': the file is corrupt or not a checkpoint"),
    ],
)
def test_mistakes_are_one_line(cli, files, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("hello")
    assert cli("train", files.train, "-m", "x", "--checkpoint", "old", "-s", "n_trees=2").code == 0
    given = [argument.format(train=files.train) for argument in arguments]
    done = cli("train", files.train, "-m", "m", "-s", "n_trees=2", *given)
    assert done.code == 2
    assert done.err.count("sparseleaf: error: ") == 1
    assert said in done.err
    assert not (tmp_path / "m").exists()
    assert (tmp_path / "text").read_text() == "hello"


def test_ctrl_c_writes_model_and_checkpoint(process, files, tmp_path):
    model, checkpoint = tmp_path / "m", tmp_path / "c"
    arguments = ("-s", "n_trees=1000000", "-v", "--checkpoint", checkpoint, "--checkpoint-every", 10**6)
    running = process("train", files.train, "-m", model, *arguments)
    for line in running.stderr:
        if line.startswith("tree 3/"):
            break
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert trees_in(checkpoint) == sparseleaf.load(model).model_.n_trees >= 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gbdt-sparse", "ldsm"])
def test_killed_at_random_moments(process, tmp_path, method, cli):
    """Nothing is lost beyond the last checkpoint, and the bytes in the end are those of a run that never stopped."""
    X, Y = make_xc(800, 100, 60, labels_per_row=3, nnz_per_row=12, seed=5)
    save_xc(tmp_path / "train.txt", X, Y)
    checkpoint = tmp_path / "c"
    trees, every, more = (30, 1, ["-s", "epochs=2"]) if method == "ldsm" else (100, 3, [])
    command = ["train", tmp_path / "train.txt", "--method", method, "-s", f"n_trees={trees}", *more]
    keeping = ["-v", "--checkpoint", checkpoint, "--checkpoint-every", every]
    draw = random.Random(method)
    kept = 0
    for _ in range(2):
        with process(*command, "-m", tmp_path / "killed", *keeping) as running:
            last = begun = 0
            for line in running.stderr:
                if line.startswith("tree "):
                    last = int(line.split()[1].split("/")[0])
                    begun = begun or time.monotonic() + draw.uniform(0, 0.4)  # imports are not what is tested
                    if time.monotonic() > begun:
                        break
            running.kill()
            for line in running.stderr:  # what it had said before it was killed
                if line.startswith("tree ") and line.endswith("\n"):
                    last = int(line.split()[1].split("/")[0])
        before, kept = kept, trees_in(checkpoint)
        # tree t is told, then written: where t + 1 was told, t is on disk if its turn was
        assert kept >= max(before, (last - 1) // every * every)
    done = process(*command, "-m", tmp_path / "resumed", *keeping)
    done.communicate(timeout=300)
    assert done.returncode == 0
    assert cli(*command, "-m", tmp_path / "whole", "-q").code == 0
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "killed") == [
        "c",
        "resumed",
        "train.txt",
        "whole",
    ]

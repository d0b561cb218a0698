"""Ranks whose rows are on a GPU, its kernels emulated, give the model of one process on the CPU, to the byte."""

import jobs
import pytest

SUPPORTED = ("sparse", "sampled", "names", "leml", "multi", "unknown", "absolute", "log-cosh", "monotone", "per output",
             "sketch", "balanced", "bagged", "bagged rank", "classes", "rank")  # fmt: skip
PROGRAM = """
import jobs
from emulated_cuda import EmulatedDevice
from sparseleaf.cuda import device

device.open_device = EmulatedDevice
on_cpu = jobs.make_jobs

def on_device():
    made = on_cpu()
    for estimator, _ in made.values():
        estimator.set_params(advanced={**(estimator.advanced or {}), "device": "cuda"})
    return made

jobs.make_jobs = on_device
jobs.main()
"""


@pytest.mark.parametrize(
    ("n", "names"),
    [
        (2, SUPPORTED[:3]),
        pytest.param(2, SUPPORTED[3:], marks=pytest.mark.slow),
        pytest.param(3, SUPPORTED, marks=pytest.mark.slow),
    ],
)
def test_ranks_with_gpus_train_the_model_of_one_process(n, names, mpiexec, tmp_path):
    program = tmp_path / "on_device.py"
    program.write_text(PROGRAM)
    done = mpiexec(n, program, "rows", *names)
    assert done.returncode == 0, done.stderr
    alone = {
        name: jobs.digest(job[0].fit(**job[1])) for name, job in jobs.make_jobs().items() if name in names
    }
    assert dict(line.split("\t") for line in done.stdout.splitlines()) == alone


@pytest.mark.slow
def test_features_cannot_be_divided_among_gpus(mpiexec, tmp_path):
    program = tmp_path / "on_device.py"
    program.write_text(PROGRAM)
    done = mpiexec(2, program, "features", "multi")
    assert done.returncode != 0
    assert "requires layout='rows'" in done.stderr

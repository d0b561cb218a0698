"""Former names still work, and warn."""

import pytest

from sparseleaf.distributed.launch import make_launcher


def test_the_dask_engine():
    pytest.importorskip("distributed")
    from sparseleaf.engine.dask import DaskEngine

    with pytest.warns(FutureWarning, match="use sparseleaf.distributed.dask.DaskLauncher"):
        engine = DaskEngine("tcp://nowhere:1", 2)
    assert make_launcher(engine) is engine


def test_the_mpi_engine():
    pytest.importorskip("mpi4py")
    from sparseleaf.engine.mpi import MPIEngine

    with pytest.warns(FutureWarning, match="use sparseleaf.distributed.mpi.MPILauncher"):
        engine = MPIEngine()
    assert make_launcher(engine) is engine


@pytest.mark.parametrize("engine", ["daks", None, 3])
def test_other_engines_are_refused(engine):
    with pytest.raises(ValueError, match="The 'engine' parameter must be 'local', 'mpi', 'dask'"):
        make_launcher(engine)

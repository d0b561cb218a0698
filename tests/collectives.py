"""Random collectives, and what numpy makes of them: run by every worker of a group with the same seeds.

As a program, ``mpiexec -n P python collectives.py FIRST END`` runs those of some seeds over MPI.
"""

import sys

import numpy as np
import scipy.sparse as sp

TYPES = (np.int16, np.int32, np.int64, np.uint8, np.uint32, np.float32, np.float64)
SHAPES = ((0,), (1,), (7,), (3, 0), (5, 3), (2, 3, 4), (5000,), (300, 40))


def random_array(rng, shape, dtype):
    return rng.integers(0, 5, size=shape).astype(dtype)  # small integers: sums are exact in every type


def check_all(comm, seed):
    """Every collective once, on arrays that all workers can make; an AssertionError where one is wrong."""
    rng = np.random.default_rng(seed)
    size = comm.size
    shape, dtype = SHAPES[rng.integers(len(SHAPES))], TYPES[rng.integers(len(TYPES))]
    everyone = [random_array(rng, shape, dtype) for _ in range(size)]
    own = everyone[comm.rank].copy()
    same(comm.allreduce(own), np.sum(everyone, axis=0, dtype=dtype))
    same(comm.allreduce(own, "max"), np.max(everyone, axis=0) if own.size else own)
    counts = rng.integers(0, 4, size=size) * rng.integers(0, 800)
    flat = [random_array(rng, int(counts.sum()), dtype) for _ in range(size)]
    total = np.sum(flat, axis=0, dtype=dtype)
    wanted = np.split(total, np.cumsum(counts)[:-1])[comm.rank]
    same(comm.reduce_scatter(flat[comm.rank], counts.tolist()), wanted)
    same(own, everyone[comm.rank])  # inputs stay as they are
    for found, array in zip(comm.allgather(own), everyone, strict=True):
        same(found, array)
    pieces = [[random_array(rng, rng.integers(0, 4000), dtype) for _ in range(size)] for _ in range(size)]
    for found, sent in zip(comm.alltoall(pieces[comm.rank]), pieces, strict=True):
        same(found, sent[comm.rank])
    root = int(rng.integers(size))
    same(comm.broadcast(own if comm.rank == root else None, root), everyone[root])
    check_objects(comm, root)


def check_objects(comm, root):
    matrix = sp.random(40, 30, 0.2, "csr", np.float32, random_state=comm.rank)
    for rank, (name, found, nothing) in enumerate(comm.allgather((f"rank {comm.rank}", matrix, None))):
        assert name == f"rank {rank}"
        assert nothing is None
        wanted = sp.random(40, 30, 0.2, "csr", np.float32, random_state=rank)
        assert (found != wanted).nnz == 0
        found.data += 1  # what was received can be written to
    transposed = np.arange(12).reshape(3, 4).T
    same(comm.broadcast(transposed, root), transposed)


def same(found, wanted):
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)


if __name__ == "__main__":
    from sparseleaf.distributed.mpi import MPICommunicator

    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        check_all(MPICommunicator(), number)
    sys.stdout.write("agreed\n")

"""
Distributed training with MPI
=============================

Every rank trains on its own rows, and all ranks end with the same model.

Run it alone with ``python distributed.py``, or in three processes with ``mpiexec -n 3 python distributed.py`` (extra
``mpi``). On a cluster, use the launcher of the scheduler, such as ``srun``.
"""

import sys

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc

try:
    from mpi4py import MPI
except ImportError:
    sys.exit(print("This example needs mpi4py: pip install sparseleaf[mpi]"))

comm = MPI.COMM_WORLD

# Every rank makes the whole dataset here and keeps its part; on a cluster each rank reads its own files. Rows of rank 0
# come first, then those of rank 1, and so on.
X, Y = make_xc(3_000, 300, 500)
mine = slice(3_000 * comm.rank // comm.size, 3_000 * (comm.rank + 1) // comm.size)

for layout in ("rows", "features"):
    clf = SparseGBDTClassifier(n_trees=10, n_jobs=1)
    clf.fit(X[mine], Y[mine], engine=comm, layout=layout)
    if comm.rank == 0:
        print(f"layout={layout!r}, {comm.size} ranks: training P@1 {100 * clf.score(X, Y):.2f}")

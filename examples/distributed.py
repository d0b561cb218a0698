"""
Training in several processes
=============================

Training in several processes: each rank has rows of its own, and all end with the same model.

Alone: ``python distributed.py``; in three processes: ``mpiexec -n 3 python distributed.py`` (``pip install
sparseleaf[mpi]``). On a cluster, the scheduler's launcher takes the place of mpiexec.
"""

import sys

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc

try:
    from mpi4py import MPI
except ImportError:
    sys.exit(print("This example wants mpi4py: pip install sparseleaf[mpi]"))

comm = MPI.COMM_WORLD

# Here every rank makes the whole set and keeps its share; on a cluster each would read files of its own. What counts is
# that the rows of rank 0 come first, then those of rank 1, and so on.
X, Y = make_xc(3_000, 300, 500)
own = slice(3_000 * comm.rank // comm.size, 3_000 * (comm.rank + 1) // comm.size)

for layout in ("rows", "features"):
    clf = SparseGBDTClassifier(n_trees=10, n_jobs=1)
    clf.fit(X[own], Y[own], engine=comm, layout=layout)
    if comm.rank == 0:
        print(f"by {layout}, {comm.size} ranks: P@1 on the training rows {100 * clf.score(X, Y):.2f}")

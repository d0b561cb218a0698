"""``jobs.py`` with the few levels that gradients have with 10⁹ rows."""

import jobs

from sparseleaf.training import scales

ROWS = 10**9
LARGEST_SUM = scales.LARGEST_SUM * jobs.N_ROWS // ROWS
NAMES = ("sparse", "sampled", "multi", "unknown", "per output", "sketch", "classes", "rank")

if __name__ == "__main__":
    scales.LARGEST_SUM = LARGEST_SUM
    jobs.main()

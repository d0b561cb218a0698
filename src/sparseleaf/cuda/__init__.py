"""Training on a GPU: the tree builder's kernels, compiled at run time by NVRTC through CuPy."""

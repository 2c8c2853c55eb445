"""Kernels of Triton's, each in the place of a chain of torch's own; for lookups and steps on GPUs.

Triton comes with torch where it has GPUs. Files with kernels import it, and are imported where
`cerp.kernels.triton_there` says that they work; everything they do can be done without them.
"""

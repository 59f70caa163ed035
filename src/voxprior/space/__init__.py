"""Where voxels are: `VoxelSpace`, with its neighbour graphs and Gaussian operators."""

from voxprior.space.kernels import GaussianOperator
from voxprior.space.voxelspace import VoxelSpace

__all__ = ["GaussianOperator", "VoxelSpace"]

"""Scans that do not fit into memory: read a block of voxels at a time, rows as index sets."""

from voxprior.blocks.memory import max_memory, memory_limit
from voxprior.blocks.scaling import VoxelScaler
from voxprior.blocks.scans import (
    BlockedScans,
    TooLargeError,
    blocked,
    first_columns,
    is_on_disk,
    with_columns,
)
from voxprior.blocks.sums import column_means, gram_matrix, refuse_infinite, voxel_blocks

__all__ = [
    "BlockedScans",
    "TooLargeError",
    "VoxelScaler",
    "blocked",
    "column_means",
    "first_columns",
    "gram_matrix",
    "is_on_disk",
    "max_memory",
    "memory_limit",
    "refuse_infinite",
    "voxel_blocks",
    "with_columns",
]

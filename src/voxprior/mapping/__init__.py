"""Where in the brain: maps of voxels, tested against relabelled scans.

`map_test` tests single voxels and what neighbours have in common; `cluster_tables` lists what it
found, with the names of an atlas.
"""

from voxprior.mapping.atlas import Atlas, read_atlas
from voxprior.mapping.clusters import ClusterTables, cluster_tables
from voxprior.mapping.maptest import map_test
from voxprior.mapping.participants import group_map_test
from voxprior.mapping.verdict import MapTest

__all__ = [
    "Atlas",
    "ClusterTables",
    "MapTest",
    "cluster_tables",
    "group_map_test",
    "map_test",
    "read_atlas",
]

"""Where in the brain: voxels, neighbourhoods and regions, tested against relabelled scans.

`map_test` tests single voxels and what neighbours have in common, `searchlight` the voxels around
each voxel together, `region_test` those of every region of an atlas; `cluster_tables`
lists what a map test found, with the names of an atlas.
"""

from voxprior.mapping.atlas import Atlas, read_atlas
from voxprior.mapping.clusters import ClusterTables, cluster_tables
from voxprior.mapping.maptest import map_test
from voxprior.mapping.participants import accuracy_map, group_accuracy_test, group_map_test
from voxprior.mapping.regions import RegionTest, region_test
from voxprior.mapping.searchlight import SearchlightResult, searchlight
from voxprior.mapping.verdict import MapTest
from voxprior.mapping.vicinity import Neighborhoods, neighborhoods

__all__ = [
    "Atlas",
    "ClusterTables",
    "MapTest",
    "Neighborhoods",
    "RegionTest",
    "SearchlightResult",
    "accuracy_map",
    "cluster_tables",
    "group_accuracy_test",
    "group_map_test",
    "map_test",
    "neighborhoods",
    "read_atlas",
    "region_test",
    "searchlight",
]

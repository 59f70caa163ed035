"""Where in the brain: maps of voxels, tested against relabelled scans."""

from voxprior.mapping.maptest import map_test
from voxprior.mapping.verdict import MapTest

__all__ = ["MapTest", "map_test"]

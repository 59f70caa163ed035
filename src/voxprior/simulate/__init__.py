"""Data with known truth, one generator per family's assumption.

| generator | family | what is true |
|---|---|---|
| `time_courses` | sharing | neighbouring voxels have time courses alike up to scale |
| `chains` | fields | classes differ in sparse conditional structure, not in marginals |
| `blobs` | boosting | discriminative voxels are spatially compact |
| `smooth_maps` | gaussian | smooth weight maps give known class probabilities, or an age |
| `latent_clusters` | network | latent states drive clusters of binary voxels and the class |
| `subjects` | transfer | subjects share blobs up to shifts and gains |
| `cohort` | auto | subjects differ in gain, anatomy, age, sex and site, patients a little besides |

Each returns a `Simulated`: X, y, groups, space, and the truth by name; `subjects` one per subject.
`write_bids` writes subjects as a BIDS study that fMRIPrep has preprocessed.
`brain` is the MNI brain as a space at any resolution; a shape gives a grid instead. `scenes`
has the experiments of the demo, one `Scene` per family.
"""

from voxprior.simulate.bids import write_bids
from voxprior.simulate.boosting import blobs
from voxprior.simulate.cohort import cohort
from voxprior.simulate.data import Simulated
from voxprior.simulate.fields import chains
from voxprior.simulate.gaussian import smooth_maps
from voxprior.simulate.geometry import brain
from voxprior.simulate.network import latent_clusters
from voxprior.simulate.scenes import Scene
from voxprior.simulate.sharing import time_courses
from voxprior.simulate.subjects import subjects

__all__ = [
    "Scene",
    "Simulated",
    "blobs",
    "brain",
    "chains",
    "cohort",
    "latent_clusters",
    "smooth_maps",
    "subjects",
    "time_courses",
    "write_bids",
]

"""What a generator cannot use is refused by the name of its parameter, with what is expected."""

import pytest

from voxprior.errors import InputError
from voxprior.simulate import blobs, chains, latent_clusters, smooth_maps, time_courses

SMALL = (12, 12, 4)


@pytest.mark.parametrize(
    ("generator", "wrong", "message"),
    [
        (time_courses, {"n_times": 0}, "n_times=0 cannot be used. Expected 1 or more."),
        (time_courses, {"n_regions": 577}, "Expected 1 to 576, the voxels of the space."),
        (time_courses, {"n_per_class": 0}, "got n_per_class=0 and n_classes=2."),
        (time_courses, {"n_groups": 30}, "n_groups=30 cannot be used. Expected None or 1 to 20."),
        (time_courses, {"space": "brain"}, "got 'brain'."),
        (chains, {"coupling": 1.0}, "coupling=1.0 cannot be used."),
        (chains, {"run_correlation": -0.1}, "run_correlation=-0.1 cannot be used."),
        (chains, {"n_nodes": 1}, "Expected 2 to 576, the voxels of the space."),
        (blobs, {"noise": "white"}, "noise='white' cannot be used."),
        (blobs, {"noise": "poisson", "baseline": 0.1}, "Raise baseline or lower effect."),
        (blobs, {"n_blobs": 50}, "Use fewer or smaller ones, or a larger space."),
        (blobs, {"group_scale": -1.0}, "got group_offset=0.0 and group_scale=-1.0."),
        (smooth_maps, {"task": "ranking"}, "task='ranking' cannot be used."),
        (smooth_maps, {"smoothness": -1.0}, "Expected 0 or more voxels, got -1.0."),
        (latent_clusters, {"prevalence": 1.0}, "prevalence=1.0 cannot be used."),
        (latent_clusters, {"group_offset": 1.0}, "Set longitudinal=True, or leave them 0."),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(generator, wrong, message):
    with pytest.raises(InputError) as refused:
        generator(**{"space": SMALL, "random_state": 0, **wrong})
    assert message in str(refused.value)

"""Atlases: names from tables, lists, dictionaries and nilearn's objects, and what is refused."""

import nibabel
import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from voxprior.errors import InputError
from voxprior.images import ImageSpace
from voxprior.mapping import read_atlas
from voxprior.space import VoxelSpace


@pytest.mark.parametrize(
    "form", ["dict", "frame", "tsv", "list", "from zero", "bunch", "lut", "none"]
)
def test_names_come_in_many_forms(planted, tmp_path, form):
    names, image, labels = planted.names, planted.atlas, None
    frame = pd.DataFrame({"index": list(names), "name": list(names.values())})
    if form == "tsv":
        labels = tmp_path / "atlas.tsv"
        frame.to_csv(labels, sep="\t", index=False)
    elif form == "bunch":
        image = Bunch(maps=image, labels=list(names.values()))
    elif form == "lut":
        image = Bunch(maps=image, labels=["no"], lut=frame)
    else:
        from_zero = [names.get(k, "").encode() for k in range(10)]
        known = {"dict": names, "frame": frame, "list": list(names.values())}
        labels = (known | {"from zero": from_zero}).get(form)
    atlas = read_atlas(image, planted.data.images, labels)
    np.testing.assert_array_equal(atlas.codes, planted.code)
    voxel = int(np.flatnonzero(planted.code == 7)[0])
    assert atlas.name(voxel) == ("region 7" if form == "none" else "calcarine")
    assert atlas.name(int(np.flatnonzero(planted.code == 0)[0])) == ""


def test_shares_are_of_all_voxels(planted):
    atlas = read_atlas(planted.atlas, planted.data.images, planted.names)
    voxels = np.concatenate(
        [np.flatnonzero(planted.code == c)[:n] for c, n in ((3, 2), (7, 1), (0, 1))]
    )
    assert atlas.shares(voxels) == {"fusiform": 0.5, "calcarine": 0.25}


def test_another_grid_is_refused_or_resampled(planted):
    coarse = nibabel.Nifti1Image(np.asarray(planted.atlas.dataobj)[::2], planted.atlas.affine)
    with pytest.raises(InputError, match=r"grid|shape"):
        read_atlas(coarse, planted.data.images)
    fine = np.repeat(np.asarray(planted.atlas.dataobj), 2, axis=0)
    affine = planted.atlas.affine.copy()
    affine[0, 0], affine[0, 3] = 2.0, affine[0, 3] - 1.0
    images = ImageSpace(planted.data.space, resample=True)
    found = read_atlas(nibabel.Nifti1Image(fine, affine), images, planted.names)
    np.testing.assert_array_equal(found.codes, planted.code)


@pytest.mark.parametrize(
    ("values", "labels", "told"),
    [
        (np.full((8, 7, 6), 0.5), None, "is not an atlas"),
        (np.full((8, 7, 6), -1.0), None, "is not an atlas"),
        (np.zeros((8, 7, 6)), None, "no region inside the mask"),
        (np.ones((8, 7, 6, 2)), None, "has 2 maps"),
        (np.full((8, 7, 6), 4.0), ["one", "two"], "1 names, one per region"),
        (np.ones((8, 7, 6)), pd.DataFrame({"code": [1]}), "columns index and name"),
    ],
)
def test_what_is_not_an_atlas_is_refused(planted, values, labels, told):
    image = nibabel.Nifti1Image(values, planted.atlas.affine)
    with pytest.raises(InputError, match=told):
        read_atlas(image, planted.data.images, labels)
    with pytest.raises(InputError, match="one image"):
        read_atlas([image, image], planted.data.images)


def test_surfaces(surface):
    """An atlas of a surface has numbers on the vertices of both hemispheres."""
    image, images = surface
    atlas = read_atlas(image, images, ["first", "second"])
    assert {atlas.name(v) for v in range(images.space.n_voxels)} == {"", "first", "second"}


@pytest.fixture
def surface():
    from nilearn.surface import InMemoryMesh, PolyData, PolyMesh, SurfaceImage

    corners = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    faces = np.array([[0, 1, 2], [1, 2, 3]])
    mesh = PolyMesh(left=InMemoryMesh(corners, faces), right=InMemoryMesh(corners + 5, faces))
    data = PolyData(left=np.array([0, 1, 1, 1.0]), right=np.array([0, 0, 2, 2.0]))
    both = np.concatenate([corners, corners + 5])
    space = VoxelSpace.from_mesh(both, np.concatenate([faces, faces + 4]))
    return SurfaceImage(mesh, data), ImageSpace(space, (("left", 4), ("right", 4)))

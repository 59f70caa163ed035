"""Surfaces: SurfaceImage and GIFTI to rows of vertices and back, with the mesh as the space."""

import numpy as np
import pandas as pd
import pytest
import skops.io
from nilearn.maskers import SurfaceMasker
from nilearn.surface import SurfaceImage

from voxprior.images import ImageSpace, fit_image_space, load_maps, load_runs, write_map
from voxprior.space import VoxelSpace


def test_rows_are_left_then_right(surface):
    maps = [surface(seed=s) for s in range(4)]
    images = fit_image_space(maps)
    expected = [np.concatenate(list(m.data.parts.values())) for m in maps]
    np.testing.assert_array_equal(images.transform(maps), expected)
    assert images.parts == (("left", 4), ("right", 4))


def test_the_mesh_is_the_space(surface):
    space = fit_image_space([surface(seed=s) for s in range(3)]).space
    assert space.kind == "mesh"
    graph = space.adjacency().toarray()
    assert graph[:4, :4].sum() == 12  # a tetrahedron: all pairs
    assert not graph[:4, 4:].any()  # hemispheres do not touch


def test_masks_of_surfaces(surface):
    maps = [surface(seed=s) for s in range(3)]
    mask = surface()
    mask.data.parts["left"] = np.array([1, 1, 0, 0], dtype=np.float32)
    mask.data.parts["right"] = np.array([0, 0, 0, 1], dtype=np.float32)
    for given in (mask, SurfaceMasker(mask).fit(), np.array([1, 1, 0, 0, 0, 0, 0, 1], bool)):
        images = fit_image_space(maps, given)
        assert images.space.sites.tolist() == [0, 1, 7]
        assert images.transform(maps[0]).shape == (1, 3)
    for side in ("left", "right"):
        for image in maps:
            image.data.parts[side][2] = 0.0  # a medial wall
    assert fit_image_space(maps).space.sites.tolist() == [0, 1, 3, 4, 5, 7]


def test_round_trip_keeps_mesh_and_values(surface):
    maps = [surface(seed=s) for s in range(3)]
    images = fit_image_space(maps)
    image = images.inverse_transform(images.transform(maps[1])[0])
    assert isinstance(image, SurfaceImage)
    for side in ("left", "right"):
        np.testing.assert_array_equal(image.data.parts[side], maps[1].data.parts[side])
        for name in ("coordinates", "faces"):
            ours, theirs = (getattr(m.mesh.parts[side], name) for m in (image, maps[1]))
            np.testing.assert_allclose(ours, theirs)
    np.testing.assert_allclose(images.masker().transform(maps[0]), images.transform(maps[0])[0])
    again = ImageSpace.from_dict(skops.io.loads(skops.io.dumps(images.to_dict())))
    assert again == images


def test_surface_runs(surface):
    run = surface(n=10)
    labels = ["rest", "a", "a", "rest", "b"] * 2
    data = load_runs(run, labels=labels)
    rows = np.concatenate([run.data.parts[s] for s in ("left", "right")]).T.astype(float)
    Z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    np.testing.assert_allclose(data.X[0], Z[1:3].mean(axis=0), atol=1e-5)
    table = pd.DataFrame({"onset": [2.0], "duration": [4.0], "trial_type": ["a"]})
    with pytest.raises(ValueError, match="Give t_r"):
        load_runs(run, table)
    np.testing.assert_array_equal(load_runs(run, table, t_r=2.0).X[0], data.X[0])


def test_gifti_files_go_out_and_come_in(surface, tmp_path):
    maps = [surface(seed=s) for s in range(3)]
    images = fit_image_space(maps)
    pairs = []
    (tmp_path / "mesh").mkdir()
    for number, row in enumerate(images.transform(maps)):
        left, right = write_map(row, images, tmp_path / f"map{number}.func.gii")
        assert left.name == f"map{number}_hemi-L.func.gii"
        pairs.append({"left": left, "right": right})
    maps[0].mesh.to_filename(tmp_path / "mesh" / "white.gii")
    files = {s: tmp_path / "mesh" / f"white_hemi-{s[0].upper()}.gii" for s in ("left", "right")}
    for mesh in (maps[0].mesh, files):
        data = load_maps(pairs, list("aab"), mesh=mesh)
        np.testing.assert_allclose(data.X, images.transform(maps), rtol=1e-6)
    left_only = load_maps(str(tmp_path / "map*_hemi-L.func.gii"), list("aab"), mesh=maps[0].mesh)
    np.testing.assert_allclose(left_only.X, data.X[:, :4], rtol=1e-6)
    assert sorted(p.name for p in tmp_path.glob("*.*")) == sorted(
        path.name for pair in pairs for path in pair.values()
    )


def test_bad_surfaces(surface, tmp_path, maps):
    surfaces = [surface(seed=s) for s in range(3)]
    images = fit_image_space(surfaces)
    with pytest.raises(ValueError, match="vertices are at other places"):
        images.transform(surface(move=1.0))
    half = SurfaceImage({"left": surfaces[0].mesh.parts["left"]}, {"left": np.zeros(4, np.float32)})
    with pytest.raises(
        ValueError, match="4 left vertices but that of the mask has 4 left vertices and"
    ):
        images.transform(half)
    with pytest.raises(
        ValueError, match=r"sub-01_map.nii.gz: is a volume but the mask is for surf"
    ):
        images.transform(maps[0][0])
    with pytest.raises(ValueError, match="all volumes or all surfaces"):
        fit_image_space([surfaces[0], maps[0][0]])
    with pytest.raises(ValueError, match="smoothing_fwhm=3 is for volumes"):
        fit_image_space(surfaces, smoothing_fwhm=3)
    holes = surface(seed=9)
    holes.data.parts["left"][0] = np.nan
    with pytest.raises(ValueError, match="1 of 8 voxels inside the mask are NaN"):
        images.transform(holes)


def test_bad_gifti_files(surface, tmp_path):
    broken = tmp_path / "lh.thickness.gii"
    broken.write_text("<?xml version='1.0'?><GIFTI")
    mesh = surface().mesh
    with pytest.raises(OSError, match=r"lh.thickness.gii: cannot be read as surface data"):
        load_maps(broken, mesh=mesh)
    with pytest.raises(
        ValueError, match=r"lh.thickness.gii: a GIFTI data file does not say .* Give mesh"
    ):
        load_maps(broken)
    with pytest.raises(OSError, match=r"The mesh .*none.gii.* cannot be read"):
        load_maps(broken, mesh={"left": tmp_path / "none.gii"})
    nameless = tmp_path / "thickness.gii"
    nameless.write_text("")
    with pytest.raises(
        ValueError, match=r"thickness.gii: the file name does not name the hemisphere"
    ):
        load_maps(nameless, mesh=mesh)
    with pytest.raises(FileNotFoundError, match=r"absent.gii"):
        load_maps({"left": tmp_path / "absent.gii"}, mesh=mesh)
    long = write_map(
        np.zeros(8), fit_image_space([surface(seed=s) for s in range(2)]), tmp_path / "m.gii"
    )
    with pytest.raises(
        ValueError, match=r"m_hemi-L.gii: has 4 vertices but the left mesh has 10242"
    ):
        load_maps({"left": long[0]}, mesh="fsaverage5")


def test_the_same_map_gives_the_same_bytes(surface, tmp_path):
    images = fit_image_space([surface(seed=s) for s in range(2)])
    first, second = (write_map(np.arange(8.0), images, tmp_path / n / "m.gii") for n in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_only_volumes_are_written_from_a_bare_space(tmp_path):
    space = VoxelSpace.from_mesh(np.eye(3), np.array([[0, 1, 2]]))
    with pytest.raises(ValueError, match="Give the ImageSpace"):
        write_map(np.zeros(3), space, tmp_path / "x.gii")

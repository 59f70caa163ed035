"""Maps on the page: what is drawn, over what, with which peaks."""

import numpy as np
import pytest

from voxprior import VoxelSpace
from voxprior.images.template import grid_name, told_by_names
from voxprior.mapping import Atlas
from voxprior.report import viewers
from voxprior.report.anatomy import ground_of
from voxprior.report.colors import colors_of, opacity
from voxprior.report.maps import common_slices, millimeters
from voxprior.report.peaks import find_peaks, peak_table
from voxprior.report.pictures import Legend
from voxprior.report.shown import Told, model_entries, show_maps
from voxprior.report.slices import choose_slices
from voxprior.report.surfaces import inflate
from voxprior.report.viewers import MOST_VOXELS, stage_of, viewer_of

AFFINE = np.array([[4.0, 0, 0, -40], [0, 4, 0, -50], [0, 0, 4, -30], [0, 0, 0, 1]])


@pytest.fixture
def space():
    return VoxelSpace.grid((8, 9, 10), AFFINE)


def bump(space, place, width=6.0):
    return np.exp(-((millimeters(space) - place) ** 2).sum(axis=1) / (2 * width**2))


def test_slices_are_spread_and_the_same_for_all_maps(space):
    low, high = bump(space, [-28, -30, -26]), bump(space, [-28, -30, 2])
    chosen = common_slices(space, [low, high], 5)
    assert np.diff(chosen).min() >= 1
    assert chosen[0] <= 2
    assert chosen[-1] >= 7
    shown = show_maps(space, [Told("a", "", low), Told("b", "", high)]).maps
    titles = [
        [ax.get_title() for ax in one["figure"].axes if "mm" in ax.get_title()] for one in shown
    ]
    assert titles[0] == titles[1]


def test_a_map_in_few_slices_is_shown_where_it_is():
    weight = np.zeros((2, 2, 30))
    weight[:, :, 12:15] = 1
    assert choose_slices(weight, np.ones((2, 2, 30), bool), 7) == [12, 13, 14]
    assert len(choose_slices(np.zeros((2, 2, 30)), np.ones((2, 2, 30), bool), 7)) == 7


def test_a_uniform_map_is_told_by_its_number(space):
    values = 2.0 + 0.01 * np.random.default_rng(0).random(space.n_voxels)
    told = model_entries(space, {"doubt": values}, {"doubt": Legend("Doubt", "", "sd")})
    (entry,), stage, viewers = show_maps(space, told)
    assert stage is None
    assert viewers == []
    assert "figure" not in entry
    assert "practically the same everywhere: 2.0" in entry["note"]


def test_opacity_grows_with_strength():
    values = np.array([np.nan, 0.0, -1.0, 2.0, 4.0])
    alpha = opacity(values, colors_of(values))
    assert alpha[:2].tolist() == [0, 0]
    assert 0 < alpha[2] < alpha[3] < alpha[4] == 1


# ---------------------------------------------------------------- anatomy


def test_the_template_needs_to_be_told(space):
    named = ["sub-01_space-MNI152NLin6Asym_bold.nii.gz", "sub-02_space-MNI152NLin6Asym_bold.nii.gz"]
    by_names = "the MNI template (the names of all images say so)"
    assert ground_of(space, named).words == by_names
    assert ground_of(space, [*named, "sub-03_bold.nii.gz"]).words == "the mask"
    assert ground_of(space, [], np.arange(space.n_voxels, dtype=float)).words == "the mean image"
    assert ground_of(space, [], np.ones(space.n_voxels)).words == "the mask"
    assert not told_by_names(["sub-mnister_T1w.nii", "space-T1w_bold.nii"])


def on_grid(shape, size, first, flipped=False, turn=0.0):
    """The middle of a brain on a grid that begins at a place in millimetres."""
    affine = np.diag([*[size] * 3, 1.0])
    affine[:3, 3] = first
    if flipped:
        affine[0] = [-size, 0, 0, first[0] + size * (shape[0] - 1)]
    affine[0, 1] = turn
    every = VoxelSpace.grid(shape, affine)
    middle = np.linalg.norm(millimeters(every) - [0, -20, 20], axis=1) < 40
    return VoxelSpace.from_mask(every.unmask(middle.astype(float)) > 0, affine)


@pytest.mark.parametrize(
    ("shape", "size", "first", "name"),
    [
        ((91, 109, 91), 2.0, (-90, -126, -72), "FSL's and SPM's MNI152"),
        ((182, 218, 182), 1.0, (-91, -126, -72), "FSL's and SPM's MNI152"),
        ((97, 115, 97), 2.0, (-96, -132, -78), "MNI152NLin2009c"),
        ((53, 63, 52), 3.0, (-78, -112, -70), "SPM's normalised images"),
    ],
)
@pytest.mark.parametrize("flipped", [False, True])
def test_the_grid_of_a_template_is_known(shape, size, first, name, flipped):
    space = on_grid(shape, size, first, flipped)
    assert grid_name(space) == name
    words = ground_of(space, ["sub-01_bold.nii"]).words
    assert words == (
        f"the MNI template (the grid is that of {name}, and 100 % of the voxels lie in its brain)"
    )


def test_a_grid_that_only_looks_like_one_is_not_taken():
    usual = ((46, 55, 46), 4.0, (-90, -126, -72))
    assert grid_name(on_grid(*usual))
    assert not grid_name(on_grid(*usual, turn=0.2))
    assert not grid_name(on_grid((46, 55, 40), *usual[1:]))
    assert not grid_name(on_grid(*usual[:2], (-90, -120, -72)))
    everywhere = VoxelSpace.grid(usual[0], on_grid(*usual).affine)  # a mask of air and brain
    assert ground_of(everywhere).words == "the mask"


def test_the_template_lies_where_the_brain_is(space):
    template = ground_of(space, ["space-MNI_x.nii"]).volume
    inside = np.isfinite(template.values)
    x, y, z = (template.places(axis) for axis in range(3))
    assert inside[np.abs(x - 0).argmin(), np.abs(y + 20).argmin(), np.abs(z - 20).argmin()]
    assert not inside[0].any()
    assert 0.2 < inside.mean() < 0.6


# ---------------------------------------------------------------- peaks


def test_peaks_are_apart_and_strongest_first(space):
    values = bump(space, [-20, -30, -10]) - 2 * bump(space, [-12, -18, 6])
    found = find_peaks(space, millimeters(space), values)
    np.testing.assert_allclose(millimeters(space)[found[:2]], [[-12, -18, 6], [-20, -30, -10]])
    table = peak_table(space, values)
    assert table["columns"] == ["x", "y", "z", "value"]
    assert table["rows"][0][:3] == ["−12", "−18", "6"]
    assert peak_table(VoxelSpace.grid((3, 3, 3)), np.ones(27)) is None


def test_peaks_have_names_where_an_atlas_is_given(space):
    codes = np.where(millimeters(space)[:, 0] < -24, 1, 0)
    atlas = Atlas(codes, {1: "left part"})
    both = bump(space, [-36, -30, -10]) + 0.5 * bump(space, [-12, -30, -10])
    table = peak_table(space, both, atlas)
    assert table["columns"][-1] == "region"
    assert [row[-1] for row in table["rows"][:2]] == ["left part", "outside the atlas"]


# ---------------------------------------------------------------- viewers and surfaces


def unpacked(text, kind="u1"):
    import base64
    import zlib

    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind)


def test_a_viewer_holds_the_map(space):
    values = bump(space, [-20, -30, -10]) - 0.5 * bump(space, [-12, -18, 6])
    stage, entry = stage_of(space, ground_of(space)), viewer_of(space, values)
    level = unpacked(entry["data"]).astype(float)
    told = entry["low"] + (level - 1) / 254 * (entry["high"] - entry["low"])
    np.testing.assert_allclose(told, values, atol=(entry["high"] - entry["low"]) / 254)
    assert stage["shape"] == [8, 9, 10]
    assert stage["first"] == [-40, -50, -30]
    np.testing.assert_array_equal(entry["start"], space.coordinates[np.abs(values).argmax()])
    assert stage_of(VoxelSpace.grid((5, 5)), ground_of(VoxelSpace.grid((5, 5)))) is None


def test_a_large_volume_is_shown_by_the_strongest_of_each_block(space, monkeypatch):
    assert space.n_voxels < MOST_VOXELS
    monkeypatch.setattr(viewers, "MOST_VOXELS", 100)
    values = np.zeros(space.n_voxels)
    values[[3, 500]] = 5.0, -7.0
    stage, entry = stage_of(space, ground_of(space)), viewer_of(space, values)
    assert stage["shape"] == [4, 5, 5]
    assert stage["step"] == [8, 8, 8]
    level = unpacked(entry["data"])
    assert sorted(level[level > 0]) == [1, 1 + round(254 * 12 / 14)]
    no_place = VoxelSpace.grid((8, 9, 10))
    assert stage_of(no_place, ground_of(no_place))["unit"] == ""


def test_every_piece_of_a_mesh_is_inflated():
    corners = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    sides = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    both = np.vstack([corners, corners + [5, 0, 0]])
    space = VoxelSpace.from_mesh(both, np.vstack([sides, np.array(sides) + 6]))
    assert len(inflate(space.points, space.faces)) == 2
    values = np.linspace(-1, 1, 12)
    shown = show_maps(space, [Told("map", "", values)])
    assert shown.stage["kind"] == "mesh"
    assert len(unpacked(shown.stage["faces"], "<u4")) == 48
    assert shown.maps[0]["viewer"] == 0
    assert len(unpacked(shown.viewers[0]["data"])) == 12
    lone = VoxelSpace.from_mesh(np.eye(3), np.empty((0, 3), int))
    assert stage_of(lone, None) is None

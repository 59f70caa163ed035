"""What a notebook shows of a decoder, of what it finds, and of the place of its voxels."""

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from sklearn.linear_model import LogisticRegression

from voxprior import BayesDecision, Decoder, VoxelSpace
from voxprior.images import Dataset, load_maps
from voxprior.mapping import map_test, region_test, searchlight
from voxprior.simulate import blobs


def test_a_decoder_shows_what_it_is_and_what_it_decided():
    decoder = Decoder()
    assert "<td>no</td>" in decoder._repr_html_()
    data = blobs((5, 5, 4), 6, n_blobs=1, random_state=0)
    labels = np.array(["<i>", "b"])[data.y]
    shown = decoder.fit(Dataset(data.X, labels, data.space))._repr_html_()
    assert "auto" in shown
    assert "100 voxels" in shown
    assert "&lt;i&gt;, b" in shown or "b, &lt;i&gt;" in shown
    assert "<i>" not in shown
    assert "decision 1" in shown
    # A notebook asks for the bundle first, which scikit-learn's estimators bring along.
    assert decoder._repr_mimebundle_(include=None)["text/html"] == shown


def test_a_number_has_no_classes():
    data = blobs((4, 4, 3), 6, n_blobs=1, blob_radius=1, random_state=0)
    target = data.X[:, 0] + np.arange(12.0)
    shown = Decoder("ridge").fit(Dataset(data.X, target, data.space))._repr_html_()
    assert "ridge" in shown
    assert "classes" not in shown


def shown_dataset(**given):
    X = np.zeros((4, 12), "f4")
    return Dataset(X, given.pop("y", np.array(["<i>", "b"] * 2)), VoxelSpace.grid((2, 3, 2)),
                   **given)._repr_html_()  # fmt: skip


def test_a_dataset_shows_what_it_holds_and_what_was_left_out():
    dropped = ("sub-09_map.nii.gz: no row in <participants.tsv>", "sub-10: no label")
    shown = shown_dataset(groups=np.array([1, 1, 2, 2]), dropped=dropped, notes=("a note",))
    for cell in ("samples</th><td>4", "&lt;i&gt;: 2, b: 2", "groups</th><td>2", "voxels</th><td>12",
                 "no row in &lt;participants.tsv&gt;; sub-10", "a note"):  # fmt: skip
        assert cell in shown
    assert "<i>" not in shown
    plain = shown_dataset()
    assert "groups" not in plain
    assert "left out</th><td>nothing" in plain


def test_a_dataset_of_numbers_or_without_labels():
    assert "numbers</th><td>0.5 to 3.5" in shown_dataset(y=np.arange(4) + 0.5)
    assert "labels</th><td>none" in shown_dataset(y=None)


def test_data_that_were_read_show_their_mask_and_so_does_the_decoder():
    rng = np.random.default_rng(0)
    images = [Nifti1Image(rng.normal(size=(4, 3, 3)).astype("f4"), np.eye(4)) for _ in range(8)]
    data = load_maps(images, np.tile(["a", "b"], 4), covariates=pd.DataFrame({"age": range(8)}))
    decoder = Decoder("logistic").fit(data)
    for shown in (data._repr_html_(), decoder._repr_html_()):
        assert f"mask</th><td>{data.images.mask_words}" in shown
        assert "age" in shown


def test_a_space_shows_its_size():
    affine = np.diag([3.0, 2.0, 1.5, 1.0])
    shown = VoxelSpace.grid((4, 5, 6), affine)._repr_html_()
    assert "<td>4 x 5 x 6</td>" in shown
    assert "<td>120</td>" in shown
    assert "<td>3 x 2 x 1.5</td>" in shown
    assert "millimetres" not in VoxelSpace.grid((4, 5, 6))._repr_html_()


@pytest.fixture(scope="module")
def scans():
    """Two classes in eight runs."""
    return blobs((5, 5, 4), 16, n_groups=8, n_blobs=1, random_state=0)


def test_tests_of_maps_show_what_they_found(scans):
    options = {"n_permutations": 20, "random_state": 0}
    found = map_test(scans.X, scans.y, scans.groups, **options)
    assert found._repr_html_().startswith("<p>Map test by ")
    assert all(f"<p>{note}</p>" in found._repr_html_() for note in found.notes)
    found = searchlight(scans.X, scans.y, scans.groups, scans.space, **options, radius=4)
    assert found._repr_html_().startswith("<p>Searchlight: ")
    names = np.repeat(["<b>", "V1"], 50)
    shown = region_test(scans.X, scans.y, scans.groups, names, **options)._repr_html_()
    assert "significant (familywise error 0.05)" in shown
    assert "<th>&lt;b&gt;</th>" in shown
    assert "<b>" not in shown


def test_decisions_show_their_costs_and_prevalence():
    X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array(["<i>", "<i>", "b", "b"])
    careful = BayesDecision(
        LogisticRegression(), costs=[[0, 5], [1, 0]], priors=[0.9, 0.1], reject={"cost": 0.3}
    )
    assert "cost of" not in careful._repr_mimebundle_()["text/html"]
    shown = careful.fit(X, y)._repr_mimebundle_()["text/html"]
    assert "cost of deciding &lt;i&gt;" in shown
    assert all(cell in shown for cell in ("<td>5.0</td>", "<td>0.3</td>", "<td>0.9</td>"))
    assert "<i>" not in shown
    shown = BayesDecision(LogisticRegression(), reject=0.8).fit(X, y)._repr_mimebundle_()
    assert "decided from a probability of" in shown["text/html"]

"""Tables of clusters and peaks: planted regions, nilearn's table, meshes, and nothing at all."""

import numpy as np
import pytest
from nilearn.reporting import get_clusters_table

from voxprior.mapping import cluster_tables, map_test, read_atlas
from voxprior.mapping.clusters import places
from voxprior.space import VoxelSpace


@pytest.fixture(scope="module")
def found(planted):
    return map_test(planted.data.X, planted.data.y, planted.data.groups, level=0.02)


def test_the_table_names_the_planted_regions(planted, found):
    atlas = read_atlas(planted.atlas, planted.data.images, planted.names)
    clusters, peaks = cluster_tables(found, planted.data.space, atlas)
    assert clusters["region"].tolist()[:2] == ["fusiform", "calcarine"]
    assert (clusters["statistic"].to_numpy()[:2] > 0).tolist() == [True, False]
    assert clusters["regions"][0].startswith("fusiform")
    np.testing.assert_allclose(clusters["mm3"], 64 * clusters["voxels"])
    assert (clusters["p"] <= 0.02).all()
    assert clusters["voxels"].sum() == found.significant.sum()
    first = peaks[peaks["peak"] == 1]
    assert first["cluster"].tolist() == clusters["cluster"].tolist()
    for row in peaks.to_dict("records"):
        voxel = np.flatnonzero(
            (places(planted.data.space) == [row["x"], row["y"], row["z"]]).all(1)
        )
        assert found.statistic[voxel] == pytest.approx(row["statistic"])


def test_clusters_and_first_peaks_are_nilearns(planted, found):
    clusters, _ = cluster_tables(found, planted.data.space)
    kept = np.where(found.significant, found.statistic, 0.0)
    image = planted.data.images.inverse_transform(kept)
    table = get_clusters_table(image, stat_threshold=1e-6, two_sided=True)
    main = table[~table["Cluster ID"].astype(str).str.contains("[a-z]")]
    ours = clusters.sort_values("statistic")[["x", "y", "z", "statistic", "mm3"]]
    theirs = main.astype({"Cluster Size (mm3)": float}).sort_values("Peak Stat")
    columns = ["X", "Y", "Z", "Peak Stat", "Cluster Size (mm3)"]
    np.testing.assert_allclose(ours.to_numpy(float), theirs[columns].to_numpy(float), rtol=1e-5)


def test_peaks_of_a_cluster_are_apart():
    row = VoxelSpace.grid((30,), None)
    y, runs = np.tile([0, 1], 8), np.repeat(range(8), 2)
    X = np.random.default_rng(0).normal(size=(16, 30)) * 0.1
    X += np.outer(y, 5 + np.cos(np.arange(30) * 2 * np.pi / 10))
    clusters, peaks = cluster_tables(map_test(X, y, runs, statistic="t"), row)
    assert len(clusters) == 1
    assert np.isnan(clusters["mm3"][0])
    where = np.sort(peaks["x"])
    assert 2 <= len(where) <= 4
    assert (np.diff(where) >= 8).all()


def test_meshes_points_and_empty_maps(planted):
    corners = np.random.default_rng(1).normal(size=(6, 3))
    mesh = VoxelSpace.from_mesh(corners, np.array([[0, 1, 2], [1, 2, 3], [3, 4, 5]]))
    y, runs = np.tile([0, 1], 8), np.repeat(range(8), 2)
    X = np.random.default_rng(0).normal(size=(16, 6))
    X[:, [0, 1, 5]] += 9 * y[:, None]
    test = map_test(X, y, runs)
    assert cluster_tables(test, mesh).clusters["voxels"].tolist() == [2, 1]
    points = VoxelSpace.from_coordinates(corners)
    assert cluster_tables(test, points, radius=100.0).clusters["voxels"].tolist() == [3]
    nothing = cluster_tables(map_test(np.zeros((16, 6)), y, runs), mesh)
    assert len(nothing.clusters) == len(nothing.peaks) == 0
    assert list(nothing.peaks.columns)[:2] == ["cluster", "peak"]

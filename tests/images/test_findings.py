"""What readers find in files that cannot be right: volumes, repetition times, events."""

import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder
from voxprior.images import load_differences, load_maps, load_runs
from voxprior.images.findings import (
    repetition_findings,
    scan_findings,
    scan_scale,
    warn_constant_voxels,
)
from voxprior.images.trials import Event, repeated_events

SHAPE = (5, 4, 3)
LABELS = ["rest", "rest", "face", "face", "rest", "rest", "house", "house", "rest", "rest"] * 2


def names(findings):
    return [name for name, _ in findings]


def message(findings):
    ((_, text),) = findings
    return text


@pytest.fixture
def runs(save, rng):
    """Write three runs of 20 volumes in scanner units, changed by a function of the number."""

    def write(change=lambda number, values: values, t_r=(2.0, 2.0, 2.0)):
        values = rng.normal(500, 20, size=(3, *SHAPE, 20)).astype("f4")
        return [
            save(change(number, run), f"run-{number + 1}_bold.nii.gz", t_r=seconds)
            for number, (run, seconds) in enumerate(zip(values, t_r))
        ]

    return write


class TestScale:
    def test_of_a_scan(self, rng):
        values = rng.normal(size=50).astype("f4")
        assert scan_scale(values) == pytest.approx(np.sqrt(np.mean(values.astype(float) ** 2)))
        assert scan_scale(np.full(50, 7.0)) == 0
        assert np.isnan(scan_scale(np.zeros(19)))
        assert scan_scale(np.float32(1e30) * values) == pytest.approx(1e30 * scan_scale(values))

    @pytest.mark.parametrize("spread", [1.0, 3.0, 30.0])
    def test_ordinary_gains_pass(self, rng, spread):
        """Scales evenly spread, on the log scale, over a factor of `spread`, and one at its end."""
        scale = np.exp(np.log(spread) * rng.random((200, 12)))
        scale[:, 0], scale[:, 1] = 1.0, spread
        assert not any(scan_findings(row) for row in scale)

    def test_one_in_units_thirty_times_as_large(self):
        assert scan_findings([1.0] * 9 + [30.0]) == []
        assert scan_findings([1.0] * 9 + [99.0]) == []

    @pytest.mark.parametrize("factor", [120, 300, 1e20, 1 / 300])
    def test_far_ones_are_named_with_their_factor(self, rng, factor):
        scale = rng.uniform(0.7, 1.4, 10)
        scale[3] = factor * np.median(scale)
        text = message(scan_findings(scale, [f"sub-{i}" for i in range(10)]))
        assert "sub-3 (" in text
        assert "1 of 10 scans" in text

    def test_scans_that_all_differ_are_held_to_their_own_spread(self):
        """Median distance log 20: 5 · 1.4826 · log 20 = 22.2, a factor of 4.4e9."""
        scale = np.array([1 / 400, 1 / 20, 1 / 20, 1, 1, 20, 20, 400])
        assert scan_findings(scale) == []
        assert scan_findings([*scale, 1e8]) == []
        assert names(scan_findings([*scale, 1e12])) == ["scan-scale"]

    def test_constant_scans_do_not_count_as_scale(self):
        found = scan_findings([1.0, 0.0, 0.0, 0.0, 0.0, 1.1, 0.9])
        assert names(found) == ["constant-scan"]
        assert "scan 1, scan 2, scan 3 and 1 more (4 of 7 scans)" in message(found)

    def test_two_scans_cannot_tell_which_is_far(self):
        assert scan_findings([1.0, 1e9]) == []

    def test_overflow(self):
        assert names(scan_findings([1.0, 1.1, 0.9, np.inf])) == ["scan-scale"]
        assert scan_findings([np.inf] * 3 + [1.0]) == []


class TestRuns:
    def test_ordinary_runs_have_none(self, runs):
        assert load_runs(runs(), labels=[LABELS] * 3, mask="data").findings == ()

    @pytest.mark.parametrize("standardize", ["run", "none"])
    def test_a_volume_of_zeros(self, runs, standardize):
        def dropout(number, values):
            values[..., 4 + number] = 0 if number < 2 else values[..., 4 + number]
            return values

        paths = runs(dropout)
        data = load_runs(paths, labels=[LABELS] * 3, mask="data", standardize=standardize)
        assert names(data.findings) == ["constant-scan"] * 2
        assert f"{paths[1]}, volume 5 (1 of 20 volumes of the run)" in data.findings[1][1]

    def test_a_volume_of_another_scale(self, runs):
        def spike(number, values):
            values[..., 11] *= 1e6 if number == 1 else 1
            return values

        data = load_runs(runs(spike), labels=[LABELS] * 3, mask="data")
        assert names(data.findings) == ["scan-scale"]
        assert "run-2_bold.nii.gz, volume 11 (1e+06 times)" in message(data.findings)

    def test_a_run_in_other_units_is_standardised_away(self, runs):
        paths = runs(lambda number, values: values * 1000 if number == 1 else values)
        assert load_runs(paths, labels=[LABELS] * 3, mask="data").findings == ()

    def test_several_runs_in_one_file(self, runs):
        labels = pd.DataFrame({"labels": LABELS, "run": np.repeat([0, 1], 10)})

        def dropout(number, values):
            values[..., 14] = 3
            return values

        data = load_runs(runs(dropout)[0], labels=labels, mask="data")
        assert "run-1_bold.nii.gz, volume 14 (1 of 10" in message(data.findings)

    def test_a_beta_series(self, runs):
        def dropout(number, values):
            values[..., 4] = 0
            return values

        data = load_maps(runs(dropout), mask="data")
        assert names(data.findings) == ["constant-scan"] * 3

    def test_scrubbed_volumes_are_not_looked_at(self, runs, tmp_path, monkeypatch):
        def dropout(number, values):
            values[..., 4] = 0
            return values

        kept = np.arange(20) != 4
        monkeypatch.setattr("voxprior.images.runs.confounds_of", lambda *_: (None, kept))
        paths = runs(dropout)
        assert load_runs(paths, labels=[LABELS] * 3, mask="data").findings == ()

    def test_findings_stay_with_a_part_of_the_scans(self, runs):
        data = load_runs(runs(t_r=(2, 2, 3)), labels=[LABELS] * 3, mask="data")
        assert data.take([0]).known()["findings"] == data.findings != ()


class TestRepetitionTime:
    def test_another_one_is_named(self, runs):
        paths = runs(t_r=(2.0, 2.5, 2.0))
        data = load_runs(paths, labels=[LABELS] * 3, mask="data")
        assert names(data.findings) == ["repetition-time"]
        text = message(data.findings)
        assert f"every 2 s, but not {paths[1]} (2.5 s) (1 of 3 runs)" in text

    def test_who_gives_it_knows_better_than_headers(self, runs):
        paths = runs(t_r=(2.0, 2.5, 2.0))
        assert load_runs(paths, labels=[LABELS] * 3, mask="data", t_r=2.0).findings == ()

    def test_rounded_and_unknown_ones_pass(self):
        assert repetition_findings([2.0, 2.0000002, None], "abc") == []
        assert repetition_findings([None, None], "ab") == []
        assert repetition_findings([2.0, 2.01], "ab") != []


def table(*rows):
    return pd.DataFrame(rows, columns=["onset", "duration", "trial_type"])


class TestRepeatedEvents:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([(4, 4, "face"), (4, 4, "face")], [4.0]),
            ([(4, 4, "face"), (4, 2, "face"), (4, 4, "face")], [4.0, 4.0]),
            ([(8, 4, "face"), (4, 20, "face")], [8.0]),  # inside, whatever the order
            ([(4, 4, "face"), (5, 4, "face")], [5.0]),
            ([(4, 0, "face"), (4, 0, "face")], [4.0]),
            ([(4, 4, "face"), (4, 4, "house")], []),
            ([(4, 4, "face"), (8, 4, "face")], []),
            ([(4, 4, "face"), (7, 4, "face")], []),  # jitter, or nominal durations
            ([(4, 4, np.nan), (4, 4, np.nan)], []),
            ([(4, 0, "face"), (5, 0, "face")], []),
        ],
    )
    def test_rule(self, rows, expected):
        found = repeated_events(table(*rows), "trial_type")
        assert found == [Event("face", onset) for onset in expected]

    def test_are_named_with_run_and_onset(self, runs):
        good = table((4, 4, "face"), (12, 4, "house"), (24, 4, "rest"), (24, 4, "rest"))
        bad = table((4, 4, "face"), (12, 4, "house"), (12, 4, "house"))
        paths = runs()
        data = load_runs(paths, [good, bad, good], mask="data")
        assert names(data.findings) == ["repeated-events"]
        assert f"house at 12 s in {paths[1]} (1 in all)" in message(data.findings)
        assert load_runs(paths, [good, good, good], mask="data").findings == ()

    def test_of_conditions_that_are_not_decoded_do_not_matter(self, runs):
        events = table((4, 4, "face"), (12, 4, "house"), (20, 4, "key"), (20, 4, "key"))
        data = load_runs(runs(), [events] * 3, mask="data", conditions=["face", "house"])
        assert data.findings == ()


def test_differences_look_at_both_maps(save, rng):
    first = [save(rng.normal(size=SHAPE), f"t1_{i}.nii.gz") for i in range(4)]
    second = [save(rng.normal(size=SHAPE) * (i != 2), f"t2_{i}.nii.gz") for i in range(4)]
    data = load_differences(first, second)
    assert f"{second[2]} (1 of 8 scans)" in message(data.findings)


class TestPrediction:
    @pytest.fixture
    def decoder(self, maps):
        return Decoder().fit(maps[0], ["a", "b"] * 3)

    @pytest.mark.parametrize("value", [0.0, 7.0])
    def test_a_constant_scan_is_warned_of_by_name(self, decoder, maps, save, value):
        blank = save(np.full(SHAPE, value), "blank.nii.gz")
        found = r"blank.nii.gz \(1 of 2 scans\)"
        with pytest.warns(UserWarning, match=found):
            decoder.predict([maps[0][0], blank])
        with pytest.warns(UserWarning, match=found):
            load_maps([maps[0][0], blank], images=decoder.masker_)

    def test_so_is_a_constant_volume_of_a_run(self, runs):
        data = load_runs(runs(), labels=[LABELS] * 3, mask="data")
        decoder = Decoder().fit(data)

        def dropout(number, values):
            values[..., 4] = 0
            return values

        path = runs(dropout)[0]
        found = r"run-1_bold.nii.gz, volume 4 \(1 of 20"
        with pytest.warns(UserWarning, match=found):
            decoder.predict(nibabel.load(path))
        with pytest.warns(UserWarning, match=found):
            load_runs(path, labels=LABELS, images=decoder.masker_)

    def test_ordinary_scans_pass_in_silence(self, decoder, maps):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            decoder.predict(maps[0])


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_constant_voxels_are_those_equal_in_all_rows(n_rows):
    rows = np.random.default_rng(0).integers(0, 2, size=(n_rows, 200)).astype("f4")
    rows[:, 3], rows[0, 4] = 7.0, np.nan
    with pytest.warns(UserWarning, match="are constant"):
        found = warn_constant_voxels(rows, "rows")
    assert (found == (rows == rows[0]).all(axis=0)).all()

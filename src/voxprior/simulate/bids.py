"""Simulated subjects as a BIDS study that fMRIPrep has preprocessed: files to practise reading.

    volume t of run r = 100 + a + 5 m_rt + noise + Σ_blocks x_block [t within the block + delay]

Every scan x of a subject becomes one block of volumes in the run given by its group, followed by as
much rest. The head drifts (m, a random walk of six parameters, of which the first reaches the
volumes), every run has its own baseline a, and noise is smooth.

    folder/dataset_description.json
    folder/sub-01/func/sub-01_task-objects_run-1_events.tsv
    folder/derivatives/fmriprep/sub-01/func/sub-01_task-objects_run-1_space-..._bold.nii.gz, ...
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.noise import SmoothField
from voxprior.writing import check_name, write_whole, written_whole

__all__ = ["write_bids"]

MOTION = ("trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z")
SPACE = "MNI152NLin2009cAsym"
# Volumes of a block and of the rest after it, and seconds by which the response lags.
BLOCK, DELAY = 6, 4.0
BASELINE, DRIFT, MOVES = 100.0, 5.0, 0.02


class _Timing(NamedTuple):
    t_r: float
    lag: int  # volumes by which the response follows the stimulus


def write_bids(
    folder: str | os.PathLike,
    study: Mapping[str, Simulated],
    conditions: Sequence[str] | None = None,
    *,
    task: str = "objects",
    t_r: float = 2.0,
    smoothness: float = 1.0,
    noise: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> Path:
    """Write simulated subjects as runs with events, confounds and masks, as fMRIPrep leaves them.

    Parameters
    ----------
    folder : path
        New, or empty.
    study : mapping of str to Simulated
        Subjects by name (``sub-01``), as `subjects` returns them: volumes without time, with class
        codes 0, 1, ... and runs as groups.
    conditions : sequence of str, optional
        Names of the classes in the events tables; ``condition0``, ... by default.
    task : str
        Name of the task, letters and digits.
    t_r : float
        Seconds between volumes. A block has six of them, and the response comes 4 s late.
    smoothness, noise : float
        Radius in voxels, and standard deviation, of the noise that is added to every volume.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Path
        The BIDS folder, which ``voxprior bids`` takes.

    Examples
    --------
    >>> import tempfile
    >>> from voxprior.simulate import subjects, write_bids
    >>> study = subjects(2, (6, 6, 4), n_classes=2, n_runs=2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_bids(f"{folder}/study", study, ["face", "house"], random_state=0)
    ...     len(list(written.rglob("*_bold.nii.gz"))), len(list(written.rglob("*_events.tsv")))
    (4, 4)
    """
    root = Path(os.fspath(folder))
    names = _checked(root, study, conditions, task, t_r)
    rng = np.random.default_rng(random_state)
    timing = _Timing(t_r, round(DELAY / t_r))
    derivatives = root / "derivatives" / "fmriprep"
    for place, kind in ((root, "raw"), (derivatives, "derivative")):
        place.mkdir(parents=True, exist_ok=True)
        about: dict[str, Any] = {"Name": "simulated", "BIDSVersion": "1.9.0", "DatasetType": kind}
        if kind == "derivative":
            about["GeneratedBy"] = [{"Name": "fMRIPrep"}]
        write_whole(place / "dataset_description.json", json.dumps(about, indent=1))
    for subject, data in study.items():
        raw, made = root / subject / "func", derivatives / subject / "func"
        for place in (raw, made):
            place.mkdir(parents=True)
        field = SmoothField(data.space, smoothness)
        for number, run in enumerate(np.unique(data.groups), start=1):
            rows = rng.permutation(np.flatnonzero(data.groups == run))
            name = f"{subject}_task-{task}_run-{number}"
            write_whole(raw / f"{name}_events.tsv", _events(data.y[rows], names, t_r))
            volumes, motion = _run(data.X[rows], field, noise, timing, rng)
            _write_run(made / name, data, volumes, motion, t_r)
    return root


def _checked(
    root: Path,
    study: Mapping[str, Simulated],
    conditions: Sequence[str] | None,
    task: str,
    t_r: Any,
) -> list[str]:
    """Names of the classes; raises before anything is written."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(f"{root}: is there already", expected="a new or empty folder")
    if not task.isalnum():
        raise InputError(f"{option('task', task)} cannot be used", expected="letters and digits")
    if not (np.isfinite(t_r) and 0 < t_r <= DELAY):
        raise InputError(
            f"{option('t_r', t_r)} cannot be used", expected=f"seconds, 0 to {DELAY:g}"
        )
    if not study:
        raise InputError(f"{option('study')} is empty", expected="at least one subject")
    for subject, data in study.items():
        check_name(subject)
        if not subject.removeprefix("sub-").isalnum() or not subject.startswith("sub-"):
            raise InputError(f"{subject!r} is not a BIDS name", expected="for instance 'sub-01'")
        whole = data.y.dtype.kind in "iu" and data.y.min() >= 0
        if data.n_times != 1 or data.space.kind != "volume" or not whole:
            raise InputError(
                f"{subject} cannot be written as blocks",
                expected="volumes without time and classes 0, 1, ...",
                got=repr(data),
            )
    n_classes = 1 + max(int(data.y.max()) for data in study.values())
    names = [f"condition{c}" for c in range(n_classes)] if conditions is None else list(conditions)
    if len(names) < n_classes or len(set(names)) < len(names):
        raise InputError(
            f"{option('conditions')} do not name the classes",
            expected=f"{n_classes} different names",
            got=f"{', '.join(map(str, names))}",
        )
    return names


def _first(block: int) -> int:
    """First volume of a block: rest comes before it."""
    return BLOCK * (1 + 2 * block)


def _events(codes: NDArray, names: Sequence[str], t_r: float) -> str:
    rows = [
        f"{_first(block) * t_r:g}\t{BLOCK * t_r:g}\t{names[code]}"
        for block, code in enumerate(codes)
    ]
    return "\n".join(["onset\tduration\ttrial_type", *rows]) + "\n"


def _run(
    scans: NDArray, field: SmoothField, noise: float, timing: _Timing, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Volumes (T, V) of a run, and the six parameters of the motion in it (T, 6)."""
    n_volumes = _first(len(scans)) + BLOCK
    motion = np.cumsum(rng.normal(0, MOVES, (n_volumes, len(MOTION))), axis=0)
    volumes = BASELINE + rng.normal(size=scans.shape[1]) + DRIFT * motion[:, :1]
    volumes = volumes + noise * field.sample(n_volumes, rng)
    for block, scan in enumerate(scans):
        start = _first(block) + timing.lag
        volumes[start : start + BLOCK] += scan
    return volumes.astype(np.float32), motion


def _write_run(stem: Path, data: Simulated, volumes: NDArray, motion: NDArray, t_r: float) -> None:
    """Write image, mask, confounds and the JSON files next to them."""
    prepared = f"{stem}_space-{SPACE}_desc-"
    image = data.image(volumes)
    image.header.set_zooms((*image.header.get_zooms()[:3], t_r))
    image.header.set_xyzt_units("mm", "sec")
    for path, one in (
        (f"{prepared}preproc_bold.nii.gz", image),
        (f"{prepared}brain_mask.nii.gz", data.mask_image()),
    ):
        with written_whole(path) as file:
            one.to_filename(file)
    described = {"RepetitionTime": t_r, "TaskName": stem.name.split("_task-")[1].split("_")[0]}
    write_whole(f"{prepared}preproc_bold.json", json.dumps(described, indent=1))
    rows = ["\t".join(MOTION), *("\t".join(f"{value:.6f}" for value in row) for row in motion)]
    write_whole(f"{stem}_desc-confounds_timeseries.tsv", "\n".join(rows) + "\n")
    write_whole(f"{stem}_desc-confounds_timeseries.json", "{}")

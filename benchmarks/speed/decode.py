"""Where `voxprior decode` spends its time, and how soon it computes on a packed study.

python -m benchmarks.speed.decode [--quick] [--models gp,auto] [--beside SRC] [--folder FOLDER]

Maps of smooth noise with a weak effect on a grid of 2 mm, and a mask. The command runs in a process
of its own, as users run it; the clock and the processor time of all its threads are taken phase by
phase: where other things run too the clock says little. ``--beside`` is the ``src`` folder of
another version, which runs on the same files right after; predictions of both are compared.
``--folder`` keeps the maps for the next time.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nibabel
import numpy as np
from scipy.ndimage import gaussian_filter

from voxprior.papers.tables import machine, save

SHAPE, N_INSIDE, SMOOTHING = (91, 109, 91), 180_000, 1.5
MODELS = ("gp", "auto")
N_DECODED, N_PACKED = 200, 400
REST = "imports, and writing files"

# All run in another process: they see the command from inside, whatever its version.
NOW = """
import json, os, time
import numpy as np
began = time.perf_counter()

def now():
    return np.array([time.perf_counter() - began, time.process_time()])
"""
PHASES = (
    NOW
    + """
from contextlib import contextmanager
from voxprior.output import Clock
phases, timed = {}, Clock.phase

@contextmanager
def phase(self, name, show=True):
    before = now()
    with timed(self, name, show):
        yield
    phases[name] = list(now() - before)

Clock.phase = phase
from voxprior.cli import main
try:
    main()
except SystemExit:
    pass
phases["all"] = list(now())
open(os.environ["TIMES"], "w").write(json.dumps(phases))
"""
)
START = (
    NOW
    + """
import scipy.stats, sklearn, zarr
import voxprior.cli, voxprior.decoder
from voxprior import registry
from voxprior.validation import run
registry.model("gp").make()
imported, found = now(), {}
decode, audit = voxprior.decoder.Decoder.decode, run.audit_once

def read(*given, **named):
    found["scans are read"] = list(now() - imported)
    return decode(*given, **named)

def audited(*given, **named):
    made = audit(*given, **named)
    found["scans are audited"] = list(now() - imported)
    return made

def first(*given, **named):
    found["the first fold begins"] = list(now() - imported)
    open(os.environ["TIMES"], "w").write(json.dumps(found))
    raise SystemExit

voxprior.decoder.Decoder.decode, run.audit_once, run._guarded = read, audited, first
voxprior.cli.main()
"""
)


def make_maps(folder: Path, n: int, shape: tuple[int, ...], n_inside: int) -> None:
    """Write maps of two groups, a mask and a table; those that are there are kept."""
    (folder / "maps").mkdir(parents=True, exist_ok=True)
    grid = np.meshgrid(*(np.linspace(-1, 1, size) for size in shape), indexing="ij")
    radius = np.sqrt(sum(axis**2 for axis in grid))
    mask = radius <= np.sort(radius, axis=None)[n_inside - 1]
    affine = np.diag([-2.0, 2.0, 2.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(mask.astype(np.uint8), affine), folder / "mask.nii.gz")
    middle = tuple(slice(size // 2 - 3, size // 2 + 3) for size in shape)
    rows = ["file\tgroup"]
    for number in range(n):
        name, group = f"scan-{number:03d}.nii.gz", "ab"[number % 2]
        rows.append(f"{name}\t{group}")
        if (folder / "maps" / name).exists():
            continue
        values = np.random.default_rng(number).standard_normal(shape, dtype=np.float32)
        values = gaussian_filter(values, SMOOTHING)
        values /= values.std()
        values[middle] += 0.15 * (group == "b")
        values[~mask] = 0
        nibabel.save(nibabel.Nifti1Image(values, affine), folder / "maps" / name)
    (folder / "table.tsv").write_text("\n".join(rows) + "\n", "utf-8")


def child(code: str, arguments: list[str], source: str | None) -> dict[str, np.ndarray]:
    """Run the command of this version or another; returns clock and processor time of phases."""
    with TemporaryDirectory() as place:
        times = Path(place) / "times.json"
        environment = os.environ | {"TIMES": str(times)}
        environment |= {"PYTHONPATH": source} if source else {}
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if not times.exists():
            raise RuntimeError(done.stderr)
        return {name: np.array(one) for name, one in json.loads(times.read_text("utf-8")).items()}


def decoded(folder: Path, n: int, model: str, source: str | None) -> tuple[dict, bytes]:
    """Times of the phases, and the predictions."""
    maps = [str(path) for path in sorted((folder / "maps").iterdir())[:n]]
    about = ["--mask", str(folder / "mask.nii.gz"), "--labels", str(folder / "table.tsv")]
    about += ["--label", "group", "--unmatched", "drop", "--model", model]
    with TemporaryDirectory() as out:
        found = child(PHASES, ["decode", *maps, *about, "--out", f"{out}/out"], source)
        predictions = Path(out, "out", "predictions.tsv").read_bytes()
    whole = found.pop("all")
    rest = whole - np.sum(list(found.values()), axis=0)
    return {**found, REST: rest, "all": whole}, predictions


def started(folder: Path, n: int, source: str | None) -> dict[str, np.ndarray]:
    """Times from the end of imports to the first fold on a packed study."""
    store = folder / f"packed-{n}-by-{'this' if source is None else 'other'}.zarr"
    maps = [str(path) for path in sorted((folder / "maps").iterdir())[:n]]
    about = ["--mask", str(folder / "mask.nii.gz"), "--labels", str(folder / "table.tsv")]
    if not store.exists():
        command = ["pack", *maps, *about, "--label", "group", "--unmatched", "drop"]
        child(PHASES, [*command, "--out", str(store)], source)
    with TemporaryDirectory() as out:
        return child(START, ["decode", str(store), "--model", "gp", "--out", f"{out}/out"], source)


def rows_of(ours: dict, before: dict | None) -> list[dict]:
    """One row per phase: seconds of both kinds, and how many times longer the other took."""
    rows = []
    for phase, (clock, processor) in ours.items():
        row = {"phase": phase, "clock s": clock, "processor s": processor}
        if before is not None:
            row |= {
                "clock, other / this": before[phase][0] / clock,
                "processor, other / this": before[phase][1] / processor,
            }
        rows.append(row)
    return rows


def main() -> None:
    """Run and write ``decode.md`` beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small maps; nothing is written")
    parser.add_argument("--beside", help="the src folder of another version")
    parser.add_argument("--called", default="other version", help="what that version is called")
    parser.add_argument("--models", default=",".join(MODELS), help="which, by their names")
    parser.add_argument("--folder", type=Path, help="where maps are kept")
    given = parser.parse_args()
    shape, n_inside, n_decoded, n_packed = SHAPE, N_INSIDE, N_DECODED, N_PACKED
    if given.quick:
        shape, n_inside, n_decoded, n_packed = (12, 12, 10), 900, 20, 24
    tables = {}
    with TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        make_maps(folder, max(n_decoded, n_packed), shape, n_inside)
        size = f"{n_inside:,} voxels"
        for model in given.models.split(","):
            ours, predictions = decoded(folder, n_decoded, model, None)
            before = None
            if given.beside:
                before, theirs = decoded(folder, n_decoded, model, given.beside)
                told = "the same bytes" if theirs == predictions else "other bytes"
                tables[f"`--model {model}`, {n_decoded} maps of {size}; predictions: {told}"] = (
                    rows_of(ours, before)
                )
            else:
                tables[f"`--model {model}`, {n_decoded} maps of {size}"] = rows_of(ours, None)
        ours = started(folder, n_packed, None)
        before = started(folder, n_packed, given.beside) if given.beside else None
        title = f"From the end of imports, packed study of {n_packed} maps of {size}"
        tables[title] = rows_of(ours, before)
    note = (
        "Seconds of the command in a process of its own, by phase, in the environment of a user. "
        f"Ratios are {given.called} over this version. {machine()}."
    )
    save(None if given.quick else Path(__file__).with_suffix(".md"), "Decode", tables, note)


if __name__ == "__main__":
    main()

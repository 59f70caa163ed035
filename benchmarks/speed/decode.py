"""Where `voxprior decode` spends its time, and how soon it computes on a packed study.

python -m benchmarks.speed.decode [--quick] [--models gp,auto] [--beside SRC] [--folder FOLDER]

Maps of smooth noise with a weak effect on a grid of 2 mm, and a mask. The command runs in a process
of its own, as users run it; processor time of one BLAS thread is taken phase by phase, because the
wall clock of a machine that does other things too says little. ``--beside`` is the ``src`` folder
of another version, which runs on the same files right after; predictions of both are compared byte
by byte. ``--folder`` keeps the maps for the next time.
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
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
REST = "imports, and writing files"

# Both run in another process: they see the command from inside, whatever its version.
PHASES = """
import json, os, time
from contextlib import contextmanager
from voxprior.output import Clock
phases, timed = {}, Clock.phase

@contextmanager
def phase(self, name, show=True):
    began = time.process_time()
    with timed(self, name, show):
        yield
    phases[name] = time.process_time() - began

Clock.phase = phase
from voxprior.cli import main
try:
    main()
except SystemExit:
    pass
phases["all"] = time.process_time()
open(os.environ["TIMES"], "w").write(json.dumps(phases))
"""
START = """
import json, os, time
import scipy.stats, sklearn, zarr
import voxprior.cli, voxprior.decoder
from voxprior import registry
from voxprior.validation import run
registry.model("gp").make()
began, found = time.process_time(), {}
decode, audit = voxprior.decoder.Decoder.decode, run.audit_once

def read(*given, **named):
    found["scans are read"] = time.process_time() - began
    return decode(*given, **named)

def audited(*given, **named):
    made = audit(*given, **named)
    found["scans are audited"] = time.process_time() - began
    return made

def first(*given, **named):
    found["the first fold begins"] = time.process_time() - began
    open(os.environ["TIMES"], "w").write(json.dumps(found))
    raise SystemExit

voxprior.decoder.Decoder.decode, run.audit_once, run._guarded = read, audited, first
voxprior.cli.main()
"""


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


def child(code: str, arguments: list[str], source: str | None) -> dict[str, float]:
    """Run the command in a process of this version or another; returns the times that it wrote."""
    with TemporaryDirectory() as place:
        times = Path(place) / "times.json"
        environment = os.environ | THREADS | {"TIMES": str(times)}
        environment |= {"PYTHONPATH": source} if source else {}
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if not times.exists():
            raise RuntimeError(done.stderr)
        return json.loads(times.read_text("utf-8"))


def decoded(folder: Path, n: int, model: str, source: str | None) -> tuple[dict, bytes]:
    """Processor time of the phases, and the predictions."""
    maps = [str(path) for path in sorted((folder / "maps").iterdir())[:n]]
    about = ["--mask", str(folder / "mask.nii.gz"), "--labels", str(folder / "table.tsv")]
    about += ["--label", "group", "--unmatched", "drop", "--model", model]
    with TemporaryDirectory() as out:
        found = child(PHASES, ["decode", *maps, *about, "--out", f"{out}/out"], source)
        predictions = Path(out, "out", "predictions.tsv").read_bytes()
    whole = found.pop("all")
    return {**found, REST: whole - sum(found.values()), "all": whole}, predictions


def started(folder: Path, n: int, source: str | None) -> dict[str, float]:
    """Processor time from the end of imports to the first fold on a packed study."""
    store = folder / f"packed-{n}.zarr"
    maps = [str(path) for path in sorted((folder / "maps").iterdir())[:n]]
    about = ["--mask", str(folder / "mask.nii.gz"), "--labels", str(folder / "table.tsv")]
    if not store.exists():
        command = ["pack", *maps, *about, "--label", "group", "--unmatched", "drop"]
        child(PHASES, [*command, "--out", str(store)], None)
    with TemporaryDirectory() as out:
        return child(START, ["decode", str(store), "--model", "gp", "--out", f"{out}/out"], source)


def rows_of(ours: dict, before: dict | None) -> list[dict]:
    """One row per phase: seconds, share of all, and how many times longer the other took."""
    whole = max(ours.values())
    rows = []
    for phase, seconds in ours.items():
        row = {"phase": phase, "seconds": seconds, "share": seconds / whole}
        if before is not None:
            row |= {"seconds, other version": before[phase], "ratio": before[phase] / seconds}
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
        "Processor seconds of the command in a process of its own, one BLAS thread, by phase. "
        f"Ratios are {given.called} over this version. {machine()}."
    )
    save(None if given.quick else Path(__file__).with_suffix(".md"), "Decode", tables, note)


if __name__ == "__main__":
    main()

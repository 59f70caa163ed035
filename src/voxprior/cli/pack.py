"""``voxprior pack``: images and a table in; one store out, which every command reads at once."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from voxprior.cli.inputs import label_column, map_files, map_settings, refuse
from voxprior.cli.options import Json, Scans
from voxprior.cli.terminal import versioned


def pack(
    scans: Scans,
    out: Annotated[Path, typer.Option("--out", "-o", help="Store to write, NAME.zarr.")],
    smoothing: Annotated[float | None, typer.Option(help="Smoothing, FWHM in millimetres.")] = None,
    resample: Annotated[
        bool, typer.Option("--resample", help="Resample images that are on another grid.")
    ] = False,
    as_json: Json = False,
) -> None:
    r"""Pack images, mask, labels, groups and covariates into one compressed store.

    Other commands take the store in place of the images, and start at once. Digests protect
    its content, and it keeps only the columns that are named here. A run that is stopped goes on
    with the same command.

        voxprior pack maps/*.nii.gz --labels participants.tsv --label group \
            --covariates age,sex --out study.zarr

        voxprior decode study.zarr --out decoded
    """
    from voxprior.images import pack_maps
    from voxprior.images.packed import open_packed
    from voxprior.validation.progress import progress_bar
    from voxprior.writing import unfinished

    out = out.absolute()
    work = unfinished(out)
    refuse(scans, "events", "volume_labels", because="are for runs; maps can be packed")
    if scans.labels is None:
        refuse(scans, "label", "key", "groups", "covariates", because="need --labels")
    else:
        scans = replace(scans, label=label_column(scans))
    try:
        pack_maps(
            map_files(scans),
            out,
            **map_settings(scans),
            progress=lambda name, total: progress_bar(True, name, total),
            smoothing_fwhm=smoothing,
            resample=resample,
        )
    except KeyboardInterrupt:
        if not work.exists():
            raise
        kept = "What was read is kept, and the same command goes on from there."
        raise KeyboardInterrupt(kept) from None
    packed = open_packed(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    n, n_voxels = packed.scans.shape
    if as_json:
        print(versioned({"store": str(out), "scans": n, "voxels": n_voxels, "bytes": size}))
    else:
        print(f"{n} scans of {n_voxels} voxels, {size / 1e6:.3g} MB: {out}")

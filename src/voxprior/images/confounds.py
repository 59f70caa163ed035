"""Confounds of a run: fMRIPrep's, through nilearn, or any table of regressors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import InputError, option
from voxprior.images.cells import as_text, numbers
from voxprior.images.tables import read_cells

__all__ = ["Confounds", "check_strategy", "confounds_of", "read_confounds"]

# Written down because nilearn's own defaults changed in 0.13: the same call must scrub alike.
SCRUBBING = {"fd_threshold": 0.5, "std_dvars_threshold": 1.5}


# The variance of what is larger overflows, and nothing would be taken out.
LARGEST = 1e100


class Confounds(NamedTuple):
    """Regressors (n_volumes, k) of a run, and which volumes stay, boolean (n_volumes,)."""

    table: pd.DataFrame
    kept: np.ndarray


def read_confounds(
    image: Any, strategy: tuple[str, ...] = ("motion", "high_pass", "wm_csf"), **options: Any
) -> Confounds:
    """Load the fMRIPrep confounds from the folder of an image.

    Parameters
    ----------
    image : path, or pair of GIFTI paths
        A preprocessed run in an fMRIPrep folder; confounds are found by its name.
    strategy : tuple of str
        Noise components as in `nilearn.interfaces.fmriprep.load_confounds`; with "scrub", volumes
        of excessive motion are marked to be left out.
    **options
        Further parameters of `load_confounds` (motion, wm_csf, compcor, scrub, fd_threshold, ...).

    Returns
    -------
    Confounds
        `kept` is False for scrubbed and for non-steady-state volumes.

    Examples
    --------
    >>> from voxprior.images import read_confounds
    >>> run = "sub-01_task-rest_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz"
    >>> table, kept = read_confounds(run, ("motion", "scrub"))  # doctest: +SKIP
    """
    from nilearn.interfaces.fmriprep import load_confounds

    check_strategy(strategy)
    pair = isinstance(image, (list, tuple))
    files = [os.fspath(path) for path in (image if pair else [image])]
    for beside in _tables_beside(Path(files[0])):
        _check_usable(_read(beside, str(image)).fillna(0), str(beside))
    try:
        table, sample_mask = load_confounds(
            files if pair else files[0], strategy=tuple(strategy), **{**SCRUBBING, **options}
        )
    except ValueError as error:
        told = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"{image}: no usable fMRIPrep confounds: {told}",
            remedy="They belong next to images with fMRIPrep's names; or give tables, one per run",
        ) from error
    except OSError as error:
        raise type(error)(f"{image}: no usable fMRIPrep confounds: {error}") from error
    _check_usable(table, str(image))
    kept = np.ones(len(table), dtype=bool)
    if sample_mask is not None:
        kept[:] = False
        kept[sample_mask] = True
    return Confounds(table, kept)


def _tables_beside(image: Path) -> list[Path]:
    """Tables that nilearn may find: all parts of their name occur in the name of the image."""
    known = {*image.name.split("_")}
    tables = image.parent.glob("*desc-confounds_*.tsv")
    return [
        table
        for table in sorted(tables)
        if all(p in known or p.startswith("desc-") for p in table.name.split("_")[:-1])
    ]


def _read(path: Any, wanted_for: str) -> pd.DataFrame:
    """Columns of numbers, or of text where a cell is not a number."""
    cells = read_cells(path, f"confounds table (wanted for {wanted_for})")
    known = {column: (numbers(cells[column]), cells[column]) for column in cells}
    return pd.DataFrame({c: as_text(t) if n is None else n for c, (n, t) in known.items()})


def _check_usable(table: pd.DataFrame, name: str) -> None:
    """Refuse values that no regression can remove, and name their column."""
    holes = [str(column) for column in table.columns if table[column].isna().any()]
    if holes:
        raise InputError(
            f"{name}: confounds have missing values in {', '.join(holes[:5])}",
            remedy="Leave these columns out or fill them. Tables of fMRIPrep are found and filled "
            f"where {option('confounds')} names a strategy, such as motion and wm_csf",
        )
    for place, column in enumerate(table.columns):
        values = table.iloc[:, place]
        if values.dtype.kind not in "iufb" or not (values.astype(float).abs() < LARGEST).all():
            raise InputError(
                f"{name}: column {str(column)!r} of the confounds holds words, or numbers that are "
                f"infinite or above {LARGEST:.0e}",
                remedy="Correct the table, or leave the column out",
            )


def check_strategy(strategy: Any) -> None:
    """Refuse a strategy without a noise component."""
    if not strategy:
        raise InputError(
            "The strategy of the confounds is empty",
            expected="at least one noise component, for instance 'motion'",
        )


def confounds_of(confounds: Any, path: Any, n_volumes: int, name: str) -> Confounds | None:
    """Find one run's confounds: None, options for `read_confounds` (a dict), or a table.

    Parameters
    ----------
    confounds : None, dict, path of a TSV or CSV table, DataFrame or array
    path : path or None
        The run's file, for fMRIPrep confounds.
    n_volumes : int
        Volumes of the run, to be matched.
    name : str
        The run, for error messages.
    """
    if confounds is None:
        return None
    if isinstance(confounds, dict):
        if path is None:
            raise InputError(
                f"{name}: confounds of fMRIPrep are found by the name of the file",
                remedy="Give paths, not images",
            )
        found = read_confounds(path, **confounds)
    else:
        table = _table(confounds, name)
        found = Confounds(table, np.ones(len(table), dtype=bool))
    if len(found.table) != n_volumes:
        raise InputError(
            f"{name}: has {n_volumes} volumes but its {option('confounds')} have "
            f"{len(found.table)} rows",
            remedy="Check that they belong together",
        )
    return found


def _table(confounds: Any, name: str) -> pd.DataFrame:
    if isinstance(confounds, (str, os.PathLike)):
        table, name = _read(confounds, name), str(confounds)
    else:
        table = pd.DataFrame(confounds)
    _check_usable(table, name)
    return table

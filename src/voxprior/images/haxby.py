"""Real scans to try things on: pictures of eight kinds, seen in twelve runs (Haxby et al. 2001).

They are read from the folder ``haxby_slice`` below the one that ``VOXPRIOR_DATA`` names: subject 1,
half of one slice. Where it is not there, nilearn fetches subject 2, about 300 MB, once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voxprior.errors import InputError
from voxprior.images.dataset import Dataset
from voxprior.images.runs import load_runs

__all__ = ["load_haxby"]

FOLDER = "haxby_slice"


def load_haxby(conditions: Sequence[str] | None = None) -> Dataset:
    """Read block means of the kinds of pictures asked for, one of each kind per run."""
    bold, labels, mask = _kept() or _fetched()
    return load_runs(bold, labels=labels, mask=mask, conditions=conditions)


def _kept() -> tuple[Any, Any, Any] | None:
    """Files of the slice, where there are some."""
    folder = Path(os.environ.get("VOXPRIOR_DATA") or os.devnull) / FOLDER
    files = [folder / name for name in ("bold.nii.gz", "attributes_literal.txt", "mask.nii.gz")]
    return (files[0], files[1], files[2]) if all(file.is_file() for file in files) else None


def _fetched() -> tuple[Any, Any, Any]:
    """Files of a subject, fetched where nilearn does not have them: ventral temporal cortex."""
    from nilearn.datasets import fetch_haxby

    try:
        files = fetch_haxby(subjects=(2,), verbose=0)
    except Exception as error:  # of the network; nilearn does not document which
        raise InputError(
            "The scans of Haxby et al. 2001 cannot be fetched",
            got=str(error) or type(error).__name__,
            remedy=f"Try again where there is a network, or set the variable VOXPRIOR_DATA to a "
            f"folder that holds {FOLDER}",
        ) from error
    return files.func[0], files.session_target[0], files.mask_vt[0]

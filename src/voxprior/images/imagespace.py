"""ImageSpace: how images become rows of X and maps become images; fitted once, then frozen.

It holds the mask (as a `VoxelSpace`), the affine or mesh, and plain parameters: no masker objects,
so it can be saved as arrays and numbers (`to_dict`), and read back years later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from voxprior.errors import InputError, option
from voxprior.images import masks, surfaces, volumes
from voxprior.images.cleaning import Cleaning, check_settings, clean_run, standardize, statistics
from voxprior.images.findings import (
    scan_findings,
    scan_scale,
    scan_scales,
    volume_names,
    warn_constant_voxels,
    warn_of_constant,
)
from voxprior.images.preparation import (
    center_by_group,
    check_center,
    divide_by_means,
    warn_of_alone,
)
from voxprior.images.sources import Source, find_sources, n_volumes, read_side_by_side
from voxprior.images.surfaces import is_surface
from voxprior.space import VoxelSpace

__all__ = ["ImageSpace", "RunRows", "not_a_run"]

# What `check_settings` checks again when they come from a file.
SETTINGS = (
    "smoothing_fwhm", "standardize", "scale", "resample", "detrend", "high_pass", "low_pass", "t_r",
)  # fmt: skip


@dataclass(frozen=True)
class RunRows:
    """The kept volumes of one run: `values` (n_kept, V) and `kept`, a boolean for every volume.

    `findings` are (name, message) of volumes that cannot be right.
    """

    values: np.ndarray
    kept: np.ndarray
    t_r: float | None
    name: str
    findings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class ImageSpace:
    """A fitted reader of images: grid or mesh, mask, and what is done to every image.

    Build it with `fit_image_space`; all fields are arrays, numbers and strings.

    Attributes
    ----------
    space : VoxelSpace
        The V voxels (or vertices) inside the mask.
    parts : tuple of (hemisphere, number of vertices), or None for volumes
    smoothing_fwhm : float or None
    cleaning : Cleaning
    standardize : {"run", "baseline", "group", "train", "none"}
    resample : bool
        Whether images on another grid are resampled rather than refused.
    notes : tuple of str
        What the mask left out.
    voxels_dropped : int
        Voxels left out of the mask because they are NaN or infinite in some scan.
    scale : {"global", "none"}
        Whether every image is divided by its mean inside the mask.
    mask_source : str
        Where the mask comes from: the name of a file, or how it was computed.
    center : ndarray of shape (V,) or None
        Mean of the training maps, for new ones without a group, where they are centred by group.

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> from voxprior.images import fit_image_space
    >>> values = np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3)
    >>> maps = [nibabel.Nifti1Image(values[..., t], np.eye(4)) for t in range(3)]
    >>> images = fit_image_space(maps)
    >>> images
    ImageSpace(volume 2 x 2 x 2, 8 voxels, standardize='train')
    >>> images.transform(maps).shape
    (3, 8)
    >>> images.inverse_transform(np.arange(8.0)).shape
    (2, 2, 2)
    """

    space: VoxelSpace
    parts: surfaces.Parts | None = None
    smoothing_fwhm: float | None = None
    cleaning: Cleaning = field(default_factory=Cleaning)
    standardize: str = "none"
    resample: bool = False
    notes: tuple[str, ...] = ()
    voxels_dropped: int = 0
    scale: str = "none"
    center: np.ndarray | None = None
    mask_source: str = ""

    def __post_init__(self) -> None:
        _check_smoothing(self.smoothing_fwhm, self.space, self.parts)
        check_center(self.center, self.space)

    # ------------------------------------------------------------------ images to rows

    def read(self, source: Source, gaps: bool = False) -> np.ndarray:
        """Read one image's voxels inside the mask, smoothed and scaled: float32 (n_volumes, V).

        NaN and infinite values are an error; with `gaps` they pass, and nothing is done to values.
        """
        return self._rows(source.load(), source.name, gaps)

    def _rows(self, image: Any, name: str, gaps: bool = False) -> np.ndarray:
        if is_surface(image) != (self.parts is not None):
            kinds = ("a surface", "volumes") if is_surface(image) else ("a volume", "surfaces")
            raise InputError(
                f"{name}: is {kinds[0]} but the mask is for {kinds[1]}",
                remedy="Give the kind of images that the mask, or the model, was made for",
            )
        if self.parts is not None:
            rows = surfaces.surface_rows(image, self.space, self.parts, name, gaps)
        else:
            fwhm = None if gaps else self.smoothing_fwhm
            rows = volumes.volume_rows(image, self.space, name, fwhm, self.resample, gaps)
        if gaps or self.scale != "global":
            return rows
        return divide_by_means(rows, volume_names(name, len(rows)))

    def read_run(
        self,
        source: Source,
        confounds: Any = None,
        kept: np.ndarray | None = None,
        run_volumes: Sequence[np.ndarray] | None = None,
    ) -> list[RunRows]:
        """Read a 4-D image and clean each run in it along time; nothing is standardised yet.

        Parameters
        ----------
        source : Source
        confounds : array of shape (n_volumes, k), optional
        kept : boolean array of shape (n_volumes,), optional
            False for scrubbed volumes.
        run_volumes : list of index arrays, optional
            Volumes of each run where one file holds several; None means it is one run.
        """
        image = source.load()
        if n_volumes(image) < 2:
            raise not_a_run(image, source.name)
        t_r = self.cleaning.t_r
        if t_r is None and self.parts is None:
            t_r = volumes.header_t_r(image)
        rows = self._rows(image, source.name)
        whole = run_volumes is None
        runs = []
        for number, part in enumerate(
            [np.arange(len(rows))] if run_volumes is None else run_volumes
        ):
            name = source.name if whole else f"{source.name}, run {number}"
            run_kept = np.ones(len(part), dtype=bool) if kept is None else kept[part]
            run_confounds = None if confounds is None else np.asarray(confounds)[part]
            part_rows = rows if whole else rows[part]
            names = [f"{source.name}, volume {v}" for v in part[run_kept]]
            scales = [scan_scale(part_rows[i]) for i in np.flatnonzero(run_kept)]
            found = scan_findings(scales, names, "volumes of the run")
            values = self._cleaned(part_rows, run_confounds, run_kept, t_r, name)
            runs.append(RunRows(values, run_kept, t_r, name, tuple(found)))
        return runs

    def _cleaned(
        self, rows: np.ndarray, confounds: Any, kept: np.ndarray, t_r: float | None, name: str
    ) -> np.ndarray:
        constant = warn_constant_voxels(rows, name)
        values = clean_run(rows, self.cleaning, confounds, None if kept.all() else kept, t_r, name)
        if constant.any():
            # Cleaning leaves rounding noise there, which standardising would blow up.
            values[:, constant] = 0.0 if self.cleaning.needed else rows[0, constant]
        return values

    def standardized(self, run: RunRows, rest: np.ndarray | None = None) -> RunRows:
        """Standardise one run as `standardize` says; `rest` marks the baseline volumes."""
        if self.standardize not in ("run", "baseline"):
            return run
        if self.standardize == "baseline" and rest is None:
            raise InputError(
                f"{run.name}: {option('standardize', 'baseline')} needs to know which volumes are "
                "rest",
                remedy=f"Give {option('labels')} or {option('events')} with rest, or fit with "
                f"{option('standardize', 'run')}",
            )
        chosen = rest[run.kept] if self.standardize == "baseline" and rest is not None else None
        by = statistics(run.values, chosen, run.name)
        return replace(run, values=standardize(run.values, by))

    def transform(
        self,
        images: Any,
        *,
        mesh: Any = None,
        runs: Any = None,
        rest: Any = None,
        groups: Any = None,
    ) -> np.ndarray:
        """Turn images into rows of X, float32 (n, V): a row for each map, or each volume of a run.

        Parameters
        ----------
        images : path, glob, image, SurfaceImage or list of these
            4-D runs are cleaned and standardised one by one, as `standardize` says.
        mesh : optional
            Mesh of GIFTI files.
        runs : array of shape (n,), optional
            Run of each row, where one 4-D image holds several; by default an image is a run.
        rest : boolean array of shape (n,), optional
            Baseline volumes, for ``standardize="baseline"``.
        groups : sequence of n, optional
            Group of each row, by which maps are centred where training maps were, None where it is
            not known; or its run, as in `runs`. By default a 4-D image is a group.
        """
        return self.read_new(find_sources(images, mesh), runs, rest, groups)[0]

    def read_new(
        self, sources: Sequence[Source], runs: Any = None, rest: Any = None, groups: Any = None
    ) -> tuple[np.ndarray, list[tuple[str, str]]]:
        """Do `read_all` for new scans, and centre them by group where training maps were.

        No audit comes after it, so it warns of constant scans.
        """
        counts = [n_volumes(source.load()) for source in sources]
        if groups is not None and len(groups) != sum(counts):
            raise InputError(
                f"{option('groups')} must have one entry per scan",
                expected=f"{sum(counts)}",
                got=f"{len(groups)}",
            )
        X, findings = self.read_all(sources, groups if self.by_run and runs is None else runs, rest)
        names = [name for s, n in zip(sources, counts) for name in volume_names(s.name, n)]
        if self.by_run:
            warn_of_constant(findings)
            return X, findings
        groups = self.groups_of(sources) if groups is None else groups
        return replace(self, scale="none").prepare_new(X, names, groups), findings

    def prepare_new(self, X: Any, names: Sequence[str], groups: Any = None) -> Any:
        """Do to new scans (n, V) what was done to those in training, and warn of constant ones."""
        if self.scale == "global":
            X = divide_by_means(X, names)
        warn_of_constant(scan_findings(scan_scales(X), names))
        return self._centered(X, groups) if self.standardize == "group" else X

    def groups_of(self, sources: Sequence[Source]) -> np.ndarray | None:
        """Group of each new row where none are given: a 4-D image is one; None for 3-D images."""
        counts = [n_volumes(source.load()) for source in sources]
        return np.repeat(np.arange(len(counts)), counts) if max(counts) > 1 else None

    def _centered(self, X: np.ndarray, groups: Any) -> np.ndarray:
        """Centre new maps by their groups, or by the mean of the training maps."""
        X, alone = center_by_group(X, groups, np.zeros(1) if self.center is None else self.center)
        if self.center is None and alone.any():
            raise InputError(
                "Maps without a group of two or more cannot be centred: the mean of the training "
                "maps is not known",
                remedy=f"Give {option('groups')}, with all maps of each",
            )
        warn_of_alone(alone, stacklevel=5)
        return X

    @property
    def mask_words(self) -> str:
        """How many voxels the mask has, and where it comes from."""
        what = "voxels" if self.parts is None else "vertices"
        source = f" ({self.mask_source})" if self.mask_source else ""
        return f"{self.space.n_voxels:,} {what}{source}"

    @property
    def by_run(self) -> bool:
        """Whether 4-D images are cleaned or standardised run by run."""
        return self.standardize in ("run", "baseline") or self.cleaning.needed

    def read_all(
        self, sources: Sequence[Source], runs: Any = None, rest: Any = None
    ) -> tuple[np.ndarray, list[tuple[str, str]]]:
        """Read images as `transform` does, and report what is wrong inside runs, see `RunRows`."""
        counts = [n_volumes(source.load()) for source in sources]
        for what, values in (("runs", runs), ("rest", rest)):
            if values is not None and len(values) != sum(counts):
                raise InputError(
                    f"{what} must have one value for each of the {sum(counts)} volumes",
                    got=f"{len(values)}",
                )
        X = np.empty((sum(counts), self.space.n_voxels), dtype=np.float32)
        plain = self.parts is None and not self.smoothing_fwhm and not self.resample
        if max(counts) == 1 and plain and not self.by_run:  # nilearn is not meant for threads
            read_side_by_side(self.read, sources, X)
            return X, []
        findings: list[tuple[str, str]] = []
        for source, n, start in zip(sources, counts, np.cumsum([0, *counts])):
            here = slice(start, start + n)
            if self.by_run:
                quiet = None if rest is None else np.asarray(rest, dtype=bool)[here]
                found = self._read_runs(
                    source, None if runs is None else runs[here], quiet, X[here]
                )
                findings += found
            else:
                X[here] = self.read(source)
        return X, findings

    def _read_runs(
        self, source: Source, runs: Any, rest: np.ndarray | None, rows: np.ndarray
    ) -> list[tuple[str, str]]:
        """Read, clean and standardise each run of one 4-D image into its rows, in their order."""
        run_volumes = None
        if runs is not None:
            run_volumes = [np.flatnonzero(np.asarray(runs) == run) for run in dict.fromkeys(runs)]
        found = self.read_run(source, run_volumes=run_volumes)
        for run, part in zip(found, run_volumes or [np.arange(len(rows))]):
            rows[part] = self.standardized(run, None if rest is None else rest[part]).values
        return [finding for run in found for finding in run.findings]

    # ------------------------------------------------------------------ rows to images

    def inverse_transform(self, values: Any) -> Any:
        """Turn a map (V,), or maps (T, V) or (T * V,), into a NIfTI or surface image."""
        values = np.asarray(values)
        V = self.space.n_voxels
        if (
            values.ndim not in (1, 2)
            or values.shape[-1] % V
            or (values.ndim == 2 and values.shape[1] != V)
        ):
            raise InputError(
                f"A map must have one value for each of the {V} voxels, or a multiple (time-major)",
                got=f"shape {values.shape}",
            )
        if values.ndim == 1 and len(values) > V:
            values = values.reshape(-1, V)
        if self.parts is None:
            return volumes.volume_image(values, self.space)
        return surfaces.surface_image(values, self.space, self.parts)

    def masker(self) -> Any:
        """Return a fitted nilearn masker with this mask, smoothing and cleaning, unstandardised."""
        settings = vars(self.cleaning) | {"smoothing_fwhm": self.smoothing_fwhm}
        return masks.build_masker(self.space, self.parts, **settings)

    # ------------------------------------------------------------------ to keep and read again

    def to_dict(self) -> dict[str, Any]:
        """Return plain arrays, numbers and strings, from which `from_dict` builds it again."""
        space, cleaning = self.space, self.cleaning
        return {
            "mask": space.mask,
            "affine": None if space.affine is None else np.array(space.affine),
            "points": None if space.points is None else np.array(space.points),
            "faces": None if space.faces is None else np.array(space.faces),
            "parts": None if self.parts is None else [[side, n] for side, n in self.parts],
            "smoothing_fwhm": self.smoothing_fwhm,
            "detrend": cleaning.detrend,
            "high_pass": cleaning.high_pass,
            "low_pass": cleaning.low_pass,
            "t_r": cleaning.t_r,
            "standardize": self.standardize,
            "resample": self.resample,
            "notes": list(self.notes),
            "voxels_dropped": self.voxels_dropped,
            "scale": self.scale,
            "center": self.center,
            "mask_source": self.mask_source,
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> ImageSpace:
        """Build it again from `to_dict`."""
        if saved["parts"] is None:
            space = VoxelSpace.from_mask(saved["mask"], saved["affine"])
        else:
            space = VoxelSpace.from_mesh(saved["points"], saved["faces"]).take(saved["mask"])
        cleaning = check_settings(**{name: saved[name] for name in SETTINGS})
        parts = saved["parts"]
        return cls(
            space,
            None if parts is None else tuple((side, int(n)) for side, n in parts),
            saved["smoothing_fwhm"],
            cleaning,
            saved["standardize"],
            saved["resample"],
            tuple(saved["notes"]),
            saved.get("voxels_dropped", 0),
            saved["scale"],
            saved["center"],
            saved.get("mask_source", ""),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ImageSpace):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        settings = (self.parts, self.smoothing_fwhm, self.cleaning, self.standardize, self.resample)
        center = None if self.center is None else self.center.tobytes()
        return (self.space, *settings, self.scale, center)

    def __repr__(self) -> str:
        what = repr(self.space).removeprefix("VoxelSpace(").removesuffix(")")
        return f"ImageSpace({what}, standardize={self.standardize!r})"


def _check_smoothing(fwhm: float | None, space: VoxelSpace, parts: surfaces.Parts | None) -> None:
    """Refuse a kernel wider than the image: a voxel size is wrong, and it would take for ever."""
    if not fwhm:
        return
    if parts is not None:
        raise InputError(
            f"{option('smoothing_fwhm', fwhm)} is for volumes",
            remedy="Smooth surface data along the mesh beforehand",
        )
    affine = np.eye(4) if space.affine is None else np.asarray(space.affine)
    sizes = np.sqrt((affine[:3, :3] ** 2).sum(axis=0))
    widest = float((sizes * space.shape).max())
    if fwhm > widest:
        raise InputError(
            f"{option('smoothing_fwhm', fwhm)} is wider than the images, {widest:.3g} mm",
            remedy="Check the voxel size in the headers",
        )


def not_a_run(image: Any, name: str) -> InputError:
    """Return the error of an image that should have been a run."""
    return InputError(
        f"{name}: is not a 4-D run but one volume, of shape {image.shape}",
        remedy=f"For one map per scan give {option('table', 'labels.tsv')}",
    )

"""What options name becomes a Dataset: files, tables, and the checks that they fit together."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxprior.cli.arguments import files, names
from voxprior.cli.options import LabelledScans, Preparation, Scans, Trials
from voxprior.cli.terminal import say
from voxprior.errors import nearest_file

if TYPE_CHECKING:
    from voxprior.images import Dataset

GROUP_COLUMNS = ("run", "chunk", "group", "session", "site")


def read(scans: Scans, trials: Trials, preparation: Preparation) -> Dataset:
    """Read what the options name: trials of runs, or one map per scan."""
    from voxprior.images import load_maps

    if is_packed(scans.images):
        data = only(read_packed(scans, preparation), names(trials.conditions))
        return _shown(named_from(data, scans))
    check_one_source(scans)
    images = map_files(scans)
    if scans.labels is None:
        refuse(scans, "label", "key", "groups", "covariates", because="need --labels")
        settings = preparation.settings() | {"mask": scans.mask, "mesh": mesh(scans.surface)}
        data = read_runs(images, scans.events, scans.volume_labels, trials, **settings)
    else:
        refuse(trials, "unit", "window", "delay", "confounds", because="are for runs")
        scans = replace(scans, label=label_column(scans))
        data = load_maps(images, **map_settings(scans), **preparation.settings())
        data = only(data, names(trials.conditions))
    data = named_from(data, scans)
    if data.dropped:
        say(f"warning: {len(data.dropped)} left out, the first: {data.dropped[0]}")
    return _shown(data)


def named_from(data: Dataset, scans: LabelledScans) -> Dataset:
    """Name files from the table, or from here: results say nothing of homes and users."""
    near = [] if scans.labels is None else [scans.labels.parent]
    return data.named_near(*near, Path.cwd())


def _shown(data: Dataset) -> Dataset:
    """Say which voxels take part."""
    if data.images is not None:
        say(f"mask: {data.images.mask_words}")
    return data


def map_files(scans: LabelledScans) -> list[Any]:
    """Maps as they are read: files, or the two hemispheres of each."""
    return paired(scans.images) if scans.surface else scans.images


def map_settings(scans: Scans) -> dict[str, Any]:
    """Keywords of `load_maps` and `pack_maps` that say what maps are of, and where."""
    return {
        "table": scans.labels,
        "label": scans.label,
        "key": scans.key,
        "groups": scans.groups,
        "covariates": names(scans.covariates) or None,
        "unmatched": scans.unmatched,
        "mask": scans.mask,
        "mesh": mesh(scans.surface),
    }


def is_packed(images: list[str]) -> bool:
    """Whether images are one packed study; tells it without importing what reads it."""
    return len(images) == 1 and Path(images[0]).suffix == ".zarr"


def read_packed(scans: Scans, preparation: Preparation) -> Dataset:
    """Read a packed study; its own table is joined where none is given."""
    from voxprior.images import load_maps

    refuse(scans, "events", "volume_labels", because="are for runs, and a packed study holds maps")
    if scans.labels is None:
        refuse(scans, "key", because="need --labels")
    elif scans.label is None:
        scans = replace(scans, label=label_column(scans))
    return load_maps(scans.images, **map_settings(scans), **preparation.settings())


def read_maps(scans: Scans, preparation: Preparation) -> Dataset:
    """Read maps without labels; a table may tell their groups."""
    from voxprior.images import load_maps

    refuse(scans, "label", "events", "volume_labels", because="are for scans with labels")
    if is_packed(scans.images):
        return named_from(replace(read_packed(scans, preparation), y=None), scans)
    if scans.labels is None:
        refuse(scans, "key", "groups", "covariates", because="need --labels")
    data = load_maps(map_files(scans), **map_settings(scans), **preparation.settings())
    return named_from(data, scans)


IMAGES = (".nii", ".nii.gz", ".img", ".mgh", ".mgz", ".gii")


def read_others(
    folder: Path, scans: Scans, trials: Trials, preparation: Preparation
) -> dict[str, Dataset]:
    """Read other subjects: one folder each, with images and a table named as that of --labels.

    The folder of the images to decode is passed over: nobody is in their own prior.
    """
    if scans.labels is None:
        raise ValueError("--prior-from needs --labels; for runs there is voxprior bids.")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: --prior-from is not a folder.")
    own = {Path(name).resolve().parent for name in files(scans.images)}
    others: dict[str, Dataset] = {}
    for place in sorted(one for one in folder.iterdir() if one.is_dir()):
        if place.resolve() in own:
            say(f"{place.name}: holds the images to decode, so it is not in their prior")
            continue
        images = sorted(str(one) for one in place.iterdir() if one.name.endswith(IMAGES))
        table = place / scans.labels.name
        if not images or not table.is_file():
            missing = "no image" if not images else f"no table {table.name}"
            raise FileNotFoundError(
                f"{place}: has {missing}. --prior-from takes a folder of folders, one per other "
                f"subject, each with its images and a table called {scans.labels.name}."
            )
        others[place.name] = read(replace(scans, images=images, labels=table), trials, preparation)
    if not others:
        raise FileNotFoundError(f"{folder}: --prior-from holds no folder of another subject.")
    return others


def read_runs(
    runs: Any,
    events: list[str] | None,
    volume_labels: list[str] | None,
    trials: Trials,
    **settings: Any,
) -> Dataset:
    """Read runs and cut them into trials."""
    from voxprior.images import load_runs

    return load_runs(
        runs,
        _tables(events) if events else None,
        labels=_tables(volume_labels) if volume_labels else None,
        **trials.settings(),
        **settings,
    )


def groups_of_maps(files: Any, table: Path, key: str | None, mesh: Any) -> Any:
    """Group of each new map, or volume of 4-D images, in a table; None where it has none.

    The column is called run, group, session or site, in the plural or not, or is the only one
    beside that of the files.
    """
    import numpy as np

    from voxprior.images import join_table, read_table
    from voxprior.images.sources import find_sources, n_volumes

    sources = find_sources(files, mesh)
    counts = [n_volumes(source.load()) for source in sources]
    column = _group_column(list(read_table(table, key).columns), key, table)
    joined = join_table(
        [source.name for source in sources],
        table,
        groups=column,
        key=key,
        unmatched="drop",
        volumes=counts if max(counts) > 1 else None,
    )
    groups = np.full(sum(counts), None, dtype=object)
    groups[joined.positions] = joined.table[column].to_numpy()
    return groups


def _group_column(columns: list[str], key: str | None, table: Path) -> str:
    found = [c for c in columns if str(c).strip().casefold().removesuffix("s") in GROUP_COLUMNS]
    others = [c for c in columns if c != key]
    if len(found) != 1 and len(others) == 1:
        found = others
    if len(found) != 1:
        raise ValueError(
            f"{table}: one column must name the group of each map, for instance 'run'. It has "
            f"{', '.join(map(str, columns))}."
        )
    return found[0]


def _tables(values: list[str]) -> list[str]:
    """List files that must exist: what is not a file would be taken for a label."""
    found = files(values)
    for name in found:
        if not Path(name).is_file():
            raise FileNotFoundError(f"{name}: no such file{nearest_file(Path(name))}.")
    return found


def mesh(surface: list[str] | None) -> Any:
    """Return the template's name, or the mesh files by hemisphere."""
    from voxprior.images.surfaces import hemisphere

    given = names(surface)
    if len(given) > 1 or (given and given[0].endswith(".gii")):
        return {hemisphere(name)[0]: name for name in given}
    return given[0] if given else None


def paired(images: list[str]) -> list[Any]:
    """Put the two hemispheres of a scan together, told by hemi-L and hemi-R in the file's name."""
    from voxprior.images.surfaces import hemisphere

    scans: dict[str, dict[str, str]] = {}
    for name in files(images):
        side, scan = hemisphere(name)
        scans.setdefault(scan, {})[side] = name
    return list(scans.values())


def check_one_source(scans: LabelledScans) -> None:
    """Refuse labels from several places, or from none."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("labels", "events", "volume_labels")
        if getattr(scans, name)
    ]
    if len(given) != 1:
        raise ValueError(
            "Say where the labels are by exactly one of --labels, --events and --volume-labels. "
            f"Got {' and '.join(given) or 'none'}."
        )


def refuse(group: Any, *unwanted: str, because: str) -> None:
    """Refuse options that would have no effect."""
    default = {field.name: field.default for field in fields(group)}
    given = [name for name in unwanted if getattr(group, name) != default[name]]
    if given:
        told = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ValueError(f"{told}: would have no effect; these options {because}.")


def label_column(scans: LabelledScans) -> str:
    """Return the label column, where none is named the one column it can be."""
    from voxprior.images import read_table
    from voxprior.images.matching import find_column

    if scans.label is not None:
        return scans.label
    table = read_table(scans.labels)
    columns = list(table.columns)
    found = find_column(table, "label")
    if found is not None:
        return found
    raise ValueError(
        f"{scans.labels}: say which column holds the labels with --label. It has "
        f"{', '.join(map(str, columns))}."
    )


def only(data: Dataset, conditions: list[str]) -> Dataset:
    """Keep the scans of these labels."""
    import numpy as np

    from voxprior.labels import refuse_alike

    if not conditions:
        return data
    found = np.array([str(label) for label in data.y]) if data.y is not None else np.array([])
    refuse_alike("labels", [*np.unique(found), *conditions])
    missing = [label for label in conditions if label not in found]
    if missing:
        raise ValueError(
            f"--conditions {','.join(missing)}: no scan has this label. There are "
            f"{', '.join(np.unique(found)[:10])}."
        )
    return data.take(np.isin(found, conditions))

"""``voxprior doctor``: is this installation sound, and what does it run on?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from voxprior.cli.options import Json
from voxprior.cli.terminal import PlainConsole, print_table, versioned

# Variables that hold the libraries at a number of threads.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
UNSOUND = 1


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the self-test of the families.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the installation, and run a self-test of every family against stored results.

    Reports versions, threads, linear algebra libraries, memory and data folder. The self-test
    takes about ten seconds, longer where code must be compiled first. Exit code 1 if a family
    gives another result than the stored one.

        voxprior doctor --json > doctor.json
    """
    from voxprior.cli.errors import installed
    from voxprior.decoder.selftest import self_test
    from voxprior.output import Clock

    with Clock().phase("testing every family"):
        tested = {} if quick else dict(self_test())
    found: dict[str, Any] = installed()
    found |= {"threads": _threads(), "libraries": _libraries()}
    found |= {"memory": _memory(), "data": _data()}
    found["families"] = {
        name: one._asdict() | {"difference": _number(one.difference), "well": one.well}
        for name, one in tested.items()
    }
    found["well"] = all(one.well for one in tested.values())
    if as_json:
        print(versioned(found))
    else:
        _show(found)
    if not found["well"]:
        raise typer.Exit(UNSOUND)


def _number(value: float) -> float | None:
    return value if value == value else None


def _threads() -> dict[str, Any]:
    import os

    import joblib
    import numba

    named = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
    return {"cores": joblib.cpu_count(), "numba": numba.get_num_threads(), **named}


def _libraries() -> list[dict[str, Any]]:
    """Linear algebra and threads, as they are loaded."""
    from threadpoolctl import threadpool_info

    keys = ("internal_api", "version", "num_threads", "architecture")
    return [{key: one.get(key) for key in keys} for one in threadpool_info()]


def _memory() -> float | None:
    """Gigabytes that are free."""
    from voxprior.modelfile.files import available_memory

    free = available_memory()
    return None if free is None else round(free / 1e9, 1)


def _data() -> dict[str, Any]:
    """The folder of real data, and what it holds."""
    import os
    from pathlib import Path

    named = os.environ.get("VOXPRIOR_DATA")
    folder = Path(named or os.devnull)
    there = folder.is_dir()
    held = sorted(one.name for one in folder.iterdir() if one.is_dir()) if there else []
    return {"folder": named, "there": there, "sets": held}


# ---------------------------------------------------------------- for people


def _show(found: dict[str, Any]) -> None:
    console = PlainConsole()
    versions = {"voxprior": found["voxprior"], "Python": found["python"]} | found["packages"]
    rows = [[name, version] for name, version in versions.items()]
    print_table(console, ["package", "version"], rows)
    console.print(f"System: {found['system']}", soft_wrap=True)
    told = ", ".join(f"{name} {value}" for name, value in found["threads"].items())
    console.print(f"Threads: {told}")
    for one in found["libraries"]:
        kind = f" for {one['architecture']}" if one["architecture"] else ""
        name = f"{one['internal_api']} {one['version'] or ''}".strip()
        console.print(f"Library: {name}{kind}, {one['num_threads']} threads")
    free = found["memory"]
    console.print(
        "Memory: not reported by the system" if free is None else f"Memory: {free} GB free"
    )
    console.print(_data_line(found["data"]), soft_wrap=True)
    if found["families"]:
        _show_families(console, found)


def _data_line(data: dict[str, Any]) -> str:
    if data["folder"] is None:
        return "Data: VOXPRIOR_DATA is not set; it is needed for real data only"
    if not data["there"]:
        return f"Data: VOXPRIOR_DATA names {data['folder']}, which is not a folder"
    return f"Data: {data['folder']} holds {', '.join(data['sets']) or 'nothing'}"


def _show_families(console: PlainConsole, found: dict[str, Any]) -> None:
    from voxprior.decoder.selftest import TOLERANCE

    rows = []
    for name, one in found["families"].items():
        difference = "-" if one["difference"] is None else f"{one['difference']:.1e}"
        rows.append([name, difference, f"{one['seconds']:.1f}", "ok" if one["well"] else "NOT OK"])
    print_table(console, ["family", "difference", "seconds", "result"], rows, "Self-test")
    for name, one in found["families"].items():
        if not one["well"]:
            why = one["failure"] or f"it differs by {one['difference']:.2g}"
            console.print(f"{name} does not give the stored result: {why}.")
    if found["well"]:
        console.print(f"Every family gives the stored result, within {TOLERANCE:g}.")
    else:
        console.print(
            "Do not trust results of this installation. Install voxprior in a fresh environment; "
            "if that does not help, report what is printed here."
        )

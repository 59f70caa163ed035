"""Check what `python -m build` has left in a folder: `python tests/package.py dist`.

The wheel must hold what the installed package reads, and nothing that was compiled or built here.
The sdist must hold what the tests read; they are run from it, without its sources.
"""

import sys
import tarfile
import zipfile
from pathlib import Path

IN_WHEEL = [
    "voxprior/py.typed",
    "voxprior/output/schema.json",
    "voxprior/report/audit.md",
    "voxprior/report/guide.md",
    "voxprior/report/template/page.html",
    "voxprior/papers/palatucci2007/published.csv",
    "voxprior/papers/template/claims.html",
]
IN_SDIST = ["src/voxprior/py.typed", "tests/conftest.py", "docs/api.rst", "README.md", "LICENSE"]
NEVER = ("__pycache__", ".nbi", ".nbc", ".pyc", "docs/_build", "auto_examples", ".venv", ".so")


def problems(folder: Path) -> list[str]:
    """Say what is missing and what should not be there."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    with tarfile.open(sdist) as archive:
        packed = [name.partition("/")[2] for name in archive.getnames()]
    missing = [f"{wheel.name} lacks {name}" for name in IN_WHEEL if name not in inside]
    missing += [f"{sdist.name} lacks {name}" for name in IN_SDIST if name not in packed]
    extra = [name for name in [*inside, *packed] if any(part in name for part in NEVER)]
    outside = [n for n in inside if not n.startswith("voxprior/") and ".dist-info/" not in n]
    return missing + [f"{name} should not be packed" for name in extra + outside]


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    print("\n".join(found) or "wheel and sdist hold what they should")
    sys.exit(bool(found))

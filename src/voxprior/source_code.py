"""The source of the code that takes part in a result: a change of code is noticed.

The classes and functions that objects are made of (nested ones, parameters and bases too) are those
that pickling them would name. Of each, and of all modules that its module imports,

* what is outside installed packages counts by the text of its file: a script, a module next to it,
  a package under development;
* what is installed counts by its version and the file of its module; voxprior and Python are in
  `voxprior.content.versions`.

Where there is no such text (lambdas, functions inside functions, classes of a notebook, compiled
ones), or the file was edited after it was loaded, the code that will run is unknown.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import io
import pickle
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from voxprior.content import OWN, file_digest

__all__ = ["UnreadableCodeError", "code_digest"]

INSTALLED = {"site-packages", "dist-packages"}
LIBRARY = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


class UnreadableCodeError(Exception):
    """The source of code that takes part cannot be read; the text names it, and the reason."""


def code_digest(*objects: Any) -> str:
    """Digest of the source of all classes and functions that objects are made of.

    Raises
    ------
    UnreadableCodeError
        The source of some cannot be read.

    Examples
    --------
    >>> from sklearn.svm import SVC, LinearSVC
    >>> from voxprior.source_code import code_digest
    >>> code_digest(SVC()) == code_digest(SVC(C=2)) != code_digest(LinearSVC())
    True
    """
    digest, own = hashlib.sha256(), dict[str, Path]()
    for one in _named_by(objects):
        name = one.__module__
        path = _file_of(name)
        if not _is_installed(name, path):
            own[name] = _checked(one, path)
        elif path is not None and INSTALLED.intersection(path.parts) and OWN not in path.parents:
            version = getattr(sys.modules.get(name.partition(".")[0]), "__version__", "")
            digest.update(f"{name}.{one.__qualname__} {version} {file_digest(path)}\n".encode())
    for name, content in sorted(_with_imports(own).items()):
        digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


# --- which code takes part --------------------------------------------------------------------


class _Names(pickle.Pickler):
    """Notes every class and function that pickling meets; what it writes is thrown away."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), protocol=5, buffer_callback=lambda buffer: None)
        self.met: dict[int, Any] = {}

    def persistent_id(self, obj: Any) -> None:
        one = obj if isinstance(obj, type | FunctionType) else type(obj)
        self.met[id(one)] = one


def _named_by(objects: Iterable[Any]) -> list[Any]:
    names = _Names()
    try:
        names.dump(objects)
    except Exception as error:  # pickling can fail in a different way for every class
        last = [*names.met.values()][-1]
        raise UnreadableCodeError(f"{last.__module__}.{last.__qualname__} has no name") from error
    met: dict[int, Any] = {}
    for one in names.met.values():
        met |= {
            id(base): base for base in (inspect.getmro(one) if isinstance(one, type) else [one])
        }
    return sorted(met.values(), key=lambda one: (str(one.__module__), one.__qualname__))


# --- where it stands --------------------------------------------------------------------------


def _file_of(name: str) -> Path | None:
    """File of a module that is loaded, or that an import would load; None where it has none."""
    module = sys.modules.get(name)
    if module is not None:
        found = getattr(module, "__file__", None)
        return None if found is None else Path(found)
    parent = name.rpartition(".")[0]
    spec = None
    if not parent or parent in sys.modules:  # to look further would run code
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name)
    known = spec is not None and spec.has_location and spec.origin
    return Path(known) if known else None


def _is_installed(name: str, path: Path | None) -> bool:
    if path is None:
        return name.partition(".")[0] in sys.stdlib_module_names
    return (
        bool(INSTALLED.intersection(path.parts))
        or OWN in path.parents
        or any(folder in path.parents for folder in LIBRARY)
    )


# --- its content ------------------------------------------------------------------------------


def _checked(one: Any, path: Path | None) -> Path:
    """File of a class or function, if it has a text that shows what was loaded."""
    told = f"{one.__module__}.{one.__qualname__}"
    if path is None or path.suffix != ".py" or not path.is_file():
        raise UnreadableCodeError(f"{told} has no source file")
    for function in _functions_of(one):
        file = path
        if function.__module__ != one.__module__:  # it was put there from elsewhere
            other = _file_of(function.__module__ or "")
            if _is_installed(function.__module__ or "", other):
                continue
            file = other or Path(function.__code__.co_filename)
        if function.__code__ not in _text(file).codes and not _is_generated(function):
            raise UnreadableCodeError(f"{told}: {function.__name__} is not what {file} says")
    return path


def _functions_of(one: Any) -> Iterator[FunctionType]:
    """Functions that were written for a class, or the function itself."""
    for held in vars(one).values() if isinstance(one, type) else [one]:
        parts = [getattr(held, name, None) for name in ("fget", "fset", "fdel", "func")]
        for part in [getattr(held, "__func__", held), *parts]:
            function = inspect.unwrap(part) if isinstance(part, FunctionType) else None
            if isinstance(function, FunctionType):
                yield function


def _is_generated(function: FunctionType) -> bool:
    """Whether Python wrote a method, as for data classes and named tuples."""
    name = function.__name__
    return function.__code__.co_filename.startswith("<string") and name.startswith("__")


def _text(path: Path) -> Text:
    return _text_as_of(path, file_digest(path))


@lru_cache
def _text_as_of(path: Path, digest: str | None) -> Text:
    return Text(path)


class Text:
    """The text of a source file, the code it stands for, and the modules it imports."""

    def __init__(self, path: Path):
        self.path = path

    @cached_property
    def content(self) -> bytes:
        """All of it; a file that cannot be read has no code."""
        try:
            return self.path.read_bytes()
        except OSError:
            return b""

    @cached_property
    def codes(self) -> set[CodeType]:
        """Code of every function in the file, as it would be loaded now."""
        with suppress(SyntaxError, ValueError):
            return set(_all_codes(compile(self.content, str(self.path), "exec", dont_inherit=True)))
        return set()

    def imports(self, name: str) -> Iterator[str]:
        """Names of modules that are imported anywhere in it, where it is the module `name`."""
        package = name if self.path.name == "__init__.py" else name.rpartition(".")[0]
        try:
            nodes = list(ast.walk(ast.parse(self.content)))
        except (SyntaxError, ValueError):
            nodes = []
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                with suppress(ImportError):
                    start = "." * node.level + (node.module or "")
                    found = importlib.util.resolve_name(start, package) if node.level else start
                    yield found
                    yield from (f"{found}.{alias.name}" for alias in node.names)


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


def _with_imports(own: dict[str, Path]) -> dict[str, str]:
    """Digests of modules outside installed packages, and of all such that they import."""
    found: dict[str, str] = {}
    left = list(own)
    while left:
        name = left.pop()
        path = own.get(name) or _file_of(name)
        if name in found or path is None or not path.is_file() or _is_installed(name, path):
            continue
        text = _text(path)
        found[name] = hashlib.sha256(text.content).hexdigest()
        left += [parent for parent in _parents(name) if parent not in found]
        if path.suffix == ".py":
            left += text.imports(name)
    return found


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]

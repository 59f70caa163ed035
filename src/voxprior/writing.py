"""Files are written whole or not at all, and never where the same command reads.

Whatever voxprior leaves on disk goes through `written_whole` (a file) or `private_folder` (a run
that is not finished), under four rules:

* An input is never an output. `reading` holds the files that a command was given; what would
  replace one of them is refused. Files are compared by device and inode, so a link to an input is
  an input too.
* A file is written in a new folder next to its place and moved when it is whole. Nobody else can
  enter that folder or predict its name.
* A link in the place of a file is refused. A FIFO, a device and whatever else is not a file, such
  as ``/dev/stdout``, is written to as it is.
* Unfinished work has a name that others can predict, because the same command must find it again.
  It is taken over only if it belongs to this user and others cannot write to it.
"""

import os
import re
import shutil
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from voxprior.errors import InputError

# What the names of folders start with in which a file is being written.
HIDDEN = ".voxprior-"
# Group and others may write.
OPEN = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40

Identity = tuple[int, int]
_read: ContextVar[Mapping[Identity, str]] = ContextVar("read", default=MappingProxyType({}))

# ---------------------------------------------------------------- an input is never an output


@contextmanager
def reading(files: Iterable[str | os.PathLike]) -> Iterator[None]:
    """Refuse to write over these files and folders until the end of the block.

    Files that are read along with them, by their names, are protected too.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> table = Path(folder, "costs.tsv")
    >>> write_whole(table, "action")
    >>> with reading([table]):
    ...     write_whole(table, "anything else")
    Traceback (most recent call last):
        ...
    voxprior.errors.InputError: ...costs.tsv: is read here, so it cannot be an output as well...
    """
    known, listing = dict(_read.get()), cache(_listing)
    for file in map(Path, files):
        along = [name for name in _read_along(file.name) if name in listing(file.parent)]
        for path in (file, *map(file.with_name, along)):
            identity = _identity(path)
            if identity is not None:
                known.setdefault(identity, os.fspath(path))
    before = _read.set(known)
    try:
        yield
    finally:
        _read.reset(before)


def refuse_inputs(places: Iterable[Path], within: Path | None = None) -> None:
    """Refuse an output that would replace a file being read.

    Parameters
    ----------
    places : iterable of Path
        What the output may replace or delete; what does not exist does no harm.
    within : Path, optional
        The output folder. Folders that are read are looked for between it and each place.
    """
    known = _read.get()
    if not known:
        return
    for place in places:
        above = [] if within is None else [p for p in place.parents if within in p.parents]
        for path in (place, *above):
            name = known.get(_identity(path) or (-1, -1))
            if name is not None:
                same = "" if os.path.abspath(name) == os.path.abspath(path) else f" (it is {name})"
                raise InputError(
                    f"{path}{same}: is read here, so it cannot be an output as well",
                    remedy="Choose another place for the output",
                )


def _identity(path: Path) -> Identity | None:
    """Device and inode of what a path leads to; None where nothing can be lost."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    # A terminal is often read and written at once.
    return None if stat.S_ISCHR(status.st_mode) else (status.st_dev, status.st_ino)


def _listing(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _read_along(image: str) -> list[str]:
    """Names of files that are read with an image: a pair's other half, sidecar, confounds."""
    found = re.fullmatch(r"(.+?)\.(?:nii|img|hdr)(\.gz)?", image, re.IGNORECASE)
    if found is None:
        return []
    stem, end = found[1], found[2] or ""
    names = [f"{stem}.json", f"{stem}.mat", f"{stem}.img{end}", f"{stem}.hdr{end}"]
    run = re.split("_(?:space|res|den|desc)-", stem)[0]
    for kind in ("timeseries", "regressors"):
        names += [f"{run}_desc-confounds_{kind}.{table}" for table in ("tsv", "json")]
    return names


# ---------------------------------------------------------------- one file


def check_name(name: str) -> str:
    """Return a name that tables and pages can hold, and refuse others before work is spent on them.

    >>> check_name("scan.nii")
    'scan.nii'
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = name.encode("utf-8", "backslashreplace").decode()
        raise InputError(
            f"{shown}: its name is not UTF-8", remedy="Rename the file or folder"
        ) from None
    if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name):
        raise InputError(
            f"{name!r}: its name holds a line break or another control character",
            remedy="Rename the file or folder",
        )
    return name


def write_whole(path: str | os.PathLike, content: str | bytes) -> None:
    """Write a file entirely or not at all; see `written_whole`.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "note.txt")
    >>> write_whole(file, "all of it")
    >>> file.read_text(), len(list(file.parent.iterdir()))
    ('all of it', 1)
    """
    # A name that is not UTF-8 is shown with its bytes as numbers: it must not end hours of work.
    text = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with written_whole(path) as new, new.open("xb") as file:
        file.write(text)


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[Path]:
    """Give a place to write a file, of the same name, and move it to `path` when it is whole.

    Parameters
    ----------
    path : path
        A file that may exist, or a FIFO or a device, which then gets the content.

    Raises
    ------
    InputError
        `path` is a folder, a link, or a file that is being read.
    OSError
        It cannot be written.
    """
    path = Path(path)
    check_place(path)
    stream = is_stream(path)
    try:
        private = TemporaryDirectory(prefix=HIDDEN, dir=None if stream else path.parent)
        with private as folder:
            new = Path(folder) / path.name
            yield new
            if stream:
                _send(new, path)
            else:
                new.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.strerror is None:  # it is in words already
            raise
        raise OSError(f"{path}: cannot be written ({error.strerror}).") from error


def check_place(path: Path) -> None:
    """Refuse a place where no file can be written: a folder, a link, or what is being read."""
    refuse_inputs([path])
    if is_stream(path):
        return
    if path.is_symlink():
        raise InputError(
            f"{path}: is a link to {os.readlink(path)}, and links are not written through",
            remedy="Name the file that it leads to, or remove the link",
        )
    if path.is_dir():
        raise InputError(f"{path}: is a folder", expected="the name of a file to write")


def is_stream(path: Path) -> bool:
    """Whether a path leads to what is written to as it is: neither a file nor a folder.

    >>> is_stream(Path("/dev/stdout")) or os.name != "posix"
    True
    """
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: Path) -> int | None:
    """Open file of this process that a path stands for, as /dev/stdout and /dev/fd/3 do."""
    own = ("/dev/fd", f"/proc/{os.getpid()}/fd")
    for _ in range(MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in own and path.name.isdigit():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, os.readlink(path))
    return None


def _send(file: Path, stream: Path) -> None:
    """Write a whole file into a FIFO, a device, or a file that this process has open."""
    number = _descriptor(stream)
    if number is not None:
        sys.stdout.flush()  # what was printed before comes first
    opened = os.open(stream, os.O_WRONLY) if number is None else os.dup(number)
    with open(opened, "wb") as target, file.open("rb") as content:
        shutil.copyfileobj(content, target)


# ---------------------------------------------------------------- unfinished work


def unfinished(out: Path) -> Path:
    """Name the folder in which an output is made until it is whole; nothing in it is being read."""
    work = out.with_name(f".{out.name}.partial")
    refuse_inputs([work] if work.is_symlink() else [work, *work.rglob("*")])
    return work


def private_folder(path: Path) -> None:
    """Make the folder of a run that is not finished, or take over the one of a run before.

    Until `open_to_others`, nobody else can enter a folder that is made here.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        check_own(path, path.lstat(), stat.S_IFDIR)
    except OSError as error:
        raise OSError(f"{path}: cannot be written ({error.strerror}).") from error


def check_own(path: Path, status: os.stat_result, kind: int) -> None:
    """Refuse to go on with a file or folder that somebody else may have put there."""
    with TemporaryDirectory(prefix=HIDDEN, dir=path.parent) as made:
        ours = os.stat(made)
    # Compared with a new folder: some file systems show everything as of one owner and open.
    if stat.S_ISLNK(status.st_mode):
        what = "is a link, which voxprior did not make"
    elif stat.S_IFMT(status.st_mode) != kind:
        what = "is neither unfinished work nor a lock of voxprior"
    elif status.st_uid != ours.st_uid:
        what = "belongs to another user"
    elif status.st_mode & OPEN & ~ours.st_mode:
        what = "can be written by other users"
    elif stat.S_ISREG(kind) and status.st_nlink > 1:
        what = "is a file that has another name too"
    else:
        return
    raise InputError(f"{path}: {what}", remedy="Remove it, or choose another place for the output")


def open_to_others(folder: Path) -> None:
    """Give a folder that is finished the mode that folders have by default."""
    usual = folder / f"{HIDDEN}mode"
    usual.mkdir(exist_ok=True)
    mode = usual.stat().st_mode
    usual.rmdir()
    if mode != folder.stat().st_mode:
        with suppress(OSError):  # where modes cannot be changed they protect nothing
            folder.chmod(stat.S_IMODE(mode))

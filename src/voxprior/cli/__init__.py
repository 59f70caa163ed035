"""The command line: argv to calls, one file per command; heavy imports happen inside commands."""

import gc
import os
import signal
import sys
from io import TextIOWrapper

import typer

from voxprior.cli.arguments import ManyValues, with_groups, within_memory
from voxprior.cli.bids import bids
from voxprior.cli.compare import compare
from voxprior.cli.decode import decode
from voxprior.cli.demo import demo
from voxprior.cli.doctor import doctor
from voxprior.cli.errors import reported
from voxprior.cli.families import families
from voxprior.cli.map import map_
from voxprior.cli.pack import pack
from voxprior.cli.predict import predict
from voxprior.cli.reproduce import reproduce
from voxprior.cli.score import score

app = typer.Typer(
    name="voxprior",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
READ_SCANS = (decode, predict, score, compare, map_, bids)
COMMANDS = (
    demo, decode, predict, score, compare, map_, pack, reproduce, bids, families, doctor
)  # fmt: skip
for command in COMMANDS:
    call = with_groups(command)
    call = within_memory(call) if command in READ_SCANS else call
    app.command(command.__name__.rstrip("_"), cls=ManyValues)(reported(call))


def _print_version(wanted: bool) -> None:
    if wanted:
        from voxprior import __version__

        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_print_version, help="Print the version."
    ),
) -> None:
    """Decode brain images from handfuls of scans with prior-driven models.

    Start with `voxprior demo`, which needs no data. With your own images: `voxprior decode --help`.

    Exit codes: 0 done, 1 internal error (one line names a log file to report), 2 bad input (one
    line says what to mend), 130 stopped by Ctrl-C or SIGTERM.
    """


def main() -> None:
    """Run the command line; a request to end, as schedulers send it, is met like Ctrl-C.

    Threads of compiled code wait asleep, if nothing else was asked for: those that spin take the
    cores from the others wherever cores are busy. It must be said before any is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Imports and figures make many objects that stay: looking for dead ones among them again and
    # again makes every command slower.
    gc.set_threshold(100_000, 50, 50)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if isinstance(sys.stdout, TextIOWrapper):  # what a terminal has no letter for ends no command
        sys.stdout.reconfigure(errors="backslashreplace")
    app()

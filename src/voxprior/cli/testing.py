"""Options that say how a decoder is tested."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from voxprior.cli.arguments import names
from voxprior.cli.terminal import say
from voxprior.registry import split_names, splitter

PANEL = "Test on held-out scans"

Model = Annotated[
    str, typer.Option("--model", "-m", help="Family or baseline; `voxprior families` lists them.")
]
Config = Annotated[Path | None, typer.Option(help="TOML or JSON file of model parameters.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Model parameter, for instance radius=2; overrides --config."),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Output folder; voxprior's files in an older one are replaced."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Permutations = Annotated[
    int,
    typer.Option(
        min=0, help="Relabellings of a permutation test; 0 for none.", rich_help_panel=PANEL
    ),
]


@dataclass
class Testing:
    """How folds are made, judged and run."""

    split: Annotated[
        str,
        typer.Option(
            help=f"{split_names()}. auto holds out one run or group at a time, else 5 folds.",
            rich_help_panel=PANEL,
        ),
    ] = "auto"
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Audit findings to override, by name.", rich_help_panel=PANEL),
    ] = None
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", help="Workers, up to the cores; -1 for all.", rich_help_panel=PANEL
        ),
    ] = 1
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of all that is drawn.", rich_help_panel=PANEL)
    ] = 0

    def __post_init__(self) -> None:
        if self.jobs != 1:
            from voxprior.validation.run import check_jobs

            check_jobs(self.jobs)

    @property
    def allowed(self) -> list[str]:
        """Names of the findings that the user overrides."""
        return names(self.allow)

    def splitter(self, data: Any) -> Any:
        """Build the splitter for a dataset; None is the default of its kind."""
        from voxprior.registry import kind_of

        classes, grouped = kind_of(data.y) == "classifier", data.groups is not None
        if data.trials is not None and not grouped:
            if self.split == "groups":
                raise ValueError(
                    "--split groups: all scans are of one run, which cannot both train and test. "
                    "Give more runs, or take --split auto."
                )
            say(
                "warning: all scans are of one run: training and test scans share its drift and "
                "noise, which flatters the score."
            )
        return splitter(self.split, self.seed, classes=classes, groups=grouped)

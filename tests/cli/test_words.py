from typing import Annotated

import pytest
import typer

from voxprior.cli.arguments import with_groups
from voxprior.cli.compare import compare
from voxprior.cli.decode import decode
from voxprior.cli.predict import predict
from voxprior.cli.words import flags_of, in_command_words, speaking_of
from voxprior.errors import InputError, InputWarning, option


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (option("resample", True), "--resample"),
        (option("resample", False), "no --resample"),
        (option("mask"), "--mask"),
        (option("mask", None), "no --mask"),
        (option("mask", "my mask.nii"), "--mask 'my mask.nii'"),
        (option("t_r", 2.5), "--t-r 2.5"),
        (option("t_r"), "--t-r"),
        (option("smoothing_fwhm", -5.0), "--smoothing -5.0"),
        (option("n_jobs", 0), "--jobs 0"),
        (option("random_state", 1), "--seed 1"),
        (option("n_permutations"), "--permutations"),
        (option("cv"), "--split"),
        (option("mesh"), "--surface"),
        (option("labels"), "--volume-labels"),
        (option("table", "labels.tsv"), "--labels labels.tsv"),
        (option("conditions", ["face", "house"]), "--conditions face,house"),
        (option("means", "all"), "--set means=all"),
        (option("l1_ratio", 0.5), "--set l1_ratio=0.5"),
        (option("calibration", None), "--set calibration=None"),
        (option("threshold", "exact"), "--set threshold=exact"),
        (option("priors"), "--set priors"),
    ],
)
def test_marks_become_options_of_decode(mark, said):
    with speaking_of(flags_of(with_groups(decode))):
        assert in_command_words(InputError("Bad", remedy=f"Try {mark}")) == f"Bad. Try {said}."
        assert in_command_words(InputWarning(f"Try {mark}")) == f"Try {said}"
        assert in_command_words(f"Try {mark}") == f"Try {said}"


@pytest.mark.parametrize(
    ("command", "mark", "said"),
    [
        (predict, option("threshold", 0.9), "--reject 0.9"),
        (predict, option("mask", "a"), "mask='a'"),  # neither an option nor a model's to --set
        (compare, option("n_repeats", 3), "--repeats 3"),
        (compare, option("means"), "means"),
    ],
)
def test_every_command_has_its_own_options(command, mark, said):
    with speaking_of(flags_of(with_groups(command))):
        assert in_command_words(mark) == said


def test_an_option_that_can_be_turned_off():
    def command(quick: Annotated[bool, typer.Option()] = False) -> None: ...

    with speaking_of(flags_of(command)):
        assert in_command_words(option("quick", False)) == "--no-quick"

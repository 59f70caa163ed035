"""Labels may be any text: each map has its own file, and the terminal shows what they are."""

import nibabel
import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder
from voxprior.cli.terminal import PlainConsole, printable, say
from voxprior.decoder import Naming


def relabel(table, labels):
    frame = pd.read_csv(table, sep="\t")
    frame["group"] = np.tile(labels, len(frame) // len(labels))
    frame.to_csv(table, sep="\t", index=False)


def test_every_map_has_its_file_and_a_table_says_which(run, study, mask, tmp_path, bare_report):
    labels = ["a/b", "a b", "A B"]
    relabel(tmp_path / "participants.tsv", labels)
    out = tmp_path / "out"
    result = run("decode", *study, "--mask", mask, "--model", "logistic", "--out", out)
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out / "maps" / "maps.tsv", sep="\t")
    assert sorted(table["map"]) == sorted(f"weights[{label}]" for label in labels)
    files = {path.name for path in (out / "maps").iterdir()}
    assert files == {*table["file"], "maps.tsv"}
    assert len({name.casefold() for name in table["file"]}) == 3
    decoder = Decoder.load(out / "model.skops")
    for file, name in table.itertuples(index=False):
        image = nibabel.load(out / "maps" / file)
        assert np.allclose(decoder.masker_.transform(image)[0], decoder.voxel_maps()[name])


def test_names_in_a_bids_folder_have_letters_and_digits_alone():
    naming = Naming("sub-01_desc-gp_", "sub-01_desc-gp_stat-{}_statmap", "")
    names = ["weight:a/b", "weight:a b", "weight:A_B", "", "..", "脳"]
    files = naming.maps(names)
    stats = [name.removeprefix("sub-01_desc-gp_stat-")[:-8] for name in files.values()]
    assert stats == ["weightab", "weightab2", "weightAB3", "map", "map2", "map3"]


def test_the_table_shows_labels_as_they_are(run, study, tmp_path, bare_report):
    labels = ["[/]", "[red]:brain:\x1b[31m"]
    relabel(tmp_path / "participants.tsv", labels)
    result = run("decode", *study, "--model", "naive-bayes", "--out", tmp_path / "[b]out")
    assert result.exit_code == 0, result.output
    assert r"[/] against [red]:brain:\x1b[31m" in result.output
    assert "[b]out/report.html" in result.output.replace("\n", "")
    assert "\x1b[31m" not in result.output


@pytest.mark.parametrize(
    ("text", "shown"),
    [("[/]", "[/]"), ("a\tb\n", r"a\tb\n"), ("\u202ex", r"\u202ex"), ("脳é", "脳é")],
)
def test_control_characters_are_written_out(text, shown, capsys):
    assert printable(text) == shown
    say(text)
    PlainConsole().print(text)
    captured = capsys.readouterr()
    assert captured.err.strip() == captured.out.strip() == shown


def test_names_that_are_not_unicode_are_shown(capsys):
    say(b"caf\xe9.nii".decode(errors="surrogateescape"))
    assert capsys.readouterr().err == "caf\\udce9.nii\n"

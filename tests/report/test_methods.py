"""What was done: facts are data, tables and paragraph say them in words."""

import re

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from voxprior.registry import model, models
from voxprior.report.citations import REFERENCES, bibtex
from voxprior.report.methods import fact_tables, gather_facts, methods_paragraph
from voxprior.report.scores import scores_of
from voxprior.validation import Result, cross_validate


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 5)), rng.normal(size=20)


def test_facts_are_data_and_tables_are_words(result):
    known = {"Data": {"scanner": "3 T", "n_features": 12345}}
    facts = gather_facts(result, known)
    assert facts["Data"]["n_features"] == 12345
    assert facts["Data"]["class_counts"] == {"<b>face</b>": 12, "house": 12}
    told = fact_tables(facts)
    assert told["Data"] == {
        "scans": "24",
        "values per scan": "12,345",
        "classes": "<b>face</b>: 12, house: 12",
        "groups (runs or subjects)": "4",
        "scanner": "3 T",
    }
    assert (told["Validation"]["folds"], told["Validation"]["seed"]) == ("4", "0")


def test_the_paragraph_says_the_facts(result):
    facts = gather_facts(result, {"Preprocessing": {"smoothing": "none", "order": 0.1 + 0.2}})
    facts["Preprocessing"]["decided from the scans"] = "Scans were not divided."
    text = methods_paragraph(result, facts, scores_of(result)[0])
    assert "We decoded 24 scans (<b>face</b>: 12, house: 12) from 4 runs or subjects" in text
    assert "each of 30 values" in text
    assert "No spatial smoothing was applied. Order: 0.3. Scans were not divided. The" in text
    assert "leaving one run, subject or other group out" in text
    assert "(4 folds, seed 0)" in text
    assert "LeaveOneGroupOut" not in text


def test_a_result_without_settings_is_told_as_far_as_known(result):
    bare = Result(**(vars(result) | {"settings": {}}))
    text = methods_paragraph(bare, gather_facts(bare), scores_of(bare)[0])
    assert text.startswith("We decoded ? scans.")


def test_numbers_and_parameters_are_told_as_people_write_them(numbers):
    model = make_pipeline(StandardScaler(), Ridge(alpha=0.1 + 0.2))
    told = fact_tables(gather_facts(cross_validate(model, *numbers, cv=4)))
    assert told["Hyper-parameters"]["ridge: alpha"] == "0.3"
    assert {"steps", "ridge"}.isdisjoint(told["Hyper-parameters"])
    assert told["Validation"]["metric"] == "R²"


def test_parameters_keep_their_own_names(numbers):
    """A parameter may be called as a setting of the validation is."""
    told = fact_tables(gather_facts(cross_validate(RidgeCV(cv=3), *numbers, cv=4)))
    assert told["Hyper-parameters"]["cv"] == "3"


@pytest.mark.parametrize("name", models(role="family"))
def test_what_a_family_cites_has_an_entry(name):
    """Whoever names a paper, or this software, has it in the BibTeX."""
    cited = re.findall(r"\((?:after )?([^()]+ \d{4})\)", model(name).words)
    assert cited
    assert set(cited) <= set(REFERENCES)
    assert ("@manual{voxprior-auto" in bibtex(model(name).words)) == name.startswith("auto")

"""Names of files: one per contrast, with letters and digits alone."""

import re

import pytest

from voxprior.study.names import contrast_of, stem_of, value_of

TEXTS = ["a-b", "a+b", "a b c", "é", "顔-家", "", "x" * 50, "x" * 51, "A", "a/b", "n/a"]


def test_values_are_letters_and_digits_that_tell_texts_apart():
    values = [value_of(text) for text in TEXTS]
    assert all(re.fullmatch("[A-Za-z0-9]{1,40}", value) for value in values)
    assert len(set(values)) == len(TEXTS)


@pytest.mark.parametrize("conditions", [["face", "house"], ["house", "face"], ("house", "face")])
def test_the_order_of_conditions_makes_no_other_contrast(conditions):
    assert contrast_of(None, conditions) == "face-house"


def test_a_stem_has_an_entity_for_each():
    stem = stem_of("faces", "faces-houses", "T1w:res-2", "naive-bayes")
    assert stem == "task-faces_contrast-facesHouses_space-T1w_res-2_desc-naivebayes"

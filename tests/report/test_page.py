"""The page: whole in itself, and showing only what its summary has."""

import re

import numpy as np
from sklearn.linear_model import Ridge

from voxprior.report import render, summarize
from voxprior.validation import cross_validate


def test_page_is_self_contained_and_escapes_labels(result):
    page = render(summarize(result, title="<script>alert(1)</script>"))
    assert "<script>alert(1)" not in page
    assert "<b>face" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "http" not in re.sub(r"data:image[^\"]*", "", page).replace("http-equiv", "")


def test_page_without_probabilities_has_no_controls():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    regression = render(summarize(cross_validate(Ridge(), X, y, cv=4)))
    assert 'id="reject"' not in regression
    assert "R²" in regression

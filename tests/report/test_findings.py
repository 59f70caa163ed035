"""Every finding of the audit leads to what it means, on the same page."""

import re

import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import LeaveOneOut

from voxprior import VoxelSpace
from voxprior.images import ImageSpace
from voxprior.report import make_report
from voxprior.report.guide import about_findings
from voxprior.validation import AuditWarning, cross_validate
from voxprior.validation.audit import SEVERITY


def test_a_finding_is_linked_to_its_meaning(rng):
    X, y = rng.normal(size=(12, 24)), [0, 1] * 6
    with pytest.warns(AuditWarning, match="leave-one-out"):
        result = cross_validate(DummyClassifier(), X, y, cv=LeaveOneOut())
    page = make_report(
        DummyClassifier().fit(X, y), ImageSpace(VoxelSpace.grid((4, 3, 2))), result
    ).html
    assert '<a href="#guide-leave-one-out">leave-one-out</a>' in page
    assert 'id="guide-leave-one-out"' in page
    assert "Leave one of each class out together" in page
    targets = re.findall(r'href="#([^"]+)"', page)
    assert [name for name in targets if f'id="{name}"' not in page] == []


def test_all_findings_are_told_in_plain_words():
    told = about_findings(SEVERITY)
    assert list(told) == list(SEVERITY)
    for one in told.values():
        assert set(one) == {"when", "why", "do"}
        assert all(len(part.split()) > 5 and part.endswith(".") for part in one.values())
        assert not set("`[]*#") & set("".join(one.values()))

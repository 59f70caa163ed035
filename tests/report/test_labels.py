"""Labels may be any text: the page shows them, and nothing on it obeys them."""

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from voxprior import VoxelSpace
from voxprior.images import ImageSpace
from voxprior.report import make_report
from voxprior.report.figures import as_image
from voxprior.report.plots import roc
from voxprior.validation import cross_validate

HOSTILE = [
    "</script><img src=x>",
    "<script>steal()</script>",
    "[/]$\\frac$ {{ 7 * 7 }}\n\t\x1b[31m",
]


class Elements(HTMLParser):
    """Elements of a document, those of documents inside it too, and the text that it shows."""

    def __init__(self, document):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, [name for name, _ in attrs]))
        for document in (value for name, value in attrs if name == "srcdoc"):
            self.tags += Elements(document).tags

    def handle_data(self, data):
        self.text += data


def page_of(labels):
    rng = np.random.default_rng(0)
    y = np.repeat(sorted(labels), 6)
    space = VoxelSpace.grid((4, 3, 3), 3 * np.eye(4))
    X = rng.normal(size=(18, 36)) + np.arange(18)[:, None] // 6
    result = cross_validate(LogisticRegression(), X, y, cv=3)
    model = LogisticRegression().fit(X, y)
    return make_report(model, ImageSpace(space), result, " against ".join(labels)).html


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_page_shows_labels_and_obeys_none():
    tame, hostile = Elements(page_of(["a", "b", "c"])), Elements(page_of(HOSTILE))
    assert ("details", ["class", "data-map"]) in tame.tags, "the viewer is not there"
    assert hostile.tags == tame.tags
    for label in HOSTILE:
        assert label in hostile.text


def test_a_dollar_sign_is_not_a_formula():
    """matplotlib refuses the first label, and draws the second one like the third."""
    code, p = np.array([0, 1, 0, 1]), np.array([[0.6, 0.4], [0.2, 0.8]] * 2)
    drawn = [as_image(roc(code, p, ["a", label]))["image"] for label in ("$\\frac$", "$1$", "1")]
    assert len(set(drawn)) == 3

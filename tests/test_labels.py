"""Labels: numbered in any order of the classes, refused where they cannot be used."""

import numpy as np
import pytest

from voxprior.labels import encode, known_codes


@pytest.mark.parametrize("y", [[3, 1, 3, 2], ["b", "a", "b", "c"], [[True], [False], [True]]])
def test_classes_and_codes_give_the_labels_back(y):
    classes, codes = encode(np.array(y).ravel())
    assert (np.diff(codes[np.argsort(codes)]) <= 1).all()
    np.testing.assert_array_equal(classes[codes], np.ravel(y))


@pytest.mark.parametrize("classes", [["a", "b", "c"], ["c", "a", "b"]])
def test_codes_follow_the_order_of_the_classes(classes):
    codes = known_codes(["b", "c", "b"], np.array(classes))
    assert [classes[code] for code in codes] == ["b", "c", "b"]


def test_labels_that_cannot_be_used():
    with pytest.raises(ValueError, match=r"at least 2 classes, got 1 class, .*face"):
        encode(["face"] * 3)
    with pytest.raises(ValueError, match="at least 2 classes, got none"):
        encode([])
    with pytest.raises(ValueError, match="continuous"):
        encode([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"labels among \['a', 'b'\], got \['d'\] too"):
        known_codes(["a", "d"], np.array(["a", "b"]))

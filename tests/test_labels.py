"""Labels: numbered in any order of the classes, refused where they cannot be used."""

import numpy as np
import pytest

from voxprior.errors import InputError
from voxprior.labels import encode, known_codes, refuse_alike


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


ALIKE = {
    "two forms of Unicode": ("caf\u00e9", "cafe\u0301"),
    "a no-break space": ("a", "a\u00a0"),
    "a no-break space inside": ("a b", "a\u00a0b"),
    "a narrow no-break space": ("a b", "a\u202fb"),
    "two blanks": ("a b", "a  b"),
    "a blank at the end": ("a", "a "),
    "a tab": ("a b", "a\tb"),
    "zero width": ("a", "a\u200b"),
    "a joiner": ("ab", "a\u200db"),
    "a mark of order": ("a", "\ufeffa"),
    "a direction": ("a", "\u200ea"),
    "a soft hyphen": ("ab", "a\u00adb"),
    "a control character": ("a", "a\x07"),
    "a variation": ("a", "a\ufe0f"),
    "a filler": ("a", "a\u3164"),
    "Cyrillic": ("face", "f\u0430c\u0435"),
    "Greek with an accent": ("\u03bf\u0301", "\u00f3"),
    "wide letters": ("A1", "\uff21\uff11"),
    "a dash": ("a-b", "a\u2013b"),
}


@pytest.mark.parametrize("pair", ALIKE.values(), ids=ALIKE)
def test_texts_that_look_the_same_are_refused_with_their_code_points(pair):
    for check in (lambda: refuse_alike("groups", [*pair, "z"]), lambda: encode([*pair, *pair])):
        with pytest.raises(InputError, match="look the same and are not") as caught:
            check()
        for text in pair:
            assert " ".join(f"U+{ord(c):04X}" for c in text) in str(caught.value)


def test_texts_that_differ_to_the_eye_are_kept():
    texts = ["a", "A", "á", "b", "ab", "a b", "a-b", "a_b", "1", "01", "l", "脳", "", "🙂", "☹"]
    refuse_alike("labels", texts)
    refuse_alike("labels", [1, 1.0, None, True, "1"])


def test_of_long_texts_the_difference_is_shown():
    with pytest.raises(InputError, match=r"Got nothing and U\+00A0\.") as caught:
        refuse_alike("labels", ["x" * 80, "x" * 80 + "\u00a0"])
    assert "\\u00a0" in str(caught.value)

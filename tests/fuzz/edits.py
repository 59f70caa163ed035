"""Strategies that damage bytes as disks, networks, other programs and forgers do."""

import gzip

from hypothesis import strategies as st

# Numbers at the edges of the types that headers have.
NUMBERS = (0, 1, 2, -1, 127, 255, 256, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1)
REALS = (*NUMBERS, 0.5, -0.0, 1e-45, 1e20, 3e38, 1e308, float("inf"), float("-inf"), float("nan"))


@st.composite
def edited(draw, content, most=3):
    """Bytes after none to some edits: cut off, changed, inserted, removed, repeated."""
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        new = draw(st.binary(max_size=8))
        length = draw(st.integers(1, 64))
        content = {
            "cut off": lambda c, at=at: c[:at],
            "change": lambda c, at=at, new=new: c[:at] + new + c[at + len(new) :],
            "insert": lambda c, at=at, new=new: c[:at] + new + c[at:],
            "remove": lambda c, at=at, n=length: c[:at] + c[at + n :],
            "repeat": lambda c, at=at, n=length: c[:at] + c[at : at + n] * 2 + c[at + n :],
        }[draw(st.sampled_from(["cut off", "change", "insert", "remove", "repeat"]))](content)
    return content


@st.composite
def wrapped(draw, content, usual):
    """Bytes compressed as their name says (`usual`), or otherwise, or damaged after that."""
    way = draw(st.sampled_from([usual] * 6 + ["plain", "gzip", "twice", "members", "damaged"]))
    if way == "plain":
        return content
    packed = gzip.compress(content, 1, mtime=0)
    if way == "twice":
        return gzip.compress(packed, 1, mtime=0)
    if way == "members":
        half = len(content) // 2
        return gzip.compress(content[:half], mtime=0) + gzip.compress(content[half:], mtime=0)
    return draw(edited(packed)) if way == "damaged" else packed

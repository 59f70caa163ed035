"""Tools of a forger, who can do all that `voxprior.modelfile` does, the digest included."""

import io
import json
import zipfile

import numpy as np

from voxprior.modelfile import archive
from voxprior.modelfile.files import FORMAT


def unpacked(data):
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def sealed(members):
    """Members with a header that fits them."""
    inside = {name: content for name, content in members.items() if name != "voxprior.json"}
    header = {"format": FORMAT, "sha256": archive.digest(inside, FORMAT)}
    return {"voxprior.json": json.dumps(header).encode()} | inside


def packed(members, change=lambda opened: None):
    """Archive of members, after a change to the directory that a program would not make."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as opened:
        for name, content in members.items():
            opened.writestr(zipfile.ZipInfo(name), content)
        change(opened)
    return raw.getvalue()


def with_tree(data, change, added=None):
    """Forge a file: `change` changes its tree of objects, or returns another one."""
    members = unpacked(data)
    tree = json.loads(members["schema.json"])
    changed = change(tree)
    text = json.dumps(changed if isinstance(changed, dict) else tree)
    kept = {name: content for name, content in members.items() if f'"{name}"' in text}
    return packed(sealed(kept | {"schema.json": text.encode()} | (added or {})))


def with_field(data, name, node, added=None):
    """Forge a file in which a field of the decoder is this node."""
    return with_tree(data, lambda tree: tree["content"].update({name: node}), added)


# ---------------------------------------------------------------------- nodes


def node(loader, name, **content):
    module, _, kind = name.rpartition(".")
    return {"__class__": kind, "__module__": module, "__loader__": loader} | content


def value(plain):
    return node("JsonNode", "builtins.str", content=json.dumps(plain))


def items(*nodes, name="builtins.list"):
    return node("ListNode", name, content=list(nodes))


def tuple_of(*nodes):
    return node("TupleNode", "builtins.tuple", content=list(nodes))


def mapping(content, name="builtins.dict", key="builtins.str"):
    types = items(*(node("TypeNode", key) for _ in content))
    return node("DictNode", name, content=content, key_types=types)


def call(name, *arguments):
    """A node that makes skops call the name with these arguments."""
    return node("ConstructorFromReduceNode", name, content=tuple_of(*map(as_node, arguments)))


def as_node(plain):
    if isinstance(plain, dict) and "__loader__" in plain:
        return plain
    if isinstance(plain, dict):
        return mapping({key: as_node(inner) for key, inner in plain.items()})
    if isinstance(plain, list):
        return items(*map(as_node, plain))
    return value(plain)


def array(member, name="numpy.ndarray"):
    return node("NdArrayNode", name, type="numpy", file=member)


def npy(values, allow_pickle=False):
    raw = io.BytesIO()
    np.save(raw, values, allow_pickle=allow_pickle)
    return raw.getvalue()


def npy_header(text, version=b"\x01\x00"):
    """An array file with this header and eight bytes behind it."""
    size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + text.encode() + bytes(8)


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")

"""The schema of a model file: the tree of objects that skops builds, and what it may name.

A node of the tree has a loader (how skops builds it), a module and a class, and what it holds. Some
loaders call what the node names, so nothing is built before every node was found in two lists:

    GRAMMAR   the loaders there may be and the keys of each; loaders of methods, partial functions,
              operators and generators are left out, they are never built
    TRUSTED   the names that each loader may have, exactly what the models of voxprior hold; the
              tests save all of them and compare

Names that the user trusts are added to the second list, for every loader of the first.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from typing import Any

from voxprior.errors import InputError, option
from voxprior.modelfile.parts import PARTS

Node = dict[str, Any]

MOST_BYTES = 8_000_000  # skops takes some fifty times as much memory to read a schema
MOST_NESTED = 60  # the deepest of voxprior's own models has 14 nodes inside one another
OLDEST_PROTOCOL = 2  # of skops; older ones name functions and generators in other places

NAMES = ("__class__", "__module__", "__loader__")

# What a node holds besides its names: a "node", a "list" or "mapping" of nodes, the "types" of the
# keys of a dict, one plain "value" as JSON, or the ending of the member that it names.
GRAMMAR: dict[str, dict[str, str]] = {
    "DictNode": {"key_types": "types", "content": "mapping"},
    "ListNode": {"content": "list"},
    "TupleNode": {"content": "list"},
    "SetNode": {"content": "list"},
    "JsonNode": {"content": "value"},
    "TypeNode": {},
    "FunctionNode": {},
    "ObjectNode": {"content": "node"},
    "ConstructorFromReduceNode": {"content": "node"},
    "TreeNode": {"content": "node", "__reduce__": "mapping"},
    "LossNode": {"content": "node", "__reduce__": "mapping"},
    "RandomStateNode": {"content": "node"},
    "DTypeNode": {"content": "node"},
    "BytesNode": {"file": ".bin"},
    "NdArrayNode numpy": {"file": ".npy"},
    "NdArrayNode json": {"content": "list", "shape": "node"},
    "SparseMatrixNode scipy": {"file": ".npz"},
}

# What files may name, for each loader.
TRUSTED: dict[str, tuple[str, ...]] = {
    "DictNode": ("builtins.dict",),
    "ListNode": ("builtins.list",),
    "TupleNode": ("builtins.tuple",),
    "JsonNode": ("builtins.str",),
    "TypeNode": ("builtins.int", "builtins.str", "numpy.int64", "numpy.str_"),
    "NdArrayNode": (
        "numpy.bool",
        "numpy.float32",
        "numpy.float64",
        "numpy.int64",
        "numpy.ndarray",
        "numpy.str_",
    ),
    "SparseMatrixNode": ("scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix"),
    "ObjectNode": tuple(PARTS),
}

# What a loader builds, whatever name its node has.
BUILT = {"TreeNode": "sklearn.tree._tree.Tree"}

# Types of keys that come back from text as something else.
LOST_KEYS = {"builtins.bool", "numpy.bool", "builtins.NoneType"}


def parse(text: bytes, most_bytes: float = MOST_BYTES) -> Node:
    """Read a schema as JSON without repeated keys."""
    if len(text) > most_bytes:
        raise InputError(
            "holds too many objects",
            expected=f"a schema of at most {most_bytes:,} bytes",
            got=f"{len(text):,}",
        )
    try:
        schema = json.loads(text, object_pairs_hook=_without_repeats)
    except InputError:
        raise
    except RecursionError as error:
        raise InputError("nests objects too deeply") from error
    except ValueError as error:
        raise InputError("holds a schema that is not JSON") from error
    if not isinstance(schema, dict):
        raise InputError("holds a malformed schema")
    return schema


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise InputError("holds a schema that repeats a key")
    return dict(pairs)


def nodes(schema: Node) -> Iterator[Node]:
    """Every node in the order of the schema; each is checked after it was given out."""
    waiting = [(schema, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MOST_NESTED:
            raise InputError("nests objects too deeply")
        if not isinstance(node, dict) or not all(isinstance(node.get(k), str) for k in NAMES):
            raise InputError("holds a malformed schema: a node without names")
        yield node
        waiting.extend((child, depth + 1) for child in reversed(_children(node)))


def _children(node: Node) -> list[Any]:
    """The nodes that a node holds; refuse what the grammar does not have."""
    grammar = grammar_of(node)
    strange = (set(node) - {"type"}) ^ {*NAMES, *grammar}
    if node["__loader__"] == "ObjectNode":
        strange -= {"content"}  # an object without attributes
    if strange:
        raise InputError(f"holds a malformed schema: {shown(min(strange))} of {label(node)}")
    return [child for key in grammar if key in node for child in _checked(node, key, grammar[key])]


def _checked(node: Node, key: str, kind: str) -> list[Any]:
    """What is under a key of a node, as a list of nodes."""
    content = node[key]
    if kind == "node" or (kind == "types" and _holds_types(content)):
        return [content]
    if kind == "list" and isinstance(content, list):
        return content
    if kind == "mapping" and isinstance(content, dict):
        return list(content.values())
    is_member = kind.startswith(".") and isinstance(content, str) and content.endswith(kind)
    if is_member or (kind == "value" and _is_plain(content)):
        return []
    raise InputError(f"holds a malformed schema: {key} of {label(node)}")


def _holds_types(content: Any) -> bool:
    """Whether this is a list of types and of nothing else: skops calls each with a key."""
    if not isinstance(content, dict) or not isinstance(content.get("content"), list):
        return False
    inside = content["content"]
    return content.get("__loader__") == "ListNode" and all(
        isinstance(node, dict) and node.get("__loader__") == "TypeNode" for node in inside
    )


def _is_plain(content: Any) -> bool:
    """Whether this is the JSON text of one number, string, boolean or null."""
    try:
        return not isinstance(json.loads(content), (dict, list))
    except (TypeError, ValueError, RecursionError):
        return False


def grammar_of(node: Node) -> dict[str, str]:
    """Keys that a node may have besides its names, and what they hold."""
    kind = f"{node['__loader__']} {node['type']}" if "type" in node else node["__loader__"]
    if kind not in GRAMMAR:
        raise InputError(
            f"holds {label(node)}, which is never built from a model file",
            remedy="Functions bound to objects or arguments, and generators, cannot be kept",
        )
    return GRAMMAR[kind]


def name_of(node: Node) -> str:
    """The full name of what a node builds."""
    return BUILT.get(node["__loader__"], f"{node['__module__']}.{node['__class__']}")


def label(node: Node) -> str:
    """Name and loader of a node for an error."""
    return shown(f"{name_of(node)} ({node['__loader__']})")


def shown(text: str) -> str:
    """Text from a file, in one line without control characters."""
    return ascii(text)[1:-1][:120]


# ---------------------------------------------------------------------- writing


def normalize(node: Node) -> Node:
    """Keep of a node of skops what the grammar has; arrays on disk become plain arrays."""
    kept = {*NAMES, "type", *grammar_of(node)}
    for key in set(node) - kept:
        del node[key]
    if name_of(node) == "numpy.memmap":
        node["__class__"] = "ndarray"
    if node["__loader__"] == "DictNode":
        types = {name_of(kind) for kind in node["key_types"]["content"]}
        if types & LOST_KEYS:
            raise InputError(
                "cannot be written: the keys of a dict are True, False or None, which skops does "
                "not tell apart",
                remedy="Name them by text or numbers",
            )
    return node


def number(groups: Iterable[list[Node]]) -> None:
    """Number the objects that occur more than once, so that they are built once.

    Numbers and texts are left alone: whether Python keeps them once is chance.
    """
    repeated = [nodes for nodes in groups if len(nodes) > 1 and _is_object(nodes[0])]
    shared = [alike for alike in repeated if _all_equal(alike)]
    for count, alike in enumerate(shared, start=1):
        for node in alike:
            node["__id__"] = count


def _is_object(node: Node) -> bool:
    return node["__loader__"] == "ObjectNode" or node["__class__"] == "ndarray"


# ---------------------------------------------------------------------- trust


def audit(schema: Node, members: Collection[str], trusted: Collection[str]) -> list[str]:
    """Refuse a schema that names what is not trusted, or members that are not there.

    Parameters
    ----------
    schema : dict
        As `parse` returned it; it is taken apart.
    members : collection of str
        Names of the members that the file holds besides the schema.
    trusted : collection of str
        Names that the user trusts.

    Returns
    -------
    list of str
        Every name in the schema.
    """
    _check_protocol(schema)
    found: list[Node] = []
    shared: dict[int, list[Node]] = {}
    for node in nodes(schema):
        number = node.pop("__id__", None)
        if number is not None:
            if type(number) is not int:
                raise InputError(f"holds a malformed schema: __id__ of {label(node)}")
            shared.setdefault(number, []).append(node)
        found.append(node)
    _check_trust(found, trusted)
    if not all(map(_all_equal, shared.values())):
        raise InputError("holds a malformed schema: different objects with the same __id__")
    if {node["file"] for node in found if "file" in node} != set(members):
        raise InputError("holds other members than its schema refers to")
    for node in found:
        check_attributes(node)
    return sorted({name_of(node) for node in found})


def _check_protocol(schema: Node) -> None:
    schema.pop("_skops_version", None)
    protocol = schema.pop("protocol", None)
    if type(protocol) is not int or protocol < OLDEST_PROTOCOL:
        raise InputError("holds a malformed schema: protocol of skops")


def _check_trust(found: list[Node], trusted: Collection[str]) -> None:
    strange = sorted({label(node) for node in found if not _is_trusted(node, trusted)})
    if strange:
        more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        raise InputError(
            f"holds what voxprior does not trust, {', '.join(strange[:5])}{more}",
            remedy="It could run code when it is loaded; if you know where the file comes from, "
            f"name them in {option('trusted')}",
        )


def _is_trusted(node: Node, trusted: Collection[str]) -> bool:
    name = name_of(node)
    known = name in TRUSTED.get(node["__loader__"], ()) or name in trusted
    return known and "." not in node["__class__"]  # module "a" with class "b.C" is not "a.b.C"


def check_attributes(node: Node) -> None:
    """Refuse attributes that hide methods of an object, or that make it keep files."""
    if node["__loader__"] != "ObjectNode":
        return
    content = node.get("content", {})
    has_attributes = content.get("__loader__") == "DictNode"
    attributes = content["content"] if has_attributes else {}
    memory = attributes.get("memory")
    if memory and memory["__loader__"] == "JsonNode" and isinstance(_value(memory), str):
        raise InputError(
            f"holds {label(node)} that keeps files in a folder, {shown(_value(memory))}",
            remedy=f"Set {option('memory', None)} of it and save it again",
        )
    if name_of(node) not in TRUSTED["ObjectNode"]:
        return
    if not has_attributes:
        raise InputError(f"holds a malformed schema: attributes of {label(node)}")
    hiding = [key for key in attributes if getattr(_class_of(node), key, None) is not None]
    if hiding:
        raise InputError(f"holds {label(node)} with {shown(hiding[0])}, which hides its own")


def _value(node: Node) -> Any:
    return json.loads(node["content"])


def _class_of(node: Node) -> type:
    return getattr(import_module(node["__module__"]), node["__class__"])


def _all_equal(alike: list[Node]) -> bool:
    """Whether nodes that stand for one object say the same."""
    return all(node == alike[0] for node in alike)

"""Hostile and damaged model files: each is refused in one line, and nothing of it happens."""

import contextlib
import copy
import io
import json
import pickle
import stat
import zipfile

import numpy as np
import pytest
import skops.io
from scipy import sparse
from tests.modelfile.forging import (
    Evil,
    array,
    as_node,
    call,
    items,
    mapping,
    node,
    npy,
    npy_header,
    packed,
    sealed,
    tuple_of,
    unpacked,
    value,
    with_field,
    with_tree,
)
from tests.modelfile.models import fitted

from voxprior import Decoder
from voxprior.errors import InputError
from voxprior.registry import model

NOT_TRUSTED, NEVER, MALFORMED = "does not trust", "is never built", "malformed schema"
ALTERED, NOT_A_MODEL = "was altered or damaged", "is not a model that voxprior saved"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of an honest file."""
    path = tmp_path_factory.mktemp("honest") / "model.skops"
    return fitted(model("naive-bayes").make()).save(path).read_bytes()


@pytest.fixture
def refused(tmp_path):
    """Load a file that must be refused: one line that names it, and no trace of anything else."""

    def load(data, reason):
        path = tmp_path / "model.skops"
        path.write_bytes(data)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(InputError, match=reason) as found:
            Decoder.load(path)
        assert str(found.value).startswith(f"{path}: ")
        assert str(found.value).isprintable()
        assert sorted(tmp_path.rglob("*")) == before

    return load


# ---------------------------------------------------------------------- code

# What makes a file appear once skops builds it; the last four are loaders with calls of their own.
CALLS = {
    "runstring of numpy": lambda p: call(
        "numpy.testing._private.utils.runstring", f"open({p!r}, 'w')", {}
    ),
    "save of numpy": lambda p: call("numpy.save", p, 1.0),
    "memmap of numpy": lambda p: call("numpy.memmap", p, "uint8", "w+", 0, 8),
    "savemat of scipy": lambda p: call("scipy.io.savemat", f"{p}.mat", {"a": 1.0}),
    "svmlight of scikit-learn": lambda p: call(
        "sklearn.datasets.dump_svmlight_file", [[1.0]], [1.0], p
    ),
    "exec": lambda p: call("builtins.exec", f"open({p!r}, 'w')"),
    "eval": lambda p: call("builtins.eval", f"open({p!r}, 'w')"),
    "open": lambda p: call("builtins.open", p, "w"),
    "codecs": lambda p: call("codecs.open", p, "w"),
    "a shell": lambda p: call("os.system", f"touch {p}"),
    "reduce of functools": lambda p: call(
        "functools.reduce", node("FunctionNode", "builtins.open"), [p, "w"]
    ),
    "a key of a dict": lambda p: mapping({f"touch {p}": value(1)}, key="os.system"),
    "a list": lambda p: as_node(["touch", p]) | {"__module__": "subprocess", "__class__": "call"},
    "a set": lambda p: node("SetNode", "subprocess.call", content=[value("touch"), value(p)]),
    "a loss": lambda p: node(
        "LossNode",
        "os.system",
        content=mapping({}),
        __reduce__={"args": tuple_of(value(f"touch {p}"))},
    ),
}


@pytest.mark.parametrize("make", CALLS.values(), ids=CALLS)
def test_a_call_is_refused(make, good, refused, tmp_path):
    made = make(str(tmp_path / "canary"))
    refused(with_field(good, "trials", made), NOT_TRUSTED)


@pytest.mark.parametrize("make", CALLS.values(), ids=CALLS)
def test_skops_would_have_run_it(make, good, tmp_path):
    data = with_field(good, "trials", make(str(tmp_path / "canary")))
    assert not any(tmp_path.iterdir())
    with contextlib.suppress(TypeError, AttributeError):  # it has run, but gives nonsense
        skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    assert any(tmp_path.iterdir())


NAMED = {
    "a function": node("FunctionNode", "os.system"),
    "a function that skops trusts": node("FunctionNode", "numpy.add"),
    "a type": node("TypeNode", "builtins.map"),
    "a type of ctypes": call("ctypes.CDLL", "libc.so.6"),
    "an import": call("builtins.__import__", "antigravity"),
    "an estimator that skops trusts": node(
        "ObjectNode", "sklearn.preprocessing._function_transformer.FunctionTransformer"
    ),
    "a function of voxprior": node("FunctionNode", "voxprior.cli.main"),
    "a trusted type, called": call("voxprior.space.voxelspace.VoxelSpace"),
    "a trusted type, named across modules": node(
        "ObjectNode", "sklearn.pipeline.Pipeline", content=mapping({})
    )
    | {"__module__": "sklearn", "__class__": "pipeline.Pipeline"},
    "another dict": mapping({}, name="collections.OrderedDict"),
    "another list": items(name="tempfile.mkdtemp"),
    "random numbers": node("RandomStateNode", "tempfile.mkdtemp", content=mapping({})),
    "a tree": node(
        "TreeNode", "builtins.str", content=mapping({}), __reduce__={"args": tuple_of()}
    ),
    "a name with control characters": node("FunctionNode", "os.\x1b[2J\nsystem"),
}
NEVER_BUILT = {
    "a method": node("MethodNode", "builtins.str", content={"func": "format", "obj": value("{}")}),
    "a partial function": node(
        "PartialNode",
        "functools.partial",
        content={k: value(None) for k in ("func", "args", "kwds", "namespace")},
    ),
    "an operator": node("OperatorFuncNode", "operator.methodcaller", attrs=tuple_of(value("x"))),
    "a generator": node(
        "RandomGeneratorNode",
        "numpy.random._generator.Generator",
        content={"bit_generator": mapping({"bit_generator": value("seed")}), "seed_seq": value(1)},
    ),
    "a default dict": node(
        "DefaultDictNode",
        "collections.defaultdict",
        content={"main": mapping({}), "default_factory": node("TypeNode", "builtins.str")},
    ),
    "a node from the cache": node("CachedNode", "builtins.str"),
    "an unknown loader": node("PickleNode", "builtins.str"),
    "an array of unknown type": node("NdArrayNode", "numpy.ndarray", type="pickle", file="1.npy"),
}


@pytest.mark.parametrize("made", NAMED.values(), ids=NAMED)
def test_what_is_not_on_the_list_is_refused(made, good, refused):
    refused(with_field(good, "trials", made), NOT_TRUSTED)


@pytest.mark.parametrize("made", NEVER_BUILT.values(), ids=NEVER_BUILT)
def test_some_nodes_are_never_built(made, good, refused):
    refused(with_field(good, "trials", made), NEVER)


def test_a_name_that_is_trusted_does_not_cover_a_tree(good, tmp_path):
    path = tmp_path / "model.skops"
    own = "tests.modelfile.models.OwnClassifier"
    tree = node("TreeNode", own, content=mapping({}), __reduce__={"args": tuple_of()})
    path.write_bytes(with_field(good, "trials", tree))
    with pytest.raises(InputError, match=r"does not trust, sklearn.tree._tree.Tree \(TreeNode"):
        Decoder.load(path, trusted=[own])


def test_the_error_names_what_is_not_trusted(good, refused):
    many = [node("FunctionNode", f"os.f{i}") for i in range(7)]
    refused(with_field(good, "trials", many[0]), r"does not trust, os\.f0 \(FunctionNode\)\. ")
    refused(with_field(good, "trials", items(*many)), r"os\.f4 \(FunctionNode\) and 2 more")


def test_an_array_of_a_class_that_is_called_is_refused(good, refused, tmp_path):
    names = npy(np.array(["touch", str(tmp_path / "canary")]))
    made = array("99.npy", "subprocess.call")
    refused(with_field(good, "trials", made, {"99.npy": names}), NOT_TRUSTED)


def estimator_with(**attributes):
    """Change of a tree that gives the Pipeline of the file these attributes."""

    def change(tree):
        content = tree["content"]["estimator"]["content"]
        content["content"] |= attributes
        types = [node("TypeNode", "builtins.str") for _ in content["content"]]
        content["key_types"]["content"] = types

    return change


def test_attributes_cannot_hide_methods(good, refused):
    # The link ends up as it is in the page that notebooks show of an estimator.
    for name in ("_doc_link_template", "_doc_link_module"):
        refused(with_tree(good, estimator_with(**{name: value("<script>")})), name)
    kind = node("TypeNode", "builtins.str")  # trusted, and can be called
    refused(with_tree(good, estimator_with(predict=kind)), "predict, which hides")

    def as_pairs(tree):
        estimator = tree["content"]["estimator"]
        estimator["content"] = items(tuple_of(value("predict"), kind))

    refused(with_tree(good, as_pairs), "attributes of sklearn")


def test_a_pipeline_cannot_keep_files(good, refused, tmp_path):
    folder = str(tmp_path / "cache")
    refused(with_tree(good, estimator_with(memory=value(folder))), "keeps files in a folder")


# ---------------------------------------------------------------------- schemas


def renamed(old, new):
    def change(tree):
        tree["content"][new] = tree["content"].pop(old)

    return change


TREES = {
    "a key that no node has": lambda t: t["content"]["trials"].update(module_path="os"),
    "a node without content": lambda t: t["content"]["trials"].pop("content"),
    "a node without a loader": lambda t: t["content"]["trials"].pop("__loader__"),
    "a loader that is not text": lambda t: t["content"]["trials"].update(__loader__=["JsonNode"]),
    "a node that is text": lambda t: t["content"].update(trials="os.system"),
    "values that are a dict": lambda t: t["content"]["trials"].update(content='{"a": 1}'),
    "values that are not JSON": lambda t: t["content"]["trials"].update(content="os.system"),
    "values that nest": lambda t: t["content"]["trials"].update(content="[" * 100_000),
    "a list that is a mapping": lambda t: t["content"].update(
        trials=node("ListNode", "builtins.list", content={})
    ),
    "a mapping that is a list": lambda t: t.update(content=[]),
    "keys that are not types": lambda t: t.update(key_types=items(value("a"))),
    "keys that are not a list": lambda t: t.update(key_types=tuple_of()),
    "the protocol of another skops": lambda t: t.update(protocol=0),
    "a protocol that is not a number": lambda t: t.update(protocol=True),
    "no protocol": lambda t: t.pop("protocol"),
    "a number of an object that is a list": lambda t: t.update(__id__=[1]),
    "two objects with one number": lambda t: [
        t["content"][name].update(__id__=1) for name in ("trials", "digest")
    ],
}


@pytest.mark.parametrize("change", TREES.values(), ids=TREES)
def test_a_malformed_schema_is_refused(change, good, refused):
    refused(with_tree(good, change), MALFORMED)


def test_deep_schemas_are_refused(good, refused):
    deep = value(1)
    for _ in range(100):
        deep = items(deep)
    refused(with_field(good, "trials", deep), "too deeply")
    members = unpacked(good) | {"schema.json": b"[" * 1_000_000}
    refused(packed(sealed(members)), "too deeply")


SCHEMAS = {
    "text": (b"hello", "not JSON"),
    "not text": (b"\xff\xfe\x00", "not JSON"),
    "a number of many digits": (b'{"protocol": ' + b"9" * 10_000 + b"}", "not JSON"),
    "a list": (b"[]", MALFORMED),
    "empty": (b'{"protocol": 2}', MALFORMED),
    "repeated keys": (b'{"protocol": 2, "protocol": 2}', "repeats a key"),
    "too long": (b" " * 8_000_001, "too many objects"),
}


@pytest.mark.parametrize(("text", "reason"), SCHEMAS.values(), ids=SCHEMAS)
def test_what_is_not_a_schema_is_refused(text, reason, good, refused):
    refused(packed(sealed(unpacked(good) | {"schema.json": text})), reason)


# ---------------------------------------------------------------------- members


def test_members_and_schema_must_agree(good, refused):
    reason = "other members than its schema"
    refused(packed(sealed(unpacked(good) | {"99.npy": npy(np.ones(3))})), reason)
    refused(with_field(good, "trials", array("99.npy")), reason)
    refused(with_field(good, "trials", array("schema.json")), MALFORMED)
    refused(with_field(good, "trials", array("1.npz")), MALFORMED)


NAMES = ("../evil.npy", "/tmp/evil.npy", "..\\evil.npy", "evil.py", "1.npy/", "{}\x00.py", "１.npy")


@pytest.mark.parametrize("name", NAMES)
def test_a_member_of_another_name_is_refused(name, good, refused):
    def rename(opened):
        info = opened.filelist[-1]
        info.filename = info.orig_filename = name.format(info.filename)

    refused(packed(unpacked(good), rename), "member that no model has")


def on_last(**fields):
    """Change of a directory: fields of the last member."""

    def change(opened):
        for name, field in fields.items():
            setattr(opened.filelist[-1], name, field)

    return change


def overlapping(opened):
    again = copy.copy(opened.filelist[-1])
    again.filename = "88.npy"
    opened.filelist.append(again)


DIRECTORIES = {
    "a symbolic link": (on_last(external_attr=(stat.S_IFLNK | 0o777) << 16), "not a plain file"),
    "a compressed member": (on_last(compress_type=zipfile.ZIP_DEFLATED), "compressed member"),
    "a size that is a lie": (on_last(file_size=2_000_000_000), "compressed member"),
    "an encrypted member": (on_last(flag_bits=1), "encrypted"),
    "two lies that agree": (on_last(file_size=10**9, compress_size=10**9), "do not add up"),
}


@pytest.mark.parametrize(("change", "reason"), DIRECTORIES.values(), ids=DIRECTORIES)
def test_a_strange_directory_is_refused(change, reason, good, refused):
    refused(packed(unpacked(good), change), reason)


def test_overlapping_members_are_refused(good, refused):
    members = sealed(unpacked(good) | {"99.npy": npy(np.zeros(10_000))})
    refused(packed(members, overlapping), "do not add up")


def test_a_bomb_is_refused_at_once(good, refused, tmp_path):
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in unpacked(good).items():
            opened.writestr(name, content)
        opened.writestr("99.npy", bytes(50_000_000))
    data = bomb.read_bytes()
    assert len(data) < 200_000
    refused(data, "compressed member")


def test_a_member_twice_is_refused(good, refused):
    def twice(opened):
        with pytest.warns(UserWarning, match="Duplicate"):
            opened.writestr(zipfile.ZipInfo("1.npy"), npy(np.zeros(3)))

    refused(packed(unpacked(good), twice), "more than once")


def test_bytes_beside_the_members_are_refused(good, refused):
    refused(bytes(10_000) + good, "do not add up")
    refused(good + bytes(10_000), "do not add up")


# ---------------------------------------------------------------------- arrays


def first_array(good, content):
    """Forge a file whose first array is this."""
    return packed(sealed(unpacked(good) | {"1.npy": content}))


HEADER = "{{'descr': {}, 'fortran_order': False, 'shape': {}, }}\n"
ARRAYS = {
    "text": (b"hello", "not an array"),
    "empty": (b"", "not an array"),
    "a huge shape": (npy_header(HEADER.format("'<f8'", "(1000000000000,)")), "not its size"),
    "a small shape": (npy_header(HEADER.format("'|u1'", "(2,)")), "not its size"),
    "text of no width": (npy_header(HEADER.format("'<U0'", "(1000000000,)"))[:-8], "not its size"),
    "a header that is code": (npy_header("__import__('os').system('true')\n"), "not an array"),
    "a header that nests": (npy_header("(" * 9000 + "\n"), "not an array"),
    "a version that is not written": (
        npy_header(HEADER.format("'<f8'", "(1,)"), b"\x03\x00"),
        "not an array",
    ),
    "objects": (npy(np.array([{}, []], dtype=object), allow_pickle=True), "pickled objects"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "reason"), ARRAYS.values(), ids=ARRAYS)
def test_a_strange_array_is_refused(content, reason, good, refused):
    refused(first_array(good, content), reason)


def test_pickles_are_refused(good, refused, tmp_path):
    evil = Evil(tmp_path / "canary")
    inside = npy(np.array([evil, evil], dtype=object), allow_pickle=True)
    refused(first_array(good, inside), "pickled objects")
    refused(first_array(good, pickle.dumps(evil)), "not an array")
    refused(first_array(good, packed({"a.npy": inside})), "not an array")  # numpy reads zips too
    refused(pickle.dumps(evil), NOT_A_MODEL)
    loads = call("pickle.loads", node("BytesNode", "builtins.bytes", file="99.bin"))
    members = {"99.bin": pickle.dumps(evil)}
    refused(with_field(good, "trials", loads, members), NOT_TRUSTED)


def sparse_file(good, members):
    """Forge a file that holds a sparse matrix of these members."""
    made = node("SparseMatrixNode", "scipy.sparse._csr.csr_matrix", type="scipy", file="99.npz")
    return with_field(good, "trials", made, {"99.npz": members})


def csr(**changes):
    matrix = sparse.csr_matrix(np.eye(3))
    parts = {"indices": matrix.indices, "indptr": matrix.indptr, "data": matrix.data}
    parts |= {"format": np.bytes_(b"csr"), "shape": np.array([3, 3])} | changes
    return {f"{name}.npy": npy(part, allow_pickle=True) for name, part in parts.items()}


def test_strange_sparse_matrices_are_refused(good, refused, tmp_path):
    evil = np.array([Evil(tmp_path / "canary")], dtype=object)
    outside = np.array([0, 1, 2**30], dtype=np.int32)
    refused(sparse_file(good, packed(csr(data=evil))), "pickled objects")
    refused(sparse_file(good, packed(csr(indices=outside))), "not a sparse matrix")
    refused(sparse_file(good, packed(csr(format=np.bytes_(b"coo")))), "no.*sparse matrix")
    refused(sparse_file(good, packed(csr(format=np.bytes_(b"load_npz")))), "not a sparse matrix")
    refused(sparse_file(good, packed(csr() | {"x.py": b""})), "member that no model has")
    deflated = on_last(compress_type=zipfile.ZIP_DEFLATED)
    refused(sparse_file(good, packed(csr(), deflated)), "compressed member")
    huge = csr(indices=np.zeros(5, np.int32)) | {
        "data.npy": npy_header(HEADER.format("'<f8'", "(1000000000,)"))
    }
    refused(sparse_file(good, packed(huge)), "not its size")


def test_a_sparse_matrix_of_many_empty_rows_is_refused(good, refused):
    parts = csr(row=np.zeros(1), col=np.zeros(1), format=np.bytes_(b"coo"))
    refused(sparse_file(good, packed(parts)), "member that no model has")


# ---------------------------------------------------------------------- altered


def test_altered_weights_are_refused(good, refused):
    members = unpacked(good)
    name = next(n for n in members if n.endswith(".npy") and b"<f8" in members[n])
    flipped = npy(-np.load(io.BytesIO(members[name])))
    assert len(flipped) == len(members[name])
    refused(packed(members | {name: flipped}), ALTERED)  # with the checksum of zip mended


def test_damaged_files_are_refused(good, refused):
    middle = len(good) // 2
    refused(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :], ALTERED)
    members = unpacked(good)
    swapped = members | {"1.npy": members["2.npy"], "2.npy": members["1.npy"]}
    refused(packed(swapped), ALTERED)
    refused(packed({n: c for n, c in members.items() if n != "2.npy"}), ALTERED)
    first, second = sorted(members)[1:3]
    shifted = {first: members[first] + members[second][:1], second: members[second][1:]}
    refused(packed(members | shifted), ALTERED)
    header = {"format": 3, "sha256": None}
    refused(packed(members | {"voxprior.json": json.dumps(header).encode()}), ALTERED)


def test_what_is_cut_off_is_refused(good, refused):
    for kept in (0, 1, 30, 1000, len(good) - 1):
        refused(good[:kept], NOT_A_MODEL)


def test_what_is_not_a_model_is_refused(good, refused):
    members = unpacked(good)
    refused(b"hello", NOT_A_MODEL)
    refused(packed({}), NOT_A_MODEL)
    refused(packed({n: c for n, c in members.items() if n != "schema.json"}), NOT_A_MODEL)
    refused(packed({n: c for n, c in members.items() if n != "voxprior.json"}), NOT_A_MODEL)
    refused(skops.io.dumps({"model": "of another program"}), NOT_A_MODEL)


@pytest.mark.parametrize("number", [1, 2])
def test_files_of_version_0_1_are_named(number, refused):
    old = skops.io.dumps({"format": number, "estimator": np.arange(3.0)})
    refused(old, f"voxprior 0.1 in format {number}.* Fit and save the decoder again")


@pytest.mark.parametrize("number", [2, 4, "3", True, None, [3], 3.0])
def test_other_formats_are_named(number, good, refused):
    header = {"format": number, "sha256": ""}
    data = packed(unpacked(good) | {"voxprior.json": json.dumps(header).encode()})
    refused(data, "another version of voxprior. Expected format 3, got format")


def test_what_does_not_fit_into_memory_is_refused(good, refused, monkeypatch):
    monkeypatch.setattr("voxprior.modelfile.files.available_memory", lambda: 2 * len(good))
    refused(good, "does not fit into memory")


# ---------------------------------------------------------------------- fields

FIELDS = {
    "images that are a list": ("images", items(), "whose images"),
    "images without a mask": ("images", mapping({}), "holds images"),
    "a fingerprint that is a number": ("digest", value(1), "whose digest"),
    "a fingerprint of something else": ("digest", value("0" * 64), "fingerprint"),
    "an estimator that is text": ("estimator", value("GaussianNB"), "whose estimator"),
    "covariates that are a list": ("covariates", items(), "whose covariates"),
    "covariates of text": ("covariates", mapping({"age": value("old")}), "whose covariates"),
    "trials that are a list": ("trials", items(), "whose trials"),
    "frequencies that are text": ("class_frequencies", value("half"), "whose class_frequencies"),
    "versions that are text": ("versions", value("1"), "whose versions"),
    "a mask of numbers": (
        "images",
        as_node({"mask": [1, 0], "affine": None, "parts": None}),
        "holds images",
    ),
    "attributes that make no sense": (
        "trials",
        node(
            "ObjectNode",
            "voxprior.space.voxelspace.VoxelSpace",
            content=mapping({"shape": value("a")}),
        ),
        "cannot be built: ValueError",
    ),
}


@pytest.mark.parametrize(("name", "made", "reason"), FIELDS.values(), ids=FIELDS)
def test_a_field_of_the_wrong_type_is_refused(name, made, reason, good, refused):
    refused(with_field(good, name, made), reason)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("smoothing_fwhm", 1e12),  # a kernel that fills the memory
        ("smoothing_fwhm", 100.0),  # of images 12 mm wide
        ("smoothing_fwhm", "8"),
        ("standardize", "rum"),  # silently nothing
        ("resample", "no"),
        ("t_r", -1.0),
    ],
)
def test_settings_of_images_are_checked_again(name, setting, good, refused):
    def change(tree):
        tree["content"]["images"]["content"][name] = value(setting)

    refused(with_tree(good, change), "holds images that are not what they should be")


def test_frequencies_are_one_row_of_numbers(good, refused):
    members = unpacked(good)
    tree = json.loads(members["schema.json"])
    name = tree["content"]["class_frequencies"]["file"]
    for wrong in (np.ones((2, 2)), np.array(["a", "b"])):
        refused(packed(sealed(members | {name: npy(wrong)})), "whose class_frequencies")


def test_a_state_that_is_not_a_decoder_is_refused(good, refused):
    refused(with_tree(good, renamed("trials", "trails")), "does not hold a decoder")

    def a_list(tree):
        root = {key: tree[key] for key in ("protocol", "_skops_version")}
        return items(tree["content"]["images"], tree["content"]["estimator"]) | root

    refused(with_tree(good, a_list), "does not hold a decoder")

"""The source of code: mended code is other code, and code without a text is not known at all."""

import importlib
import os
import subprocess
import sys
import textwrap
from functools import partial

import pytest
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from voxprior import FeatureSharingNB, content
from voxprior.content import content_of, file_digest, versions
from voxprior.source_code import UnreadableCodeError, code_digest

MODULE = """
from sklearn.base import BaseEstimator, ClassifierMixin
from {helper} import ADDED, shift

class Base(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = sorted(set(y))
        return self

class Mine(Base):
    def __init__(self, inner=None):
        self.inner = inner
    def predict(self, X):
        return [self.classes_[0]] * len(X)

def change(X):
    return X + 1
"""
HELPER = "ADDED = 1\n\ndef shift(X):\n    return X\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Make a module with a helper beside it, and load it anew once its text was changed."""
    name, helper = f"mine_{os.urandom(4).hex()}", f"helper_{os.urandom(4).hex()}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path, beside = tmp_path / f"{name}.py", tmp_path / f"{helper}.py"
    path.write_text(MODULE.format(helper=helper))
    beside.write_text(HELPER)

    def load(text=None, helping=None):
        for place, changed in ((path, text), (beside, helping)):
            if changed is not None:
                place.write_text(changed)
        for known in (name, helper):
            sys.modules.pop(known, None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    load.path, load.text = path, path.read_text()
    yield load
    for known in (name, helper):
        sys.modules.pop(known, None)


MADE = {
    "class": lambda m: m.Mine(),
    "nested": lambda m: GridSearchCV(m.Mine(), {}),
    "in a pipeline": lambda m: make_pipeline(StandardScaler(), m.Mine()),
    "parameter": lambda m: m.Mine(inner=[{"deep": m.Mine()}]),
    "in an ensemble": lambda m: BaggingClassifier(m.Mine()),
    "function": lambda m: make_pipeline(FunctionTransformer(m.change), GaussianNB()),
    "partial": lambda m: FunctionTransformer(partial(m.change)),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_mended_code_is_other_code(make, module):
    first = code_digest(make(module()))
    assert code_digest(make(module())) == first
    mended = code_digest(make(module(module.text.replace("[0]", "[1]"))))
    base = code_digest(make(module(module.text.replace("sorted(set(y))", "[*set(y)]"))))
    helper = code_digest(make(module(module.text, HELPER.replace("return X", "return X + 1"))))
    constant = code_digest(make(module(module.text, HELPER.replace("= 1", "= 2"))))
    assert len({first, mended, base, helper, constant}) == 5


def test_code_that_was_edited_after_it_was_loaded_is_not_known(module):
    loaded = module()
    code_digest(loaded.Mine())
    module.path.write_text(module.text.replace("[0]", "[1]"))
    with pytest.raises(UnreadableCodeError, match=r"Mine: predict is not what .* says"):
        code_digest(loaded.Mine())


def test_a_method_put_there_from_elsewhere_is_read_too(module, monkeypatch):
    loaded = module()
    before = code_digest(loaded.Mine())
    monkeypatch.setattr(loaded.Mine, "predict", GaussianNB.predict)
    assert code_digest(loaded.Mine()) == before  # the version of scikit-learn says what it is
    monkeypatch.setattr(loaded.Mine, "predict", lambda self, X: X)
    code_digest(loaded.Mine())  # of this very file
    exec("def predict(self, X): return X", vars(loaded))
    monkeypatch.setattr(loaded.Mine, "predict", loaded.predict)
    with pytest.raises(UnreadableCodeError):
        code_digest(loaded.Mine())


def a_closure():
    class Closed(GaussianNB):
        pass

    return Closed()


@pytest.mark.parametrize(
    "make",
    [a_closure, lambda: FunctionTransformer(lambda X: X), lambda: GridSearchCV(a_closure(), {})],
    ids=["class in a function", "lambda", "nested"],
)
def test_what_has_no_name_is_not_known(make):
    with pytest.raises(UnreadableCodeError):
        code_digest(make())


def test_a_notebook_and_a_compiled_class_have_no_text(tmp_path, module):
    script = """
        from sklearn.naive_bayes import GaussianNB
        from voxprior.source_code import UnreadableCodeError, code_digest
        class Mine(GaussianNB):
            pass
        try:
            code_digest(Mine())
        except UnreadableCodeError as error:
            print(error)
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert told.stdout == "__main__.Mine has no source file\n"
    loaded = module()
    loaded.__file__ = str(tmp_path / "mine.so")
    (tmp_path / "mine.so").touch()
    with pytest.raises(UnreadableCodeError, match="has no source file"):
        code_digest(loaded.Mine())


def test_what_is_installed_counts_by_its_version(monkeypatch):
    import sklearn

    before = code_digest(GaussianNB()), code_digest(FeatureSharingNB())
    monkeypatch.setattr(sklearn, "__version__", "9.9")
    assert code_digest(GaussianNB()) != before[0]


@pytest.mark.parametrize("package", ["numpy", "scipy", "sklearn", "voxprior"])
def test_versions_are_those_of_now(package, monkeypatch):
    before = versions()
    monkeypatch.setattr(importlib.import_module(package), "__version__", "9.9")
    changed = {name for name, value in versions().items() if before[name] != value}
    assert changed == {{"sklearn": "scikit-learn"}.get(package, package)}


def test_the_package_itself_counts_by_its_source(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("1")
    monkeypatch.setattr(content, "OWN", tmp_path)
    content._own_source.cache_clear()
    before = versions()["voxprior"]
    (tmp_path / "a.py").write_text("2")
    content._own_source.cache_clear()
    assert versions()["voxprior"] != before
    monkeypatch.undo()
    content._own_source.cache_clear()


def test_a_file_is_known_by_its_content(tmp_path):
    path, copy = tmp_path / "a", tmp_path / "b"
    path.write_text("one")
    copy.write_text("one")
    first = file_digest(path)
    assert file_digest(copy) == first
    state = path.stat()
    path.write_text("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file_digest(path) not in (first, None)
    assert file_digest(tmp_path) is file_digest(tmp_path / "no") is file_digest("a\0b") is None


def test_a_setting_is_known_by_its_content(tmp_path):
    mask = tmp_path / "mask.nii"
    mask.write_bytes(b"1")
    before = content_of({"mask": mask, "more": [str(mask), 5]})
    assert before == content_of({"mask": mask, "more": (str(mask), 5)})
    mask.write_bytes(b"2")
    after = content_of({"mask": mask, "more": [str(mask), 5]})
    assert before["mask"] != after["mask"]
    assert before["more"][0] != after["more"][0]

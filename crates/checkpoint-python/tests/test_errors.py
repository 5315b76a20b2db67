"""The exceptions of Python are the kinds of Rust, and the other way round."""

import pickle
import re
from pathlib import Path

import pytest

from checkpoint_store import _native, errors

CRATES = Path(__file__).parents[2]
CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and value is not errors.CheckpointError]


def test_every_kind_of_rust_has_a_class_and_every_class_a_kind():
    known = {(layer, kind): getattr(errors, name) for layer, kind, name in _native.error_classes()}
    for layer in {layer for layer, _ in known}:
        source = (CRATES / f"checkpoint-{layer}/src/error.rs").read_text()
        body = re.search(r"pub enum ErrorKind \{(.*?)\n\}", source, re.DOTALL)[1]
        kinds = set(re.findall(r"^    (\w+),", body, re.MULTILINE))
        assert kinds == {kind for of, kind in known if of == layer}
    # Rust knows no such error: there, a directory is never taken for an object.
    assert set(known.values()) == set(CLASSES) - {errors.IsDirectoryError}


@pytest.mark.parametrize("leaf", CLASSES, ids=lambda leaf: leaf.__name__)
def test_each_class_is_a_builtin_too_has_a_kind_of_its_own_and_pickles(leaf):
    builtins = [base for base in leaf.__mro__ if base.__module__ == "builtins"]
    assert issubclass(leaf, errors.CheckpointError) and builtins[0] is not Exception
    assert leaf.__doc__ and [other.kind for other in CLASSES].count(leaf.kind) == 1
    raised = leaf("what")
    raised.hint, raised.is_retryable = "do this", True
    back = pickle.loads(pickle.dumps(raised))
    assert (type(back), str(back), back.hint, back.is_retryable) == (leaf, "what", "do this", True)

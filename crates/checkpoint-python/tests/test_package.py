"""The package itself."""

import pickle
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

import checkpoint_store
from checkpoint_store import errors


def test_importing_it_imports_nothing_large():
    seen = subprocess.check_output(
        [sys.executable, "-c", "import sys, checkpoint_store; print(*sys.modules)"], text=True
    ).split()
    assert not {"pyarrow", "fsspec", "ray", "numpy", "pandas"} & set(seen)


MISSING = """
import sys
sys.modules[{name!r}] = None
import checkpoint_store
try:
    checkpoint_store.{what}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "what"),
    [("pyarrow", "build_checkpoint_filesystem('memory://x')"), ("fsspec", "CheckpointFileSystem")],
)
def test_what_is_missing_is_named_with_how_to_install_it(name, what):
    said = subprocess.check_output([sys.executable, "-c", MISSING.format(name=name, what=what)], text=True)
    assert f"needs {name}" in said and "pip install" in said


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.NotFoundError, FileNotFoundError),
        (errors.AlreadyExistsError, FileExistsError),
        (errors.PermissionDeniedError, PermissionError),
        (errors.UnauthenticatedError, PermissionError),
        (errors.StorageTimeoutError, TimeoutError),
        (errors.InvalidConfigError, ValueError),
        (errors.CorruptError, ValueError),
    ],
)
def test_each_error_is_the_builtin_one_too(error, builtin):
    assert issubclass(error, builtin) and issubclass(error, checkpoint_store.CheckpointError)


def test_options_that_are_wrong_say_what_is_right():
    with pytest.raises(ValueError, match="did you mean `secret_id`"):
        checkpoint_store.build_checkpoint_filesystem("cos://bucket/x", {"cos": {"sceret_id": "x"}})
    with pytest.raises(NotImplementedError, match="did you mean"):
        checkpoint_store.build_checkpoint_filesystem("coss://bucket/x")


TAKERS = {
    "filesystem": lambda options: checkpoint_store.build_checkpoint_filesystem("s3://bucket/x", options),
    "store": lambda options: checkpoint_store.CheckpointStore("s3://bucket/x", options),
    "pipeline": lambda options: checkpoint_store.Pipeline(
        input="s3://bucket/in", output="s3://bucket/out", checkpoint="s3://bucket/x", id_column="id",
        storage_options=options,
    ),
}  # fmt: skip


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_options_are_any_mapping_of_plain_values_and_paths(take):
    take(MappingProxyType({"s3": MappingProxyType({"key": "k", "secret": Path("s")})}))
    with pytest.raises(ValueError, match="'key' of 's3' is no plain value: it is of the type object"):
        take({"s3": {"key": object()}})
    for wrong in ({"key": "x"}, [("s3", {})]):
        with pytest.raises(ValueError, match="by protocol"):
            take(wrong)


def test_a_filesystem_pickles_with_what_it_was_given(monkeypatch):
    monkeypatch.setenv("COS_SECRET_ID", "ID-of-the-environment")
    monkeypatch.setenv("COS_SECRET_KEY", "of-the-environment")
    filesystem = checkpoint_store.build_checkpoint_filesystem("cos://bucket/x", {"cos": {"region": "ap-guangzhou"}})
    pickled = pickle.dumps(filesystem)
    assert b"ap-guangzhou" in pickled and b"of-the-environment" not in pickled
    assert pickle.loads(pickled) == filesystem

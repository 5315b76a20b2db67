"""How the package is installed: the wheel where no Rust is, and the sources by what ``pyproject.toml`` declares."""

import os
import subprocess
import sys
import tomllib
import venv
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

import checkpoint_store

CRATE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel():
    built = os.environ.get("CKPT_WHEEL")
    if built is None:
        pytest.fail("CKPT_WHEEL is not set: run `just test-python`", pytrace=False)
    return Path(built)


def test_the_wheel_installs_and_works_without_rust_and_without_any_other_package(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, env=bare, cwd=tmp_path)
    code = """
from checkpoint_store import _native
store = _native.Filesystem("memory")
store.write("place/name", b"bytes")
print(store.read("place/name").decode(), _native.__version__)
"""
    said = subprocess.check_output([python, "-c", code], env=bare, cwd=tmp_path, text=True)
    assert said.split() == ["bytes", checkpoint_store.__version__]
    for needs, what in [
        ("Ray Data", "import checkpoint_store.ray"),
        ("pyarrow", "checkpoint_store.build_checkpoint_filesystem('memory://x')"),
        ("fsspec", "checkpoint_store.CheckpointFileSystem"),
    ]:
        code = f"import checkpoint_store\n{what}"
        failed = subprocess.run([python, "-c", code], env=bare, cwd=tmp_path, text=True, capture_output=True)
        last = failed.stderr.splitlines()[-1]
        assert last.startswith(("ImportError: ", "ModuleNotFoundError: ")), failed.stderr
        assert f"needs {needs}" in last and "pip install" in last, last


def test_the_wheel_is_for_every_python_from_the_oldest_on_and_is_typed(wheel):
    assert "-cp311-abi3-" in wheel.name
    names = ZipFile(wheel).namelist()
    assert {"checkpoint_store/py.typed", "checkpoint_store/_native.pyi"} <= set(names)
    assert not [name for name in names if "test" in name]


def test_the_sources_are_declared_as_pip_asks_for_them(tmp_path):
    # What `pip install ./crates/checkpoint-python` calls first. The build itself is a release build.
    hook = "import sys, maturin; print(maturin.prepare_metadata_for_build_wheel(sys.argv[1]))"
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    said = subprocess.check_output([sys.executable, "-c", hook, str(tmp_path)], cwd=CRATE, env=env, text=True)
    metadata = Parser().parsestr((tmp_path / said.split()[-1] / "METADATA").read_text())
    assert metadata["Name"] == "checkpoint-store"
    assert metadata["Version"] == checkpoint_store.__version__
    assert metadata.get_all("Requires-Dist", []) and all("extra ==" in one for one in metadata.get_all("Requires-Dist"))
    entries = (tmp_path / said.split()[-1] / "entry_points.txt").read_text()
    assert "[fsspec.specs]" in entries and "cos=" in entries.replace(" ", "")


def test_the_build_needs_nothing_but_maturin_and_is_locked():
    project = tomllib.loads((CRATE / "pyproject.toml").read_text())
    assert [need.split(">")[0] for need in project["build-system"]["requires"]] == ["maturin"]
    assert project["build-system"]["build-backend"] == "maturin"
    assert project["tool"]["maturin"]["locked"]
    assert project["project"]["requires-python"] == ">=3.11"
    assert project["project"]["dependencies"] == []

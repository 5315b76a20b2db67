"""The program of docs/ray.md, as a reader would run it, and run it again; and the page of the examples."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import Driver
from pyarrow import fs

from checkpoint_store import build_checkpoint_filesystem
from stores import TestStore

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs/ray.md"


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """None in this process: the page's programs start their own."""
    yield


def test_the_page_runs(s3_store: TestStore, tmp_path: Path) -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("\n```") // 2 and {language for language, _ in blocks} == {"python"}
    bucket = s3_store.new_root()
    program = tmp_path / "page.py"
    program.write_text("\n".join(code for _, code in blocks).replace("s3://bucket/", f"s3://{bucket}/"))

    root = f"{bucket}/jobs/run-1"
    filesystem = build_checkpoint_filesystem(f"s3://{bucket}", s3_store.storage_options)
    table = pa.table({"uid": range(1_000), "text": ["a text"] * 1_000})
    pq.write_table(table, f"{bucket}/snapshots/input-1/part.parquet", filesystem=filesystem)
    environment = {
        "AWS_ACCESS_KEY_ID": s3_store.options["key"],
        "AWS_SECRET_ACCESS_KEY": s3_store.options["secret"],
        # Where a program gives Ray a URL and no filesystem, Ray takes pyarrow's own.
        "AWS_ENDPOINT_URL": s3_store.options["endpoint_url"],
    }
    for turn in ("first", "again"):
        (tmp_path / turn).mkdir()
        Driver(tmp_path / turn, [sys.executable, program], environment).done()
        found = filesystem.get_file_info(fs.FileSelector(f"{root}/output"))
        paths = [one.path for one in found if one.path.endswith(".parquet")]
        written = [uid for path in paths for uid in pq.read_table(path, filesystem=filesystem)["uid"].to_pylist()]
        assert sorted(written) == list(range(1_000))
    assert filesystem.get_file_info(fs.FileSelector(f"{root}/checkpoint", allow_not_found=True)) == []


def test_its_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", PAGE.read_text()):
        assert (PAGE.parent / link).exists(), link


def test_the_readme_of_the_examples_names_each() -> None:
    folder = ROOT / "examples/python"
    named = re.findall(r"^\| \[(\w+\.py)\]", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in folder.glob("*.py"))
    for name in named:
        said = subprocess.run([sys.executable, "-m", "py_compile", folder / name], capture_output=True, check=False)
        assert said.returncode == 0, said.stderr

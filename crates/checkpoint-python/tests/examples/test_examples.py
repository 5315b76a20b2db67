"""Each example that needs nothing but the package: killed half way, run again, and its output counted.

A run after a kill first watches the lease of the driver that was killed. Meanwhile the next example is killed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from processes import Nodes
from programs import TRIES, Example

from stores import TestStore

#: Files of an input.
FILES = 24
IDS = [f"doc-{number:05}" for number in range(FILES * 4)]
EMAILS = [f"user-{number % 450}@example.org" for number in range(FILES * 25)]


def docs() -> list[pa.Table]:
    """Four texts of 64 KiB to a file."""
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 9))) for _ in range(2_000)]
    texts = [" ".join(dice.choices(words, k=10_000)) for _ in IDS]
    table = pa.table({"id": IDS, "text": texts})
    return [table.slice(start, 4) for start in range(0, len(IDS), 4)]


def on_disk(nodes: Nodes, folder: Path, _: Any) -> Example:
    example = Example(nodes.address, folder, "fail_and_resume.py", str(folder / "job"), len(IDS))
    example.put(docs())
    # It begins with a failure of its own: `--fail-on` is for that.
    driver = example.start("--fail-on", IDS[60])
    assert driver.wait() == 1
    assert f"told to fail on {IDS[60]}" in driver.log()
    assert 0 < len(example.written()) < len(IDS)
    return example


def row_hashes(nodes: Nodes, folder: Path, _: Any) -> Example:
    example = Example(nodes.address, folder, "row_hash.py", str(folder / "job"), len(EMAILS), id_column="row_hash")
    example.put([pa.table({"email": EMAILS[start : start + 25]}) for start in range(0, len(EMAILS), 25)])
    return example


def on_s3(nodes: Nodes, folder: Path, store: TestStore) -> Example:
    environment = {
        "AWS_ACCESS_KEY_ID": store.options["key"],
        "AWS_SECRET_ACCESS_KEY": store.options["secret"],
        "AWS_ENDPOINT_URL_S3": store.options["endpoint_url"],
    }
    example = Example(
        nodes.address, folder, "s3_by_environment.py", f"s3://{store.new_root()}/job", len(IDS),
        storage_options=store.storage_options, environment=environment,
    )  # fmt: skip
    example.put(docs())
    return example


def by_options(nodes: Nodes, folder: Path, store: TestStore) -> Example:
    folder.mkdir(parents=True)
    options = folder / "options.json"
    options.write_text(json.dumps(store.storage_options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("http_proxy", store.proxy or "")
        example = Example(
            nodes.address, folder, "storage_options.py", f"{store.scheme}://{store.new_root()}/job", len(IDS),
            storage_options=store.storage_options, environment={"http_proxy": store.proxy or ""},
            arguments=("--options", options),
        )  # fmt: skip
        example.put(docs())
    return example


#: By name: how it is made, its store, and the IDs or their number.
CASES: dict[str, tuple[Callable[[Nodes, Path, Any], Example], str | None, list[str] | int]] = {
    "fail_and_resume": (on_disk, None, IDS),
    "row_hash": (row_hashes, None, len(EMAILS)),
    "s3_by_environment": (on_s3, "s3_store", IDS),
    "storage_options-cos": (by_options, "cos_store", IDS),
    "storage_options-oss": (by_options, "oss_store", IDS),
    "storage_options-tclake": (by_options, "tclake_store", IDS),
}


@pytest.fixture(scope="module")
def examples(nodes: Nodes, tmp_path_factory: Any, request: Any) -> Iterator[dict[str, Example]]:
    """Those that are asked for, killed half way and started again."""
    wanted = {item.callspec.params["name"] for item in request.session.items if item.path == request.path}
    made: list[Example] = []
    killed: dict[str, Example] = {}
    try:
        for name in (name for name in CASES if name in wanted):
            make, fixture, _ = CASES[name]
            store = request.getfixturevalue(fixture) if fixture else None
            for number in range(TRIES):
                example = make(nodes, tmp_path_factory.mktemp(name) / str(number), store)
                made.append(example)
                if example.kill_half_way():
                    example.start()
                    killed[name] = example
                    break
        yield killed
    finally:
        for example in made:
            example.stop()


@pytest.mark.parametrize("name", CASES)
def test_an_example_that_was_killed_is_finished_by_the_same_command(examples: dict[str, Example], name: str) -> None:
    assert name in examples, "it was always done before it could be killed"
    example = examples[name]
    example.drivers[-1].done()
    table = example.ends_right(CASES[name][2])
    if name == "fail_and_resume":
        assert f"{len(IDS)} rows in the output" in example.drivers[-1].log()
        files = example.files("output")
        example.start().done()
        assert example.files("output") == files, "a third run writes nothing"
    if name == "row_hash":
        assert len(set(table["pseudonym"].to_pylist())) == len(set(EMAILS))

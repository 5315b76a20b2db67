"""Embeddings by a real model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from processes import Nodes
from programs import TRIES, Example

SENTENCES = [
    ("the cat sleeps on the sofa", "a kitten naps on the couch"),
    ("the central bank raised interest rates", "borrowing costs went up after the bank's decision"),
    ("bake the bread for forty minutes", "leave the loaf in the oven for two thirds of an hour"),
]
PLACES = ["in the morning", "at noon", "in the evening", "after dark"]
ROWS = 960


def test_texts_are_embedded_once(nodes: Nodes, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    texts = [
        f"{SENTENCES[number % 3][number // 3 % 2]} {PLACES[number // 6 % 4]}, {number} times" for number in range(ROWS)
    ]
    table = pa.table({"id": [f"text-{number:05}" for number in range(ROWS)], "text": texts})
    for number in range(TRIES):
        example = Example(nodes.address, tmp_path / str(number), "embed.py", str(tmp_path / str(number) / "job"), ROWS)
        example.put([table.slice(start, 80) for start in range(0, ROWS, 80)])
        try:
            if example.kill_half_way():
                break
        finally:
            example.stop()
    else:
        pytest.fail("it was always done before it could be killed")
    example.start().done()
    found = example.ends_right(table["id"].to_pylist()).sort_by("id")
    vectors = np.array(found["embedding"].to_pylist())
    assert vectors.shape == (ROWS, 384)
    # What two texts mean is what the vectors say, not their words.
    for kind in range(3):
        same = vectors[kind] @ vectors[kind + 3]
        assert all(same > vectors[kind] @ vectors[other + 3] for other in range(3) if other != kind)

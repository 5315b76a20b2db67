"""Every example of docs/python-engines.md, as a reader would run them."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/python-engines.md"


def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("\n```") // 2 and {language for language, _ in blocks} == {"python"}
    names = {"__name__": "example"}
    for number, (_, code) in enumerate(blocks):
        exec(compile(code, f"{PAGE.name}, block {number}", "exec"), names)

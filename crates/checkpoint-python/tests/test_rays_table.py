"""The table of docs/ray.md says of each Ray what `just test-rays` finds."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def rays() -> dict[str, str]:
    """What each version has, as the file of the runs says."""
    lines = (HERE / "rays.txt").read_text().splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


def documented() -> dict[str, str]:
    """What the table says of each version."""
    page = (HERE.parents[2] / "docs/ray.md").read_text()
    found = {}
    for version, ours, alone in re.findall(r"^\| (\d+\.\d+\.\d+) \| ([^|]*) \| ([^|]*) \|$", page, re.MULTILINE):
        if ours.startswith("works"):
            found[version] = "plug-ins"
        else:
            assert ours == "refused"
            found[version] = "filesystem" if alone.startswith("works") else "nothing"
    return found


def test_the_table_is_what_is_tested() -> None:
    assert documented() == rays()
    assert set(rays().values()) == {"plug-ins", "filesystem", "nothing"}


def test_the_newest_is_the_one_of_all_other_tests_and_the_oldest_with_plug_ins_the_one_that_is_asked_for() -> None:
    newest, *_ = rays()
    assert re.search(rf"^ray\[\S+\]=={re.escape(newest)}$", (HERE / "requirements.txt").read_text(), re.MULTILINE)
    *_, oldest = [version for version, has in rays().items() if has == "plug-ins"]
    minor = ".".join(oldest.split(".")[:2])
    assert f'"ray[data]>={minor}"' in (HERE.parent / "pyproject.toml").read_text()

"""The stores that tests talk to, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest


class TestStore:
    """A store in a process of its own, which ends with this one; see ``test-store`` of the Rust testkit."""

    __test__ = False

    def __init__(self, scheme: str) -> None:
        self._process = subprocess.Popen(
            [program("test-store", "CKPT_TEST_STORE"), scheme],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = self._answer()
        self.scheme: str = scheme
        self.description: str = said["description"]
        self.endpoint: str = said["endpoint"]
        #: What ``http_proxy`` must be for it, or None.
        self.proxy: str | None = said["proxy"]
        self.options: dict[str, Any] = said["options"]

    @property
    def storage_options(self) -> dict[str, dict[str, Any]]:
        """The options by protocol."""
        return {self.scheme: self.options}

    def new_root(self) -> str:
        """A bucket or volume that no other test has, as a path without a scheme."""
        return self._ask("bucket")["root"]

    def requests(self) -> list[dict[str, Any]]:
        """What a mock received since the last time."""
        return self._ask("requests")

    def expire(self) -> None:
        """Ends all temporary keys of a mock."""
        self._ask("expire")

    def stop(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, question: str) -> Any:
        assert self._process.stdin is not None
        print(question, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            pytest.fail(f"the test store did not start or ended: {self._process.stderr.read()}", pytrace=False)
        return json.loads(line)


def program(name: str, variable: str) -> str:
    """The path of a program of the same sources."""
    given = os.environ.get(variable)
    if given is None:
        target = os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[3] / "target")
        given = str(Path(target) / "debug" / name)
    if not Path(given).is_file():
        pytest.fail(f"{given} is not built: run `just test-python`", pytrace=False)
    return given

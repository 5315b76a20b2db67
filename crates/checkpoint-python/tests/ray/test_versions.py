"""What `checkpoint_store.ray` makes of the Ray that is installed. `just test-rays` tries each of `rays.txt`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import ray

from jobs import Job, fails_on

# Workers do not find this module, so what it defines goes to them whole.
ray.cloudpickle.register_pickle_by_value(sys.modules["jobs"])

_lines = (Path(__file__).parents[1] / "rays.txt").read_text().splitlines()
#: What each Ray has for checkpoints.
RAYS = dict(line.split() for line in _lines if not line.startswith("#"))
HAS = RAYS[ray.__version__]


@pytest.mark.skipif(HAS != "plug-ins", reason="of a Ray with plug-ins")
def test_with_plug_ins_a_job_that_fails_is_resumed(job: Job) -> None:
    import checkpoint_store.ray

    assert checkpoint_store.ray.checkpoint_config
    job.put(range(200))
    job.configure()
    with pytest.raises(Exception, match="told to fail on 199"):
        job.run(fails_on(199))
    assert 0 < len(job.written()) < 200
    job.run()
    job.holds_once(range(200))


@pytest.mark.skipif(HAS == "plug-ins", reason="of a Ray without plug-ins")
def test_without_plug_ins_the_import_says_what_is_there_and_what_to_do() -> None:
    with pytest.raises(ImportError) as raised:
        importlib.import_module("checkpoint_store.ray")
    said = str(raised.value)
    assert f"Ray {ray.__version__} " in said and "pip install 'checkpoint-store[ray]'" in said
    # What is no help there is not offered.
    assert ("has no checkpoints" in said) == (HAS == "nothing")
    assert ("checkpoint_manager_cls, checkpoint_filter_cls" in said) == (HAS == "filesystem")
    assert ("build_checkpoint_filesystem" in said and "override_filesystem" in said) == (HAS == "filesystem")


@pytest.mark.skipif(HAS != "filesystem", reason="of a Ray with checkpoints alone")
def test_what_the_import_says_to_use_instead_can_be_used(tmp_path: Path) -> None:
    from ray.data.checkpoint import CheckpointConfig

    from checkpoint_store import build_checkpoint_filesystem

    filesystem = build_checkpoint_filesystem(tmp_path)
    config = CheckpointConfig("id", str(tmp_path), override_filesystem=filesystem)
    assert config.filesystem is filesystem

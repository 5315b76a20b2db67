"""Checkpoints for Ray Data: every input row in the output exactly once, whatever is killed and however often.

```python
from ray.data import DataContext
from checkpoint_store.ray import checkpoint_config

DataContext.get_current().checkpoint_config = checkpoint_config("uid", "s3://bucket/checkpoints/job-1")
```

Set it before the Dataset is made, write with ``write_parquet`` (or ``write_json``, ``write_csv``, ...), and run the
same script again after a failure.
"""

from checkpoint_store.ray.versions import check as _check

_check()

from checkpoint_store.ray import rules as _rules  # noqa: E402
from checkpoint_store.ray.config import checkpoint_config  # noqa: E402
from checkpoint_store.ray.context import DatasetContext, checkpointing_off, run_with_resume  # noqa: E402
from checkpoint_store.ray.parquet import read_parquet, write_parquet  # noqa: E402
from checkpoint_store.ray.remaining import RemainingFile, remaining_inputs  # noqa: E402

# In every process that has a configuration, and be it by a pickle: without the rules it would have no attempt.
_rules.install()

__all__ = [
    "DatasetContext",
    "RemainingFile",
    "checkpoint_config",
    "checkpointing_off",
    "read_parquet",
    "remaining_inputs",
    "run_with_resume",
    "write_parquet",
]

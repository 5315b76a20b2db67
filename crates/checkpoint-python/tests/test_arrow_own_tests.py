"""pyarrow's own tests of filesystems, with ours in the place of theirs. See also skipped_cases.py.

Every test of ``pyarrow.tests.test_fs`` that is about any filesystem is taken over; those about one of pyarrow's own
are not.
"""

import inspect
import pickle

import pytest
from pyarrow.fs import PyFileSystem
from pyarrow.tests import test_fs as theirs

# Fixtures that their tests ask for.
from pyarrow.tests.test_fs import (  # noqa: F401
    allow_append_to_file,
    allow_move_dir,
    fs,
    pathfn,
    pickle_with_and_without_subtree_filesystem,
)

from checkpoint_store.arrow import StoreHandler

TAKEN = {
    name: test
    for name, test in vars(theirs).items()
    if name.startswith("test_") and inspect.isfunction(test) and "fs" in inspect.signature(test).parameters
}
globals().update(TAKEN)


@pytest.fixture
def filesystem_config(place):
    return {
        "fs": PyFileSystem(StoreHandler(place.scheme, place.storage_options)),
        "pathfn": lambda path: f"{place.root}/{path}",
        "allow_move_dir": False,
        "allow_append_to_file": False,
    }


@pytest.fixture
def pickle_module():
    return pickle


def test_that_they_are_there():
    assert {"test_get_file_info", "test_open_output_stream", "test_move_file", "test_filesystem_pickling"} <= set(TAKEN)
    assert len(TAKEN) >= 20

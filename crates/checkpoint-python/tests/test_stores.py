"""A round trip through each store, by its scheme and by options alone."""

import pytest
from pyarrow import fs

from checkpoint_store import build_checkpoint_filesystem


@pytest.mark.parametrize("scheme", ["s3", "cos", "oss", "tclake", "gs", "az"])
def test_each_scheme_gives_a_pyarrow_filesystem(scheme, request, monkeypatch):
    store = request.getfixturevalue(f"{scheme}_store")
    if store.proxy:
        monkeypatch.setenv("http_proxy", store.proxy)
    root = store.new_root()
    filesystem = build_checkpoint_filesystem(f"{scheme}://{root}/a place", store.storage_options)
    with filesystem.open_output_stream(f"{root}/a place/part 1") as out:
        out.write(b"some bytes")
    with filesystem.open_input_file(f"{root}/a place/part 1") as file:
        assert file.read() == b"some bytes"
    listed = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
    assert {(one.path, one.type) for one in listed} == {
        (f"{root}/a place", fs.FileType.Directory),
        (f"{root}/a place/part 1", fs.FileType.File),
    }
    filesystem.delete_dir_contents(root)
    assert filesystem.get_file_info(f"{root}/a place").type == fs.FileType.NotFound

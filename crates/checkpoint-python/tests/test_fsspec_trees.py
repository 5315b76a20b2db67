"""What is there, and what many files are asked for at once."""

import datetime

import fsspec
import pytest

from checkpoint_store import errors
from checkpoint_store.filesystem import CheckpointFileSystem

FILES = {"a.txt": b"a", "b/c.txt": b"cc", "b/d/e.txt": b"eee", "b/d/f.bin": b"ffff", "g/h.txt": b"hhhhh"}


@pytest.fixture
def fs(place):
    return CheckpointFileSystem(scheme=place.scheme, **place.options)


@pytest.fixture
def tree(fs, place):
    fs.pipe({f"{place.root}/{name}": data for name, data in FILES.items()})
    return place.root


def test_what_is_in_a_directory(fs, tree):
    assert fs.ls(tree, detail=False) == [f"{tree}/{name}" for name in ("a.txt", "b", "g")]
    details = {entry["name"].removeprefix(f"{tree}/"): entry for entry in fs.ls(tree, detail=True)}
    assert {name: (one["type"], one["size"]) for name, one in details.items()} == {
        "a.txt": ("file", 1),
        "b": ("directory", 0),
        "g": ("directory", 0),
    }
    assert isinstance(details["a.txt"]["LastModified"], datetime.datetime)
    assert fs.ls(f"{tree}/a.txt", detail=False) == [f"{tree}/a.txt"]
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{tree}/nothing")


def test_everything_below(fs, tree):
    assert fs.find(tree) == sorted(f"{tree}/{name}" for name in FILES)
    directories = ["", "/b", "/b/d", "/g"]
    assert fs.find(tree, withdirs=True) == sorted([tree + name for name in directories] + fs.find(tree))
    assert fs.find(tree, maxdepth=1) == [f"{tree}/a.txt"]
    assert fs.find(tree, maxdepth=2, withdirs=True) == sorted(
        [tree + name for name in directories] + [f"{tree}/a.txt", f"{tree}/b/c.txt", f"{tree}/g/h.txt"]
    )
    assert fs.find(tree, detail=True)[f"{tree}/b/c.txt"]["size"] == 2
    assert fs.find(f"{tree}/a.txt") == [f"{tree}/a.txt"]
    assert fs.find(f"{tree}/nothing") == []


def test_walking_and_patterns_and_sizes(fs, tree):
    walked = [(path.removeprefix(tree), sorted(dirs), sorted(files)) for path, dirs, files in fs.walk(tree)]
    assert walked == [
        ("", ["b", "g"], ["a.txt"]),
        ("/b", ["d"], ["c.txt"]),
        ("/b/d", [], ["e.txt", "f.bin"]),
        ("/g", [], ["h.txt"]),
    ]
    assert fs.glob(f"{tree}/**/*.txt") == sorted(f"{tree}/{name}" for name in FILES if name.endswith(".txt"))
    assert fs.glob(f"{tree}/*") == [f"{tree}/{name}" for name in ("a.txt", "b", "g")]
    assert fs.glob(f"{tree}/b/d/[e-f].*") == [f"{tree}/b/d/e.txt", f"{tree}/b/d/f.bin"]
    assert fs.du(tree) == sum(map(len, FILES.values()))
    assert fs.du(tree, total=False)[f"{tree}/g/h.txt"] == 5


def test_kinds(fs, tree):
    assert fs.isfile(f"{tree}/a.txt") and not fs.isdir(f"{tree}/a.txt")
    assert fs.isdir(f"{tree}/b") and not fs.isfile(f"{tree}/b") and fs.isdir(tree)
    assert fs.exists(f"{tree}/b/d") and not fs.exists(f"{tree}/b/nothing")
    assert fs.info(f"{tree}/b/")["type"] == "directory"
    assert fs.modified(f"{tree}/a.txt").tzinfo is not None
    with pytest.raises(NotImplementedError):
        fs.created(f"{tree}/a.txt")


def test_bytes_of_many(fs, tree):
    assert fs.cat(f"{tree}/b", recursive=True) == {f"{tree}/{name}": FILES[name] for name in FILES if name[0] == "b"}
    assert fs.cat([f"{tree}/a.txt", f"{tree}/g/h.txt"]) == {f"{tree}/a.txt": b"a", f"{tree}/g/h.txt": b"hhhhh"}
    assert fs.cat(f"{tree}/a.txt") == b"a"
    missing = [f"{tree}/a.txt", f"{tree}/nothing"]
    with pytest.raises(FileNotFoundError):
        fs.cat(missing)
    assert fs.cat(missing, on_error="omit") == {missing[0]: b"a"}
    assert isinstance(fs.cat(missing, on_error="return")[missing[1]], errors.NotFoundError)


def test_ranges(fs, tree):
    names = [f"{tree}/{name}" for name in ("b/d/f.bin", "g/h.txt", "nothing", "g/h.txt")]
    read = fs.cat_ranges(names, [0, 1, 0, -2], [2, 3, 1, None])
    assert (read[0], read[1], read[3]) == (b"ff", b"hh", b"hh")
    assert isinstance(read[2], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(names, 0, 1, on_error="raise")
    assert fs.cat_file(names[1], start=-4, end=-1) == b"hhh"
    assert fs.cat_file(names[1], start=9) == b""
    with pytest.raises(NotImplementedError):
        fs.cat_ranges(names, 0, 1, max_gap=10)


def test_ranges_of_thousands_are_in_their_order(fs, place):
    fs.pipe({f"{place.root}/{number}": str(number).encode() for number in range(300)})
    names = [f"{place.root}/{number}" for number in range(300)]
    assert fs.cat_ranges(names * 4, 0, None) == [str(number).encode() for number in range(300)] * 4


def test_copies_and_moves(fs, tree):
    fs.copy(f"{tree}/b", f"{tree}/copy", recursive=True)
    assert fs.cat(f"{tree}/copy", recursive=True) == {
        f"{tree}/copy/{name[2:]}": FILES[name] for name in FILES if name[0] == "b"
    }
    fs.mv(f"{tree}/copy", f"{tree}/moved", recursive=True)
    assert not fs.exists(f"{tree}/copy")
    assert fs.find(f"{tree}/moved") == [f"{tree}/moved/{name}" for name in ("c.txt", "d/e.txt", "d/f.bin")]
    fs.mv(f"{tree}/a.txt", f"{tree}/z.txt")
    assert not fs.exists(f"{tree}/a.txt") and fs.cat(f"{tree}/z.txt") == b"a"
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{tree}/nothing", f"{tree}/something")
    with pytest.raises(IsADirectoryError):
        fs.mv(f"{tree}/moved", f"{tree}/elsewhere")
    with pytest.raises(FileNotFoundError):
        fs.copy(f"{tree}/nothing", f"{tree}/something")


def test_deletes(fs, tree):
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{tree}/b")
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{tree}/nothing")
    fs.rm(f"{tree}/b", recursive=True)
    assert not fs.exists(f"{tree}/b") and fs.find(tree) == [f"{tree}/a.txt", f"{tree}/g/h.txt"]
    fs.rm([f"{tree}/a.txt", f"{tree}/never there"])
    fs.rm_file(f"{tree}/g/h.txt")
    assert fs.find(tree) == []
    if fs.exists(tree):
        fs.rm(tree, recursive=True)
    assert not fs.exists(tree)


def test_patterns_are_deleted(fs, tree):
    fs.rm(f"{tree}/b/d/*.txt")
    assert fs.find(f"{tree}/b") == [f"{tree}/b/c.txt", f"{tree}/b/d/f.bin"]


def test_files_come_and_go(fs, tree, tmp_path):
    large = bytes(range(256)) * 200_000
    (tmp_path / "large").write_bytes(large)
    fs.put(str(tmp_path / "large"), f"{tree}/large")
    assert fs.info(f"{tree}/large")["size"] == len(large)
    assert fs.cat_file(f"{tree}/large") == large
    assert fs.cat_file(f"{tree}/large", 100, 40_000_000) == large[100:40_000_000]
    with pytest.raises(FileExistsError):
        fs.put_file(str(tmp_path / "large"), f"{tree}/a.txt", mode="create")
    fs.put_file(str(tmp_path / "large"), f"{tree}/created", mode="create")
    assert fs.cat(f"{tree}/a.txt") == b"a" and fs.info(f"{tree}/created")["size"] == len(large)
    fs.get(f"{tree}/large", str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == large
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{tree}/nothing", str(tmp_path / "again"))
    assert (tmp_path / "again").stat().st_size == len(large)
    fs.get(tree, str(tmp_path / "all"), recursive=True)
    assert (tmp_path / "all" / "b" / "d" / "e.txt").read_bytes() == b"eee"


def test_hundreds_of_files_come_and_go(fs, place, tmp_path):
    for number in range(200):
        (tmp_path / "there" / str(number % 7)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / str(number % 7) / str(number)).write_text(str(number))
    fs.put(str(tmp_path / "there"), place.root, recursive=True)
    fs.get(place.root, str(tmp_path / "back"), recursive=True)
    back = {path.name: path.read_text() for path in (tmp_path / "back").rglob("*") if path.is_file()}
    assert back == {str(number): str(number) for number in range(200)}
    told = Told()
    fs.get(place.root, str(tmp_path / "again"), recursive=True, callback=told)
    assert told.value == told.size >= 200
    fs.rm(f"{place.root}/0", recursive=True)
    with pytest.raises(FileNotFoundError):
        fs.get([f"{place.root}/1/1", f"{place.root}/0/0"], [str(tmp_path / "one"), str(tmp_path / "none")])
    assert not (tmp_path / "none").exists() and not list(tmp_path.glob("*.part*"))


class Told(fsspec.Callback):
    pass


@pytest.mark.parametrize("scheme", ["memory", "s3"])
def test_one_bucket_to_another(scheme, request):
    if scheme == "memory":
        fs, one, other = CheckpointFileSystem(scheme="memory"), "one bucket", "another"
    else:
        store = request.getfixturevalue("s3_store")
        fs, one, other = CheckpointFileSystem(scheme="s3", **store.options), store.new_root(), store.new_root()
    data = bytes(range(256)) * 80_000
    fs.pipe({f"{one}/a": data, f"{one}/dir/b": b"b"})
    fs.copy(f"{one}/a", f"{other}/a")
    assert fs.cat(f"{other}/a") == data
    with pytest.raises(FileNotFoundError):
        fs.copy(f"{one}/nothing", f"{other}/b")
    fs.mv(f"{one}/dir", f"{other}/moved", recursive=True)
    assert fs.cat(f"{other}/moved/b") == b"b" and fs.find(one) == [f"{one}/a"]


def test_directories_of_this_machine(tmp_path):
    fs = CheckpointFileSystem(scheme="file")
    fs.makedirs(str(tmp_path / "a" / "b"))
    with pytest.raises(FileExistsError):
        fs.mkdir(str(tmp_path / "a"))
    fs.makedirs(str(tmp_path / "a"), exist_ok=True)
    assert fs.isdir(str(tmp_path / "a" / "b")) and fs.ls(str(tmp_path / "a" / "b")) == []
    assert fs.find(str(tmp_path), withdirs=True) == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    fs.pipe(str(tmp_path / "a" / "file"), b"")
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(str(tmp_path / "a"))
    fs.rmdir(str(tmp_path / "a" / "b"))
    assert not (tmp_path / "a" / "b").exists()
    fs.rm(str(tmp_path / "a"), recursive=True)
    assert not (tmp_path / "a").exists()


def test_paths_with_and_without_scheme(fs, tree):
    url = fs.unstrip_protocol(f"{tree}/a.txt")
    assert url == f"{fs.scheme}://{tree}/a.txt"
    assert fs.cat(url) == b"a" and fs.info(url)["name"] == f"{tree}/a.txt"


def test_listings_are_fresh_and_kept_only_when_that_is_asked(place):
    fresh = CheckpointFileSystem(scheme=place.scheme, **place.options)
    keeping = CheckpointFileSystem(
        scheme=place.scheme, use_listings_cache=True, listings_expiry_time=600, max_paths=10, **place.options
    )
    fresh.pipe(f"{place.root}/1", b"")
    assert len(keeping.ls(place.root)) == len(fresh.ls(place.root)) == 1
    fresh.pipe(f"{place.root}/2", b"")
    assert (len(keeping.ls(place.root)), len(fresh.ls(place.root))) == (1, 2)
    keeping.invalidate_cache(place.root)
    assert len(keeping.ls(place.root)) == 2
    fresh.pipe(f"{place.root}/3", b"")
    assert len(keeping.ls(place.root, refresh=True)) == 3
    # What it writes itself shows at once.
    keeping.pipe(f"{place.root}/4", b"")
    assert len(keeping.ls(place.root)) == 4
    assert fresh.exists(f"{place.root}/4") and keeping.exists(f"{place.root}/3")


def test_an_empty_bucket_is_a_directory_and_one_that_is_not_there_is_missing(s3_store):
    fs = CheckpointFileSystem(scheme="s3", **s3_store.options)
    root = s3_store.new_root()
    assert fs.ls(root) == [] and fs.isdir(root) and fs.info(root)["type"] == "directory"
    assert not fs.exists(f"{root}-not-there")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{root}-not-there")
    fs.pipe(f"{root}/at the root", b"data")
    assert fs.cat(f"{root}/at the root") == b"data" and fs.find(root) == [f"{root}/at the root"]


def test_more_files_than_one_request_deletes(fs, place):
    fs.pipe({f"{place.root}/{number:04}": b"" for number in range(1_100)})
    assert len(fs.find(place.root)) == 1_100
    fs.rm(place.root, recursive=True)
    assert fs.find(place.root) == []


def test_options_are_checked_by_name():
    with pytest.raises(ValueError, match="did you mean `endpoint_url`"):
        CheckpointFileSystem(scheme="s3", endpoint_ulr="http://127.0.0.1:1")
    with pytest.raises(ValueError, match="name the store"):
        CheckpointFileSystem()
    CheckpointFileSystem(scheme="s3", default_block_size=1 << 20, default_cache_type="bytes", asynchronous=False)
    assert fsspec.get_filesystem_class("cosn").scheme == "cos"

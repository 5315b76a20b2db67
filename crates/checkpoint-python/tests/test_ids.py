"""IdSet against Python's own set, over the types and the libraries that it takes."""

import datetime
import decimal
import mmap
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading

import pyarrow as pa
import pytest

from checkpoint_store import IdSet, errors

RANDOM = random.Random(7)
DAY = datetime.date(2024, 1, 1)


def some(make, count=400):
    """Distinct values, in no order."""
    values = list(dict.fromkeys(make(RANDOM.randrange(1 << 62)) for _ in range(count)))
    RANDOM.shuffle(values)
    return values


def integers(bits, signed):
    low = -(1 << (bits - 1)) if signed else 0
    return lambda n: low + n * 0x9E3779B97F4A7C15 % (1 << bits)


def text(n):
    return "é" * (n % 3) + f"id-{n}"


def binary(n):
    return n.to_bytes(8, "big") * (1 + n % 2)


TYPES = {
    **{f"int{bits}": (pa.type_for_alias(f"int{bits}"), integers(bits, True)) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (pa.type_for_alias(f"uint{bits}"), integers(bits, False)) for bits in (8, 16, 32, 64)},
    "string": (pa.string(), text),
    "large_string": (pa.large_string(), text),
    "string_view": (pa.string_view(), text),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), text),
    "binary": (pa.binary(), binary),
    "large_binary": (pa.large_binary(), binary),
    "binary_view": (pa.binary_view(), binary),
    "fixed_binary": (pa.binary(8), lambda n: n.to_bytes(8, "big")),
    "decimal128": (pa.decimal128(30, 4), lambda n: decimal.Decimal(n).scaleb(-4)),
    "decimal256": (pa.decimal256(60, 4), lambda n: decimal.Decimal(n).scaleb(-4)),
    "date32": (pa.date32(), lambda n: DAY + datetime.timedelta(days=n % 9_000)),
    "date64": (pa.date64(), lambda n: DAY + datetime.timedelta(days=n % 9_000)),
    "time64": (pa.time64("us"), lambda n: (datetime.datetime.min + datetime.timedelta(microseconds=n % 10**10)).time()),
    "timestamp": (
        pa.timestamp("us"),
        lambda n: datetime.datetime(2020, 1, 1) + datetime.timedelta(microseconds=n % 10**14),
    ),
    "instant": (
        pa.timestamp("us", "UTC"),
        lambda n: datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=n % 10**14),
    ),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda n: (n % 7, text(n // 7))),
}


def array(values, kind):
    if pa.types.is_struct(kind):
        values = [None if value is None else dict(zip("ab", value, strict=True)) for value in values]
    return pa.array(values, kind)


@pytest.mark.parametrize("name", TYPES)
def test_it_agrees_with_a_set_of_python(name):
    kind, make = TYPES[name]
    values = some(make)
    done, rest = values[: len(values) // 2], values[len(values) // 2 :]
    ids = IdSet.from_ids(array(done, kind))
    assert len(ids) == len(done)
    probe = some(make, 50) + rest + [None] + done + [None]
    RANDOM.shuffle(probe)
    expected = [value in set(done) for value in probe]
    found = ids.contains(array(probe, kind))
    assert isinstance(found, pa.BooleanArray) and found.to_pylist() == expected
    table = pa.table({"id": array(probe, kind), "row": range(len(probe))})
    left = [row for row, is_done in enumerate(expected) if not is_done]
    assert ids.filter(table, "id")["row"].to_pylist() == left
    assert ids.filter(table.slice(9, 70), "id")["row"].to_pylist() == [row for row in left if 9 <= row < 79]
    batch = ids.filter(table.to_batches()[0].slice(9, 70), "id")
    assert isinstance(batch, pa.RecordBatch) and batch["row"].to_pylist() == [row for row in left if 9 <= row < 79]
    assert ids.contains(array(probe, kind)[9:79]).to_pylist() == expected[9:79]
    chunked = pa.chunked_array([table["id"].chunk(0)[:7], table["id"].chunk(0)[7:]])
    assert pa.array(ids.contains(chunked)).to_pylist() == expected
    known = [value for value in probe if value is not None]
    assert len(IdSet.from_ids(pa.chunked_array([array(known[:7], kind), array(known[3:], kind)]))) == len(set(known))


def test_extension_types_are_what_they_are_stored_as():
    import uuid

    values = [uuid.uuid4().bytes for _ in range(9)]
    ids = IdSet.from_ids(pa.array(values[:4], pa.uuid()))
    table = pa.table({"id": pa.array(values, pa.uuid()), "row": range(9)})
    left = ids.filter(table, "id")
    assert left["row"].to_pylist() == [4, 5, 6, 7, 8] and left.schema == table.schema
    assert all(ids.contains(pa.array(values[:4], pa.binary())).to_pylist())


def test_booleans_and_large_unsigned_integers():
    assert IdSet.from_ids(pa.array([True])).contains(pa.array([False, True, None])).to_pylist() == [False, True, False]
    top = [(1 << 64) - 1, 1 << 63, (1 << 53) + 1]
    ids = IdSet.from_ids(pa.array(top, pa.uint64()))
    assert ids.contains(pa.array([*top, 1 << 53, (1 << 64) - 2], pa.uint64())).to_pylist() == [True] * 3 + [False] * 2
    assert ids.contains(pa.array([-1, (1 << 53) + 1], pa.int64())).to_pylist() == [False, True], "by value, not by bits"


@pytest.mark.parametrize(
    "kind",
    [pa.float64(), pa.float32(), pa.float16(), pa.null(), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())],
    ids=str,
)
def test_what_cannot_be_an_id_is_refused(kind):
    ids = IdSet.from_ids(pa.array([1]))
    for call in (IdSet.from_ids, ids.contains, IdSet().contains):
        with pytest.raises(errors.BadDataError):
            call(pa.array([], kind))
    with pytest.raises(errors.BadDataError):
        ids.filter(pa.table({"id": pa.array([], kind)}), "id")


def test_a_string_never_equals_a_number_and_no_id_is_null_or_empty():
    ids = IdSet.from_ids(pa.array(["1"]))
    for other in (pa.array([1]), pa.chunked_array([], pa.int64()), pa.array([b"1"])):
        with pytest.raises(errors.BadDataError):
            ids.contains(other)
    with pytest.raises(errors.BadDataError):
        IdSet.from_ids(pa.array(["1"]), pa.array([1]))
    for bad in ([1, None], ["a", ""], [b""]):
        with pytest.raises(errors.BadDataError):
            IdSet.from_ids(pa.array(bad))
    with pytest.raises(errors.BadDataError):
        ids.filter(pa.table({"key": ["1"]}), "id")
    with pytest.raises(TypeError, match=r"pyarrow\.array"):
        ids.contains(["1"])


def test_the_same_ids_make_the_same_buffer_however_they_come():
    key = bytes(range(16))
    values = some(text, 5_000)
    whole = IdSet.from_ids(pa.array(values), hash_key=key)
    parts = [IdSet.from_ids(pa.array(values[i::3], pa.large_string()), hash_key=key) for i in range(3)]
    merged = parts[0].merge(*parts[1:], parts[0])
    assert bytes(merged) == bytes(whole) and merged.hash_key == key
    assert key.hex() not in repr(merged) and str(key) not in repr(merged)
    with pytest.raises(errors.InvalidConfigError):
        whole.merge(IdSet.from_ids(pa.array(["x"])))
    with pytest.raises(errors.BadDataError):
        whole.merge(IdSet.from_ids(pa.array([1])))
    assert bytes(IdSet().merge(whole)) == bytes(whole)
    with pytest.raises(ValueError):
        IdSet.from_ids(pa.array(["a"]), hash_key=b"short")
    odd, even = (IdSet.from_ids(pa.array(range(n, 10_000, 2))) for n in (0, 1))
    assert bytes(odd.merge(even)) == bytes(IdSet.from_ids(pa.array(range(10_000)))) and odd.hash_key is None


def splitmix(n):
    n &= (1 << 64) - 1
    n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
    n = (n ^ (n >> 27)) * 0x94D049BB133111EB % (1 << 64)
    return n ^ (n >> 31)


def test_row_hashes_of_a_whole_file_take_next_to_nothing():
    hashes = pa.array([splitmix(12_345 + row) for row in range(20_000)], pa.uint64())
    ids = IdSet.from_ids(hashes[:10_000], hashes[10_000:], row_hash=True)
    assert len(ids) == 20_000 and ids.nbytes < 1_000 and ids.is_row_hash
    assert all(ids.contains(hashes).to_pylist())
    assert bytes(
        IdSet.from_ids(hashes[::2], row_hash=True).merge(IdSet.from_ids(hashes[1::2], row_hash=True))
    ) == bytes(ids)


def test_a_buffer_is_used_where_it_lies_and_kept_alive():
    ids = IdSet.from_ids(pa.array(some(text)))
    view = memoryview(ids)
    assert view.readonly and view.nbytes == ids.nbytes and view.format == "B"
    raw = bytes(view)

    references = sys.getrefcount(raw)
    shared = IdSet.from_buffer(raw)
    assert pa.py_buffer(shared).address == pa.py_buffer(raw).address, "no copy"
    again = IdSet(IdSet.from_buffer(memoryview(shared)))
    assert pa.py_buffer(again).address == pa.py_buffer(raw).address
    del shared
    assert sys.getrefcount(raw) > references and all(again.contains(pa.array([text(1)])).is_valid())
    del again
    assert sys.getrefcount(raw) == references, "and lets go of it"
    writable = bytearray(raw)
    copied = IdSet.from_buffer(writable)
    writable[:] = bytes(len(writable))
    assert bytes(copied) == raw, "what can change is copied"
    with pytest.raises(TypeError):
        IdSet.from_buffer("text")
    with pytest.raises(ValueError):
        IdSet.from_buffer(memoryview(raw)[::2])


def test_arrays_of_numpy_and_buffers_of_pyarrow_are_buffers():
    import numpy

    ids = IdSet.from_ids(pa.array([3, 5, 9]))
    flat = numpy.frombuffer(bytes(ids), numpy.uint8)
    assert pa.py_buffer(IdSet.from_buffer(flat)).address == flat.ctypes.data
    assert len(IdSet.from_buffer(pa.py_buffer(bytes(ids)))) == 3


def test_every_damage_is_found():
    raw = bytes(IdSet.from_ids(pa.array(some(text, 50))))
    for at in range(len(raw)):
        damaged = raw[:at] + bytes([raw[at] ^ 1 << RANDOM.randrange(8)]) + raw[at + 1 :]
        with pytest.raises(errors.BadDataError):
            IdSet.from_buffer(damaged)
    for length in range(0, len(raw), 7):
        with pytest.raises(errors.BadDataError):
            IdSet.from_buffer(raw[:length])


def test_files_are_mapped(tmp_path, monkeypatch):
    ids = IdSet.from_ids(pa.array(some(text)))
    ids.save(tmp_path / "a.ids")
    loaded = IdSet.load(tmp_path / "a.ids")
    assert bytes(loaded) == bytes(ids)
    IdSet.from_ids(pa.array([1])).save(str(tmp_path / "a.ids"))
    assert bytes(loaded) == bytes(ids), "a file that is replaced stays mapped"
    monkeypatch.chdir(tmp_path)
    ids.save("b.ids")
    assert sorted(os.listdir(tmp_path)) == ["a.ids", "b.ids"]
    with open("b.ids", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        shared = IdSet.from_buffer(mapped)
        assert len(shared) == len(ids)
        del shared
    with pytest.raises(errors.StorageError):
        IdSet.load(tmp_path / "none.ids")
    (tmp_path / "c.ids").write_bytes(b"nonsense")
    with pytest.raises(errors.BadDataError):
        IdSet.load(tmp_path / "c.ids")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_by_its_buffer(protocol):
    ids = IdSet.from_ids(pa.array(some(text)))
    assert bytes(pickle.loads(pickle.dumps(ids, protocol))) == bytes(ids)
    if protocol >= 5:
        buffers = []
        small = pickle.dumps(ids, protocol, buffer_callback=buffers.append)
        assert len(small) < 200 and len(buffers) == 1
        back = pickle.loads(small, buffers=[buffers[0].raw()])
        assert pa.py_buffer(back).address == pa.py_buffer(ids).address, "out of band there is no copy"


def test_polars_columns_and_frames():
    import polars

    frame = polars.DataFrame({"id": ["a", "b", None, "d"], "n": [1, 2, 3, 4]})
    ids = IdSet.from_ids(polars.Series(["b", "d"]))
    found = ids.contains(frame["id"])
    assert isinstance(found, polars.Series) and found.to_list() == [False, True, False, True]
    left = ids.filter(frame, "id")
    assert isinstance(left, polars.DataFrame) and left.rows() == [("a", 1), (None, 3)]
    coded = frame.with_columns(polars.col("id").cast(polars.Categorical))
    left = ids.filter(coded, "id")
    assert left.schema == coded.schema and left["n"].to_list() == [1, 3]
    with pytest.raises(errors.BadDataError):
        ids.filter(frame, "key")


def test_pandas_columns_and_frames():
    import pandas

    frame = pandas.DataFrame({"id": ["a", "b", None, "d"], "n": [1, 2, 3, 4]}, index=[9, 8, 9, 6])
    ids = IdSet.from_ids(pandas.Series(["b", "d"]), pandas.Index(["e"]))
    found = ids.contains(frame["id"])
    assert isinstance(found, pandas.Series) and found.tolist() == [False, True, False, True]
    left = ids.filter(frame, "id")
    assert found.index.equals(frame.index) and left.index.tolist() == [9, 9] and left["n"].tolist() == [1, 3]
    numbers = pandas.DataFrame({"id": [1, 2, 3]})
    assert IdSet.from_ids(numbers["id"].to_numpy()[:1]).filter(numbers, "id")["id"].tolist() == [2, 3]
    with pytest.raises(errors.BadDataError):
        IdSet.from_ids(pandas.Series([1, None])), "pandas makes floats of integers with nulls"


def test_other_libraries_by_the_capsule_interface():
    ids = IdSet.from_ids(pa.array([1, 2]))

    class Batch:
        def __init__(self, inner):
            self.inner = inner

        def __arrow_c_array__(self, requested_schema=None):
            return self.inner.__arrow_c_array__(requested_schema)

    class Table:
        def __init__(self, inner):
            self.inner = inner

        def __arrow_c_stream__(self, requested_schema=None):
            return self.inner.__arrow_c_stream__(requested_schema)

    batch = pa.record_batch({"id": [1, 3], "x": ["a", "b"]}).replace_schema_metadata({"k": "v"})
    left = ids.filter(Batch(batch), "id")
    assert pa.record_batch(left).equals(batch[1:], check_metadata=True) and len(left) == 1
    assert pa.array(ids.contains(Batch(pa.array([2, 9])))).to_pylist() == [True, False]
    table = pa.Table.from_batches([batch, batch[:0], pa.record_batch({"id": [2, 4], "x": ["c", "d"]})], batch.schema)
    stream = ids.filter(Table(table), "id")
    left = pa.table(stream)
    assert left.to_pydict() == {"id": [3, 4], "x": ["b", "d"]} and left.schema.metadata == {b"k": b"v"}
    with pytest.raises(ValueError):
        pa.table(stream)
    reader = pa.RecordBatchReader.from_batches(batch.schema, iter([batch]))
    assert pa.table(ids.filter(reader, "id")).num_rows == 1
    with pytest.raises(errors.BadDataError):
        ids.filter(Table(table), "key")
    with pytest.raises(TypeError):
        ids.filter(Table(pa.chunked_array([[1]])), "id")


def test_duckdb_relations():
    import duckdb

    relation = duckdb.sql("select range as id, range * 2 as x from range(10000)")
    ids = IdSet.from_ids(duckdb.sql("select range as id from range(5000)").arrow().read_all()["id"])
    rest = pa.table(ids.filter(relation, "id"))
    assert rest.num_rows == 5_000 and rest["id"].to_pylist()[0] == 5_000
    assert duckdb.sql("select count(*) from rest").fetchall() == [(5_000,)]


def test_frames_of_daft():
    import daft

    frame = daft.from_pydict({"id": ["a", "b", "c"], "n": [1, 2, 3]})
    ids = IdSet.from_ids(frame.to_arrow()["id"].slice(0, 1))
    assert pa.table(ids.filter(frame, "id"))["n"].to_pylist() == [2, 3]


def test_a_table_is_no_column():
    import pandas
    import polars

    table = pa.table({"id": [1]})
    for wrong in (table, table.to_batches()[0], polars.DataFrame({"id": [1]}), pandas.DataFrame({"id": [1]})):
        for call in (IdSet.from_ids, IdSet().contains):
            with pytest.raises(TypeError, match="column"):
                call(wrong)


def test_the_interpreter_is_free_while_a_set_is_built_and_asked():
    column = pa.array(range(0, 6_000_000, 3))
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(None)
            stop.wait(0.0001)

    thread = threading.Thread(target=tick)
    sys.setswitchinterval(1_000)
    try:
        thread.start()
        before = len(ticks)
        ids = IdSet.from_ids(column)
        ids.contains(column)
        assert len(ticks) > before, "the other thread went on though nobody made this one yield"
    finally:
        sys.setswitchinterval(0.005)
        stop.set()
        thread.join()


def test_ctrl_c_ends_a_long_build():
    code = textwrap.dedent(
        """
        import pyarrow, signal, os
        from checkpoint_store import IdSet
        def batches():
            yield pyarrow.record_batch({"id": range(1000)})
            print("building", flush=True)
            n = 0
            while True:
                n += 1000
                yield pyarrow.record_batch({"id": range(n, n + 1000)})
        class Column:
            def __arrow_c_stream__(self, requested_schema=None):
                schema = pyarrow.schema({"id": pyarrow.int64()})
                return pyarrow.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()
        try:
            IdSet.from_ids(Column())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "building\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted\n"


def test_a_set_goes_through_a_fork():
    ids = IdSet.from_ids(pa.array(some(text)))
    child = os.fork()
    if child == 0:
        more = IdSet.from_ids(pa.array(["new"]), hash_key=ids.hash_key)
        os._exit(0 if len(more.merge(ids)) == len(ids) + 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

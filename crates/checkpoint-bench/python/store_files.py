"""Files on an S3 server from Python: large ones, small ones and a long listing, by one of several libraries."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import side

#: What a stream is written and read by at once.
PIECE = 1 << 20
#: Files at a time, where a library has no call for many.
THREADS = 32


class Fsspec:
    """Any filesystem of fsspec."""

    def __init__(self, files):
        self.files = files

    def write(self, path, data):
        self.files.pipe_file(path, data)

    def read(self, path):
        return self.files.cat_file(path)

    def open_write(self, path):
        return self.files.open(path, "wb")

    def open_read(self, path):
        return self.files.open(path, "rb")

    def write_many(self, objects):
        self.files.pipe(objects)

    def read_many(self, paths):
        return self.files.cat(paths)

    def list(self, path):
        return len(self.files.find(path))


class Arrow:
    """Any filesystem of pyarrow."""

    def __init__(self, files):
        self.files = files

    def write(self, path, data):
        with self.files.open_output_stream(path) as out:
            out.write(data)

    def read(self, path):
        with self.files.open_input_file(path) as file:
            return file.read()

    def open_write(self, path):
        return self.files.open_output_stream(path)

    def open_read(self, path):
        return self.files.open_input_stream(path)

    def write_many(self, objects):
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self.write, objects, objects.values()))

    def read_many(self, paths):
        with ThreadPoolExecutor(THREADS) as pool:
            return dict(zip(paths, pool.map(self.read, paths), strict=True))

    def list(self, path):
        from pyarrow import fs

        return sum(info.is_file for info in self.files.get_file_info(fs.FileSelector(path, recursive=True)))


class Obstore:
    """obstore, whose paths begin in the bucket."""

    def __init__(self, store):
        import obstore

        self.store, self.obstore = store, obstore

    def write(self, path, data):
        self.obstore.put(self.store, inside(path), data)

    def read(self, path):
        # A buffer of its own kind, which is not copied into Python's.
        return self.obstore.get(self.store, inside(path)).bytes()

    def open_write(self, path):
        return self.obstore.open_writer(self.store, inside(path))

    def open_read(self, path):
        return self.obstore.open_reader(self.store, inside(path))

    def write_many(self, objects):
        async def all_of_them():
            puts = (self.obstore.put_async(self.store, inside(path), data) for path, data in objects.items())
            await asyncio.gather(*puts)

        asyncio.run(all_of_them())

    def read_many(self, paths):
        async def one(path):
            return await (await self.obstore.get_async(self.store, inside(path))).bytes_async()

        async def all_of_them():
            return dict(zip(paths, await asyncio.gather(*map(one, paths)), strict=True))

        return asyncio.run(all_of_them())

    def list(self, path):
        return sum(len(page) for page in self.obstore.list(self.store, inside(path) + "/"))


def inside(path):
    return path.split("/", 1)[1]


def library(name, bucket):
    """One of the sides. The server and its keys are those of the environment."""
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    region = os.environ["AWS_DEFAULT_REGION"]
    options = {"key": key, "secret": secret, "endpoint_url": endpoint, "client_kwargs": {"region_name": region}}
    if name == "ours, fsspec":
        from checkpoint_store import CheckpointFileSystem

        return Fsspec(CheckpointFileSystem(scheme="s3", **options))
    if name == "ours, pyarrow":
        from checkpoint_store import build_checkpoint_filesystem

        return Arrow(build_checkpoint_filesystem(f"s3://{bucket}", {"s3": options}))
    if name == "s3fs":
        import s3fs

        return Fsspec(s3fs.S3FileSystem(use_listings_cache=False, **options))
    if name == "pyarrow":
        # Else the body comes in chunks of no stated length, which the server does not take.
        os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"
        from pyarrow import fs

        host = endpoint.removeprefix("http://")
        return Arrow(
            fs.S3FileSystem(access_key=key, secret_key=secret, endpoint_override=host, region=region, scheme="http")
        )
    from obstore.store import S3Store

    return Obstore(
        S3Store(
            bucket,
            endpoint=endpoint,
            access_key_id=key,
            secret_access_key=secret,
            region=region,
            client_options={"allow_http": True},
            virtual_hosted_style_request=False,
        )
    )


def streamed(files, path, data):
    with files.open_write(path) as out:
        for at in range(0, len(data), PIECE):
            out.write(memoryview(data)[at : at + PIECE])


def read_as_stream(files, path):
    # The pieces are let go of, as who reads a stream does.
    count, file = 0, files.open_read(path)
    while piece := file.read(PIECE):
        count += len(piece)
    return count


def must_be(found, expected, what):
    if found != expected:
        raise SystemExit(f"a wrong answer: {what}")


spec = side.spec()
bucket, own = spec["bucket"], f"{spec['bucket']}/{spec['prefix']}"
files = library(spec["side"], bucket)
data = os.urandom(1 << 20) * (spec["bytes"] >> 20)
small = {f"{own}/small/{n:04}": os.urandom(4096) for n in range(spec["objects"])}
files.write(f"{own}/first", b"opens connections")
side.mark("ready")
for turn in range(spec["turns"]):
    files.write(f"{own}/whole", data)
    side.mark(f"write {turn}")
    streamed(files, f"{own}/stream", data)
    side.mark(f"stream {turn}")
    read = files.read(f"{own}/stream")
    side.mark(f"read {turn}")
    must_be(bytes(read) == data, True, "the bytes of the stream")
    del read
    side.mark("checked")
    count = read_as_stream(files, f"{own}/whole")
    side.mark(f"read as a stream {turn}")
    must_be(count, len(data), "the length of the stream")
    files.write_many(small)
    side.mark(f"write small {turn}")
    read = files.read_many(list(small))
    side.mark(f"read small {turn}")
    must_be({path: bytes(read[path]) for path in small} == small, True, "the bytes of the small objects")
    side.mark("checked")
    listed = files.list(f"{bucket}/listed")
    side.mark(f"list {turn}", listed=listed)
must_be(bytes(files.read(f"{own}/whole")) == data, True, "the bytes of the whole")

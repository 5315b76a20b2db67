"""How a side of a comparison talks to the run: its task in, marks out."""

import json
import os
import sys


def spec():
    """What this side is to do."""
    return json.loads(sys.argv[1])


def mark(name, **found):
    """Says how far it is and what was found, and waits for leave to go on."""
    print(json.dumps({"mark": name, **found}), flush=True)
    sys.stdin.readline()


def filesystem(url):
    """The file system of a URL, and the path in it; an S3 server is the one that the environment names."""
    from pyarrow import fs

    if not url.startswith("s3://"):
        return fs.LocalFileSystem(), url
    # Else the body comes in chunks of no stated length, which the counting proxy does not take.
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    return fs.S3FileSystem(endpoint_override=endpoint, scheme="http"), url.removeprefix("s3://")

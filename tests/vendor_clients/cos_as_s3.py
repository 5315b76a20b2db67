"""botocore against COS's S3 interface: how it must be set up, and what its defaults run into."""

import os
import sys

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

BUCKET = os.environ["TEST_BUCKET"]


def client(style="virtual", checksums="when_required", secret_key=None):
    config = Config(
        s3={"addressing_style": style},
        request_checksum_calculation=checksums,
        response_checksum_validation="when_required",
        retries={"total_max_attempts": 1},
        proxies={"http": os.environ["http_proxy"]},
    )
    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=os.environ["COS_ENDPOINT"],
        region_name=os.environ["COS_REGION"],
        aws_access_key_id=os.environ["COS_SECRET_ID"],
        aws_secret_access_key=secret_key or os.environ["COS_SECRET_KEY"],
        config=config,
    )


def refused(code, call, **kwargs):
    try:
        call(Bucket=BUCKET, **kwargs)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, f"refused for another reason: {error}"
        return
    raise AssertionError(f"not refused: {kwargs}")


def main():
    s3 = client()
    odd = ["plain", "a b+c", "per%20cent", "sh#arp?", "amp&<>\"'", "ü/数据", "x/y/z", "x/~t*('!)"]
    for key in odd:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), Metadata={"who": "me"})
        got = s3.get_object(Bucket=BUCKET, Key=key)
        assert got["Body"].read() == key.encode() and got["Metadata"] == {"who": "me"}, key
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 3})
    assert sorted(entry["Key"] for page in pages for entry in page["Contents"]) == sorted(odd)
    pages = s3.get_paginator("list_objects").paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 3})
    assert sorted(entry["Key"] for page in pages for entry in page["Contents"]) == sorted(odd)
    level = s3.list_objects_v2(Bucket=BUCKET, Prefix="x/", Delimiter="/", StartAfter="x/a")
    assert [p["Prefix"] for p in level["CommonPrefixes"]] == ["x/y/"] and level["KeyCount"] == 2, level
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "a b+c"})
    assert s3.get_object(Bucket=BUCKET, Key="copy", Range="bytes=2-")["Body"].read() == b"b+c"
    # The service takes the condition of S3 for nothing, and replaces the object.
    s3.put_object(Bucket=BUCKET, Key="plain", Body=b"replaced", IfNoneMatch="*")
    assert s3.get_object(Bucket=BUCKET, Key="plain")["Body"].read() == b"replaced"
    # No digest that this client makes by itself will do.
    keys = {"Objects": [{"Key": key} for key in odd]}
    refused("InvalidRequest", s3.delete_objects, Delete=keys)
    refused("NotImplemented", client(checksums="when_supported").put_object, Key="k", Body=b"x")
    refused("PathStyleDomainForbidden", client(style="path").put_object, Key="k", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="large")["UploadId"]
    parts = []
    for number, body in enumerate([b"a" * (1 << 20), b"end"], 1):
        part = s3.upload_part(Bucket=BUCKET, Key="large", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(Bucket=BUCKET, Key="large", UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.head_object(Bucket=BUCKET, Key="large")["ContentLength"] == (1 << 20) + 3
    assert s3.get_bucket_versioning(Bucket=BUCKET).get("Status") is None
    for key in [*odd, "copy", "large"]:
        s3.delete_object(Bucket=BUCKET, Key=key)
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def wrong_secret():
    refused("SignatureDoesNotMatch", client(secret_key="a-wrong-secret").put_object, Key="k", Body=b"x")


{"all": main, "wrong-secret": wrong_secret}[sys.argv[1]]()

"""OSS's own client against whatever answers for its hosts; see vendor_clients.rs."""

import os
import sys

import alibabacloud_oss_v2 as oss

BUCKET = os.environ["TEST_BUCKET"]


def client(secret=None, **settings):
    config = oss.config.load_default()
    config.credentials_provider = oss.credentials.StaticCredentialsProvider(
        os.environ["OSS_ACCESS_KEY_ID"], secret or os.environ["OSS_ACCESS_KEY_SECRET"])
    config.region = os.environ["OSS_REGION"]
    config.endpoint = os.environ["OSS_ENDPOINT"]
    config.proxy_host = os.environ["http_proxy"]
    config.retry_max_attempts = 1
    for name, value in settings.items():
        setattr(config, name, value)
    return oss.Client(config)


def refused(code, status, call, request):
    try:
        call(request)
    except oss.exceptions.OperationError as error:
        cause = error.unwrap()
        found = (getattr(cause, "code", None), getattr(cause, "status_code", None))
        assert found == (code, status), f"refused for another reason: {found} {cause}"
        return cause
    raise AssertionError(f"not refused: {request}")


def main():
    store = client()
    odd = ["plain", "a b+c", "per%20cent", "sh#arp?", "amp&<>\"'", "ü/数据", "x/y/z", "line\nbreak"]
    for key in odd:
        store.put_object(oss.PutObjectRequest(bucket=BUCKET, key=key, body=key.encode(), metadata={"who": "me"}))
        got = store.get_object(oss.GetObjectRequest(bucket=BUCKET, key=key))
        assert got.body.read() == key.encode() and got.metadata["who"] == "me", key
    pages = store.list_objects_v2_paginator().iter_page(oss.ListObjectsV2Request(bucket=BUCKET, max_keys=3))
    assert sorted(entry.key for page in pages for entry in page.contents) == sorted(odd)
    level = store.list_objects_v2(oss.ListObjectsV2Request(bucket=BUCKET, prefix="x/", delimiter="/"))
    assert [prefix.prefix for prefix in level.common_prefixes] == ["x/y/"]
    read = lambda **kwargs: store.get_object(oss.GetObjectRequest(bucket=BUCKET, key="plain", **kwargs)).body.read()
    assert read(range_header="bytes=1-2") == b"la"
    assert read(range_header="bytes=1-20") == b"plain", "a range beyond the end gives the whole object"
    assert read(range_header="bytes=1-20", range_behavior="standard") == b"lain"

    error = refused("FileAlreadyExists", 409, store.put_object,
                    oss.PutObjectRequest(bucket=BUCKET, key="plain", body=b"new", forbid_overwrite="true"))
    assert error.ec == "0026-00000002", error
    assert read() == b"plain"

    store.copy_object(oss.CopyObjectRequest(bucket=BUCKET, key="copy", source_bucket=BUCKET, source_key="ü/数据"))
    assert store.head_object(oss.HeadObjectRequest(bucket=BUCKET, key="copy")).content_length == len("ü/数据".encode())

    upload = store.initiate_multipart_upload(oss.InitiateMultipartUploadRequest(bucket=BUCKET, key="large")).upload_id
    parts = []
    for number, body in enumerate([b"a" * (100 << 10), b"b" * (100 << 10), b"end"], 1):
        part = store.upload_part(oss.UploadPartRequest(
            bucket=BUCKET, key="large", upload_id=upload, part_number=number, body=body))
        parts.append(oss.UploadPart(part_number=number, etag=part.etag))
    complete = oss.CompleteMultipartUpload(parts=parts)
    store.complete_multipart_upload(oss.CompleteMultipartUploadRequest(
        bucket=BUCKET, key="large", upload_id=upload, complete_multipart_upload=complete))
    assert store.head_object(oss.HeadObjectRequest(bucket=BUCKET, key="large")).content_length == (200 << 10) + 3

    assert store.get_bucket_versioning(oss.GetBucketVersioningRequest(bucket=BUCKET)).version_status is None
    gone = store.delete_multiple_objects(oss.DeleteMultipleObjectsRequest(
        bucket=BUCKET, objects=[oss.DeleteObject(key=key) for key in odd]))
    assert sorted(entry.key for entry in gone.deleted_objects) == sorted(odd)
    left = store.list_objects_v2(oss.ListObjectsV2Request(bucket=BUCKET))
    assert [entry.key for entry in left.contents] == ["copy", "large"]
    refused("NoSuchKey", 404, store.head_object, oss.HeadObjectRequest(bucket=BUCKET, key="plain"))
    refused("NoSuchBucket", 404, store.get_object, oss.GetObjectRequest(bucket="absent", key="plain"))
    put = oss.PutObjectRequest(bucket=BUCKET, key="k", body=b"x")
    refused("SecondLevelDomainForbidden", 403, client(use_path_style=True).put_object, put)
    refused("InvalidArgument", 400, client(signature_version="v1").put_object, put)
    refused("InvalidArgument", 400, client(region="cn-shanghai").put_object, put)


def wrong_secret():
    put = oss.PutObjectRequest(bucket=BUCKET, key="k", body=b"x")
    refused("SignatureDoesNotMatch", 403, client(secret="a-wrong-secret").put_object, put)
    head = oss.HeadObjectRequest(bucket=BUCKET, key="k")
    refused("SignatureDoesNotMatch", 403, client(secret="a-wrong-secret").head_object, head)


{"all": main, "wrong-secret": wrong_secret}[sys.argv[1]]()

"""COS's own client against whatever answers for its hosts; see vendor_clients.rs."""

import os
import sys

from qcloud_cos import CosConfig, CosS3Client, CosServiceError

BUCKET = os.environ["TEST_BUCKET"]
MIB = 1 << 20


def client(secret_key=None):
    config = CosConfig(
        Region=os.environ["COS_REGION"],
        SecretId=os.environ["COS_SECRET_ID"],
        SecretKey=secret_key or os.environ["COS_SECRET_KEY"],
        Token=os.environ.get("COS_TOKEN"),
        Scheme="http",
    )
    return CosS3Client(config, retry=0)


def refused(code, status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except CosServiceError as error:
        found = (error.get_error_code(), int(error.get_status_code()))
        assert found == (code, status), f"refused for another reason: {found} {error.get_error_msg()}"
        return error
    raise AssertionError(f"not refused: {call.__name__} {args} {kwargs}")


def listed(cos, **kwargs):
    keys, marker = [], ""
    while True:
        page = cos.list_objects(Bucket=BUCKET, Marker=marker, **kwargs)
        keys += [entry["Key"] for entry in page.get("Contents", [])]
        keys += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
        if page["IsTruncated"] == "false":
            return keys
        marker = page["NextMarker"]


def main():
    cos = client()
    odd = ["plain", "a b+c", "per%20cent", "sh#arp?", "amp&<>\"'", "ü/数据", "x/y/z", "tab\there"]
    for key in odd:
        cos.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), EnableMD5=True, Metadata={"x-cos-meta-who": "me"})
        got = cos.get_object(Bucket=BUCKET, Key=key)
        assert got["Body"].get_raw_stream().read() == key.encode(), key
        assert cos.head_object(Bucket=BUCKET, Key=key)["x-cos-meta-who"] == "me", key
    assert sorted(listed(cos, MaxKeys=3)) == sorted(odd)
    assert listed(cos, Prefix="x/", Delimiter="/") == ["x/y/"]
    part = cos.get_object(Bucket=BUCKET, Key="plain", Range="bytes=1-2")
    assert part["Body"].get_raw_stream().read() == b"la" and part["Content-Range"] == "bytes 1-2/5"

    refused("FileAlreadyExists", 409, cos.put_object, Bucket=BUCKET, Key="plain", Body=b"new",
            Metadata={"x-cos-forbid-overwrite": "true"})
    assert cos.get_object(Bucket=BUCKET, Key="plain")["Body"].get_raw_stream().read() == b"plain"

    cos.copy_object(Bucket=BUCKET, Key="copy of 数据",
                    CopySource={"Bucket": BUCKET, "Key": "ü/数据", "Region": os.environ["COS_REGION"]})
    assert cos.get_object(Bucket=BUCKET, Key="copy of 数据")["Body"].get_raw_stream().read() == "ü/数据".encode()

    upload = cos.create_multipart_upload(Bucket=BUCKET, Key="large")["UploadId"]
    parts = []
    for number, body in enumerate([b"a" * MIB, b"b" * MIB, b"end"], 1):
        etag = cos.upload_part(Bucket=BUCKET, Key="large", Body=body, PartNumber=number, UploadId=upload)["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    assert len(cos.list_parts(Bucket=BUCKET, Key="large", UploadId=upload)["Part"]) == 3
    cos.complete_multipart_upload(Bucket=BUCKET, Key="large", UploadId=upload, MultipartUpload={"Part": parts})
    assert int(cos.head_object(Bucket=BUCKET, Key="large")["Content-Length"]) == 2 * MIB + 3
    small = cos.create_multipart_upload(Bucket=BUCKET, Key="small")["UploadId"]
    etags = [cos.upload_part(Bucket=BUCKET, Key="small", Body=b"x", PartNumber=n, UploadId=small)["ETag"] for n in (1, 2)]
    refused("EntityTooSmall", 400, cos.complete_multipart_upload, Bucket=BUCKET, Key="small", UploadId=small,
            MultipartUpload={"Part": [{"PartNumber": n, "ETag": e} for n, e in enumerate(etags, 1)]})
    cos.abort_multipart_upload(Bucket=BUCKET, Key="small", UploadId=small)

    assert "Status" not in (cos.get_bucket_versioning(Bucket=BUCKET) or {})
    gone = cos.delete_objects(Bucket=BUCKET, Delete={"Object": [{"Key": key} for key in odd], "Quiet": "false"})
    assert len(gone["Deleted"]) == len(odd), gone
    assert sorted(listed(cos)) == ["copy of 数据", "large"]
    refused("NoSuchKey", 404, cos.get_object, Bucket=BUCKET, Key="plain")
    refused("NoSuchBucket", 404, cos.get_object, Bucket="absent-1250000000", Key="plain")


def wrong_secret():
    cos = client(secret_key="a-wrong-secret")
    refused("SignatureDoesNotMatch", 403, cos.put_object, Bucket=BUCKET, Key="k", Body=b"x")
    refused("SignatureDoesNotMatch", 403, cos.list_objects, Bucket=BUCKET)


{"all": main, "wrong-secret": wrong_secret}[sys.argv[1]]()

//! What URLs resolve to, against what s3fs and botocore were seen to do in the same places.

mod capture;
mod cases;
mod signatures;

//! JSON files of `_meta` that end in a checksum of themselves: a flipped bit must not change what counts.

use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StorageExt, StorageRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checkpoint::{damaged_file, parse_json, to_json};
use crate::error::Result;
use crate::lengths::{checked, whole};

/// What comes before the digits, and after them: the last field of the object, on a line of its own.
const OPENING: &[u8] = b"  \"crc32\": \"";
const CLOSING: &[u8] = b"\"\n}\n";
const DIGITS: usize = 8;

/// The value as JSON, with its checksum as the last field.
pub(crate) fn seal(value: &impl Serialize) -> Result<Bytes> {
    let plain = to_json(value)?;
    let fields = plain.strip_suffix(b"\n}\n").expect("an object with fields");
    let mut bytes = [fields, b",\n"].concat();
    let digits = digits_of(&bytes);
    bytes.extend_from_slice(OPENING);
    bytes.extend_from_slice(digits.as_bytes());
    bytes.extend_from_slice(CLOSING);
    checked(bytes.into(), &"a list of the checkpoint")
}

/// Reads such a file; `None` where there is none. Formats before `since` may lack the checksum, and none may have a
/// wrong one.
///
/// # Errors
/// `BadData` for a file that is damaged, or of a format above `newest`; `Storage`.
pub(crate) async fn read_sealed<T: DeserializeOwned>(
    storage: &StorageRef,
    path: &ObjectPath,
    (since, newest): (u32, u32),
    format: impl Fn(&T) -> u32,
) -> Result<Option<T>> {
    let Some(read) = storage.read_optional(path, whole()).await? else { return Ok(None) };
    let url = storage.url_of(path);
    let value: T = parse_json(&read.bytes, &url, newest)?;
    match is_whole(&read.bytes) {
        Some(true) => Ok(Some(value)),
        None if format(&value) < since => Ok(Some(value)),
        Some(false) => Err(damaged_file(&"its checksum is wrong: bits of it have changed since it was written", &url)),
        None => Err(damaged_file(&"its checksum is gone", &url)),
    }
}

/// Whether a file is as it was written; `None` where it has no checksum.
fn is_whole(bytes: &[u8]) -> Option<bool> {
    let rest = bytes.strip_suffix(CLOSING)?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some(digits_of(rest.strip_suffix(OPENING)?).as_bytes() == digits)
}

fn digits_of(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use checkpoint_fs::{MemoryStorage, WriteOptions};
    use serde::Deserialize;

    use super::*;
    use crate::error::ErrorKind;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct File {
        format: u32,
        numbers: Vec<(u64, u64)>,
    }

    async fn read(bytes: impl Into<Bytes>) -> Result<Option<File>> {
        let storage: StorageRef = Arc::new(MemoryStorage::new("memory://sealed"));
        let path = ObjectPath::parse("file").unwrap();
        let _ = storage.write(&path, bytes.into(), WriteOptions::new()).await.unwrap();
        read_sealed(&storage, &path, (2, 2), |file: &File| file.format).await
    }

    #[tokio::test]
    async fn a_file_comes_back_and_any_flipped_bit_is_found() {
        for format in [1, 2] {
            let file = File { format, numbers: vec![(1, 3), (5, 5)] };
            let good = seal(&file).unwrap();
            assert!(serde_json::from_slice::<serde_json::Value>(&good).is_ok_and(|json| json["crc32"].is_string()));
            assert_eq!(read(good.clone()).await.unwrap(), Some(file));
            for (at, bit) in (0..good.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut bytes = good.to_vec();
                bytes[at] ^= 1 << bit;
                match read(bytes).await {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::BadData, "{error}"),
                    // Without its name a checksum is a field that nobody knows; the rest is as it was.
                    Ok(found) => assert!(format == 1 && found.is_some_and(|f| f.numbers.len() == 2), "{at} {bit}"),
                }
            }
        }
    }

    #[tokio::test]
    async fn a_checksum_may_be_missing_where_the_format_is_older() {
        let plain = |format| to_json(&File { format, numbers: Vec::new() }).unwrap();
        assert!(read(plain(1)).await.is_ok());
        for bad in [plain(2), plain(3)] {
            assert_eq!(read(bad).await.unwrap_err().kind(), ErrorKind::BadData);
        }
    }
}

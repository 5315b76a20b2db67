//! Reading an answer's body: no more of it than can be wanted, and whether it is whole.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};

use super::{AnswerForm, Wanted};
use crate::backend::headers::content_range;
use crate::backend::ranges::damaged;
use crate::error::{Error, Result};

/// The length that is assumed of a body that does not say its own; of an object no more is read then.
pub(super) const UNKNOWN_LENGTH: u64 = 64 << 20;

/// How much of a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The most bytes.
    pub(super) most: u64,
    /// Whether it may go on behind them.
    pub(super) is_cut: bool,
}

/// A body as far as it was read.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    /// Whether there was more than was to be read.
    pub(super) is_longer: bool,
}

/// How much of an answer's body is read, by what its headers say.
///
/// # Errors
/// `Corrupt`: never to be tried again for an object that is longer than its reader allows, and maybe for a part that
/// nobody asked for; readers read again [until it is sound](crate::backend::ranges::until_sound).
pub(super) fn bounds(form: AnswerForm, status: StatusCode, headers: &HeaderMap) -> Result<Bounds> {
    let (AnswerForm::Object(wanted), true) = (form, status.is_success()) else {
        return Ok(Bounds { most: form.longest(), is_cut: false });
    };
    // A part that says where it lies has no other bytes.
    let part = content_range(headers).filter(|_| status == StatusCode::PARTIAL_CONTENT);
    let part = part.and_then(|(first, last, _)| Some((first, last.checked_sub(first)?.checked_add(1)?)));
    let length = part.map(|(_, length)| length).or_else(|| content_length(headers));
    match (wanted, part) {
        (Wanted::Whole { limit }, _) if length.is_some_and(|length| length > limit) => Err(Error::too_long(limit)),
        (Wanted::Whole { limit }, _) => Ok(Bounds { most: length.unwrap_or(UNKNOWN_LENGTH.min(limit)), is_cut: false }),
        (Wanted::Part { start, end }, Some((first, length))) if first != start || length > end - start => {
            Err(damaged(&format!("another part: asked={start}-{end} got={first} bytes={length}")))
        }
        (Wanted::Part { .. }, Some((_, length))) => Ok(Bounds { most: length, is_cut: false }),
        // The whole for a part. Where it has no length, its end alone tells how long it is.
        (Wanted::Part { end, .. }, None) => Ok(match length {
            Some(length) => Bounds { most: length.min(end), is_cut: length > end },
            None => Bounds { most: UNKNOWN_LENGTH, is_cut: false },
        }),
    }
}

/// The length that the headers say.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// Whether the end of an answer without a length is told by anything but the end of the connection.
pub(super) fn says_its_end(response: &reqwest::Response) -> bool {
    response.version() >= Version::HTTP_2 || response.headers().contains_key(TRANSFER_ENCODING)
}

/// Reads a body, and no more of it than `most` bytes; the common single piece is not copied.
pub(super) async fn read(mut response: reqwest::Response, length: Option<u64>, most: u64) -> reqwest::Result<Body> {
    let whole = |bytes| Body { bytes, is_longer: false };
    let Some(first) = response.chunk().await? else { return Ok(whole(Bytes::new())) };
    if length == Some(first.len() as u64) && first.len() as u64 <= most {
        return Ok(whole(first));
    }
    let expected = length.unwrap_or(0).min(most).min(UNKNOWN_LENGTH) as usize;
    let mut body = BytesMut::with_capacity(expected.max(first.len()));
    body.extend_from_slice(&first);
    while body.len() as u64 <= most {
        let Some(piece) = response.chunk().await? else { return Ok(whole(body.freeze())) };
        body.extend_from_slice(&piece);
    }
    body.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(Body { bytes: body.freeze(), is_longer: true })
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use http::header::{CONTENT_RANGE, HeaderValue};

    use super::*;
    use crate::error::{ErrorKind, Retry};

    fn bounds_of(status: u16, wanted: Wanted, headers: &[(HeaderName, &'static str)]) -> Result<Bounds> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let status = StatusCode::from_u16(status).expect("valid");
        bounds(AnswerForm::Object(wanted), status, &HeaderMap::from_iter(headers))
    }

    #[test]
    fn no_more_is_read_than_can_be_wanted() {
        let (any, ten) = (Wanted::Whole { limit: u64::MAX }, Wanted::Whole { limit: 10 });
        let part = Wanted::Part { start: 5, end: 10 };
        let length = |text| [(CONTENT_LENGTH, text)];
        let range = |text| [(CONTENT_RANGE, text)];
        for (status, wanted, headers, most, is_cut) in [
            (200, any, &[][..], UNKNOWN_LENGTH, false),
            (200, any, &length("1099511627776")[..], 1 << 40, false),
            (206, any, &range("bytes 0-19/20")[..], 20, false),
            (200, ten, &[][..], 10, false),
            (200, ten, &length("10")[..], 10, false),
            (200, part, &[][..], UNKNOWN_LENGTH, false),
            (200, part, &length("7")[..], 7, false),
            (200, part, &length("1099511627776")[..], 10, true),
            (200, part, &[(CONTENT_LENGTH, "20"), (CONTENT_RANGE, "bytes 0-19/20")][..], 10, true),
            (206, part, &range("bytes 5-9/20")[..], 5, false),
            (206, part, &[(CONTENT_LENGTH, "3"), (CONTENT_RANGE, "bytes 5-7/8")][..], 3, false),
        ] {
            let bounds = bounds_of(status, wanted, headers).expect("it is read");
            assert_eq!(bounds, Bounds { most, is_cut }, "{status} {wanted:?} {headers:?}");
        }
        for headers in [length("11"), range("bytes 0-10/11")] {
            let error = bounds_of(206, ten, &headers).expect_err("too long");
            assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Never));
        }
        for lie in [
            "bytes 0-1099511627775/1099511627776",
            "bytes 5-1099511627775/1099511627776",
            "bytes 5-10/20",
            "bytes 0-4/20",
        ] {
            let error = bounds_of(206, part, &range(lie)).expect_err(lie);
            assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Maybe), "{lie}");
        }
    }
}

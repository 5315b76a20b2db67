//! A service's words about a failure, without what was sent to it.

use http::{HeaderMap, StatusCode};

use crate::credentials::Secret;
use crate::transport::{Dialect, DocumentFault, ServiceError, Verdict};

/// How much of a secret gives it away; a shorter one only as a whole.
const TELLING: usize = 8;
const MASK: &str = "***";

/// Another dialect, in whose errors each word is masked that holds a piece of a secret. Not `Debug` by derivation,
/// so that nobody need ask what that would show.
pub(super) struct Masked {
    pub(super) inner: std::sync::Arc<dyn Dialect>,
    pub(super) secrets: Vec<Secret>,
}

impl Masked {
    fn masked(&self, said: ServiceError) -> ServiceError {
        let ServiceError { code, message, request_id } = said;
        ServiceError { code: self.text(code), message: self.text(message), request_id: self.text(request_id) }
    }

    fn text(&self, text: String) -> String {
        if !self.tells(&text) {
            return text;
        }
        let words: Vec<&str> = text.split_whitespace().map(|word| if self.tells(word) { MASK } else { word }).collect();
        let masked = words.join(" ");
        // One that stands across words.
        if self.tells(&masked) { MASK.to_owned() } else { masked }
    }

    fn tells(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| {
            let secret = secret.expose().trim().as_bytes();
            let piece = secret.len().min(TELLING);
            piece > 0 && secret.windows(piece).any(|piece| text.as_bytes().windows(piece.len()).any(|w| w == piece))
        })
    }
}

impl std::fmt::Debug for Masked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masked").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Dialect for Masked {
    fn answered(&self, headers: &HeaderMap) {
        self.inner.answered(headers);
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        self.inner.is_own(headers)
    }

    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        self.masked(self.inner.service_error(headers, body))
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, temporary: bool) -> Verdict {
        self.inner.verdict(status, headers, error, temporary)
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        self.inner.check_document(headers, body).map_err(|fault| match fault {
            DocumentFault::Failed(said) => DocumentFault::Failed(self.masked(said)),
            damaged @ DocumentFault::Damaged(_) => damaged,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Debug)]
    struct Echo;

    impl Dialect for Echo {
        fn service_error(&self, _: &HeaderMap, body: &[u8]) -> ServiceError {
            ServiceError { message: String::from_utf8_lossy(body).into_owned(), ..ServiceError::default() }
        }

        fn verdict(&self, _: StatusCode, _: &HeaderMap, _: &ServiceError, _: bool) -> Verdict {
            unreachable!("not asked")
        }

        fn check_document(&self, _: &HeaderMap, _: &[u8]) -> Result<(), DocumentFault> {
            Ok(())
        }
    }

    #[test]
    fn words_with_a_piece_of_a_secret_are_masked() {
        let secrets = ["pin", "s3cr3t-t0ken-0f-length", "two words of it", ""].map(Secret::new).to_vec();
        let masked = Masked { inner: Arc::new(Echo), secrets };
        let said = |text: &str| masked.service_error(&HeaderMap::new(), text.as_bytes()).message;
        for (text, expected) in [
            ("nothing  to hide", "nothing  to hide"),
            ("bad token 's3cr3t-t0ken-0f-length'", "bad token ***"),
            ("it began s3cr3t-t0k...", "it began ***"),
            ("it ended ...0f-length, it seems", "it ended *** it seems"),
            ("s3cr3t is a word", "s3cr3t is a word"),
            ("a pin is masked whole", "a *** is masked whole"),
            ("he said two words of it", "***"),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
    }
}

//! The class of an error that a peer tells: by the status of its answer, and by its words. One table for every room.

use crate::ErrorClass;

impl ErrorClass {
    /// The class of an answer, by its status; by its words where the status says nothing.
    ///
    /// | status | class |
    /// |---|---|
    /// | 401 | token |
    /// | 403 | permission, read-only if the text says so |
    /// | 404 410 | not-found |
    /// | 405 501 and every other status | protocol |
    /// | 408 504 | timeout |
    /// | 409 423 425 429 503 | overload: busy, come again |
    /// | 412 | exists |
    /// | 413 507 | no-space |
    pub fn of_status(status: u16, text: &str) -> Self {
        match status {
            401 => Self::Token,
            403 if says(text, &["read-only", "read only", "readonly"]) => Self::ReadOnly,
            403 => Self::Permission,
            404 | 410 => Self::NotFound,
            408 | 504 => Self::Timeout,
            409 | 423 | 425 | 429 | 503 => Self::Overload,
            412 => Self::Exists,
            413 | 507 => Self::NoSpace,
            _ => Self::of_text(text).unwrap_or(Self::Protocol),
        }
    }

    /// Class from the words of a failure line. Storages write these for people; the words are those of Weir, XRootD, StoRM,
    /// dCache and EOS. URLs in it say nothing: a port or a file name may look like a status.
    pub fn of_text(text: &str) -> Option<Self> {
        let text = without_urls(text);
        const WORDS: &[(&[&str], ErrorClass)] = &[
            (&["checksum", "digest mismatch"], ErrorClass::Checksum),
            (
                &[
                    "no space",
                    "no free space",
                    "quota",
                    "disk full",
                    "507",
                    "insufficient storage",
                    "enospc",
                ],
                ErrorClass::NoSpace,
            ),
            (&["read-only", "read only file system", "erofs"], ErrorClass::ReadOnly),
            (
                &["404", "not found", "no such file", "does not exist", "enoent"],
                ErrorClass::NotFound,
            ),
            (
                &[
                    "401",
                    "unauthorized",
                    "token has expired",
                    "no token",
                    "get token",
                    "token exchange",
                    "refresh token",
                    "token expired",
                    "invalid token",
                    "token is expired",
                ],
                ErrorClass::Token,
            ),
            (
                &[
                    "403",
                    "forbidden",
                    "permission denied",
                    "not permitted",
                    "access denied",
                    "eacces",
                ],
                ErrorClass::Permission,
            ),
            (&["412", "file exists", "already exists", "eexist"], ErrorClass::Exists),
            (
                &["429", "503", "too many", "overload", "busy", "locked", "409", "423"],
                ErrorClass::Overload,
            ),
            (
                &["stall", "low speed", "too slow", "performance marker"],
                ErrorClass::Stall,
            ),
            (&["timed out", "timeout", "time-out"], ErrorClass::Timeout),
            (&["certificate", "tls", "ssl", "handshake"], ErrorClass::Tls),
            (
                &[
                    "size mismatch",
                    "content-length",
                    "bytes of",
                    "short read",
                    "unexpected eof",
                    "truncated",
                ],
                ErrorClass::Size,
            ),
            (
                &[
                    "connect",
                    "resolve",
                    "unreachable",
                    "reset",
                    "broken pipe",
                    "network",
                    "host",
                    "closed",
                ],
                ErrorClass::Network,
            ),
        ];
        WORDS
            .iter()
            .find(|(words, _)| says(&text, words))
            .map(|(_, class)| *class)
    }
}

/// The text without its words that hold a URL.
pub fn without_urls(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !word.contains("://"));
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a text holds any of these, which are in lower case. Numbers count only as words of their own.
pub fn says(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    let number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let alone = |word: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| part == word)
    };
    words
        .iter()
        .any(|word| if number(word) { alone(word) } else { text.contains(word) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rooms that class one answer in two ways make two causes of one fault.
    #[test]
    fn every_row_of_the_tables() {
        for (status, class) in [
            (401, ErrorClass::Token),
            (403, ErrorClass::Permission),
            (404, ErrorClass::NotFound),
            (410, ErrorClass::NotFound),
            (408, ErrorClass::Timeout),
            (504, ErrorClass::Timeout),
            (409, ErrorClass::Overload),
            (423, ErrorClass::Overload),
            (425, ErrorClass::Overload),
            (429, ErrorClass::Overload),
            (503, ErrorClass::Overload),
            (412, ErrorClass::Exists),
            (413, ErrorClass::NoSpace),
            (507, ErrorClass::NoSpace),
            (405, ErrorClass::Protocol),
            (501, ErrorClass::Protocol),
            (500, ErrorClass::Protocol),
        ] {
            assert_eq!(ErrorClass::of_status(status, ""), class, "{status}");
        }
        assert_eq!(
            ErrorClass::of_status(403, "the area is read-only"),
            ErrorClass::ReadOnly
        );
        assert_eq!(
            ErrorClass::of_status(500, "No space left on device"),
            ErrorClass::NoSpace
        );
        for (text, class) in [
            ("CHECKSUM MISMATCH", Some(ErrorClass::Checksum)),
            ("no free space in the pool", Some(ErrorClass::NoSpace)),
            ("ENOSPC", Some(ErrorClass::NoSpace)),
            ("Disk quota exceeded", Some(ErrorClass::NoSpace)),
            ("Read-only file system", Some(ErrorClass::ReadOnly)),
            ("SOURCE [2] No such file or directory", Some(ErrorClass::NotFound)),
            ("HTTP 401", Some(ErrorClass::Token)),
            ("failed to get token", Some(ErrorClass::Token)),
            ("Permission denied", Some(ErrorClass::Permission)),
            (
                "Destination file exists and overwrite is not enabled",
                Some(ErrorClass::Exists),
            ),
            ("the server is busy", Some(ErrorClass::Overload)),
            ("HTTP 409", Some(ErrorClass::Overload)),
            ("no performance marker for 180 s", Some(ErrorClass::Stall)),
            ("operation timed out", Some(ErrorClass::Timeout)),
            ("ssl handshake", Some(ErrorClass::Tls)),
            ("file size mismatch", Some(ErrorClass::Size)),
            ("Connection reset by peer", Some(ErrorClass::Network)),
            ("https://host:404/not-found", None),
            ("something else", None),
        ] {
            assert_eq!(ErrorClass::of_text(text), class, "{text}");
        }
    }
}

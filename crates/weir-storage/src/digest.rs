//! Checksums in headers: `Want-Digest` and `Digest` (RFC 3230), `Want-Repr-Digest` and `Repr-Digest` (RFC 9530),
//! `Content-MD5` (RFC 2616) and ownCloud's `OC-Checksum`.

use http::{HeaderMap, HeaderName, HeaderValue};
use weir_units::{Algorithm, Checksum, ChecksumError, Checksums, parse_digest_header};

/// Checksums that a client wants to know, in the dialect in which it asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedDigests {
    /// In the order of preference; never empty.
    pub algorithms: Vec<Algorithm>,
    /// Whether the answer is `Repr-Digest`.
    pub modern: bool,
}

/// Parses the checksums that a client wants; `None` if none of them is known here.
pub fn wanted(headers: &HeaderMap) -> Option<WantedDigests> {
    let read = |name: &str, modern: bool| {
        let algorithms = preferences(&joined(headers, name)?, modern);
        (!algorithms.is_empty()).then_some(WantedDigests { algorithms, modern })
    };
    read("want-digest", false).or_else(|| read("want-repr-digest", true))
}

/// Known algorithms of a `Want-…` header, the most wanted first; those with preference 0 are not wanted.
///
/// `adler32;q=1, md5;q=0.3` (RFC 3230), or `sha-256=10, crc32c=3` (RFC 9530, preferences from 0 to 10).
fn preferences(header: &str, modern: bool) -> Vec<Algorithm> {
    let mut found: Vec<(f32, Algorithm)> = Vec::new();
    for item in header.split(',').take(32) {
        let (name, preference) = item.split_once(if modern { '=' } else { ';' }).unwrap_or((item, "1"));
        let preference = preference.trim().trim_start_matches("q=").parse::<f32>();
        let preference = preference.ok().filter(|value| value.is_finite()).unwrap_or(1.0);
        if let Ok(algorithm) = name.parse()
            && preference > 0.0
            && !found.iter().any(|(_, known)| *known == algorithm)
        {
            found.push((preference, algorithm));
        }
    }
    // Stable: of equal preference, the first named first.
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, algorithm)| algorithm).collect()
}

impl WantedDigests {
    /// The wanted checksums that are stored already, at least one; `None` if all would have to be computed.
    pub fn known(&self, stored: &Checksums) -> Option<Vec<Checksum>> {
        let known: Vec<Checksum> = self
            .algorithms
            .iter()
            .filter_map(|algorithm| stored.get(*algorithm).cloned())
            .collect();
        (!known.is_empty()).then_some(known)
    }

    /// Writes the answer.
    pub fn answer(&self, checksums: &[Checksum], headers: &mut HeaderMap) {
        let (name, write): (_, fn(&Checksum) -> String) = if self.modern {
            ("repr-digest", Checksum::repr_digest)
        } else {
            ("digest", Checksum::digest_header)
        };
        let mut all = checksums.iter().map(write);
        let mut text = all.next().unwrap_or_default();
        for more in all {
            text.push(',');
            text.push_str(&more);
        }
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// An announced checksum of a known algorithm with an invalid value: ignoring it would verify nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{header}: \"{value}\" is no checksum")]
pub struct InvalidDigest {
    /// The header's name.
    pub header: &'static str,
    /// The part at fault, cut to 80 characters.
    pub value: String,
}

/// Every checksum that the sender of a body, or the other side of a copy, announces; in no dialect more than once.
///
/// # Errors
/// A value of a known algorithm that cannot be read. Unknown algorithms are passed over, as both RFCs ask.
pub fn announced(headers: &HeaderMap) -> Result<Vec<Checksum>, InvalidDigest> {
    let mut found: Vec<Checksum> = Vec::new();
    for header in ["digest", "repr-digest"] {
        for item in joined(headers, header).iter().flat_map(|text| text.split(',')) {
            let read = parse_digest_header(item);
            let name = item.split_once('=').map_or(item, |(name, _)| name);
            if read.is_empty() && name.parse::<Algorithm>().is_ok() {
                return Err(malformed(header, item));
            }
            found.extend(read);
        }
    }
    if let Some(text) = joined(headers, "content-md5") {
        let text = text.trim();
        let read = Checksum::from_base64(Algorithm::Md5, text).or_else(|_| Checksum::from_hex(Algorithm::Md5, text));
        found.push(read.map_err(|_| malformed("content-md5", text))?);
    }
    if let Some(text) = joined(headers, "oc-checksum") {
        match text.parse::<Checksum>() {
            Err(ChecksumError::BadValue { .. }) => return Err(malformed("oc-checksum", &text)),
            read => found.extend(read),
        }
    }
    found.dedup();
    Ok(found)
}

fn malformed(header: &'static str, value: &str) -> InvalidDigest {
    InvalidDigest {
        header,
        value: value.trim().chars().take(80).collect(),
    }
}

/// Asks the other side for these, in both dialects.
pub fn ask(algorithms: &[Algorithm], headers: &mut HeaderMap) {
    if algorithms.is_empty() {
        return;
    }
    let old = algorithms
        .iter()
        .map(|algorithm| algorithm.digest_name())
        .collect::<Vec<_>>()
        .join(",");
    let modern: Vec<String> = algorithms
        .iter()
        .map(|algorithm| {
            if *algorithm == Algorithm::Adler32 {
                "adler=5".to_owned()
            } else {
                format!("{}=5", algorithm.digest_name())
            }
        })
        .collect();
    for (name, text) in [("want-digest", old), ("want-repr-digest", modern.join(", "))] {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// All lines of a header as one list; none if it is absent or no text.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines: Vec<&str> = headers
        .get_all(name)
        .iter()
        .map(HeaderValue::to_str)
        .collect::<Result<_, _>>()
        .ok()?;
    (!lines.is_empty()).then(|| lines.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use Algorithm::{Adler32, Crc32c, Md5, Sha256};

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    /// davix sends the name as the user typed it; a preference that is misread costs a read of the whole file.
    #[test]
    fn wishes_as_clients_write_them() {
        let check = |name, value: &str, expected: Option<(&[Algorithm], bool)>| {
            let expected = expected.map(|(algorithms, modern)| WantedDigests {
                algorithms: algorithms.to_vec(),
                modern,
            });
            assert_eq!(wanted(&headers(&[(name, value)])), expected, "{name}: {value}");
        };
        check("want-digest", "ADLER32", Some((&[Adler32], false)));
        check(
            "want-digest",
            "sha-512;q=1, md5;q=0.3, adler32;q=1",
            Some((&[Adler32, Md5], false)),
        );
        check("want-digest", "crc32c , adler32;q=0", Some((&[Crc32c], false)));
        check("want-digest", "unixsum", None);
        check("want-digest", "md5;q=nan,sha-256;q=x", Some((&[Md5, Sha256], false)));
        check(
            "want-repr-digest",
            "sha-256=3, adler=10",
            Some((&[Adler32, Sha256], true)),
        );
        assert_eq!(wanted(&HeaderMap::new()), None);
    }

    /// A checksum that is overlooked is not verified.
    #[test]
    fn announcements_in_every_dialect() {
        let found = announced(&headers(&[
            ("digest", "adler32=a1b2c3d,sha-512=x"),
            ("repr-digest", "crc32c=:AAAAAQ==:"),
            ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
            ("oc-checksum", "ADLER32:0A1B2C3D"),
        ]))
        .unwrap();
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "adler32:0a1b2c3d",
                "crc32c:00000001",
                "md5:d41d8cd98f00b204e9800998ecf8427e",
                "adler32:0a1b2c3d"
            ]
        );
    }

    /// A checksum that cannot be read was meant to be compared: passing over it would take any body.
    #[test]
    fn announcements_that_make_no_sense() {
        let check = |name, value: &str, malformed: bool| {
            assert_eq!(
                announced(&headers(&[(name, value)])).is_err(),
                malformed,
                "{name}: {value}"
            );
        };
        check("digest", "adler32=zz", true);
        check("digest", "sha-512=x, md5=", true);
        check("digest", "adler32", true);
        check("digest", "unixsum=30637,,", false);
        check("repr-digest", "sha-256=:AAAA:", true);
        check("content-md5", "x", true);
        check("oc-checksum", "ADLER32:xyz", true);
        check("oc-checksum", "SHA3-256:xyz", false);
        check("oc-checksum", "nonsense", false);
    }

    /// Our answers must be understood by our parser.
    #[test]
    fn answers_are_read_back() {
        let all: Checksums = [Checksum::adler32(0x0a1b_2c3d), Checksum::crc32c(1)]
            .into_iter()
            .collect();
        for modern in [false, true] {
            let wanted = WantedDigests {
                algorithms: vec![Md5, Crc32c, Adler32],
                modern,
            };
            let known = wanted.known(&all).unwrap();
            let mut headers = HeaderMap::new();
            wanted.answer(&known, &mut headers);
            assert_eq!(announced(&headers).unwrap(), known);
            assert_eq!(known[0].algorithm, Crc32c);
        }
        assert_eq!(
            WantedDigests {
                algorithms: vec![Md5],
                modern: false
            }
            .known(&all),
            None
        );
        let mut headers = HeaderMap::new();
        ask(&[Adler32, Sha256], &mut headers);
        assert_eq!(headers["want-digest"], "adler32,sha-256");
        assert_eq!(headers["want-repr-digest"], "adler=5, sha-256=5");
    }
}

//! PFNs that clients give: URLs of files at an RSE, read against the protocols of that RSE.
//!
//! A PFN that is taken becomes a path below the RSE's prefix. The catalogue later reads and deletes that path with credentials of its own, so
//! the path must not lead anywhere else.

use percent_encoding::percent_decode_str;

use crate::rses::protocols::{Endpoint, Protocol};

/// Longest PFN, in bytes: the longest path of Linux (`PATH_MAX`).
const LENGTH_MAX: usize = 4096;

/// Why a text is no PFN of an RSE.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PfnError {
    /// It has another form than `scheme://host:port/path`.
    #[error("it is no URL of the form scheme://host:port/path")]
    NoUrl,
    /// It is longer than any path of a file system.
    #[error("it has more than {LENGTH_MAX} bytes")]
    TooLong,
    /// It holds a user name, a query or a fragment.
    #[error("it holds a {0}, and a PFN has none")]
    Part(&'static str),
    /// No protocol of the RSE has this scheme, host and port.
    #[error("the RSE has no protocol {given}; it has {known}")]
    Elsewhere {
        /// Scheme, host and port of the PFN.
        given: String,
        /// The prefixes of the RSE's protocols.
        known: String,
    },
    /// It lies beside the folder of the RSE.
    #[error("its path does not lie below the prefix {0}")]
    Prefix(String),
    /// The path is not in its normal form, which alone is compared.
    #[error("its path {0}")]
    Path(#[from] PathError),
}

/// Why a path below an RSE's prefix is not in normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is the folder itself, or another folder.
    #[error("is that of a folder")]
    Folder,
    /// It holds `//`, or begins with a slash.
    #[error("holds an empty segment")]
    Empty,
    /// It leads to another folder.
    #[error("holds the segment . or ..")]
    Dots,
    /// It holds a control character, a backslash, or a byte that is no UTF-8.
    #[error(
        "holds a character that paths of files do not have here (a control character, a backslash, an encoded slash, or no UTF-8)"
    )]
    Character,
}

/// The path below the prefix, of a PFN at an RSE with these protocols. Any of them may match; `davs` and `https` are one, as are `root` and
/// `xroot`.
///
/// # Errors
/// [`PfnError`]: the first part that does not match.
pub fn path(pfn: &str, protocols: &[Protocol]) -> Result<String, PfnError> {
    if pfn.len() > LENGTH_MAX {
        return Err(PfnError::TooLong);
    }
    let (scheme, rest) = pfn.split_once("://").ok_or(PfnError::NoUrl)?;
    let (authority, path) = rest.split_at(rest.find('/').ok_or(PfnError::NoUrl)?);
    let given = endpoint(scheme, authority)?;
    let here = protocols
        .iter()
        .filter(|one| same(&one.endpoint, &given))
        .collect::<Vec<_>>();
    if here.is_empty() {
        let known = protocols
            .iter()
            .map(|one| shown(&one.endpoint))
            .collect::<Vec<_>>()
            .join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        return Err(PfnError::Elsewhere {
            given: shown(&given),
            known,
        });
    }
    let path = decoded(family(&given.scheme), path)?;
    // The longest prefix first: one protocol's folder may lie in another's.
    let mut prefixes = here.iter().map(|one| one.prefix.trim_matches('/')).collect::<Vec<_>>();
    prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
    let below = prefixes.iter().find_map(|prefix| below(&path, prefix));
    let below = below.ok_or_else(|| PfnError::Prefix(format!("/{}", prefixes.join(", /"))))?;
    normal(below)?;
    Ok(below.to_owned())
}

/// The path behind a prefix, which begins and ends with no slash.
fn below<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    // The path of `root://host//path` begins with a slash of its own.
    let path = path.strip_prefix('/')?;
    if prefix.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(prefix)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

/// Whether a path below an RSE's prefix is in normal form: segments that are neither empty nor `.` or `..`, without control characters.
///
/// # Errors
/// [`PathError`].
pub fn normal(path: &str) -> Result<(), PathError> {
    if path.is_empty() || path.ends_with('/') {
        return Err(PathError::Folder);
    }
    if path.contains(|c: char| c.is_control() || c == '\\') {
        return Err(PathError::Character);
    }
    for segment in path.split('/') {
        match segment {
            "" => return Err(PathError::Empty),
            "." | ".." => return Err(PathError::Dots),
            _ => {}
        }
    }
    Ok(())
}

fn endpoint(scheme: &str, authority: &str) -> Result<Endpoint, PfnError> {
    if authority.contains('@') {
        return Err(PfnError::Part("user name"));
    }
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.[]:_".contains(c));
    if !is_name(scheme) || !is_name(authority) {
        return Err(PfnError::NoUrl);
    }
    // The last colon, unless it is part of an IPv6 address.
    let (hostname, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| PfnError::NoUrl)?),
        _ => (authority, 0),
    };
    Ok(Endpoint {
        scheme: scheme.to_ascii_lowercase(),
        hostname: hostname.to_owned(),
        port,
    })
}

/// The path of the file. `root://` URLs are not encoded; there, only the start of a query is refused.
fn decoded(family: &str, path: &str) -> Result<String, PfnError> {
    if path.contains('?') {
        return Err(PfnError::Part("query"));
    }
    if family == "root" {
        return Ok(format!("/{}", path.trim_start_matches('/')));
    }
    if path.contains('#') {
        return Err(PfnError::Part("fragment"));
    }
    // An encoded slash is one for some servers, and none for others.
    if path.to_ascii_lowercase().contains("%2f") {
        return Err(PathError::Character.into());
    }
    let decoded = percent_decode_str(path).decode_utf8();
    Ok(decoded.map_err(|_| PathError::Character)?.into_owned())
}

/// Schemes that are names of the same protocol.
pub fn family(scheme: &str) -> &str {
    match scheme {
        "davs" => "https",
        "dav" => "http",
        "xroot" => "root",
        other => other,
    }
}

/// The port of an endpoint, or the scheme's own.
pub fn port(endpoint: &Endpoint) -> u16 {
    match (endpoint.port, family(&endpoint.scheme)) {
        (0, "https") => 443,
        (0, "http") => 80,
        (0, "root" | "roots" | "xroots") => 1094,
        (port, _) => port,
    }
}

fn same(one: &Endpoint, other: &Endpoint) -> bool {
    family(&one.scheme) == family(&other.scheme)
        && one.hostname.eq_ignore_ascii_case(&other.hostname)
        && port(one) == port(other)
}

fn shown(endpoint: &Endpoint) -> String {
    let port = port(endpoint);
    format!("{}://{}:{port}", endpoint.scheme, endpoint.hostname)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use proptest::prelude::*;

    use super::*;
    use crate::{paths, testing::protocol};

    fn protocols() -> Vec<Protocol> {
        let mut root = protocol("root", "se", 2);
        root.endpoint.port = 1094;
        vec![protocol("davs", "se", 1), root]
    }

    fn check(pfn: &str) -> Result<String, String> {
        path(pfn, &protocols()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pfn_is_a_file_below_the_prefix_of_a_protocol() {
        for (pfn, expected) in [
            ("davs://se:8443/data/ok", "ok"),
            ("https://SE:8443/data/a/b", "a/b"),
            ("root://se:1094//data/a", "a"),
            ("xroot://se/data/a", "a"),
            ("root://se//data/100%25", "100%25"),
            ("davs://se:8443/data/a%20b+c", "a b+c"),
            ("davs://se:8443/data/100%", "100%"),
            ("davs://se:8443/data/..a/b..", "..a/b.."),
        ] {
            assert_eq!(check(pfn).as_deref(), Ok(expected), "{pfn}");
        }
    }

    #[test]
    fn a_pfn_outside_the_rse_is_refused_with_the_part_that_does_not_match() {
        for (pfn, reason) in [
            ("victim", "no URL"),
            ("../outside", "no URL"),
            ("/data/x", "no URL"),
            ("davs://se:8443", "no URL"),
            ("davs://:8443/data/x", "no protocol davs://:8443"),
            ("davs://se:port/data/x", "no URL"),
            (
                "davs://other:8443/data/x",
                "no protocol davs://other:8443; it has davs://se:8443, root://se:1094",
            ),
            ("davs://se:8444/data/x", "no protocol davs://se:8444"),
            ("davs://se/data/x", "no protocol davs://se:443"),
            ("gsiftp://se:8443/data/x", "no protocol gsiftp"),
            ("davs://me@se:8443/data/x", "user name"),
            ("davs://se:8443/data/x?a=b", "query"),
            ("root://se//data/x?xrd.wantprot=unix", "query"),
            ("davs://se:8443/data/x#y", "fragment"),
            ("davs://se:8443/other/x", "prefix /data"),
            ("davs://se:8443/database/x", "prefix /data"),
            ("davs://se:8443//data/x", "prefix /data"),
            ("davs://se:8443/data", "folder"),
            ("davs://se:8443/data/", "folder"),
            ("davs://se:8443/data/a/", "folder"),
            ("davs://se:8443/data//a", "empty segment"),
            ("davs://se:8443/data/a//b", "empty segment"),
            ("root://se//data//b", "empty segment"),
            ("davs://se:8443/data/../x", "segment . or .."),
            ("davs://se:8443/data/%2e%2e/x", "segment . or .."),
            ("davs://se:8443/data/%2E/x", "segment . or .."),
            ("davs://se:8443/data/a%2fb", "character"),
            ("davs://se:8443/data/a%00", "character"),
            ("davs://se:8443/data/a\\b", "character"),
            ("davs://se:8443/data/%ff", "character"),
            ("root://se//data/a\nb", "character"),
        ] {
            let said = check(pfn).unwrap_err();
            assert!(said.contains(reason), "{pfn}: {said}");
        }
        assert_eq!(
            check(&format!("davs://se:8443/data/{}", "x".repeat(5000))).unwrap_err(),
            "it has more than 4096 bytes"
        );
        let none = path("davs://se/x", &[]).unwrap_err().to_string();
        assert_eq!(none, "the RSE has no protocol davs://se:443; it has none");
    }

    proptest! {
        // A URL that the catalogue gives is taken back as the same path, and no text leads out of the prefix.
        #[test]
        fn own_urls_come_back(path in "[a-zA-Z0-9+'&;=é~%# -]{1,8}(/[a-z.]{2}[a-z0-9]{1,3}){0,3}") {
            let protocol = protocol("davs", "se", 1);
            let url = paths::on_the_wire(&protocol, &path);
            prop_assert_eq!(super::path(&url, &[protocol]).unwrap(), path);
        }

        #[test]
        fn accepted_names_are_normal(text in "(davs|root)://se(:8443|:1094)?/{1,2}data/[a-z./%0-9\\\\]{0,20}") {
            if let Ok(path) = super::path(&text, &protocols()) {
                prop_assert!(normal(&path).is_ok());
            }
        }
    }
}

//! Where a redirect leads. Whether it is followed, and which headers go along, is for the caller to decide.

use http::{HeaderMap, StatusCode, Uri, header};

/// Whether the answer is a redirect of the request to another place.
pub fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the target of a redirect with these headers; `None` if it is absent, or no URL of HTTP.
pub fn target(from: &Uri, headers: &HeaderMap) -> Option<Uri> {
    resolve(from, headers.get(header::LOCATION)?.to_str().ok()?)
}

/// Resolves a reference against the URI in use (RFC 3986 section 5.2, without dot segments, which no endpoint sends). The schemes `dav` and
/// `davs` become `http` and `https`. A reference with a user name leads nowhere.
pub fn resolve(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next()?.trim_matches([' ', '\t']);
    // A line break at its beginning would hide the `//` of another host from a textual check.
    if location.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return None;
    }
    let (scheme, authority) = (from.scheme_str()?, from.authority()?.as_str());
    let whole = if location.is_empty() {
        return None;
    } else if has_scheme(location) {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let uri: Uri = whole.parse().ok()?;
    let scheme = match uri.scheme_str()?.to_ascii_lowercase().as_str() {
        "https" | "davs" => "https",
        "http" | "dav" => "http",
        _ => return None,
    };
    let mut parts = uri.into_parts();
    parts.scheme = scheme.parse().ok();
    parts
        .authority
        .as_ref()
        .filter(|authority| !authority.as_str().contains('@'))?;
    Uri::from_parts(parts).ok()
}

/// Whether it begins with a scheme and not with a path, whose query may hold another URL.
fn has_scheme(location: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    location
        .split_once("://")
        .is_some_and(|(scheme, _)| scheme.bytes().all(letter))
}

/// Whether both are reached by the same scheme at the same host and port: only there may a credential for one go to the other.
pub fn is_same_origin(a: &Uri, b: &Uri) -> bool {
    origin(a) == origin(b)
}

fn origin(uri: &Uri) -> (Option<&str>, Option<String>, Option<u16>) {
    let usual = match uri.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    };
    let host = uri.host().map(str::to_ascii_lowercase);
    (uri.scheme_str(), host, uri.port_u16().or(usual))
}

/// Whether a redirect leads out of TLS, so that encrypted data would be sent in the clear.
pub fn leaves_tls(from: &Uri, to: &Uri) -> bool {
    from.scheme_str() == Some("https") && to.scheme_str() != Some("https")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// A redirect that is resolved wrongly reads another file, or tells another host our token.
    #[test]
    fn redirects_resolve() {
        let from: Uri = "https://a:1/x/y?q".parse().unwrap();
        let check = |location: &str, expected: Option<&str>| {
            let resolved = resolve(&from, location).map(|uri| uri.to_string());
            assert_eq!(resolved.as_deref(), expected, "{location}");
        };
        check("https://b/z?t=1#frag", Some("https://b/z?t=1"));
        check("https://b:8443/z?authz=1", Some("https://b:8443/z?authz=1"));
        check("davs://b:2/z", Some("https://b:2/z"));
        check("dav://b/z", Some("http://b/z"));
        check("//b/z", Some("https://b/z"));
        check(" /z ", Some("https://a:1/z"));
        check("z", Some("https://a:1/x/z"));
        check("/z?then=https://b/", Some("https://a:1/z?then=https://b/"));
        check("z?then=https://b/", Some("https://a:1/x/z?then=https://b/"));
        check("HTTPS://b/z", Some("https://b/z"));
        check(" //b/z\t", Some("https://b/z"));
        for nowhere in [
            "\n//b/z",
            "\u{2028}//b/z",
            "/a b",
            "ftp://b/z",
            "root://b//z",
            "https://user@b/z",
            "https://",
            "",
            "#x",
        ] {
            check(nowhere, None);
        }
    }

    /// A credential would go to another server.
    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let from: Uri = "https://a/f".parse().unwrap();
        for (to, same) in [
            ("https://a/g", true),
            ("https://A:443/g", true),
            ("https://a:99/g", false),
            ("http://a/g", false),
            ("https://b/f", false),
        ] {
            assert_eq!(is_same_origin(&from, &to.parse().unwrap()), same, "{to}");
        }
        assert!(leaves_tls(&from, &"http://a/f".parse().unwrap()));
        assert!(!leaves_tls(&from, &"https://b/f".parse().unwrap()));
    }
}

//! Paths of files at RSEs whose paths follow from DIDs.

use md5::{Digest as _, Md5};
use weir_model::catalog::Did;

use crate::rses::protocols::Protocol;

/// The path below the prefix, by Rucio's algorithm `hash`: two levels of folders from the MD5 sum of the DID. Dots in scopes of users and groups
/// become folders.
pub fn hashed(did: &Did) -> String {
    let sum = Md5::digest(did.to_string().as_bytes());
    let mut scope = did.scope.to_string();
    if scope.starts_with("user") || scope.starts_with("group") {
        scope = scope.replace('.', "/");
    }
    format!("{scope}/{:02x}/{:02x}/{}", sum[0], sum[1], did.name)
}

/// The DIDs that [`hashed`] gives this path: seldom more than one, and none for most paths that clients choose. The scopes `user.a` and `user`
/// share folders, so that two DIDs may have one path.
pub fn dids_of(path: &str) -> Vec<Did> {
    let is_sum = |text: &str| {
        text.len() == 2
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    // A scope has at most 30 characters, and so at most 15 folders.
    let ends = path.match_indices('/').map(|(at, _)| at).take(SCOPE_FOLDERS_MAX);
    let did = |end: usize| {
        let (scope, rest) = (&path[..end], &path[end + 1..]);
        let (first, rest) = rest.split_once('/')?;
        let (second, name) = rest.split_once('/')?;
        (is_sum(first) && is_sum(second)).then_some(())?;
        let did = Did {
            scope: scope.replace('/', ".").parse().ok()?,
            name: name.parse().ok()?,
        };
        (hashed(&did) == path).then_some(did)
    };
    ends.filter_map(did).collect()
}

/// The most folders that a scope may become.
const SCOPE_FOLDERS_MAX: usize = 15;

/// The URL of a file at a protocol's endpoint. `path` is below the prefix.
pub fn url(protocol: &Protocol, path: &str) -> String {
    let endpoint = &protocol.endpoint;
    let prefix = protocol.prefix.trim_end_matches('/');
    let port = if endpoint.port == 0 {
        String::new()
    } else {
        format!(":{}", endpoint.port)
    };
    // `root://host//path`: the path begins with a slash of its own.
    let slash = if endpoint.scheme == "root" && !prefix.starts_with("//") {
        "/"
    } else {
        ""
    };
    format!(
        "{}://{}{port}{slash}{prefix}/{}",
        endpoint.scheme,
        endpoint.hostname,
        path.trim_start_matches('/')
    )
}

/// A path with each of its segments encoded.
fn encoded(path: &str) -> String {
    let segments = path
        .split('/')
        .map(|segment| weir_auth::url_segment(segment).to_string());
    segments.collect::<Vec<_>>().join("/")
}

/// The URL as a request carries it. [`url`] is for people, and for clients that encode it themselves; `root://` URLs are not encoded.
pub fn on_the_wire(protocol: &Protocol, path: &str) -> String {
    if protocol.endpoint.scheme.ends_with("root") {
        return url(protocol, path);
    }
    let on_the_wire = Protocol {
        prefix: encoded(&protocol.prefix),
        ..protocol.clone()
    };
    url(&on_the_wire, &encoded(path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use crate::rses::protocols::{Endpoint, Priorities};

    #[test]
    fn paths_are_those_of_rucio() {
        // From `tests/rucio/exchanges.json`; the second is Rucio's rule for users.
        let path = |did: &str| hashed(&did.parse().unwrap());
        assert_eq!(path("rec:f1"), "rec/f1/3e/f1");
        assert_eq!(path("rec:dir/f3"), "rec/ae/b3/dir/f3");
        assert!(path("user.alice:f").starts_with("user/alice/"));
        for did in ["rec:f1", "rec:dir/f3", "user.alice:f", "rec:/f", "group.a.b:ab/cd/f"] {
            let did: Did = did.parse().unwrap();
            assert_eq!(dids_of(&hashed(&did)), [did]);
        }
        assert!(dids_of("rec/00/00/f1").is_empty() && dids_of("rec").is_empty() && dids_of("").is_empty());
        // Found by trying names: the folders of one scope are those of a file of the other.
        let two = dids_of(&path("user.ab.cd:ef/01/n"));
        assert_eq!(two.len(), 1, "{two:?}");
        let protocol = |scheme: &str, port, prefix: &str| Protocol {
            endpoint: Endpoint {
                scheme: scheme.into(),
                hostname: "se".into(),
                port,
            },
            prefix: prefix.into(),
            implementation: String::new(),
            extended: None,
            priorities: Priorities::default(),
        };
        assert_eq!(url(&protocol("davs", 8443, "/data/"), "a/b"), "davs://se:8443/data/a/b");
        assert_eq!(url(&protocol("https", 0, ""), "/a"), "https://se/a");
        assert_eq!(url(&protocol("root", 1094, "/data"), "a"), "root://se:1094//data/a");
        let strange = on_the_wire(&protocol("davs", 8443, "/da ta"), "a#b?c%d/é");
        assert_eq!(strange, "davs://se:8443/da%20ta/a%23b%3Fc%25d/%C3%A9");
        assert_eq!(
            on_the_wire(&protocol("root", 1094, "/data"), "a#b"),
            "root://se:1094//data/a#b"
        );
    }
}

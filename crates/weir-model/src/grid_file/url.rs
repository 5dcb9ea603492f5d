//! The few rules that a URL in a grid file must follow.

use crate::file::Refusal;

/// Accepts `https://host[:port][/path]` and gives it back without slashes at the end.
///
/// Tokens travel in these requests, so nothing but `https` is accepted, and no user, password, query or fragment.
pub(super) fn https(url: &str) -> Result<String, Refusal> {
    let refuse = |message: String, remedy: &str| Err(Refusal::new(message, remedy));
    let Some((scheme, rest)) = url.split_once("://") else {
        return refuse(format!("\"{url}\" is not a URL"), "write \"https://host:port/folder\"");
    };
    if scheme != "https" {
        return refuse(
            format!("the scheme is {scheme}"),
            "use https://: tokens must not travel in the clear",
        );
    }
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if authority.contains('@') {
        return refuse(
            "holds a user name or password".to_owned(),
            "leave it out; tokens identify the caller",
        );
    }
    if url.contains(['?', '#']) {
        return refuse("holds a query or fragment".to_owned(), "end the URL with the folder");
    }
    if let Some(bad) = url
        .chars()
        .find(|c| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '`'))
    {
        return refuse(format!("holds the character {bad:?}"), "write it percent-encoded");
    }
    if path.split('/').any(|part| part == ".." || part == ".") {
        return refuse("holds . or .. in its path".to_owned(), "write the folder's own path");
    }
    let (host, port) = split_port(authority);
    if !host_is_valid(host) {
        return refuse(
            format!("\"{host}\" is not a host"),
            "write a host name, an IPv4 address or [an IPv6 address]",
        );
    }
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return refuse(
            "the port is not a number from 1 to 65535".to_owned(),
            "correct it or leave it out",
        );
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Accepts the path of a URL, or one above it.
pub(super) fn is_below(base: &str, url: &str) -> Result<(), Refusal> {
    let path = path_of(url);
    let above = base.trim_end_matches('/');
    let is_above = path
        .strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if base.starts_with('/') && is_above {
        return Ok(());
    }
    let message = format!("\"{base}\" is neither the path of the url, {path}/, nor above it");
    Err(Refusal::new(
        message,
        "write the path at which the storage lets the scopes of the issuer begin, such as \"/\"",
    ))
}

/// The path of a URL, without a slash at the end.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |at| rest[at..].trim_end_matches('/'))
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    let address_end = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[address_end..].find(':') {
        Some(at) => (&authority[..address_end + at], Some(&authority[address_end + at + 1..])),
        None => (authority, None),
    }
}

pub(super) fn host_is_valid(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label_is_valid =
        |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    host.len() <= 253 && host.split('.').all(label_is_valid)
}

#[cfg(test)]
mod tests {
    use super::https;

    /// A URL would be accepted that no request can use, or that would carry a secret in the clear.
    #[test]
    fn urls() {
        for good in [
            "https://se.example.org",
            "https://127.0.0.1:8443/data/x",
            "https://[::1]:443/a%20b",
        ] {
            assert_eq!(https(good).as_deref(), Ok(good));
        }
        assert_eq!(https("https://se/data//").as_deref(), Ok("https://se/data"));
        let check = |url: &str, part: &str| {
            let refusal = https(url).expect_err(url);
            let text = format!("{}; {}", refusal.message, refusal.remedy);
            assert!(text.contains(part), "{url}: {text}");
        };
        check("se.example.org/data", "is not a URL");
        check("http://se/data", "tokens must not travel in the clear");
        check("davs://se/data", "scheme is davs");
        check("https://", "is not a host");
        check("https:///data", "is not a host");
        check("https://a..b/", "is not a host");
        check("https://[::g]/", "is not a host");
        check("https://se:0/", "port");
        check("https://se:99999/", "port");
        check("https://se:/", "port");
        check("https://me:pw@se/", "user name");
        check("https://se/a?authz=x", "query");
        check("https://se/a b", "character ' '");
        check("https://sé/", "character");
        check("https://se/a/../b", "..");
    }
}

//! The URLs of files at storage elements, as clients write them and as we send them.

use std::{borrow::Cow, fmt, ops::Range};

use serde::{Deserialize, Serialize, Serializer};
use weir_auth::{MASK, Secret};

/// A file's URL, split once: where it comes in, or when its row is read.
///
/// FTS tells storage elements apart by `scheme://host` and leaves the port out ([`Surl::se`]). Requests need the port
/// ([`Surl::http_url`]). Messages must not carry the query, where some storages put a credential ([`Surl::redacted`]).
/// Serde, and the databases, have it as its text.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Surl {
    text: String,
    parts: Parts,
}

/// Where the parts of a URL are in its text.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Parts {
    scheme: Scheme,
    host: Range<usize>,
    /// The host, if the text does not have it in lower case.
    lower_host: Option<Box<str>>,
    port: Option<u16>,
    path_start: usize,
}

/// The schemes that the executor speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// `https`.
    Https,
    /// `davs`: `https` by another name.
    Davs,
    /// `http`, for storages without TLS.
    Http,
    /// `dav`: `http` by another name.
    Dav,
}

impl Scheme {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Https, Self::Davs, Self::Http, Self::Dav];

    /// As it stands in the URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Davs => "davs",
            Self::Http => "http",
            Self::Dav => "dav",
        }
    }

    /// The scheme on the wire.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Https | Self::Davs => "https",
            Self::Http | Self::Dav => "http",
        }
    }

    /// Whether bytes and tokens travel encrypted.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Https | Self::Davs)
    }
}

/// A storage element, as FTS tells them apart: the scheme and the host of its URLs, the port dropped. Shown as `scheme://host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Storage<'a> {
    scheme: Scheme,
    host: &'a str,
}

impl fmt::Display for Storage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)
    }
}

/// The reason why a text is no transferable URL. The texts are those of FTS3 where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SurlError {
    /// No `scheme://`.
    #[error("Missing scheme ({0})")]
    MissingScheme(String),
    /// `file://`.
    #[error("Can not transfer local files ({0})")]
    LocalFile(String),
    /// Nothing after the host.
    #[error("Missing path ({0})")]
    MissingPath(String),
    /// Nothing between `//` and the path.
    #[error("Missing host ({0})")]
    MissingHost(String),
    /// A scheme the executor does not speak.
    #[error("Unsupported scheme, use https or davs ({0})")]
    UnsupportedScheme(String),
    /// Unencrypted where the service allows only encrypted.
    #[error("Unencrypted transfers are not allowed here, use https or davs ({0})")]
    Unencrypted(String),
    /// `user:password@host`, a port that is no number, control characters.
    #[error("Malformed URL ({0})")]
    Malformed(String),
}

impl Parts {
    fn of(text: &str, root: bool) -> Result<Self, SurlError> {
        let shown = || redact_query(text);
        let Some((scheme_text, rest)) = text.split_once("://") else {
            return Err(SurlError::MissingScheme(shown()));
        };
        let scheme = match scheme_text.to_ascii_lowercase().as_str() {
            "" => return Err(SurlError::MissingScheme(shown())),
            "file" => return Err(SurlError::LocalFile(shown())),
            "https" => Scheme::Https,
            "davs" => Scheme::Davs,
            "http" => Scheme::Http,
            "dav" => Scheme::Dav,
            _ => return Err(SurlError::UnsupportedScheme(shown())),
        };
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(authority_end);
        if text.chars().any(char::is_control) || authority.contains(['@', '\\', ' ']) {
            return Err(SurlError::Malformed(
                hide_userinfo(&shown()).replace(char::is_control, "?"),
            ));
        }
        let (host, port) = split_port(authority).ok_or_else(|| SurlError::Malformed(shown()))?;
        if tail.is_empty() || tail == "/" && !root || tail.starts_with(['?', '#']) {
            return Err(SurlError::MissingPath(shown()));
        }
        if host.is_empty() {
            return Err(SurlError::MissingHost(shown()));
        }
        let host_start = scheme_text.len() + "://".len();
        Ok(Self {
            scheme,
            host: host_start..host_start + host.len(),
            lower_host: host
                .contains(|c: char| c.is_ascii_uppercase())
                .then(|| host.to_ascii_lowercase().into()),
            port,
            path_start: text.len() - tail.len(),
        })
    }
}

impl Surl {
    /// Splits and checks a URL.
    ///
    /// # Errors
    /// See [`SurlError`]; the messages name the URL without its query.
    pub fn parse(text: &str) -> Result<Self, SurlError> {
        Self::read(text, false)
    }

    /// As [`Self::parse`], of a file or a directory: that may be the storage's root.
    ///
    /// # Errors
    /// See [`Self::parse`].
    pub fn parse_place(text: &str) -> Result<Self, SurlError> {
        Self::read(text, true)
    }

    fn read(text: &str, root: bool) -> Result<Self, SurlError> {
        let text = text.trim();
        let parts = Parts::of(text, root)?;
        let text = text.to_owned();
        Ok(Self { text, parts })
    }

    /// As the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.parts.scheme
    }

    /// Its storage element.
    pub fn storage(&self) -> Storage<'_> {
        Storage {
            scheme: self.scheme(),
            host: self.host(),
        }
    }

    /// The name of its storage element: `scheme://host`.
    pub fn se(&self) -> String {
        self.storage().to_string()
    }

    /// The host alone.
    pub fn host(&self) -> &str {
        let parts = &self.parts;
        parts.lower_host.as_deref().unwrap_or(&self.text[parts.host.clone()])
    }

    /// The path with all that follows it.
    fn tail(&self) -> &str {
        &self.text[self.parts.path_start..]
    }

    fn port(&self) -> u16 {
        let usual = if self.scheme().is_encrypted() { 443 } else { 80 };
        self.parts.port.unwrap_or(usual)
    }

    /// `https://host:port/path?query`, percent-encoded where HTTP needs it and otherwise untouched.
    pub fn http_url(&self) -> String {
        let tail = self.tail().split('#').next().unwrap_or_default();
        let mut url = format!("{}://{}", self.scheme().wire(), self.host());
        if let Some(port) = self.parts.port {
            url.push(':');
            url.push_str(&port.to_string());
        }
        url.push_str(&encode(tail));
        url
    }

    /// `https://host:port`: where requests for this file first go.
    pub fn endpoint(&self) -> String {
        format!("{}://{}:{}", self.scheme().wire(), self.host(), self.port())
    }

    /// The identity of the file, independent of spelling: `davs` and `https`, a scheme's default port, doubled slashes,
    /// dots and percent-encoding make no difference. The query is left out, as it holds credentials more often than
    /// names: a caller that keeps two writers apart by this is on the safe side.
    pub fn identity(&self) -> String {
        let tail = self.tail().split(['?', '#']).next().unwrap_or_default();
        let bytes = percent_encoding::percent_decode_str(tail).collect::<Vec<_>>();
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in bytes.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let (host, port) = (self.host().trim_end_matches('.'), self.port());
        let path = percent_encoding::percent_encode(&parts.join(&b'/'), percent_encoding::NON_ALPHANUMERIC).to_string();
        format!("{}://{host}:{port}/{path}", self.scheme().wire())
    }

    /// The same with a slash at the end of its path, as collections are best asked for (RFC 4918 section 5.2).
    #[must_use]
    pub fn as_directory(&self) -> Self {
        let tail = self.tail();
        let end = self.parts.path_start + tail.find(['?', '#']).unwrap_or(tail.len());
        let mut directory = self.clone();
        if !self.text[..end].ends_with('/') {
            directory.text.insert(end, '/');
        }
        directory
    }

    /// The last name in its path, decoded; `None` of the storage's root.
    pub fn name(&self) -> Option<String> {
        let path = self.tail().split(['?', '#']).next()?;
        let name = path.split('/').rfind(|name| !name.is_empty())?;
        let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
        Some(name.into_owned())
    }

    /// How many names its path has.
    pub fn depth(&self) -> usize {
        let path = self.tail().split(['?', '#']).next();
        path.unwrap_or_default()
            .split('/')
            .filter(|name| !name.is_empty())
            .count()
    }

    /// The text after the `?`, if there is one.
    pub fn query(&self) -> Option<&str> {
        let (_, query) = self.tail().split_once('?')?;
        query.split('#').next()
    }

    /// For people: the query, if any, is replaced.
    pub fn redacted(&self) -> String {
        redact_query(&self.text)
    }

    /// Splits the URL into its public part and its secret: the query, where credentials travel, and the fragment. In
    /// the public part `***` stands in their place, so that it can be shown as it is.
    pub fn conceal(&self) -> (Self, Option<Secret>) {
        let tail = self.tail();
        let at = tail.find(['?', '#']).unwrap_or(tail.len());
        if tail.len() - at <= 1 {
            return (self.clone(), None);
        }
        (self.with_end(at + 1, MASK), Some(Secret::new(&tail[at..])))
    }

    /// Whether [`Self::conceal`] hid something here.
    pub fn conceals(&self) -> bool {
        let head = self.tail().strip_suffix(MASK);
        head.is_some_and(|head| head.ends_with(['?', '#']))
    }

    /// The URL that [`Self::conceal`] parted.
    pub fn reveal(&self, secret: Option<&Secret>) -> Cow<'_, Self> {
        match secret {
            Some(secret) if self.conceals() => {
                let at = self.tail().len() - MASK.len() - 1;
                Cow::Owned(self.with_end(at, secret.expose()))
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// The same with another end, behind the first `at` bytes of [`Self::tail`]. Its parts are where they were: they are before it.
    fn with_end(&self, at: usize, end: &str) -> Self {
        let text = format!("{}{end}", &self.text[..self.parts.path_start + at]);
        let parts = self.parts.clone();
        Self { text, parts }
    }
}

impl TryFrom<String> for Surl {
    type Error = SurlError;

    fn try_from(text: String) -> Result<Self, SurlError> {
        if text.trim().len() < text.len() {
            return Self::parse(&text);
        }
        let parts = Parts::of(&text, false)?;
        Ok(Self { text, parts })
    }
}

impl Serialize for Surl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Debug for Surl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Surl({self})")
    }
}

impl fmt::Display for Surl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

/// Replaces everything after the first `?`: a query may hold an `authz=` token or a signature.
pub fn redact_query(url: &str) -> String {
    match url.split_once('?') {
        Some((head, query)) if !query.is_empty() => format!("{head}?***"),
        _ => url.to_owned(),
    }
}

/// `user:password@` is a secret too.
fn hide_userinfo(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(start), Some(end)) if start + 3 <= end => format!("{}://***{}", &url[..start], &url[end..]),
        _ => url.to_owned(),
    }
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let host_end = match authority.strip_prefix('[') {
        Some(inner) => inner.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    match port.strip_prefix(':') {
        None if port.is_empty() => Some((host, None)),
        Some("") => Some((host, None)),
        Some(digits) => Some((host, Some(digits.parse().ok()?))),
        None => None,
    }
}

/// Encodes characters that a request line must not contain; existing `%XX` stays.
fn encode(tail: &str) -> String {
    const KEEP: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'<')
        .add(b'>')
        .add(b'\\')
        .add(b'^')
        .add(b'`')
        .add(b'{')
        .add(b'|')
        .add(b'}');
    percent_encoding::utf8_percent_encode(tail, KEEP).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    fn se(url: &str, expected: &str) {
        assert_eq!(Surl::parse(url).unwrap().se(), expected);
    }

    #[test]
    fn the_port_is_no_part_of_a_storage_element() {
        se("https://a.ex:8443/f", "https://a.ex");
        se("davs://A.EX/f", "davs://a.ex");
        se("https://[2001:db8::1]:443/f", "https://[2001:db8::1]");
        se("https://127.0.1.1:9/f?x=1", "https://127.0.1.1");
    }

    fn wire(url: &str, expected: &str) {
        assert_eq!(Surl::parse(url).unwrap().http_url(), expected);
    }

    #[test]
    fn requests_go_where_the_client_said_in_a_form_http_can_carry() {
        wire("davs://a:1094/x y/ä?q=1#frag", "https://a:1094/x%20y/%C3%A4?q=1");
        wire("https://a/%41//b", "https://a/%41//b");
        wire(" https://a/f ", "https://a/f");
    }

    #[test]
    fn a_file_is_the_same_however_it_is_spelled() {
        // Otherwise two transfers write to one file at once.
        let identity = |url: &str| Surl::parse(url).unwrap().identity();
        for other in [
            "davs://a.ex/d/f",
            "https://A.EX:443/d/f",
            "https://a.ex./d/f",
            "https://a.ex//d///f",
            "https://a.ex/d/./f",
            "https://a.ex/x/../d/f",
            "https://a.ex/%64/%66",
            "https://a.ex/d/f?authz=1#x",
        ] {
            assert_eq!(identity(other), identity("https://a.ex/d/f"), "{other}");
        }
        for other in [
            "https://a.ex:8443/d/f",
            "http://a.ex/d/f",
            "https://b.ex/d/f",
            "https://a.ex/d%2fg/f",
            "https://a.ex/D/f",
        ] {
            assert_ne!(identity(other), identity("https://a.ex/d/f"), "{other}");
        }
        assert_eq!(identity("https://a.ex/%C3%A4"), identity("https://a.ex/ä"));
    }

    fn refused(url: &str, expected: &str) {
        assert_eq!(Surl::parse(url).unwrap_err().to_string(), expected);
    }

    #[test]
    fn refusals_carry_the_texts_clients_know() {
        refused("/tmp/x", "Missing scheme (/tmp/x)");
        refused("file:///tmp/x", "Can not transfer local files (file:///tmp/x)");
        refused("https://a", "Missing path (https://a)");
        refused("https://a/", "Missing path (https://a/)");
        refused("https:///f", "Missing host (https:///f)");
        refused("root://a//f", "Unsupported scheme, use https or davs (root://a//f)");
        refused("https://u:p@a/f", "Malformed URL (https://***@a/f)");
        refused("https://a:99999/f", "Malformed URL (https://a:99999/f)");
        refused("https://a/f\u{0}g", "Malformed URL (https://a/f?g)");
    }

    #[test]
    fn places_may_be_roots_and_directories_end_with_a_slash() {
        let place = |url: &str| {
            let place = Surl::parse_place(url).unwrap();
            (place.as_directory().http_url(), place.name())
        };
        let is = |url: &str, name: Option<&str>| (url.to_owned(), name.map(str::to_owned));
        assert_eq!(place("https://a/"), is("https://a/", None));
        assert_eq!(place("davs://a:1/d"), is("https://a:1/d/", Some("d")));
        assert_eq!(place("https://a/d//?x=/y"), is("https://a/d//?x=/y", Some("d")));
        assert_eq!(place("https://a/d%20e?x=y#z"), is("https://a/d%20e/?x=y", Some("d e")));
        assert!(Surl::parse_place("https://a").is_err() && Surl::parse_place("https://a?x").is_err());
    }

    #[test]
    fn a_concealed_value_is_revealed_by_its_secret_alone() {
        for (url, shown) in [
            ("https://a/f", "https://a/f"),
            ("https://a/f?", "https://a/f?"),
            ("https://a/f?authz=needle&x=1?y#z", "https://a/f?***"),
            ("https://a/f#needle?x", "https://a/f#***"),
            ("https://a/f?***", "https://a/f?***"),
        ] {
            let parsed = Surl::parse(url).unwrap();
            let (seen, secret) = parsed.conceal();
            assert_eq!((seen.as_str(), seen.conceals()), (shown, secret.is_some()), "{url}");
            assert_eq!(seen.reveal(secret.as_ref()).as_ref(), &parsed);
            assert_eq!(seen.reveal(None).as_str(), shown);
            assert_eq!(Surl::parse(shown).as_ref(), Ok(&seen));
        }
    }

    #[test]
    fn rows_and_messages_have_a_url_as_its_text() {
        for text in ["https://a/f?x=1#y", "davs://A.Ex:8443/ü"] {
            let surl = Surl::parse(text).unwrap();
            let written = serde_json::to_string(&surl).unwrap();
            assert_eq!(written, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Surl>(&written).unwrap(), surl);
        }
        assert_eq!(Surl::try_from(" https://a/f ".to_owned()), Surl::parse("https://a/f"));
        let refused = serde_json::from_str::<Surl>("\"https://a\"").unwrap_err();
        assert!(refused.to_string().starts_with("Missing path (https://a)"), "{refused}");
    }

    #[test]
    fn a_query_never_reaches_a_message() {
        let surl = Surl::parse("https://a/f?authz=Bearer%20secret").unwrap();
        assert_eq!(surl.to_string(), "https://a/f?***");
        assert_eq!(format!("{surl:?}"), "Surl(https://a/f?***)");
        assert!(
            !Surl::parse("https://a:x/f?authz=secret")
                .unwrap_err()
                .to_string()
                .contains("secret")
        );
    }
}

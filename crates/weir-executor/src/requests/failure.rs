//! Failures: party, phase, cause, remedy, and advice on retries. The only table from HTTP to these.

use http::StatusCode;
use weir_http::ClientError;
use weir_store::StoreError;
use weir_units::Bytes;
use weir_world::{
    ErrorClass, Failure, Party, Phase, Retry,
    class::{says, without_urls},
};

/// The party and phase of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scene {
    pub(crate) party: Party,
    pub(crate) phase: Phase,
}

impl Scene {
    pub(crate) fn new(party: Party, phase: Phase) -> Self {
        Self { party, phase }
    }

    /// A failure here, with the class's usual remedy and retry. A directory where a file should be never passes, whichever
    /// status or words a storage has for it.
    pub(crate) fn fail(self, class: ErrorClass, message: impl AsRef<str>) -> Failure {
        let directory = says(&without_urls(message.as_ref()), &["is a directory", "eisdir"]);
        let class = match self.party {
            Party::Destination if directory => ErrorClass::Exists,
            Party::Source if directory => ErrorClass::NotFound,
            _ => class,
        };
        let (remedy, retry) = advice(class, self.party);
        let uncounted = class == ErrorClass::Checksum && says(message.as_ref(), &["no checksum to compare"]);
        let revoked = class == ErrorClass::Tls && is_revoked(message.as_ref());
        Failure {
            class,
            party: self.party,
            phase: self.phase,
            message: scrub(message.as_ref()),
            remedy: if directory {
                "submit the path of a file, not of a directory".to_owned()
            } else if uncounted {
                format!(
                    "have the {} compute checksums, or submit with verify_checksum=source or none",
                    self.party
                )
            } else if revoked {
                REVOKED.to_owned()
            } else {
                remedy
            },
            bytes_moved: Bytes(0),
            retry,
        }
    }

    /// A failure from an HTTP status and the text that came with it.
    pub(crate) fn status(self, what: &str, status: StatusCode, text: &str) -> Failure {
        let class = ErrorClass::of_status(status.as_u16(), text);
        let text = text.trim();
        let colon = if text.is_empty() { "" } else { ": " };
        let mut failure = self.fail(class, format!("{what}: HTTP {status}{colon}{text}"));
        if status.is_server_error() && failure.class == ErrorClass::Protocol {
            failure.retry = Retry::Later;
        }
        failure
    }

    /// A failure of the connection.
    pub(crate) fn client(self, what: &str, error: &ClientError) -> Failure {
        let class = match error {
            ClientError::Address { .. } => ErrorClass::Protocol,
            ClientError::Resolve { .. } | ClientError::Connect { .. } | ClientError::Exchange { .. } => {
                ErrorClass::Network
            }
            ClientError::Forbidden { .. } => ErrorClass::Permission,
            ClientError::Tls { .. } => ErrorClass::Tls,
            ClientError::Timeout { .. } => ErrorClass::Timeout,
        };
        let mut failure = self.fail(class, format!("{what}: {}", weir_auth::error_chain(error)));
        if matches!(error, ClientError::Forbidden { .. }) {
            failure.remedy =
                "if the storage is meant to be there, add the address to `allow` of [copy] in the transfer service's configuration"
                    .into();
        }
        failure
    }
}

/// The remedy where a storage shows a revoked certificate.
const REVOKED: &str =
    "have the administrator of the storage get a new certificate: its authority has revoked the current one";

/// Whether a text reports a revoked certificate, in our words and those of storages.
fn is_revoked(text: &str) -> bool {
    says(text, &["peer certificate: revoked", "certificate revoked"])
}

/// Reads a failure line of a Weir storage, `class (party during phase): message`: it knows better than its words tell.
pub(crate) fn told_by_weir(text: &str) -> Option<(ErrorClass, Scene)> {
    let (head, _) = text.split_once("): ")?;
    let (class, rest) = head.split_once(" (")?;
    let (party, phase) = rest.split_once(" during ")?;
    let scene = Scene::new(Party::parse(party)?, Phase::parse(phase)?);
    Some((ErrorClass::parse(class)?, scene))
}

/// The remedy of a class for a party, and whether a later retry can succeed.
pub(crate) fn advice(class: ErrorClass, party: Party) -> (String, Retry) {
    let (remedy, retry) = match class {
        ErrorClass::NotFound if party == Party::Source => {
            ("check that the source file exists and its path is right", Retry::Never)
        }
        ErrorClass::NotFound => (
            "check the path at the destination, and that its parent may be made",
            Retry::Never,
        ),
        ErrorClass::Exists => (
            "submit with overwrite, or remove the file at the destination first",
            Retry::Never,
        ),
        ErrorClass::Permission => (
            "ask for a token whose scope covers the path and the operation",
            Retry::Never,
        ),
        ErrorClass::Token => (
            "submit with a token that is valid for this endpoint: issuer, audience, lifetime",
            Retry::Never,
        ),
        ErrorClass::Tls => (
            "check the endpoint's certificate (name, validity) and the trusted authorities here",
            Retry::Never,
        ),
        ErrorClass::Network => (
            "check that the endpoint runs and is reachable from the party named",
            Retry::Later,
        ),
        ErrorClass::Timeout => ("check the endpoint's load; it is asked again", Retry::Later),
        ErrorClass::Stall => (
            "check the network path and the disks of both storages; it is tried again",
            Retry::Later,
        ),
        ErrorClass::Checksum => (
            "compare the file's checksum at its source with the catalogue's",
            Retry::Never,
        ),
        ErrorClass::Size => (
            "compare the file's size at its source with the catalogue's",
            Retry::Later,
        ),
        ErrorClass::NoSpace => ("free space at the destination, or raise the quota", Retry::Later),
        ErrorClass::ReadOnly => (
            "make the destination writable, or send the file elsewhere",
            Retry::Later,
        ),
        ErrorClass::Overload => (
            "none needed if it passes; else lower the limits of the storage's links",
            Retry::Later,
        ),
        ErrorClass::Protocol => (
            "check that the endpoint speaks WebDAV with HTTP-TPC, and its logs",
            Retry::Never,
        ),
        ErrorClass::Cancelled => ("", Retry::Never),
        ErrorClass::Unfinished => ("look at why the transfer service did not end it", Retry::Later),
        ErrorClass::Forgotten => (
            "submit it again, and look at the transfer service's store",
            Retry::Never,
        ),
        ErrorClass::Internal => ("report this with the service's log", Retry::Later),
    };
    (remedy.to_owned(), retry)
}

/// Takes secrets, queries of URLs, line ends and excess length out of a text.
pub(crate) fn scrub(text: &str) -> String {
    let one_line = weir_auth::redact(text).replace(weir_auth::is_mark, " ");
    let mut out = String::with_capacity(one_line.len());
    for (number, word) in one_line.split(' ').filter(|word| !word.is_empty()).enumerate() {
        if number > 0 {
            out.push(' ');
        }
        match word.contains("://").then(|| word.split_once('?')).flatten() {
            Some((head, _)) => {
                out.push_str(head);
                out.push_str("?***");
            }
            None => out.push_str(word),
        }
    }
    if out.len() > 1024 {
        let cut = (0..=1021).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
        out.truncate(cut);
        out.push('…');
    }
    out
}

pub(crate) fn internal(text: &str) -> Failure {
    Scene::new(Party::TransferService, Phase::Preparation).fail(ErrorClass::Internal, text)
}

pub(crate) fn unreadable(error: &StoreError) -> Failure {
    if let StoreError::Sealed(_) = error {
        let scene = Scene::new(Party::TransferService, Phase::Preparation);
        let mut failure = scene.fail(ErrorClass::Token, error.to_string());
        failure.remedy = "bring back the key file that belongs to the store, or submit again".into();
        return failure;
    }
    internal(&format!("could not read the order: {}", weir_auth::error_chain(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_status(status: u16, text: &str, class: ErrorClass, retry: Retry) {
        let scene = Scene::new(Party::Destination, Phase::Transfer);
        let failure = scene.status("COPY", StatusCode::from_u16(status).unwrap_or_default(), text);
        assert_eq!((failure.class, failure.retry), (class, retry), "{status} {text}");
        assert!(failure.message.contains(&status.to_string()));
    }

    #[test]
    fn every_status_has_a_class_and_a_judgement() {
        by_status(401, "", ErrorClass::Token, Retry::Never);
        by_status(403, "needs storage.modify:/x", ErrorClass::Permission, Retry::Never);
        by_status(403, "the area is read-only", ErrorClass::ReadOnly, Retry::Later);
        by_status(404, "", ErrorClass::NotFound, Retry::Never);
        by_status(405, "", ErrorClass::Protocol, Retry::Never);
        by_status(409, "", ErrorClass::Overload, Retry::Later);
        by_status(409, "/tree is a directory", ErrorClass::Exists, Retry::Never);
        by_status(409, "/tree is not a directory", ErrorClass::Overload, Retry::Later);
        by_status(412, "", ErrorClass::Exists, Retry::Never);
        by_status(423, "", ErrorClass::Overload, Retry::Later);
        by_status(500, "", ErrorClass::Protocol, Retry::Later);
        by_status(500, "disk full", ErrorClass::NoSpace, Retry::Later);
        by_status(503, "", ErrorClass::Overload, Retry::Later);
        by_status(507, "", ErrorClass::NoSpace, Retry::Later);
    }

    fn by_text(text: &str, class: Option<ErrorClass>) {
        assert_eq!(ErrorClass::of_text(text), class, "{text}");
    }

    #[test]
    fn failure_lines_are_understood() {
        by_text(
            "Rejected PULL: remote copy failed with status code 404",
            Some(ErrorClass::NotFound),
        );
        by_text(
            "Failed to connect to server: connection refused",
            Some(ErrorClass::Network),
        );
        by_text(
            "SSL certificate problem: unable to get local issuer",
            Some(ErrorClass::Tls),
        );
        by_text(
            "checksum mismatch: adler32 of source 0a, written 0b",
            Some(ErrorClass::Checksum),
        );
        by_text("Transfer failed: operation timed out", Some(ErrorClass::Timeout));
        by_text("something else", None);
        // A port and a file name are no status: a broken connection would count as a missing file, and be given up.
        by_text(
            "GET https://127.0.1.1:40411/507/checksum: connection reset",
            Some(ErrorClass::Network),
        );
        by_text("GET https://a.ex:4443/f: 404 Not Found", Some(ErrorClass::NotFound));
        by_text("after 15031 bytes: connection closed", Some(ErrorClass::Network));
    }

    #[test]
    fn a_weir_storage_is_taken_at_its_word() {
        let told = told_by_weir("network (source during transfer): no such host, or checksum 404");
        assert_eq!(
            told,
            Some((ErrorClass::Network, Scene::new(Party::Source, Phase::Transfer)))
        );
        assert_eq!(told_by_weir("curl (56) during transfer): x"), None);
        assert_eq!(told_by_weir("Transfer failed: timeout"), None);
    }

    #[test]
    fn nothing_secret_leaves_in_a_message() {
        let text = scrub("GET https://a/f?authz=Bearer%20abc&sig=1 said\r\n no");
        assert_eq!(text, "GET https://a/f?*** said no");
        assert_eq!(scrub("\u{1b}[31mno\u{7} \u{202e}eci"), "[31mno eci");
        assert!(!scrub("Authorization: Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln").contains("eyJzdWIi"));
        assert!(scrub(&"ä".repeat(2000)).len() <= 1024);
    }
}

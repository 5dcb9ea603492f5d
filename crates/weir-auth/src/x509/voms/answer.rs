//! The answer of a VOMS server: `<voms><ac>base64</ac><warning>…</warning></voms>`, or
//! `<voms><error><code>…</code><message>…</message></error></voms>`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use thiserror::Error;

use crate::error::printable_within;

/// Characters of a server's message that are told on.
pub(crate) const MESSAGE_MAX: usize = 300;
/// Warnings of an answer; the rest is not read.
pub(crate) const WARNINGS_MAX: usize = 8;
/// Elements within each other: an answer needs three.
const DEPTH_MAX: usize = 8;
/// Servers leave the padding out, or do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The content of a server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// An attribute certificate in DER, as far as the server tells. Never empty.
    pub(crate) certificate: Vec<u8>,
    /// For people: printable, without secrets, at most [`WARNINGS_MAX`].
    pub(crate) warnings: Vec<String>,
}

/// Why an answer gives nothing. Texts of the server are printable and have some [`MESSAGE_MAX`] characters at most.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum AnswerError {
    /// The server says no.
    #[error("it refused: {}", joined(code, message))]
    Refused { code: String, message: String },
    /// It says something else.
    #[error("its answer is not understood: {0}")]
    Malformed(String),
}

fn joined(code: &str, message: &str) -> String {
    match (code, message) {
        ("", only) | (only, "") => only.to_owned(),
        (code, message) => format!("{code}: {message}"),
    }
}

impl AnswerError {
    fn because(reason: impl std::fmt::Display) -> Self {
        Self::Malformed(printable_within(&reason.to_string(), MESSAGE_MAX))
    }
}

/// Reads the body of an answer, whatever its status is.
///
/// A document type is refused: entities have no use here, and their expansion has ended other readers.
///
/// # Errors
/// [`AnswerError`].
pub(crate) fn read(body: &[u8]) -> Result<Given, AnswerError> {
    let mut reader = Reader::from_reader(body);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    // vomsd does not escape its messages.
    config.allow_dangling_amp = true;
    let mut reading = AnswerReader::default();
    loop {
        match reader.read_event().map_err(AnswerError::because)? {
            Event::Start(element) => reading.enter(XmlElement::named(element.name().as_ref()))?,
            Event::End(_) => drop(reading.open.pop()),
            Event::Text(text) => reading.text(&text.decode().map_err(AnswerError::because)?),
            Event::CData(text) => reading.text(&text.decode().map_err(AnswerError::because)?),
            Event::GeneralRef(reference) => reading.text(&resolved(&reference)),
            Event::DocType(_) => return Err(AnswerError::because("it has a document type")),
            Event::Eof => return reading.finish(),
            _ => {}
        }
    }
}

/// The character that a reference stands for.
fn resolved(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    let known = match &**reference {
        b"amp" => "&",
        b"lt" => "<",
        b"gt" => ">",
        b"quot" => "\"",
        b"apos" => "'",
        _ => "?",
    };
    known.to_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XmlElement {
    Voms,
    Certificate,
    Error,
    Code,
    Message,
    Warning,
    Other,
}

impl XmlElement {
    fn named(name: &[u8]) -> Self {
        match name {
            b"voms" => Self::Voms,
            b"ac" => Self::Certificate,
            b"error" => Self::Error,
            b"code" => Self::Code,
            b"message" => Self::Message,
            b"warning" => Self::Warning,
            _ => Self::Other,
        }
    }
}

/// How far the document has been understood.
#[derive(Debug, Default)]
struct AnswerReader {
    open: Vec<XmlElement>,
    has_begun: bool,
    /// The text of each `ac`.
    certificates: Vec<String>,
    /// Code and message of each `error`.
    errors: Vec<(String, String)>,
    warnings: Vec<String>,
}

impl AnswerReader {
    fn enter(&mut self, element: XmlElement) -> Result<(), AnswerError> {
        let is_root = self.open.is_empty();
        if is_root && (element != XmlElement::Voms || self.has_begun) {
            return Err(AnswerError::because("it is no <voms> document"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(AnswerError::because("its elements are too deep"));
        }
        self.has_begun = true;
        match (self.open.as_slice(), element) {
            ([_], XmlElement::Certificate) => self.certificates.push(String::new()),
            ([_], XmlElement::Error) => self.errors.push(Default::default()),
            ([_], XmlElement::Warning) => self.warnings.push(String::new()),
            _ => {}
        }
        self.open.push(element);
        Ok(())
    }

    fn text(&mut self, text: &str) {
        use XmlElement::{Certificate, Code, Error, Message, Warning};
        let place = match self.open.as_slice() {
            [_, Certificate] => self.certificates.last_mut(),
            [_, Error, Code] => self.errors.last_mut().map(|(code, _)| code),
            [_, Error] | [_, Error, Message] => self.errors.last_mut().map(|(_, message)| message),
            [_, Warning] | [_, Warning, Message] => self.warnings.last_mut(),
            _ => None,
        };
        if let Some(place) = place {
            place.push_str(text);
        }
    }

    fn finish(self) -> Result<Given, AnswerError> {
        let told = |text: &str| printable_within(text.trim(), MESSAGE_MAX);
        if !self.has_begun || !self.open.is_empty() {
            return Err(AnswerError::because("it is no whole <voms> document"));
        }
        if let Some((code, message)) = self.errors.first() {
            return Err(AnswerError::Refused {
                code: told(code),
                message: told(message),
            });
        }
        let [certificate] = self.certificates.as_slice() else {
            return Err(AnswerError::because("it should hold one attribute certificate"));
        };
        let text: String = certificate.split_ascii_whitespace().collect();
        let certificate = BASE64.decode(text).map_err(AnswerError::because)?;
        if certificate.is_empty() {
            return Err(AnswerError::because("its attribute certificate is empty"));
        }
        let warnings = self.warnings.iter().take(WARNINGS_MAX);
        Ok(Given {
            certificate,
            warnings: warnings.map(|text| told(text)).collect(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
mod tests {
    use super::*;

    /// Attributes would not be found in the answers of the servers that there are.
    #[test]
    fn a_certificate_is_read_as_servers_write_it() {
        let check = |body: &str, warnings: &[&str]| {
            let given = read(body.as_bytes()).unwrap();
            assert_eq!(given.certificate, b"attributes", "{body}");
            assert_eq!(given.warnings, warnings, "{body}");
        };
        check(
            r#"<?xml version="1.0" encoding="UTF-8"?><voms><ac>YXR0cmlidXRlcw==</ac></voms>"#,
            &[],
        );
        check(
            "<voms>\n <ac>YXR0cmli\ndXRlcw==\n</ac><version>3</version><bitstr>x</bitstr>\n</voms>\n",
            &[],
        );
        check(
            "<voms><ac>YXR0cmlidXRlcw</ac><warning>WARNING: x : shorter\n</warning></voms>",
            &["WARNING: x : shorter"],
        );
        check(
            "<voms><warning><message>a &lt; b & c</message></warning><ac><![CDATA[YXR0cmlidXRlcw==]]></ac></voms>",
            &["a < b & c"],
        );
    }

    /// A user would not learn why the VO refuses, or the server could write anything into logs and answers.
    #[test]
    fn a_refusal_is_told_on_printable_and_bounded() {
        let refused = |body: &str| match read(body.as_bytes()) {
            Err(error @ AnswerError::Refused { .. }) => error.to_string(),
            other => panic!("{body}: {other:?}"),
        };
        assert_eq!(
            refused("<voms><error><code>NoSuchUser</code><message>User unknown to this VO.</message></error></voms>"),
            "it refused: NoSuchUser: User unknown to this VO."
        );
        assert_eq!(
            refused("<voms><ac>QQ==</ac><error><message>a\nb\u{1b}[2J&#xe9;</message></error></voms>"),
            "it refused: a?b?[2J?"
        );
        assert_eq!(refused("<voms><error>plain</error></voms>"), "it refused: plain");
        let long = format!("<voms><error><message>{}</message></error></voms>", "x".repeat(10_000));
        assert!(refused(&long).len() < MESSAGE_MAX + 30);
        let secret = "<voms><error><message>Authorization: Bearer abcdefgh.ijklmnop.qrstuvwx</message></error></voms>";
        assert!(!refused(secret).contains("ijklmnop"));
    }

    /// Anything would be taken for attributes.
    #[test]
    fn an_answer_of_another_shape_is_refused() {
        for body in [
            "",
            "hello",
            "<html><body>502</body></html>",
            "<voms>",
            "<voms></voms>",
            "<voms><ac></ac></voms>",
            "<voms><ac>!!</ac></voms>",
            "<voms><ac>QQ==</ac><ac>QQ==</ac></voms>",
            "<voms><x><ac>QQ==</ac></x></voms>",
            "<voms><ac>QQ==</ac></voms><voms/>",
            "<!DOCTYPE voms [<!ENTITY a \"QQ==\">]><voms><ac>&a;</ac></voms>",
            "<voms><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a><ac>QQ==</ac></voms>",
            "<voms><ac>QQ==</error></voms>",
        ] {
            let error = read(body.as_bytes()).unwrap_err();
            assert!(matches!(error, AnswerError::Malformed(_)), "{body}: {error}");
        }
        assert!(read(b"<voms><ac>\xff\xfe</ac></voms>").is_err());
    }
}

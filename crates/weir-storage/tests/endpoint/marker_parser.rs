//! A reader of performance markers, as tolerant as davix: the copies of the tests are watched by it.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use weir_storage::marker::{LastWord, Marker};
use weir_world::Waits;

/// Longest line that is read; davix reads 1024 bytes. A longer line is cut.
const LINE_LIMIT: usize = 4096;

/// davix discards larger stripe counts.
const STRIPES_LIMIT: u32 = 8192;

/// An item in a stream of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A whole marker.
    Marker(Marker),
    /// The end. Nothing after it counts.
    Last(LastWord),
}

/// Reads markers from pieces of any size. Tolerant as davix is: case and indentation do not matter, unknown lines are ignored.
#[derive(Debug, Default)]
pub(crate) struct MarkerParser {
    line: Vec<u8>,
    open: Option<Marker>,
    per_stripe: BTreeMap<u32, u64>,
    ended: bool,
}

impl MarkerParser {
    /// A parser at the start of a body.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece and appends the completed items to `said`.
    pub(crate) fn push(&mut self, piece: &[u8], said: &mut Vec<Said>) {
        for &byte in piece {
            if byte == b'\n' {
                self.line_done(said);
            } else if self.line.len() < LINE_LIMIT {
                self.line.push(byte);
            }
        }
    }

    /// Takes a last line that has no line end.
    pub(crate) fn finish(&mut self, said: &mut Vec<Said>) {
        self.line_done(said);
    }

    /// Bytes reported so far, over all stripes.
    pub(crate) fn bytes(&self) -> u64 {
        self.per_stripe
            .values()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn line_done(&mut self, said: &mut Vec<Said>) {
        let line = std::mem::take(&mut self.line);
        if !self.ended {
            self.understand(String::from_utf8_lossy(&line).trim(), said);
        }
    }

    fn understand(&mut self, line: &str, said: &mut Vec<Said>) {
        if let Some(last) = last_word(line) {
            self.ended = true;
            said.push(Said::Last(last));
        } else if line.eq_ignore_ascii_case("perf marker") {
            self.open = Some(Marker {
                stripes: 1,
                ..Marker::default()
            });
        } else if line.eq_ignore_ascii_case("end") {
            if let Some(marker) = self.open.take() {
                // A stripe never goes back, and at most 8192 of them are kept.
                if marker.stripe < STRIPES_LIMIT {
                    let bytes = self.per_stripe.entry(marker.stripe).or_default();
                    *bytes = marker.bytes.max(*bytes);
                }
                said.push(Said::Marker(marker));
            }
        } else if let (Some(marker), Some((key, value))) = (&mut self.open, line.split_once(':')) {
            set(marker, key.trim(), value.trim());
        }
    }
}

fn set(marker: &mut Marker, key: &str, value: &str) {
    if key.eq_ignore_ascii_case("timestamp") {
        marker.timestamp = value.parse().unwrap_or(marker.timestamp);
    } else if key.eq_ignore_ascii_case("stripe index") {
        marker.stripe = value.parse().unwrap_or(marker.stripe);
    } else if key.eq_ignore_ascii_case("stripe bytes transferred") {
        marker.bytes = value.parse().unwrap_or(marker.bytes);
    } else if key.eq_ignore_ascii_case("total stripe count") {
        marker.stripes = value
            .parse()
            .ok()
            .filter(|count| *count <= STRIPES_LIMIT)
            .unwrap_or(marker.stripes);
    } else if key.eq_ignore_ascii_case("remoteconnections") {
        marker.remote = value.split(',').filter_map(remote).collect();
    } else if key.eq_ignore_ascii_case("first byte") {
        marker.first_byte = value.parse().ok().map(Duration::from_millis);
    } else if key.eq_ignore_ascii_case("waits") {
        marker.waits = Waits::parse(value).map(Box::new);
    } else if key.eq_ignore_ascii_case("connection") {
        marker.connection = Some(value.to_owned());
    }
}

/// `tcp:192.0.2.1:443` or `tcp:[2001:db8::1]:443`.
fn remote(text: &str) -> Option<SocketAddr> {
    let (_, address) = text.trim().split_once(':')?;
    address.parse().ok()
}

fn last_word(line: &str) -> Option<LastWord> {
    let word: String = line.chars().take_while(char::is_ascii_alphabetic).collect();
    let reason = line[word.len()..].trim_start_matches(':').trim().to_owned();
    match word.to_ascii_lowercase().as_str() {
        "success" => Some(LastWord::Success(reason)),
        "failure" | "failed" | "aborted" => Some(LastWord::Failure(reason)),
        _ => None,
    }
}

mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> Vec<Said> {
        let mut said = Vec::new();
        let mut parser = MarkerParser::new();
        parser.push(text, &mut said);
        parser.finish(&mut said);
        said
    }

    /// The order of an XRootD server's lines, with CRLF and tabs: were it not read, a copy by XRootD would look stalled.
    #[test]
    fn reads_other_servers_markers() {
        let text = b"Perf Marker\r\nTimestamp: 1700000000\r\n\tStripe Index: 0\r\nStripe Bytes Transferred: 42\r\nTotal Stripe Count: 1\r\nRemoteConnections: tcp:192.0.2.1:443,tcp:[2001:db8::1]:443\r\nUnknown: x\r\nEnd\r\nsuccess: Created\r\nfailure: too late\r\n";
        let said = read(text);
        let Said::Marker(marker) = &said[0] else {
            panic!("{said:?}")
        };
        assert_eq!(
            (marker.timestamp, marker.bytes, marker.remote.len()),
            (1_700_000_000, 42, 2)
        );
        assert_eq!(said[1], Said::Last(LastWord::Success("Created".into())));
        assert_eq!(said.len(), 2, "nothing after the last word counts");
    }

    /// A failure spelled differently, or without a line end, would be taken for a broken connection.
    #[test]
    fn reads_every_spelling_of_the_last_word() {
        for text in [
            "failure: no space",
            "Failed: no space",
            "ABORTED no space",
            "  failure:no space\n",
        ] {
            assert_eq!(
                read(text.as_bytes()),
                [Said::Last(LastWord::Failure("no space".into()))],
                "{text}"
            );
        }
        assert_eq!(read(b"successful"), []);
        assert_eq!(read(b"End\n"), [], "an end without a beginning says nothing");
    }

    /// A line end inside a reason would hide its second half.
    #[test]
    fn a_reason_stays_on_one_line() {
        let mut text = String::new();
        LastWord::Failure(format!("a\r\nb{}", "é".repeat(2000))).write(&mut text);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.len() < 1024 && text.starts_with("failure: a  b"));
    }

    proptest! {
        /// Our markers must be readable for a client, in pieces of any size.
        #[test]
        fn written_markers_are_read_back(
            timestamp: u64, stripe in 0u32..8, bytes: u64, stripes in 1u32..8, v6: bool, cut in 1usize..40,
            first_byte in proptest::option::of(any::<u64>().prop_map(Duration::from_millis)),
            waits in proptest::option::of(any::<u32>()),
            connection in proptest::option::of("[a-z]{1,8} rtt_ms=[0-9]{1,3}"),
        ) {
            let address: SocketAddr = if v6 { "[2001:db8::1]:443" } else { "192.0.2.7:1094" }.parse().unwrap();
            let waits = waits.map(|micros| Box::new(Waits::parse(&format!("disk={micros} network=7")).unwrap()));
            let marker = Marker { timestamp, stripe, bytes, stripes, remote: vec![address], first_byte, waits, connection };
            let mut text = String::new();
            marker.write(&mut text);
            LastWord::Success("done".into()).write(&mut text);
            let (mut parser, mut said) = (MarkerParser::new(), Vec::new());
            for piece in text.as_bytes().chunks(cut) {
                parser.push(piece, &mut said);
            }
            prop_assert_eq!(parser.bytes(), bytes);
            prop_assert_eq!(said, vec![Said::Marker(marker), Said::Last(LastWord::Success("done".into()))]);
        }

        /// No peer's bytes may bring the service down or make it keep more than a line.
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = read(&bytes);
        }

        /// One more byte of report must never turn a sum backwards.
        #[test]
        fn a_stripe_never_goes_back(reports in proptest::collection::vec((0u32..3, any::<u64>()), 1..20)) {
            let (mut parser, mut said, mut before) = (MarkerParser::new(), Vec::new(), 0);
            for (stripe, bytes) in reports {
                let mut text = String::new();
                Marker { stripe, bytes, ..Marker::default() }.write(&mut text);
                parser.push(text.as_bytes(), &mut said);
                prop_assert!(parser.bytes() >= before);
                before = parser.bytes();
            }
        }
    }
}

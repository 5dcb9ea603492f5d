//! The datagram, byte by byte.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Map, Value, json};
use weir_http::TcpFigures;
use weir_units::Timestamp;

use super::Tag;

/// Largest datagram that fits into one Ethernet packet without fragmentation, in bytes.
const MOST: usize = 1500;

/// local0.info, as flowd and XRootD have it (RFC 5424 section 6.2.1: 16 * 8 + 6).
const PRIORITY: u8 = 134;

/// A flow: owner, purpose and addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The owner and purpose of the flow.
    pub tag: Tag,
    /// The program and what it does, such as `weir-storage`.
    pub application: String,
    /// When it started.
    pub start: Timestamp,
}

/// An event in the life of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The flow has started; bytes may move from now on.
    Start,
    /// Bytes are moving.
    Ongoing,
    /// The last byte has moved.
    End,
}

/// Bytes so far, as counted by the end that sends the firefly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// From the other end.
    pub received: u64,
    /// To the other end.
    pub sent: u64,
}

impl Flow {
    /// The text of a firefly: a syslog header of seven words, and JSON. `host` is the sender. The figures of TCP are left out where the
    /// whole would not fit into a packet.
    pub fn datagram(
        &self,
        event: Event,
        now: Timestamp,
        host: &str,
        usage: Usage,
        tcp: Option<&TcpFigures>,
    ) -> Vec<u8> {
        let whole = self.text(event, now, host, usage, tcp);
        let text = if whole.len() > MOST {
            self.text(event, now, host, usage, None)
        } else {
            whole
        };
        text.into_bytes()
    }

    fn text(&self, event: Event, now: Timestamp, host: &str, usage: Usage, tcp: Option<&TcpFigures>) -> String {
        let time = now.rfc3339_micros();
        let host = word(host, 255);
        let application = word(&self.application, 48);
        let mut body = json!({
            "version": 1,
            "flow-lifecycle": self.lifecycle(event, now),
            "flow-id": self.id(),
            "context": {
                "experiment-id": self.tag.experiment(),
                "activity-id": self.tag.activity(),
                "application": application,
            },
            "usage": { "received": usage.received, "sent": usage.sent },
        });
        if let Some(tcp) = tcp {
            body["netlink"] = netlink(tcp);
        }
        format!("<{PRIORITY}>1 {time} {host} {application} - firefly-json - {body}")
    }

    fn lifecycle(&self, event: Event, now: Timestamp) -> Value {
        let state = match event {
            Event::Start => "start",
            Event::Ongoing => "ongoing",
            Event::End => "end",
        };
        let mut lifecycle = Map::new();
        lifecycle.insert("state".into(), state.into());
        lifecycle.insert("current-time".into(), now.rfc3339_micros().into());
        lifecycle.insert("start-time".into(), self.start.rfc3339_micros().into());
        if event == Event::End {
            lifecycle.insert("end-time".into(), now.rfc3339_micros().into());
        }
        Value::Object(lifecycle)
    }

    /// An IPv4 address mapped into IPv6 is written as IPv4.
    fn id(&self) -> Value {
        let [local, peer] = [self.local, self.peer].map(|end| end.ip().to_canonical());
        json!({
            "afi": if matches!(peer, IpAddr::V4(_)) { "ipv4" } else { "ipv6" },
            "src-ip": local.to_string(),
            "dst-ip": peer.to_string(),
            "protocol": "tcp",
            "src-port": self.local.port(),
            "dst-port": self.peer.port(),
        })
    }
}

/// TCP figures in the names and units of `ss -i`: milliseconds, bytes, bits per second.
fn netlink(tcp: &TcpFigures) -> Value {
    let milliseconds = |time: std::time::Duration| time.as_micros() as f64 / 1000.0;
    json!({
        "cong": tcp.congestion,
        "rtt": milliseconds(tcp.round_trip),
        "minrtt": milliseconds(tcp.least_round_trip),
        "mss": tcp.segment,
        "cwnd": tcp.window / u64::from(tcp.segment.max(1)),
        "retrans": tcp.retransmits,
        "bytes_sent": tcp.sent,
        "bytes_received": tcp.received,
        "delivery_rate": tcp.delivery_rate.saturating_mul(8),
        "pacing_rate": tcp.pacing_rate.map(|rate| rate.saturating_mul(8)),
        "busy": milliseconds(tcp.busy),
        "rwnd_limited": milliseconds(tcp.held_by_peer),
        "sndbuf_limited": milliseconds(tcp.held_by_buffer),
    })
}

/// A word of a syslog header: printable ASCII without spaces, not empty (RFC 5424 section 6).
fn word(text: &str, most: usize) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
    if word.is_empty() { "-".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use proptest::prelude::*;

    use super::*;

    fn flow(local: &str, peer: &str) -> Flow {
        Flow {
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
            tag: Tag::of(154).unwrap(),
            application: "weir-storage".to_owned(),
            start: Timestamp(1_763_809_491_635_478_000),
        }
    }

    fn parts(datagram: &[u8]) -> (Vec<String>, Value) {
        let text = std::str::from_utf8(datagram).unwrap();
        let mut words: Vec<String> = text.splitn(8, ' ').map(str::to_owned).collect();
        let body = words.pop().unwrap();
        (words, serde_json::from_str(&body).unwrap())
    }

    /// Collectors drop a firefly that differs from this by one word.
    #[test]
    fn the_end_of_a_flow_as_collectors_read_it() {
        let now = Timestamp(1_763_809_500_000_001_000);
        let usage = Usage { received: 5, sent: 7 };
        let datagram =
            flow("192.0.2.1:443", "198.51.100.7:50000").datagram(Event::End, now, "se.example.org", usage, None);
        let (words, body) = parts(&datagram);
        assert_eq!(
            words,
            [
                "<134>1",
                "2025-11-22T11:05:00.000001+00:00",
                "se.example.org",
                "weir-storage",
                "-",
                "firefly-json",
                "-"
            ]
        );
        let expected = json!({
            "version": 1,
            "flow-lifecycle": {
                "state": "end",
                "start-time": "2025-11-22T11:04:51.635478+00:00",
                "current-time": "2025-11-22T11:05:00.000001+00:00",
                "end-time": "2025-11-22T11:05:00.000001+00:00",
            },
            "flow-id": {
                "afi": "ipv4", "src-ip": "192.0.2.1", "dst-ip": "198.51.100.7", "protocol": "tcp", "src-port": 443, "dst-port": 50000,
            },
            "context": { "experiment-id": 2, "activity-id": 26, "application": "weir-storage" },
            "usage": { "received": 5, "sent": 7 },
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn a_mapped_address_is_told_as_what_it_is() {
        let both = flow("[::ffff:192.0.2.1]:443", "[::ffff:198.51.100.7]:50000");
        let (_, body) = parts(&both.datagram(Event::Start, both.start, "h", Usage::default(), None));
        assert_eq!(body["flow-id"]["afi"], "ipv4");
        assert_eq!(body["flow-id"]["dst-ip"], "198.51.100.7");
        assert!(body["flow-lifecycle"].get("end-time").is_none());
    }

    proptest! {
        /// A datagram that is cut on its way is lost; a word with a space in it moves all that follow.
        #[test]
        fn every_datagram_fits_and_can_be_read(host in ".{0,600}", application in ".{0,600}", congestion in ".{0,2000}", v6 in any::<bool>(), numbers in any::<(u64, u64, u32)>()) {
            let mut flow = if v6 { flow("[2001:db8::1]:443", "[2001:db8::2]:1") } else { flow("192.0.2.1:443", "192.0.2.2:1") };
            flow.application = application;
            let tcp = TcpFigures {
                congestion,
                sent: numbers.0,
                received: numbers.1,
                retransmits: numbers.2,
                ..TcpFigures::default()
            };
            let usage = Usage { received: numbers.0, sent: numbers.1 };
            for event in [Event::Start, Event::Ongoing, Event::End] {
                let datagram = flow.datagram(event, Timestamp(numbers.0), &host, usage, Some(&tcp));
                prop_assert!(datagram.len() <= MOST, "{}", datagram.len());
                let (words, body) = parts(&datagram);
                prop_assert_eq!(words.len(), 7);
                prop_assert_eq!(&words[5], "firefly-json");
                prop_assert_eq!(&body["context"]["activity-id"], &json!(26));
                prop_assert_eq!(body["flow-lifecycle"].get("end-time").is_some(), event == Event::End);
            }
        }
    }
}

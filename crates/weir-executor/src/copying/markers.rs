//! The body of a third-party copy: performance markers, then a verdict.
//!
//! It is read as the field's clients read it. Lines are trimmed and compared without case, unknown ones are passed over, both line
//! ends are taken, a line is cut at 1024 bytes. An end without a verdict is no success.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use weir_world::Waits;

/// Longest line kept; davix has the same.
const LINE_MAX: usize = 1024;

/// More stripes than this make a marker senseless; davix has the same.
const STRIPES_MAX: u64 = 8192;

/// An item in a piece of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MarkerItem {
    /// A marker ended. Carries the bytes of all stripes.
    Marker(u64),
    /// The storage says how long the first byte of data took, from the order on. Weir's storages say it.
    FirstByte(Duration),
    /// The storage says what the copy has waited for since the order. Comes before the end of its marker. Weir's storages say it.
    Waits(Box<Waits>),
    /// The other side of the copy's connections, if all go to one address. Comes before the end of its marker.
    Remote(IpAddr),
    /// `success: ...`, with the storage's final count if it gave one.
    Success(Option<u64>),
    /// `failure: ...` or `aborted ...`, with the text after the colon.
    Failure(String),
}

/// Reads a body as it comes, in pieces of any size.
///
/// A storage sends markers every few seconds, so the newest one lags behind the bytes moved. It is a **final count** if
/// the storage wrote it together with the verdict: the piece of the body in which the marker ends continues with the
/// verdict's line.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    line: Vec<u8>,
    in_marker: bool,
    stripe: u64,
    stripe_bytes: Option<u64>,
    /// Bytes by stripe, in order of index; few.
    stripes: Vec<(u64, u64)>,
    /// Number of the piece that is read.
    piece: u64,
    /// The piece in which this line began.
    line_in: u64,
    /// The piece in which the newest marker ended.
    marker_in: Option<u64>,
}

impl Markers {
    /// Takes a piece, and appends its items. Anything after a verdict is ignored.
    pub(crate) fn feed(&mut self, piece: &[u8], told: &mut Vec<MarkerItem>) {
        self.piece += 1;
        for &byte in piece {
            if byte == b'\n' || byte == b'\r' {
                self.end_line(told);
            } else if self.line.len() < LINE_MAX {
                if self.line.is_empty() {
                    self.line_in = self.piece;
                }
                self.line.push(byte);
            }
        }
    }

    /// The body has ended: its last line may lack an end.
    pub(crate) fn finish(&mut self, told: &mut Vec<MarkerItem>) {
        self.end_line(told);
    }

    fn end_line(&mut self, told: &mut Vec<MarkerItem>) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if !text.is_empty() {
            self.take(text, told);
        }
    }

    fn take(&mut self, text: &str, told: &mut Vec<MarkerItem>) {
        let lower = text.to_ascii_lowercase();
        if lower.starts_with("success") {
            let is_final = self.marker_in == Some(self.line_in);
            told.push(MarkerItem::Success(is_final.then(|| self.bytes())));
        } else if lower.starts_with("failure") || lower.starts_with("failed") || lower.starts_with("aborted") {
            let reason = text.split_once(':').map_or(text, |(_, reason)| reason.trim());
            told.push(MarkerItem::Failure(reason.to_owned()));
        } else if lower == "perf marker" {
            (self.in_marker, self.stripe, self.stripe_bytes) = (true, 0, None);
        } else if self.in_marker && lower == "end" {
            self.in_marker = false;
            self.end_marker(told);
        } else if let Some(value) = lower.strip_prefix("stripe index:") {
            self.stripe = value.trim().parse().unwrap_or(0);
        } else if let Some(value) = lower.strip_prefix("stripe bytes transferred:") {
            self.stripe_bytes = value.trim().parse().ok();
        } else if let Some(value) = lower.strip_prefix("remoteconnections:") {
            told.extend(only_address(value).map(MarkerItem::Remote));
        } else if let Some(value) = lower.strip_prefix("first byte:")
            && let Ok(ms) = value.trim().parse()
        {
            told.push(MarkerItem::FirstByte(Duration::from_millis(ms)));
        } else if let Some(value) = lower.strip_prefix("waits:")
            && let Some(waits) = Waits::parse(value.trim())
        {
            told.push(MarkerItem::Waits(Box::new(waits)));
        }
    }

    fn end_marker(&mut self, told: &mut Vec<MarkerItem>) {
        if self.stripe >= STRIPES_MAX {
            return;
        }
        if let Some(bytes) = self.stripe_bytes {
            match self.stripes.iter_mut().find(|(index, _)| *index == self.stripe) {
                Some((_, known)) => *known = bytes,
                None => self.stripes.push((self.stripe, bytes)),
            }
        }
        self.marker_in = self.stripe_bytes.map(|_| self.piece);
        told.push(MarkerItem::Marker(self.bytes()));
    }

    fn bytes(&self) -> u64 {
        let counts = self.stripes.iter();
        counts.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// The address in a list such as `tcp:192.0.2.1:443,tcp:[2001:db8::1]:443` (WLCG HTTP-TPC); `None` if there are several, or one is not an
/// address.
fn only_address(list: &str) -> Option<IpAddr> {
    let address = |one: &str| {
        let host = one.trim().strip_prefix("tcp:")?;
        let socket = host.parse::<SocketAddr>().ok()?;
        Some(socket.ip().to_canonical())
    };
    let mut all = list.split(',').map(address);
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str, step: usize) -> Vec<MarkerItem> {
        let (mut markers, mut told) = (Markers::default(), Vec::new());
        for piece in body.as_bytes().chunks(step.max(1)) {
            markers.feed(piece, &mut told);
        }
        markers.finish(&mut told);
        told
    }

    fn marker(stripe: u64, bytes: &str) -> String {
        format!(
            "Perf Marker\r\n Timestamp: 1700000000\r\n Stripe Index: {stripe}\r\n Stripe Bytes Transferred: {bytes}\r\n \
             Total Stripe Count: 1\r\n RemoteConnections: tcp:1.2.3.4:443,tcp:[2001:db8::1]:443\r\nEnd\r\n"
        )
    }

    #[test]
    fn markers_and_verdict_are_read_in_pieces_of_any_size() {
        let body = format!("{}{}success: Created\n", marker(0, "0"), marker(0, "4096"));
        for step in 1..40 {
            let told = read(&body, step);
            assert_eq!(told[..2], [MarkerItem::Marker(0), MarkerItem::Marker(4096)], "{step}");
            assert!(
                matches!(told[2..], [MarkerItem::Success(None | Some(4096))]),
                "{step}: {told:?}"
            );
        }
    }

    #[test]
    fn a_count_is_final_if_it_comes_with_the_verdict() {
        // Wrong: the service's count misses bytes after the newest marker, and so differs from the storages'.
        let pieces = |pieces: &[&str]| {
            let (mut markers, mut told) = (Markers::default(), Vec::new());
            pieces
                .iter()
                .for_each(|piece| markers.feed(piece.as_bytes(), &mut told));
            markers.finish(&mut told);
            told.pop()
        };
        let last = marker(0, "4096");
        assert_eq!(
            pieces(&[&marker(0, "7"), &format!("{last}success: Created\n")]),
            Some(MarkerItem::Success(Some(4096)))
        );
        // A connection may cut the piece anywhere.
        assert_eq!(
            pieces(&[&last[..40], &format!("{}success", &last[40..])]),
            Some(MarkerItem::Success(Some(4096)))
        );
        assert_eq!(
            pieces(&[&format!("{last}succ"), "ess: Created\n"]),
            Some(MarkerItem::Success(Some(4096)))
        );
        assert_eq!(pieces(&[&last, "success: Created\n"]), Some(MarkerItem::Success(None)));
        assert_eq!(pieces(&["success: Created\n"]), Some(MarkerItem::Success(None)));
        assert_eq!(
            pieces(&["Perf Marker\nEnd\nsuccess: Created\n"]),
            Some(MarkerItem::Success(None))
        );
        let stripes = format!("{}{}success: Created\n", marker(0, "10"), marker(1, "5"));
        assert_eq!(pieces(&[&stripes]), Some(MarkerItem::Success(Some(15))));
    }

    fn tells(body: &str, expected: &[MarkerItem]) {
        assert_eq!(read(body, 7), expected);
    }

    #[test]
    fn verdicts_come_in_many_clothes() {
        tells("success", &[MarkerItem::Success(None)]);
        tells("  SUCCESS: Created", &[MarkerItem::Success(None)]);
        tells(
            "failure: no route: host",
            &[MarkerItem::Failure("no route: host".into())],
        );
        tells("Failed: x", &[MarkerItem::Failure("x".into())]);
        tells("aborted", &[MarkerItem::Failure("aborted".into())]);
        tells("", &[]);
        tells("<html>garbage</html>\nEnd\n", &[]);
    }

    #[test]
    fn the_time_to_the_first_byte_is_read_if_it_is_a_time() {
        let said = |value: &str| marker(0, "7").replace(" Total", &format!(" First Byte: {value}\r\n Total"));
        tells(
            &said("1234"),
            &[
                MarkerItem::FirstByte(Duration::from_millis(1234)),
                MarkerItem::Marker(7),
            ],
        );
        for senseless in ["-1", "soon", ""] {
            tells(&said(senseless), &[MarkerItem::Marker(7)]);
        }
    }

    #[test]
    fn the_waits_of_a_copy_are_read_if_they_are_times() {
        let said = |value: &str| marker(0, "7").replace(" Total", &format!(" Waits: {value}\r\n Total"));
        let waits = Waits::parse("place=1200 disk=77").map(Box::new);
        let waits = waits.map(MarkerItem::Waits).into_iter();
        let expected: Vec<_> = waits.chain([MarkerItem::Marker(7)]).collect();
        tells(&said("place=1200 disk=77"), &expected);
        tells(&said("place=1200 levitation=5 disk=77"), &expected);
        for senseless in ["place", "place=soon", "disk=-1"] {
            tells(&said(senseless), &[MarkerItem::Marker(7)]);
        }
    }

    #[test]
    fn the_other_side_is_known_if_it_is_one_address() {
        // Wrong: time is given to a server that had a part of it, or to a name that a storage made up.
        let known = |list: &str| only_address(list).map(|address| address.to_string());
        assert_eq!(known(" tcp:1.2.3.4:443,tcp:1.2.3.4:444 ").as_deref(), Some("1.2.3.4"));
        assert_eq!(known("tcp:[2001:db8::1]:443").as_deref(), Some("2001:db8::1"));
        assert_eq!(known("tcp:[::ffff:1.2.3.4]:443").as_deref(), Some("1.2.3.4"));
        for unclear in [
            "tcp:1.2.3.4:1,tcp:1.2.3.5:1",
            "tcp:host:443",
            "1.2.3.4:443",
            "tcp:1.2.3.4",
            "",
        ] {
            assert_eq!(known(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn stripes_add_up_and_senseless_ones_do_not_count() {
        let body = format!("{}{}{}", marker(0, "10"), marker(1, "5"), marker(0, "20"));
        tells(
            &body,
            &[MarkerItem::Marker(10), MarkerItem::Marker(15), MarkerItem::Marker(25)],
        );
        tells(&marker(9000, "10"), &[]);
        tells(&marker(0, "-3"), &[MarkerItem::Marker(0)]);
        tells(
            &format!("{}{}", marker(0, &u64::MAX.to_string()), marker(1, "9")),
            &[MarkerItem::Marker(u64::MAX), MarkerItem::Marker(u64::MAX)],
        );
    }

    proptest! {
        /// Reading any bytes of a storage neither panics nor keeps more than a line.
        #[test]
        fn garbage_does_no_harm(body in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let (mut markers, mut told) = (Markers::default(), Vec::new());
            markers.feed(&body, &mut told);
            prop_assert!(markers.line.len() <= LINE_MAX);
            markers.finish(&mut told);
        }
    }
}

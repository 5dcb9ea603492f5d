//! Sums that an embedded storage keeps of its streams and connections, read from its metrics.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use weir_world::Wait;

use super::{StorageDoor, StorageError};

/// Seconds that the streams of a storage to one reader spent in each state.
pub(crate) type SenderTimes = BTreeMap<Wait, f64>;

/// The sums at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StorageSums {
    /// Of streams that were sent, by reader.
    pub(crate) senders: HashMap<IpAddr, SenderTimes>,
    /// Of TCP connections, by the address of the other side.
    pub(crate) tcp: HashMap<IpAddr, TcpSums>,
    /// Bytes that are left for files.
    pub(crate) available: Option<u64>,
}

/// Sums over the TCP connections with one peer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TcpSums {
    /// Connections that are open.
    pub(crate) open: f64,
    /// Their smoothed round trips, seconds.
    pub(crate) round_trips: f64,
    /// Seconds with something to send, those of closed connections included, as in all that follows.
    pub(crate) busy: f64,
    /// Of these, seconds in which the window of the peer held a connection back.
    pub(crate) held_by_peer: f64,
    /// The same of the send buffer.
    pub(crate) held_by_buffer: f64,
    /// Segments that were sent again.
    pub(crate) retransmits: f64,
}

impl StorageDoor {
    /// Reads the sums of an embedded storage.
    pub(crate) async fn sums(&self) -> Result<StorageSums, StorageError> {
        Ok(parse(&self.metrics().await?))
    }
}

/// Reads OpenMetrics text. Peers that the storage counts together are left out.
fn parse(text: &str) -> StorageSums {
    let mut sums = StorageSums::default();
    for line in text.lines() {
        // Told by its name first: the page has many more families.
        let Some((name, rest)) = line.strip_prefix("weir_storage_").and_then(|line| line.split_once('{')) else {
            continue;
        };
        match name {
            "space_bytes" => space(&mut sums, rest),
            "stream_seconds_total" => stream(&mut sums, rest),
            _ => tcp_figure(name).and_then(|figure| tcp(&mut sums, figure, rest)),
        };
    }
    sums
}

/// A sample of the room for files.
fn space(sums: &mut StorageSums, rest: &str) -> Option<()> {
    if label(rest, "state=\"")? == "available" {
        *sums.available.get_or_insert(0) += value(rest)? as u64;
    }
    Some(())
}

/// A sample of the time of streams.
fn stream(sums: &mut StorageSums, rest: &str) -> Option<()> {
    if label(rest, "direction=\"")? != "sent" {
        return None;
    }
    let reader = label(rest, "peer=\"")?.parse().ok()?;
    let state = Wait::parse(label(rest, "state=\"")?)?;
    *sums.senders.entry(reader).or_default().entry(state).or_default() += value(rest)?;
    Some(())
}

/// A sample of connections.
fn tcp(sums: &mut StorageSums, figure: Figure, rest: &str) -> Option<()> {
    let peer = label(rest, "peer=\"")?.parse().ok()?;
    *figure(sums.tcp.entry(peer).or_default()) += value(rest)?;
    Some(())
}

/// The value of a sample, behind its labels.
fn value(rest: &str) -> Option<f64> {
    rest.rsplit_once(' ')?.1.trim().parse().ok()
}

type Figure = fn(&mut TcpSums) -> &mut f64;

fn tcp_figure(name: &str) -> Option<Figure> {
    match name {
        "tcp_connections" => Some(|sums| &mut sums.open),
        "tcp_round_trip_seconds" => Some(|sums| &mut sums.round_trips),
        "tcp_busy_seconds_total" => Some(|sums| &mut sums.busy),
        "tcp_held_by_peer_seconds_total" => Some(|sums| &mut sums.held_by_peer),
        "tcp_held_by_buffer_seconds_total" => Some(|sums| &mut sums.held_by_buffer),
        "tcp_retransmits_total" => Some(|sums| &mut sums.retransmits),
        _ => None,
    }
}

/// The value of the label that begins so.
fn label<'l>(labels: &'l str, start: &str) -> Option<&'l str> {
    let (_, rest) = labels.split_once(start)?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "sums of round numbers")]
    use super::*;

    const READER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, 2));

    #[test]
    fn streams_are_added_up_by_reader_and_state() {
        // Wrong: an area named like a label, or streams that are received, are counted.
        let line = |area: &str, direction: &str, peer: &str, state: &str, seconds: &str| {
            format!(
                "weir_storage_stream_seconds_total{{area=\"{area}\",direction=\"{direction}\",peer=\"{peer}\",state=\"{state}\"}} {seconds}\n"
            )
        };
        let text = [
            line("a", "sent", "127.0.1.2", "disk", "1.5"),
            line("b", "sent", "127.0.1.2", "disk", "2"),
            line("a", "sent", "127.0.1.2", "network", "0.25"),
            line("a", "received", "127.0.1.2", "disk", "7"),
            line("a", "sent", "", "disk", "9"),
        ];
        let senders = parse(&text.concat()).senders;
        assert_eq!(
            senders,
            HashMap::from([(READER, SenderTimes::from([(Wait::Network, 0.25), (Wait::Disk, 3.5)]))])
        );
    }

    #[test]
    fn connections_are_added_up_by_peer() {
        // Wrong: a copy's own connections are left out, or those of peers that are counted together are given to one.
        let text = "weir_storage_tcp_busy_seconds_total{side=\"clients\",congestion=\"cubic\",peer=\"127.0.1.2\"} 4\n\
            weir_storage_tcp_busy_seconds_total{side=\"copies\",congestion=\"bbr\",peer=\"127.0.1.2\"} 0.5\n\
            weir_storage_tcp_busy_seconds_total{side=\"copies\",congestion=\"bbr\",peer=\"\"} 99\n\
            weir_storage_tcp_retransmits_total{side=\"clients\",congestion=\"cubic\",peer=\"127.0.1.2\"} 3\n\
            weir_storage_tcp_connections{side=\"clients\",congestion=\"cubic\",peer=\"127.0.1.2\"} 2\n\
            weir_storage_tcp_round_trip_seconds{side=\"clients\",congestion=\"cubic\",peer=\"127.0.1.2\"} 0.2\n\
            weir_storage_space_bytes{area=\"a\",state=\"available\"} 40\nweir_storage_space_bytes{area=\"a\",state=\"used\"} 7\n\
            weir_storage_tcp_busy_seconds_total{side=\"clients\",congestion=\"cub\n";
        let sums = parse(text);
        let tcp = TcpSums {
            open: 2.0,
            round_trips: 0.2,
            busy: 4.5,
            retransmits: 3.0,
            ..TcpSums::default()
        };
        assert_eq!((sums.tcp, sums.available), (HashMap::from([(READER, tcp)]), Some(40)));
        assert_eq!(
            parse("").available,
            None,
            "a storage that does not tell has not run full"
        );
    }
}

//! Figures of the hosts and storages around a transfer, measured beside its waits as evidence for their cause.

use crate::words::words;

words!(Gauge {
    /// Share of processor time in use on a host.
    CpuBusy = "cpu-busy",
    /// Share of the time in which something that could run waited for a processor (Linux pressure stall information, `some`).
    CpuStalled = "cpu-stalled",
    /// Share of the time in which something waited for a disk (`some`).
    IoStalled = "io-stalled",
    /// Share of the time in which everything that could run waited for a disk (`full`).
    IoBlocked = "io-blocked",
    /// Share of the time in which something waited for memory (`some`).
    MemoryStalled = "memory-stalled",
    /// Share of the time in which everything that could run waited for memory (`full`).
    MemoryBlocked = "memory-blocked",
    /// Share of the time in which a disk had requests.
    DiskBusy = "disk-busy",
    /// Rate that an interface receives.
    Received = "received",
    /// Rate that an interface sends.
    Sent = "sent",
    /// Space that a storage has left for files.
    FreeSpace = "free-space",
    /// Mean number of TCP connections with something to send.
    TcpBusy = "tcp-busy",
    /// Share of that time in which the window of the receiver held them back.
    TcpHeldByPeer = "tcp-held-by-peer",
    /// Share of that time in which the send buffer of the sender held them back.
    TcpHeldByBuffer = "tcp-held-by-buffer",
    /// Mean smoothed round trip of TCP connections.
    RoundTrip = "round-trip",
    /// TCP segments that were sent again.
    Retransmits = "retransmits",
    /// Mean time of a request for a token.
    TokenLatency = "token-latency",
    /// Mean life that tokens had left when attempts used them.
    TokenLife = "token-life",
    /// Delivered copies whose rules have ended and that are still there.
    DeletionBacklog = "deletion-backlog",
    /// Time since the end of the oldest of these rules.
    DeletionAge = "deletion-age",
    /// Requests that wait for the catalogue's submitter, and for nothing else.
    RequestsTurn = "requests-turn",
    /// Requests that wait because transfer services have as many of their kind as they may have.
    RequestsShare = "requests-share",
    /// Requests that wait for the time of their next attempt.
    RequestsRetry = "requests-retry",
    /// Requests that wait for room at their RSE.
    RequestsRoom = "requests-room",
    /// Requests that wait for a transfer service.
    RequestsService = "requests-service",
    /// Requests that wait for a token.
    RequestsToken = "requests-token",
    /// Requests that wait for the answer to their submission.
    RequestsSubmission = "requests-submission",
    /// Requests that wait for something else.
    RequestsOther = "requests-other",
    /// Bytes of files on their way: the catalogue keeps this room for them.
    ReservedSpace = "reserved-space",
});

words!(GaugeUnit {
    /// A share, from 0 to 1.
    Share = "1",
    /// A number of things.
    Count = "n",
    /// Bits per second.
    Rate = "bit/s",
    /// Bytes.
    Bytes = "B",
    /// Seconds.
    Seconds = "s",
    /// A number in each second.
    PerSecond = "1/s",
});

impl Gauge {
    /// The unit of its values.
    pub fn unit(self) -> GaugeUnit {
        match self {
            Self::CpuBusy
            | Self::CpuStalled
            | Self::IoStalled
            | Self::IoBlocked
            | Self::MemoryStalled
            | Self::MemoryBlocked
            | Self::DiskBusy
            | Self::TcpHeldByPeer
            | Self::TcpHeldByBuffer => GaugeUnit::Share,
            Self::TcpBusy
            | Self::DeletionBacklog
            | Self::RequestsTurn
            | Self::RequestsShare
            | Self::RequestsRetry
            | Self::RequestsRoom
            | Self::RequestsService
            | Self::RequestsToken
            | Self::RequestsSubmission
            | Self::RequestsOther => GaugeUnit::Count,
            Self::Received | Self::Sent => GaugeUnit::Rate,
            Self::FreeSpace | Self::ReservedSpace => GaugeUnit::Bytes,
            Self::RoundTrip | Self::TokenLatency | Self::TokenLife | Self::DeletionAge => GaugeUnit::Seconds,
            Self::Retransmits => GaugeUnit::PerSecond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handbook_explains_every_gauge() {
        // Wrong: a gauge without a unit or a source, or one that does not exist.
        let page = include_str!("../../../docs/gauges.md");
        let section = page.split("## Figures").nth(1).unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let mut told: Vec<(Option<Gauge>, &str)> = rows
            .flat_map(|row| {
                let mut cells = row.split(" | ");
                let (names, unit) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
                let names = names.trim_start_matches("| ").split(", ");
                names.map(move |name| (Gauge::parse(name.trim_matches('`')), unit))
            })
            .collect();
        let mut known: Vec<_> = Gauge::ALL
            .iter()
            .map(|gauge| (Some(*gauge), gauge.unit().as_str()))
            .collect();
        known.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, known);
    }
}

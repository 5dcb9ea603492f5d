//! Packets in a [network namespace](crate::namespace): nftables drops them, tc lets them queue.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use weir_units::BitRate;

use crate::programs::of_system;

/// The table of nftables.
const TABLE: &str = "inet weir";
/// Class of tc for packets without a queue of their own.
const DEFAULT_CLASS: usize = 1;
/// Class of the first queue.
const FIRST_QUEUE: usize = 0x10;
/// Time that a full queue holds a packet back, in ms.
const QUEUE_MS: u64 = 100;
/// Shortest queue, in bytes: some packets of each of a few connections.
const QUEUE_MIN: u64 = 64_000;

/// Longest wait for a program of the system.
const PATIENCE: Duration = Duration::from_secs(10);

/// A rule for packets.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketRule {
    /// The name of its counter: letters and digits.
    pub name: String,
    /// Doors between which data goes, from the first to the second. Packets of both connections that carry such data are meant:
    /// of those that the second made to the first, and the other way round.
    pub pairs: Vec<(SocketAddr, SocketAddr)>,
    /// The effect.
    pub act: PacketAct,
}

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PacketAct {
    /// This share is lost.
    Lose(f64),
    /// Packets with more bytes are lost.
    Shorten(u32),
    /// Packets queue for this rate, up to 100 ms; a packet that finds the queue full is lost.
    Queue(BitRate),
}

/// The packets of this namespace.
#[derive(Debug, Default)]
pub struct Packets {
    /// Packets that each rule has dropped, when it was last looked at.
    dropped: BTreeMap<String, u64>,
    /// The rules in force.
    rules: Vec<PacketRule>,
}

impl Packets {
    /// Puts rules into force in place of the former ones.
    ///
    /// # Errors
    /// A program is missing, or refuses what it is told; then the former rules may hold.
    pub async fn set(&mut self, rules: &[PacketRule]) -> io::Result<()> {
        self.look().await?;
        if self.rules == rules {
            return Ok(()); // else packets in the queues would be lost
        }
        let had_queues = self.rules.iter().any(|rule| matches!(rule.act, PacketAct::Queue(_)));
        let queues = queues(rules, had_queues);
        if !queues.is_empty() {
            tell("tc", &["-batch", "-"], &queues).await?;
        }
        self.rules = rules.to_vec();
        tell("nft", &["-f", "-"], &table(rules)).await.map(drop)
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// As of [`Packets::set`].
    pub async fn look(&mut self) -> io::Result<()> {
        let told = tell("nft", &["-j", "list", "counters"], "").await?;
        for (name, packets) in counters(&told) {
            self.dropped.insert(name, packets);
        }
        Ok(())
    }

    /// Number of packets that a rule has dropped, or sent to its queue, when the counters were last read.
    pub fn met(&self, rule: &str) -> u64 {
        self.dropped.get(rule).copied().unwrap_or_default()
    }
}

/// Runs a program with this input; gives its output.
async fn tell(program: &str, arguments: &[&str], input: &str) -> io::Result<String> {
    let mut command = Command::from(of_system(program));
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await?;
    }
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let ended = ended.map_err(|_| io::Error::other(format!("{program} does not end within 10 s")))??;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(io::Error::other(format!("{program}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// The packets of each counter in the answer of `nft -j list counters`.
fn counters(answer: &str) -> Vec<(String, u64)> {
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
    let counter = |entry: &serde_json::Value| {
        let counter = entry.get("counter")?;
        Some((counter["name"].as_str()?.to_owned(), counter["packets"].as_u64()?))
    };
    answer["nftables"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(counter)
        .collect()
}

/// The input of `nft -f`: one change of the whole table. Counters go on.
fn table(rules: &[PacketRule]) -> String {
    let mut text = format!(
        "add table {TABLE}\n\
         add chain {TABLE} in {{ type filter hook input priority 0; policy accept; }}\n\
         add chain {TABLE} out {{ type filter hook output priority 0; policy accept; }}\n\
         flush chain {TABLE} in\n\
         flush chain {TABLE} out\n"
    );
    for (at, rule) in rules.iter().enumerate() {
        let name = &rule.name;
        // A packet that is dropped on its way out is not lost for TCP: it is told, and sends it again at once.
        let (chain, condition, verdict) = match rule.act {
            PacketAct::Lose(share) => {
                let of_million = (share.clamp(0.0, 1.0) * 1e6).round();
                (
                    "in",
                    format!("numgen random mod 1000000 < {of_million}"),
                    "drop".to_owned(),
                )
            }
            PacketAct::Shorten(bytes) => ("in", format!("meta length > {bytes}"), "drop".to_owned()),
            PacketAct::Queue(_) => (
                "out",
                String::new(),
                format!("meta priority set 1:{:x}", FIRST_QUEUE + at),
            ),
        };
        let _infallible = writeln!(text, "add counter {TABLE} {name}");
        for (from, to) in &rule.pairs {
            let family = if from.is_ipv4() { "ip" } else { "ip6" };
            let ends = format!("{family} saddr {} {family} daddr {}", from.ip(), to.ip());
            for port in [format!("sport {}", from.port()), format!("dport {}", to.port())] {
                let _infallible = writeln!(
                    text,
                    "add rule {TABLE} {chain} {ends} tcp {port} {condition} counter name \"{name}\" {verdict}"
                );
            }
        }
    }
    text
}

/// The input of `tc -batch`: one class with a queue of its own for each rule that has one, in place of the former ones.
fn queues(rules: &[PacketRule], had_queues: bool) -> String {
    let mut text = String::new();
    if had_queues {
        text += "qdisc del dev lo root\n";
    }
    let queues = rules.iter().enumerate().filter_map(|(at, rule)| match rule.act {
        PacketAct::Queue(rate) => Some((FIRST_QUEUE + at, rate)),
        _ => None,
    });
    for (at, (class, rate)) in queues.enumerate() {
        if at == 0 {
            let _infallible = write!(
                text,
                "qdisc add dev lo root handle 1: htb default {DEFAULT_CLASS}\n\
                 class add dev lo parent 1: classid 1:{DEFAULT_CLASS} htb rate 100gbit quantum 60000\n"
            );
        }
        let bytes = (rate.0 / 8 * QUEUE_MS / 1_000).max(QUEUE_MIN);
        let _infallible = write!(
            text,
            "class add dev lo parent 1: classid 1:{class:x} htb rate {}bit quantum 3000\n\
             qdisc add dev lo parent 1:{class:x} bfifo limit {bytes}\n",
            rate.0.max(8)
        );
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn rule(act: PacketAct) -> PacketRule {
        PacketRule {
            name: "f3".to_owned(),
            pairs: vec![("127.0.1.1:70".parse().unwrap(), "127.0.1.2:80".parse().unwrap())],
            act,
        }
    }

    /// Packets of other pairs would be lost, or those of one of two directions not.
    #[test]
    fn rules_are_for_the_data_of_their_pairs() {
        let text = table(&[rule(PacketAct::Lose(0.01)), rule(PacketAct::Shorten(1_400))]);
        for line in [
            "add counter inet weir f3\n",
            "add rule inet weir in ip saddr 127.0.1.1 ip daddr 127.0.1.2 tcp sport 70 numgen random mod 1000000 < 10000 counter name \"f3\" drop\n",
            "add rule inet weir in ip saddr 127.0.1.1 ip daddr 127.0.1.2 tcp dport 80 meta length > 1400 counter name \"f3\" drop\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(table(&[]).matches("add rule").count(), 0);
    }

    /// A queue would go on after its fault, or packets be sent to one that is not there.
    #[test]
    fn queues_are_made_and_taken_away() {
        let rules = [rule(PacketAct::Lose(0.1)), rule(PacketAct::Queue(BitRate(80_000_000)))];
        let text = queues(&rules, false);
        assert!(
            text.starts_with("qdisc add dev lo root handle 1: htb default 1\n"),
            "{text}"
        );
        assert!(text.contains("classid 1:11 htb rate 80000000bit"), "{text}");
        assert!(text.contains("parent 1:11 bfifo limit 1000000"), "{text}");
        assert!(table(&rules).contains("meta priority set 1:11"));
        assert_eq!(queues(&[], true), "qdisc del dev lo root\n");
        assert_eq!(queues(&[], false), "");
    }

    #[test]
    fn counters_are_read_from_what_nft_says() {
        let answer = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"counter": {"family": "inet", "name": "f3", "table": "weir", "handle": 3, "packets": 17, "bytes": 900}}]}"#;
        assert_eq!(counters(answer), [("f3".to_owned(), 17)]);
        assert_eq!(counters(""), []);
    }
}

//! Worlds whose answer can be worked out by hand: one transfer at a time, or one thing that is full.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};
use weir_sched::Settled;
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, Outcome, Row, run};

/// From A to B and from C to B: files of 1 GB at so many Gb/s each, for an hour after a ramp of ten minutes. Before and after
/// its bytes an attempt takes 0.5 s + 4 × 100 ms, and 0.5 s; the store takes no time.
fn plan(rate: f64, world: &str) -> SimPlan {
    let text = format!(
        r#"
name = "by-hand"
[grid]
name = "g"
[grid.transfer]
max_active_per_link = 1000
max_active_per_rse_in = 1000
max_active_per_rse_out = 1000
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "10 m"
hold = "1 h"
drain = "10 m"
[[workload]]
kind = "rates"
file_size_min = "1 GB"
file_size_max = "1 GB"
cycle = "20 s"
rates = [
  {{ source = "A", destination = "B", rate = "{rate} Gb/s" }},
  {{ source = "C", destination = "B", rate = "{rate} Gb/s" }},
]
[sim.store]
latency = "0 s"
[[sim.link]]
link = "*->*"
rtt = "100 ms"
{world}
"#
    );
    let challenge = Challenge::parse(&text, "by-hand.toml".as_ref()).unwrap();
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

fn simulate(plan: &SimPlan) -> (Outcome, Vec<Row>) {
    let mut rows = Vec::new();
    let mut listeners = Listeners {
        rows: &mut |_, row| rows.push(row.clone()),
        rules: &mut |_| {},
        ledger: &mut |_| {},
    };
    let outcome = run(plan, Policy::Fixed, &mut listeners);
    let violations = outcome.checks.violations();
    assert!(violations.is_empty(), "{violations:?}");
    (outcome, rows)
}

/// Seconds from start to end of every transfer, each alone in the world: 40 Mb/s a link is a file each 200 s.
fn alone(world: &str) -> Vec<f64> {
    let (_, rows) = simulate(&plan(0.04, world));
    assert!(rows.len() > 30, "{}", rows.len());
    let took = |row: &Row| row.ended.since(row.started.unwrap()).as_secs_f64();
    rows.iter().map(took).collect()
}

#[track_caller]
fn each_takes(world: &str, seconds: f64) {
    for took in alone(world) {
        assert!((took - seconds).abs() < 1e-6, "{took} s, not {seconds}");
    }
}

/// Gb/s achieved of each link, of 20 asked.
fn full(world: &str) -> Vec<f64> {
    let (outcome, _) = simulate(&plan(20.0, world));
    let links = outcome.measured.figures.links.iter();
    links.map(|link| link.achieved_bps.unwrap().as_f64() / 1e9).collect()
}

#[track_caller]
fn gives(world: &str, expected: [f64; 2]) {
    let found = full(world);
    for (found, expected) in found.iter().zip(expected) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} Gb/s, not {expected}");
    }
}

/// 8 Gb at 1 Gb/s, wherever the limit is.
#[test]
fn one_transfer_takes_its_bytes_and_its_round_trips() {
    each_takes("capacity = \"1 Gb/s\"\n", 9.4);
    each_takes("stream_rate = \"1 Gb/s\"\n", 9.4);
    each_takes("[[sim.site]]\nsite = \"B\"\nin = \"1 Gb/s\"\n", 9.4);
    each_takes("[[sim.site]]\nsite = \"*\"\nout = \"1 Gb/s\"\n", 9.4);
    each_takes("[[sim.rse]]\nrse = \"*\"\nread = \"1 Gb/s\"\n", 9.4);
    each_takes("[[sim.rse]]\nrse = \"B\"\nwrite = \"1 Gb/s\"\n", 9.4);
    each_takes("[[sim.rse]]\nrse = \"B\"\ndisk = \"1 Gb/s\"\n", 9.4);
    each_takes("[[sim.rse]]\nrse = \"*\"\nstream_rate = \"1 Gb/s\"\n", 9.4);
    each_takes("[[sim.rse]]\nrse = \"B\"\nservers = [{ rate = \"1 Gb/s\" }]\n", 9.4);
    each_takes(
        "via = [\"sea\"]\n[[sim.segment]]\nname = \"sea\"\ncapacity = \"3 Gb/s\"\nbackground = \"2 Gb/s\"\n",
        9.4,
    );
}

/// 12.5 MB in 100 ms is 1 Gb/s.
#[test]
fn a_window_in_each_round_trip_is_what_a_stream_gets() {
    each_takes("window = \"12.5 MB\"\n", 9.4);
    each_takes("window = \"12.5 MB\"\nstreams = 4\n", 3.4);
}

/// Two tokens of a second each, and 50 ms.
#[test]
fn tokens_and_deletions_come_first() {
    each_takes("capacity = \"1 Gb/s\"\n[sim.tokens]\nrate = 1\n", 9.4 + 2.05);
    let deletes =
        "capacity = \"1 Gb/s\"\n[[sim.rse]]\nrse = \"B\"\noverwrite = 1.0\ndelete_time = \"3 s\"\ndelete_load = 1\n";
    each_takes(deletes, 9.4 + 3.0);
}

#[test]
fn a_file_is_read_back_before_its_transfer_ends() {
    let world = "capacity = \"1 Gb/s\"\n[[sim.rse]]\nrse = \"B\"\nreadback = true\nread = \"2 Gb/s\"\n";
    each_takes(world, 9.4 + 4.0);
}

/// The faster of two servers is the less busy one; at random, half of the files come through the slow one.
#[test]
fn a_slow_server_is_chosen_only_by_bad_balance() {
    let servers =
        "window = \"1 GB\"\n[[sim.rse]]\nrse = \"B\"\nservers = [{ rate = \"2 Gb/s\" }, { rate = \"500 Mb/s\" }]\n";
    each_takes(servers, 5.4);
    let took = alone(&format!("{servers}imbalance = 1\n"));
    let slow = took.iter().filter(|took| (**took - 17.4).abs() < 1e-6).count();
    let fast = took.iter().filter(|took| (**took - 5.4).abs() < 1e-6).count();
    assert_eq!(slow + fast, took.len(), "{took:?}");
    assert!(
        slow * 4 > took.len() && fast * 4 > took.len(),
        "{slow} slow, {fast} fast"
    );
}

/// A transfer in an outage of a minute goes on when it is over; one of ten minutes ends it after three.
#[test]
fn an_outage_holds_bytes_up() {
    let world = |length: &str| {
        let outage = format!("outages = [{{ at = \"1000 s\", length = \"{length}\" }}]\n");
        plan(
            0.04,
            &format!("capacity = \"100 Mb/s\"\n[[sim.rse]]\nrse = \"B\"\n{outage}"),
        )
    };
    let mut met = 0;
    for row in simulate(&world("60 s")).1 {
        let [started, ended] = [row.started.unwrap(), row.ended].map(weir_units::Timestamp::as_secs_f64);
        let begin = started + 0.9;
        let held_up = if begin < 1060.0 && begin + 80.0 > 1000.0 {
            1060.0 - begin.max(1000.0)
        } else {
            0.0
        };
        assert!((ended - begin - 80.5 - held_up).abs() < 1e-6, "{row:?}");
        met += u32::from(held_up > 0.0);
    }
    assert!(met > 0);
    let rows = simulate(&world("600 s")).1;
    let again: Vec<&Row> = rows.iter().filter(|row| row.attempts > 1).collect();
    assert!(!again.is_empty());
    for row in again.iter().filter(|row| row.state == Settled::Failed) {
        let last = row.ended.since(row.started.unwrap()).as_secs_f64();
        assert!((last - 180.9).abs() < 1e-6, "{row:?}");
    }
    // Three attempts of three minutes do not outlast ten minutes in every case; late ones do.
    assert!(again.iter().any(|row| row.state == Settled::Finished), "{again:?}");
}

/// Two links of a full site have the same; by the inverse of the round trip the near one has twice as much.
#[test]
fn two_links_share_a_full_site() {
    let site = "[[sim.site]]\nsite = \"B\"\nin = \"9 Gb/s\"\n";
    gives(site, [4.5, 4.5]);
    // Twenty at once: 160 Gb at 6 Gb/s, and 1.2 s in which the far one has the site for itself.
    let near = format!("[[sim.link]]\nlink = \"A->B\"\nrtt = \"50 ms\"\n{site}");
    let twenty = 160.0 / (160.0 / 6.0 + 1.2);
    gives(&format!("{near}[sim]\nrtt_exponent = 1\n"), [twenty, 9.0 - twenty]);
    let even = full(&format!("{near}[sim]\nrtt_exponent = 0\n"));
    assert!((even[0] / even[1] - 1.0).abs() < 0.05, "{even:?}");
}

/// Below its knee a storage gives all, beyond it what the curve says: forty and a hundred transfers of two links.
#[test]
fn a_storage_has_its_knee() {
    let world = |active: u32| {
        format!(
            "stream_rate = \"1 Gb/s\"\n[[sim.rse]]\nrse = \"B\"\n\
             write_curve = [{{ active = 40, rate = \"9 Gb/s\" }}, {{ active = 100, rate = \"3 Gb/s\" }}]\n[sim]\nfixed_active = {active}\n"
        )
    };
    gives(&world(20), [4.5, 4.5]);
    gives(&world(60), [1.5, 1.5]);
}

//! Worlds with one limit: the oracle names it.

use weir_measure::deficit::DeficitPart;
use weir_sim::policies::Policy;
use weir_world::{Wait, WaitPhase};

use super::{adds_up, parse, shares, simulate};

/// From A to B and from C to B: 5 Gb/s each in files of 1 GB for five minutes.
fn world(limits: &str, sim: &str) -> String {
    format!(
        r#"
name = "known"
[grid]
name = "g"
[grid.transfer]
max_active_per_link = 40
max_active_per_rse_in = 60
max_active_per_rse_out = 60
{limits}
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "10 s"
hold = "5 m"
drain = "10 s"
[[workload]]
kind = "rates"
file_size_min = "1 GB"
file_size_max = "1 GB"
cycle = "20 s"
rates = [
  {{ source = "A", destination = "B", rate = "5 Gb/s" }},
  {{ source = "C", destination = "B", rate = "5 Gb/s" }},
]
{sim}
"#
    )
}

/// The largest share of the first link's deficit is this cause, apart from the slots that transfers wait for while others
/// are held back by it.
#[track_caller]
fn names(text: &str, cause: &str) {
    let (outcome, _) = simulate(&parse(text), Policy::Weir);
    let deficits = outcome.measured.deficits();
    adds_up(&deficits);
    let mut shares = shares(&deficits[0]);
    let all = shares.clone();
    if !cause.starts_with("slots") {
        shares.retain(|name, _| !name.starts_with("slots") && !name.starts_with("optimiser"));
    }
    let largest = shares.iter().max_by(|one, other| one.1.total_cmp(other.1)).unwrap();
    assert!(largest.0 == cause && *largest.1 > 0.2, "{cause}: {all:#?}");
}

#[test]
fn each_limit_is_named() {
    let few = |sim: &str| world("", sim);
    names(
        &few("[[sim.site]]\nsite = \"B\"\nin = \"4 Gb/s\"\n"),
        "network site-in:B",
    );
    names(
        &few("[[sim.site]]\nsite = \"A\"\nout = \"2 Gb/s\"\n"),
        "network site-out:A",
    );
    names(&few("[[sim.rse]]\nrse = \"B\"\nwrite = \"4 Gb/s\"\n"), "disk rse-in:B");
    names(&few("[[sim.rse]]\nrse = \"A\"\nread = \"2 Gb/s\"\n"), "disk rse-out:A");
    names(
        &few("[[sim.rse]]\nrse = \"B\"\nservers = [{ rate = \"3 Gb/s\", slots = 400 }]\n"),
        "disk server:B#1",
    );
    names(
        &few(
            "[[sim.link]]\nlink = \"*->*\"\nvia = [\"sea\"]\n[[sim.segment]]\nname = \"sea\"\ncapacity = \"4 Gb/s\"\n",
        ),
        "network segment:sea",
    );
    names(
        &few("[[sim.link]]\nlink = \"A->B\"\ncapacity = \"2 Gb/s\"\n"),
        "network path:A→B",
    );
    names(
        &few("[[sim.link]]\nlink = \"A->B\"\nrtt = \"200 ms\"\nwindow = \"1 MB\"\n"),
        "window path:A→B",
    );
    names(
        &few("[[sim.rse]]\nrse = \"A\"\nstream_rate = \"40 Mb/s\"\n"),
        "disk rse-out:A",
    );
    names(
        &few("[[sim.rse]]\nrse = \"B\"\nwrite_connections = 2\n[[sim.rse]]\nrse = \"*\"\nstream_rate = \"400 Mb/s\"\n"),
        "place rse-in:B",
    );
    let limited = few("").replace("name = \"B\"\n", "name = \"B\"\nbandwidth = \"4 Gb/s\"\n");
    names(&limited, "limiter rse-in:B");
    names(&few("[sim.tokens]\nrate = 0.2\n"), "token issuer:tokens");
}

#[test]
fn slots_are_waited_for_where_they_are_few() {
    let slow = "[[sim.link]]\nlink = \"*->*\"\nstream_rate = \"400 Mb/s\"\n";
    let limits = |text: &str| world("", slow).replace("max_active_per_link = 40", text);
    names(&limits("max_active_per_link = 2"), "slots path:A→B");
    let inbound = world("", slow).replace("max_active_per_rse_in = 60", "max_active_per_rse_in = 3");
    names(&inbound, "slots rse-in:B");
}

#[test]
fn nothing_is_to_blame_where_nothing_is_limited() {
    let (outcome, _) = simulate(&parse(&world("", "")), Policy::Weir);
    let deficits = outcome.measured.deficits();
    adds_up(&deficits);
    for link in &deficits {
        let asked: u64 = link.asked_bits.iter().sum();
        let missing: i64 = link.parts.iter().map(|part| part.total_bits).sum();
        // Files of 1 GB are under way at the end of the hold: what came later is ahead of what was asked then.
        assert!(
            (missing as f64).abs() < 0.02 * asked as f64,
            "{missing} of {asked}: {:#?}",
            shares(link)
        );
        let of_limits = [
            Wait::Slots,
            Wait::Disk,
            Wait::Network,
            Wait::Limiter,
            Wait::Place,
            Wait::Token,
        ];
        for part in link.parts.iter().filter(|part| part.part == DeficitPart::Waited) {
            assert!(!of_limits.contains(&part.wait.unwrap()), "{part:?}");
        }
    }
}

/// Names carry no meaning: other names give the same causes under the other names.
#[test]
fn what_services_tell_does_not_change_the_truth() {
    // Wrong: a noisy signal moves the ledger that it is judged by, or a silent storage is shown as one that never waits.
    let exact = world("", "[[sim.rse]]\nrse = \"B\"\nwrite = \"4 Gb/s\"\n");
    let noisy = format!("{exact}[sim.signals]\ndelay = \"20 s\"\nunsplit = 0.5\nerror = 0.2\n");
    let silent = format!("{exact}[sim.signals]\nsilent = 1.0\n");
    let [exact, noisy, silent] = [exact, noisy, silent].map(|text| {
        let (outcome, _) = simulate(&parse(&text), Policy::Weir);
        let deficits = outcome.measured.deficits();
        adds_up(&deficits);
        (deficits, outcome.measured.told_signals())
    });
    assert!(exact.0 == noisy.0 && exact.0 == silent.0);
    let sum = |signals: &[weir_measure::signals::LinkSignals], wait: Wait| -> f64 {
        let waits = signals[0].waits.iter().filter(|told| told.wait == wait);
        waits.map(|told| told.total_s).sum()
    };
    let (disk, data) = (sum(&exact.1, Wait::Disk), sum(&noisy.1, Wait::Data));
    assert!(sum(&exact.1, Wait::Data).abs() < 1e-9);
    assert!((0.45..0.55).contains(&(data / disk)), "{data} of {disk}");
    assert!(silent.1[0].known.contains(&WaitPhase::Queue) && !silent.1[0].known.contains(&WaitPhase::Data));
    assert!(sum(&silent.1, Wait::Disk).abs() < 1e-9);
}

#[test]
fn swapped_names_give_swapped_answers() {
    let text = world(
        "",
        "[[sim.rse]]\nrse = \"A\"\nread = \"2 Gb/s\"\n[[sim.site]]\nsite = \"B\"\nin = \"6 Gb/s\"\n",
    );
    let swapped = text
        .replace("\"A\"", "\"X\"")
        .replace("\"B\"", "\"A\"")
        .replace("\"X\"", "\"B\"");
    let [one, other] = [&text, &swapped].map(|text| simulate(&parse(text), Policy::Weir).0.measured.deficits());
    let bits = |deficits: &[weir_measure::deficit::LinkDeficit], swap: bool| {
        let name = |text: String| match (swap, text.as_str()) {
            (true, "rse-in:A") => "rse-in:B".to_owned(),
            (true, "rse-out:B") => "rse-out:A".to_owned(),
            (true, "site-in:A") => "site-in:B".to_owned(),
            (true, "path:B→A") => "path:A→B".to_owned(),
            (true, "path:C→A") => "path:C→B".to_owned(),
            _ => text,
        };
        let parts = deficits.iter().flat_map(|link| &link.parts);
        let mut parts: Vec<_> = parts
            .map(|part| {
                (
                    part.part,
                    part.wait,
                    part.place.as_ref().map(|place| name(place.to_string())),
                    part.total_bits,
                )
            })
            .collect();
        parts.sort();
        parts
    };
    let (one, other) = (bits(&one, false), bits(&other, true));
    assert_eq!(one.len(), other.len(), "{one:#?}\n{other:#?}");
    for (one, other) in one.iter().zip(&other) {
        assert_eq!((one.0, one.1, &one.2), (other.0, other.1, &other.2));
        // Draws are by name, so that phases of injection differ.
        let scale = one.3.abs().max(other.3.abs()).max(1_000_000_000) as f64;
        assert!((one.3 - other.3).abs() as f64 <= 0.1 * scale, "{one:?} and {other:?}");
    }
}

/// The times in all states of a link are the lives of its transfers: none is lost, and none is counted twice.
#[test]
fn states_fill_every_life() {
    let sim = "[[sim.rse]]\nrse = \"B\"\nwrite = \"4 Gb/s\"\nwrite_connections = 20\nreadback = true\noverwrite = 0.5\n\
               [sim.tokens]\nrate = 4\n[[sim.link]]\nlink = \"*->*\"\nfailures = { network = 0.1, checksum = 0.05, permission = 0.05 }\n";
    let (outcome, rows) = simulate(&parse(&world("retries = 2", sim)), Policy::Weir);
    for link in 0..2 {
        let lives = rows.iter().filter(|row| outcome.scene.asks[row.ask].link == link);
        let lives: f64 = lives.map(|row| row.ended.since(row.injected).as_secs_f64()).sum();
        let spec = &outcome.measured.spec.links;
        let report = &outcome.measured.signals.report(spec)[link];
        assert_eq!(
            report.known,
            [WaitPhase::Queue, WaitPhase::Begin, WaitPhase::Data, WaitPhase::End]
        );
        let waited: f64 = report.waits.iter().map(|wait| wait.total_s).sum();
        // The store records the end of a transfer after its last attempt has ended.
        assert!(
            (waited / lives - 1.0).abs() < 0.005,
            "{waited} of {lives}: {:#?}",
            outcome.measured.signals.shares(link)
        );
    }
}

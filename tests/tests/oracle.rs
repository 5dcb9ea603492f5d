//! Real runs against the simulator, which knows what held each transfer back.
//!
//! Each file of `oracle/` has one kind of limit that a grid file can set, or one kind of fault. It is run with real services and in virtual time: on each link
//! the share of every state in all that transfers waited, and the rate, must be the same in both. That takes a machine with nothing else to do: it is asked with `WEIR_SOAK` set, of all files. Else one file is run,
//! and the state with the largest share must be the same.
//!
//! Small files wait for nothing but what the machine takes for each of them, which no file can know. There the simulator is told the mean
//! times of the real run, and the question is whether these explain the rate.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![allow(clippy::print_stdout, reason = "the shares are the result of this test")]

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use weir_tests::{steadily, weir};

/// Largest difference of the shares of one state.
const SHARE: f64 = 0.10;

/// Largest difference of the rates of a link, of the simulated one.
const RATE: f64 = 0.05;

/// Mean wait below which no limit held a link's transfers back, in seconds: the shares of such waits are the machine's noise.
const LITTLE: f64 = 0.1;

/// Stands in a file for the times of the machine.
const MACHINE: &str = "# The times of the machine follow.\n";

/// The waits and the rates of the links of a run.
#[derive(Debug, Default)]
struct Links {
    /// Lines for the simulator: the times of an attempt beside its data.
    machine: String,
    /// Share of each state and place in the waits of the link.
    shares: BTreeMap<String, BTreeMap<String, f64>>,
    /// Mean wait of a transfer of each link, s.
    means: BTreeMap<String, f64>,
    /// Achieved rate in the hold, bit/s.
    rates: BTreeMap<String, f64>,
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("oracle/{name}.toml"))
}

/// Runs a challenge with the words of this command; reads its report.
fn links(command: &[&str], challenge: &Path) -> Result<Links> {
    let scratch = tempfile::tempdir()?;
    let out = scratch.path().join("runs");
    let mut arguments: Vec<&OsStr> = command.iter().map(OsStr::new).collect();
    arguments.extend([OsStr::new("--out"), out.as_os_str(), challenge.as_os_str()]);
    let ran = steadily(|| {
        let _before = fs::remove_dir_all(&out);
        weir(&arguments)
    })?;
    // More is asked than these grids can move: a run may be told to have failed.
    anyhow::ensure!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let folder = fs::read_dir(&out)?.next().context("there is no run folder")??.path();
    let report: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
    Ok(Links {
        machine: machine(&report),
        shares: shares(&report),
        means: means(&report),
        rates: rates(&report),
    })
}

/// The mean times of an attempt, as the tables of a simulated world have them.
fn machine(report: &Value) -> String {
    let begin = [
        "executor",
        "token",
        "resolve",
        "connect",
        "tls",
        "look",
        "delete",
        "place",
        "first-byte",
        "data",
    ];
    let (mut before, mut after, mut store) = (0.0, 0.0, 0.0);
    let links = report["signals"].as_array().into_iter().flatten();
    for wait in links.flat_map(|link| link["waits"].as_array().into_iter().flatten()) {
        let state = wait["wait"].as_str().unwrap_or_default();
        let seconds = wait["total_s"].as_f64().unwrap_or_default();
        match state {
            "store" => store += seconds,
            _ if begin.contains(&state) => before += seconds,
            "close" | "verify" | "checksum" => after += seconds,
            _ => {}
        }
    }
    let attempts = report["totals"]["finished"].as_f64().unwrap_or_default().max(1.0);
    let time = |seconds: f64| format!("{} us", (seconds / attempts * 1e6).round());
    format!(
        "[sim]\nstartup = \"{}\"\nfinalization = \"{}\"\n[sim.store]\nlatency = \"{}\"\n",
        time(before),
        time(after),
        time(store)
    )
}

fn name(link: &Value) -> String {
    let end = |key: &str| link[key].as_str().unwrap_or_default().to_owned();
    format!("{}→{}", end("source"), end("destination"))
}

fn rates(report: &Value) -> BTreeMap<String, f64> {
    let links = report["links"].as_array().into_iter().flatten();
    links
        .map(|link| (name(link), link["achieved_bps"].as_f64().unwrap_or_default()))
        .collect()
}

fn means(report: &Value) -> BTreeMap<String, f64> {
    let all = |list: &str| report[list].as_array().into_iter().flatten();
    let counts: BTreeMap<String, f64> = all("links")
        .map(|link| (name(link), link["finished"].as_f64().unwrap_or_default()))
        .collect();
    let links = all("signals");
    let mean = |link: &Value| {
        let waits = link["waits"].as_array().into_iter().flatten();
        let all: f64 = waits.filter_map(|wait| wait["total_s"].as_f64()).sum();
        (name(link), all / counts[&name(link)].max(1.0))
    };
    links.map(mean).collect()
}

fn shares(report: &Value) -> BTreeMap<String, BTreeMap<String, f64>> {
    let of_link = |link: &Value| {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for wait in link["waits"].as_array().into_iter().flatten() {
            let (state, place) = (
                wait["wait"].as_str().unwrap_or_default(),
                wait["place"].as_str().unwrap_or_default(),
            );
            // By chance the optimiser finds three transfers as good as the four that the file allows: either is a limit of the number.
            let state = if state == "optimiser" { "slots" } else { state };
            // A real run does not measure the catalogue's phase.
            if state != "catalogue" {
                *sums.entry(format!("{state} {place}")).or_default() += wait["total_s"].as_f64().unwrap_or_default();
            }
        }
        let all: f64 = sums.values().sum();
        sums.values_mut().for_each(|sum| *sum /= all);
        (name(link), sums)
    };
    report["signals"]
        .as_array()
        .into_iter()
        .flatten()
        .map(of_link)
        .collect()
}

/// The state with the largest share.
fn largest(shares: &BTreeMap<String, f64>) -> &str {
    let largest = shares.iter().max_by(|one, other| one.1.total_cmp(other.1));
    largest.map_or("", |(state, _)| state)
}

/// Lines of what a file gives in both worlds, and what differs too much.
fn differences(name: &str, is_exact: bool) -> Result<(String, Vec<String>)> {
    let challenge = file(name);
    let real = links(&["challenge", "run"], &challenge)?;
    let scratch = tempfile::tempdir()?;
    let told = scratch.path().join("told.toml");
    let text = fs::read_to_string(&challenge)?;
    fs::write(&told, text.replace(MACHINE, &real.machine))?;
    let oracle = links(&["sim", "run", "--rows", "none"], &told)?;
    let (mut lines, mut wrong) = (String::new(), Vec::new());
    let mut compare = |what: String, (real, oracle): (f64, f64), differs: bool| {
        let line = format!("{name} {what}: real {real:.3}, simulated {oracle:.3}");
        let _ = writeln!(lines, "{line}");
        wrong.extend((differs && is_exact).then_some(line));
    };
    assert!(!oracle.shares.is_empty(), "the simulator tells no waits");
    for (link, of_oracle) in &oracle.shares {
        let rates = (real.rates[link] / 1e6, oracle.rates[link] / 1e6);
        let differs = (rates.0 / rates.1 - 1.0).abs() > RATE;
        compare(format!("{link} Mb/s"), rates, differs);
        let is_free = |links: &Links| links.means.get(link).is_some_and(|mean| *mean < LITTLE);
        if is_free(&real) && is_free(&oracle) {
            continue;
        }
        let of_real = real.shares.get(link).context("a real run tells no waits")?;
        anyhow::ensure!(
            largest(of_real) == largest(of_oracle),
            "{link} waits most for another state: real {of_real:?}, simulated {of_oracle:?}"
        );
        let mut states: Vec<&String> = of_real.keys().chain(of_oracle.keys()).collect();
        states.sort();
        states.dedup();
        for state in states {
            let [one, other] = [of_real, of_oracle].map(|shares| shares.get(state).copied().unwrap_or_default());
            if one.max(other) >= 0.005 {
                compare(format!("{link} {state}"), (one, other), (one - other).abs() > SHARE);
            }
        }
    }
    Ok((lines, wrong))
}

/// A wait would be told by another name in a real run than in the simulator, or not be seen.
#[test]
fn a_real_run_waits_as_the_simulator_says() -> Result<()> {
    let is_soak = std::env::var_os("WEIR_SOAK").is_some();
    let files: &[&str] = if is_soak {
        &[
            "slow-source",
            "storage-cap",
            "link-cap",
            "slots",
            "small-files",
            "token-latency",
            "fault-slow-read",
            "fault-slow-write",
            "fault-slow-disk",
            "fault-slow-close",
            "fault-slots",
            "fault-slow-store",
        ]
    } else {
        &["slow-source"]
    };
    let mut wrong = Vec::new();
    for name in files {
        let (lines, of_file) = differences(name, is_soak)?;
        println!("{lines}");
        wrong.extend(of_file);
    }
    assert!(wrong.is_empty(), "differs too much:\n{}", wrong.join("\n"));
    Ok(())
}

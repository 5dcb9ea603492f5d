//! Whole simulations of the size of the data challenge of 2024.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use weir_measure::Report;
use weir_measure::report::Build;
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::report::{Rows, RunOutputs, report, run_into};
use weir_sim::world::{Part, Probe};

use crate::measure::{Figure, parts, peak_mebibytes, timed};

/// A reproducible sequence of numbers (Knuth's MMIX constants).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub(crate) fn unit(&mut self) -> f64 {
        self.below(1 << 24) as f64 / f64::from(1 << 24)
    }
}

fn resolved(text: &str, path: &str) -> SimPlan {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../challenges");
    let challenge = Challenge::parse(text, &root.join(path)).unwrap_or_else(|problems| panic!("{problems:?}"));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

/// 1,200 links between 120 RSEs: 1.2 Tb/s of 6 GB files, about 50 Mb/s each, so that 24,000 run at once if all goes well;
/// ten of the sites have little more than is asked of them.
fn many_at_once() -> SimPlan {
    let mut text = "name = \"many\"\n[grid]\nname = \"g\"\n[grid.transfer]\nmax_active_per_link = 2000\n\
                    max_active_per_rse_in = 2000\nmax_active_per_rse_out = 2000\n"
        .to_owned();
    for rse in 0..120 {
        writeln!(text, "[[grid.rse]]\nname = \"R{rse:03}\"").unwrap();
    }
    text += "[phases]\nramp = \"1 h\"\nhold = \"11 h\"\ndrain = \"1 h\"\n[[workload]]\nkind = \"rates\"\n\
             file_size_min = \"6 GB\"\nfile_size_max = \"6 GB\"\ncycle = \"15 m\"\nlifetime = \"2 h\"\nrates = [\n";
    let (mut numbers, mut links) = (Numbers(1), std::collections::BTreeSet::new());
    while links.len() < 1_200 {
        let (source, destination) = (numbers.below(120), numbers.below(120));
        if source != destination && links.insert((source, destination)) {
            // From 0.2 to 1.8 Gb/s.
            let rate = 200 + numbers.below(1_600);
            writeln!(
                text,
                "{{ source = \"R{source:03}\", destination = \"R{destination:03}\", rate = \"{rate} Mb/s\" }},"
            )
            .unwrap();
        }
    }
    text += "]\n[sim]\ntick = \"1 s\"\ninjection_interval = \"15 m\"\n[[sim.link]]\nlink = \"*->*\"\nrtt = \"30 ms\"\n\
             stream_rate = \"50 Mb/s\"\nspread = 0.5\n[[sim.site]]\nsite = \"*\"\nin = \"40 Gb/s\"\nout = \"40 Gb/s\"\n\
             [[sim.site]]\nsite = \"R00*\"\nin = \"12 Gb/s\"\nout = \"12 Gb/s\"\n";
    resolved(&text, "many.toml")
}

/// The data challenge of 2024 at its own length and number of transfers: two days alone, five minimal, five flexible.
fn data_challenge() -> SimPlan {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../challenges/dc24-atlas-t0.toml");
    let mut text = std::fs::read_to_string(path).unwrap();
    for (short, long) in [
        ("hold = \"33 h\"", "hold = \"285 h\""),
        ("length = \"6 h\"", "length = \"48 h\""),
        ("start = \"6 h\"", "start = \"48 h\""),
        ("length = \"12 h\"", "length = \"120 h\""),
        ("start = \"18 h\"", "start = \"168 h\""),
        ("length = \"18 h\"", "length = \"120 h\""),
        ("at = \"18 h\"", "at = \"168 h\""),
        ("\"6 GB\"", "\"4.2 GB\""),
    ] {
        assert!(text.contains(short), "the challenge no longer says {short}");
        text = text.replace(short, long);
    }
    resolved(&text, "dc24-atlas-t0.toml")
}

/// A whole run with its files.
fn simulate(plan: &SimPlan, rows: Rows, probe: &Probe) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| BufWriter::new(File::create(folder.path().join(name)).unwrap());
    let (mut transfers, mut ledger) = (file("transfers.csv"), file("ledger.csv"));
    let files = RunOutputs {
        transfers: &mut transfers,
        rules: &mut std::io::sink(),
        ledger: &mut ledger,
    };
    let outcome = run_into(plan, Policy::Weir, rows, files, probe).unwrap();
    let build = Build {
        version: String::new(),
        commit: None,
    };
    let report = report(plan, Policy::Weir, outcome, "simulation_cost", build);
    file("report.json").write_all(report.to_json().as_bytes()).unwrap();
    report
}

/// Time and memory of the whole, as `weir sim run` does it.
fn whole(name: &str, plan: &SimPlan, seconds: f64, mebibytes: f64) -> Vec<Figure> {
    let (time, report) = timed(|| simulate(plan, Rows::Sample, &Probe::default()));
    let memory = peak_mebibytes();
    let active: Vec<f64> = report.series.total.active_mean.iter().flatten().copied().collect();
    let mean = active.iter().sum::<f64>() / active.len() as f64;
    vec![
        Figure::new(
            format!("{name}: transfers"),
            report.totals.transfers as f64 / 1e6,
            "M",
            None,
        ),
        Figure::new(format!("{name}: at once, mean"), mean, "", None),
        Figure::new(format!("{name}: time"), time, "s", Some(seconds)),
        Figure::new(format!("{name}: memory"), memory, "MiB", Some(mebibytes)),
    ]
}

/// What each part takes of a transfer, with every transfer written down.
fn breakdown(name: &str, plan: &SimPlan) -> Vec<Figure> {
    let probe = Probe::default();
    let mut transfers = 0;
    let times = parts(&probe, || {
        transfers = simulate(plan, Rows::All, &probe).totals.transfers;
    });
    let figure = |(part, seconds): (Part, f64)| {
        let (word, limit) = match part {
            Part::World => ("everything else", None),
            Part::Scheduling => ("scheduling", Some(4.0)),
            Part::Network => ("network", Some(2.0)),
            Part::Rows => ("books, and a row for every transfer", Some(2.0)),
        };
        let micros = seconds / transfers as f64 * 1e6;
        Figure::new(format!("{name}, a transfer: {word}"), micros, "µs", limit)
    };
    times.into_iter().map(figure).collect()
}

pub(crate) fn twelve_hours() -> Vec<Figure> {
    let (name, plan) = ("12 hours, 1,200 links", many_at_once());
    let mut figures = whole(name, &plan, 8.0, 256.0);
    figures.extend(breakdown(name, &plan));
    figures
}

pub(crate) fn twelve_days() -> Vec<Figure> {
    whole("12 days, 2,000 links", &data_challenge(), 300.0, 1_536.0)
}

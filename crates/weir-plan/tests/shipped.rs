//! The challenges and grids that ship with Weir.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::path::PathBuf;
use std::time::Duration;

use weir_model::file::Table;
use weir_model::{GRID_TABLES, Grid};
use weir_plan::incident;
use weir_plan::{CHALLENGE_TABLES, Challenge, Incident, Inject, Mode, Overrides, Plan, PlanSummary, Workload};
use weir_units::{BitRate, Bytes};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn plan(name: &str, scale: Option<f64>) -> (Plan, PlanSummary) {
    let challenge = Challenge::load(&root().join("challenges").join(name)).unwrap();
    let plan = challenge
        .resolve(&Overrides {
            scale,
            ..Overrides::default()
        })
        .unwrap();
    let summary = plan.summary();
    (plan, summary)
}

/// A file that ships would not be valid, or warn about itself.
#[test]
fn all_are_valid() {
    for folder in ["challenges", "challenges/incidents", "grids"] {
        let mut n_files = 0;
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            n_files += 1;
            if folder == "grids" {
                Grid::load(&path).unwrap();
                continue;
            }
            let plan = Challenge::load(&path).unwrap().resolve(&Overrides::default()).unwrap();
            assert_eq!(plan.name, path.file_stem().unwrap().to_str().unwrap());
            let again = Challenge::parse(&plan.resolved, "resolved.toml".as_ref()).unwrap();
            assert_eq!(again.resolve(&Overrides::default()).unwrap(), plan);
        }
        assert!(n_files >= 2, "{n_files} in {folder}");
    }
}

/// The demo would not be the UK mini challenge at a hundredth of its rates, or need more than a laptop has.
#[test]
fn minidc_uk() {
    let (plan, summary) = plan("minidc-uk.toml", Some(0.01));
    assert_eq!((plan.grid.rses.len(), summary.workloads[0].links), (6, 30));
    assert_eq!(summary.asked, BitRate(1_310_000_000));
    let Workload::Rates(rates) = &plan.workloads[0] else {
        panic!("the workload is of rates")
    };
    for rated in &rates.links {
        assert!(rated.n_files >= 30, "{}: {}", rated.link, rated.n_files);
        assert!(
            (Bytes(256_000)..=Bytes(64_000_000)).contains(&rated.file_size),
            "{}",
            rated.link
        );
    }
    let of = |source: &str, destination: &str| {
        let is = |link: &weir_model::Link| link.source.as_str() == source && link.destination.as_str() == destination;
        rates.links.iter().find(|rated| is(&rated.link)).unwrap()
    };
    assert_eq!(of("RAL", "LANCS").rate, BitRate(150_530_000));
    assert_eq!(of("GLA", "RALPP").file_size, Bytes(257_800));
    assert_eq!(rates.inject, Inject::Rules);
    assert_eq!(
        (plan.phases.ramp, plan.phases.hold),
        (Duration::from_secs(10), Duration::from_secs(60))
    );
    // Ratio and variation of six sites, and four of the whole.
    assert_eq!(plan.thresholds.len(), 16);
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    assert!(summary.space < Bytes(8_000_000_000), "{}", summary.space);
    assert!(summary.volume < Bytes(12_000_000_000), "{}", summary.volume);
}

/// The matrix would leave out a pair, a mode or a size.
#[test]
fn juno_matrix() {
    let (plan, summary) = plan("juno-matrix.toml", None);
    let Workload::Matrix(matrix) = &plan.workloads[0] else {
        panic!("the workload is a matrix")
    };
    let cells: std::collections::BTreeSet<_> = matrix
        .steps
        .iter()
        .flat_map(|step| &step.cells)
        .map(|cell| (&cell.link, cell.mode, cell.size))
        .collect();
    assert_eq!(cells.len(), 12 * 3 * 2);
    assert!(
        Mode::ALL
            .iter()
            .all(|mode| cells.iter().filter(|cell| cell.1 == Some(*mode)).count() == 24)
    );
    assert_eq!((summary.transfers, summary.volume), (72, Bytes(3_636_000_000)));
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
}

/// The ramp would not be that of table 5, or not fit a laptop.
#[test]
fn juno_ramp() {
    let (plan, summary) = plan("juno-ramp.toml", None);
    let Workload::Ramp(ramp) = &plan.workloads[0] else {
        panic!("the workload is a ramp")
    };
    let parallel: Vec<u32> = ramp.steps.iter().map(|step| step.cells[0].parallel).collect();
    assert_eq!(parallel, [10, 40, 100].repeat(6));
    assert_eq!((summary.transfers, summary.volume), (900, Bytes(9_000_000_000)));
    assert!(summary.space < Bytes(5_000_000_000), "{}", summary.space);
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
}

/// The handbook would tell of other incidents than there are.
#[test]
fn the_handbook_lists_every_incident() {
    let mut incidents: Vec<Incident> = Vec::new();
    for entry in std::fs::read_dir(root().join("incidents")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let incident = Incident::parse(&text, &path).unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert_eq!(
            Some(incident.id.as_str()),
            path.file_stem().and_then(|name| name.to_str())
        );
        incidents.push(incident);
    }
    let number = |incident: &Incident| incident.id[5..].parse::<u32>().unwrap();
    incidents.sort_by_key(|incident| (incident.id.as_bytes()[4], number(incident)));
    let waiting = weir_plan::incident::WAITING;
    assert_eq!(incidents.len() + waiting.len(), 109, "incidents of the sources");
    let is_dc24 = |incident: &&Incident| incident.id.starts_with("INC-D");
    let pages = [
        (
            "incidents.md",
            incident::markdown(incidents.iter().filter(|incident| !is_dc24(incident))),
        ),
        (
            "incidents-dc24.md",
            incident::markdown(incidents.iter().filter(is_dc24)),
        ),
    ];
    for (page, table) in pages {
        let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
        assert!(text.contains(&table), "docs/{page} must hold:\n{table}");
    }
    let tables: Vec<String> = incident::INCIDENT_TABLES.iter().map(|table| table.markdown()).collect();
    let text = std::fs::read_to_string(root().join("docs/incidents.md")).unwrap();
    for table in &tables {
        assert!(text.contains(table), "docs/incidents.md must hold:\n{table}");
    }
    assert!(
        waiting.iter().all(|(id, _)| text.contains(id)),
        "docs/incidents.md must name those that wait"
    );
}

/// The handbook would list a key that does not exist, leave one out, or tell another default.
#[test]
fn the_handbook_lists_every_key() {
    let check = |pages: &[&str], tables: &[&Table]| {
        let read = |page: &&str| std::fs::read_to_string(root().join("docs").join(page)).unwrap();
        let text = pages.iter().map(read).collect::<Vec<_>>().concat();
        let mut listed: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        let known: Vec<String> = tables.iter().map(|table| table.markdown()).collect();
        let rows = known.iter().flat_map(|table| table.lines());
        let mut rows: Vec<&str> = rows.filter(|line| line.starts_with("| `")).collect();
        // The handbook chooses the page of a table.
        listed.sort_unstable();
        rows.sort_unstable();
        assert_eq!(listed, rows, "{pages:?} must hold these tables:\n{}", known.join("\n"));
        for table in tables {
            assert!(
                text.contains(&format!("\n## {}\n", table.title)),
                "{pages:?} have no heading {}",
                table.title
            );
        }
    };
    check(&["grid-file.md", "grid-services.md"], GRID_TABLES);
    let pages = ["challenge-file.md", "challenge-workloads.md", "faults.md"];
    check(&pages, CHALLENGE_TABLES);
    let faults = std::fs::read_to_string(root().join("docs/fault-kinds.md")).unwrap();
    let kinds = weir_plan::fault::kinds_markdown();
    assert!(faults.contains(&kinds), "docs/fault-kinds.md must hold:\n{kinds}");
}

//! Cases: the truth about a drawn run is the difference from its twin, and simple rules name some of it.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fmt::Write as _;
use std::path::Path;

use weir_measure::diagnosis::baselines::BASELINES;
use weir_measure::diagnosis::score::{Score, judge, score};
use weir_measure::diagnosis::{Case, CaseKind, blind, diagnose, episodes, named};
use weir_measure::report::Report;
use weir_plan::vary::{Cause, Draft, Purpose, Template, draw};
use weir_plan::{Challenge, Incident};
use weir_sim::case::{Unfit, report, try_draft, try_incident};

fn template(id: &str) -> Template {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../incidents/INC-{id}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    Template {
        incident: Incident::parse(&text, &path).unwrap(),
        text,
    }
}

/// An incident as it is, as a case.
fn draft(id: &str) -> Draft {
    let template = template(id);
    let expect = template.incident.expect;
    Draft {
        text: template.text,
        axes: std::collections::BTreeMap::new(),
        causes: vec![Cause {
            classes: expect.classes,
            places: expect.place.into_iter().collect(),
            faults: template
                .incident
                .challenge
                .faults
                .iter()
                .map(|fault| fault.name.clone())
                .collect(),
            is_open: false,
        }],
    }
}

/// A truth would name a link that lost nothing, or another time.
#[test]
fn the_truth_is_the_difference_from_the_twin() {
    let tried = try_draft(&draft("J6"), Path::new("J6")).unwrap();
    assert_eq!(tried.kind, CaseKind::One);
    let truth = &tried.truths[0];
    assert_eq!(truth.links, ["JINR→CNAF"]);
    assert!(
        (truth.from_s - 240.0).abs() < 30.0 && (truth.until_s - 660.0).abs() < 30.0,
        "{truth:?}"
    );
    assert!(truth.held_bps < 0.5 * truth.asked_bps, "{truth:?}");
}

/// A fault that costs nothing would have to be found.
#[test]
fn a_fault_without_effect_is_a_healthy_case() {
    let mut harmless = draft("J6");
    harmless.text = harmless
        .text
        .replace("kind = \"slow-read\"", "kind = \"slow-read\"\nname = \"f\"");
    let begin = harmless.text.find("[[fault]]").unwrap();
    let rate = begin + harmless.text[begin..].find("rate = ").unwrap();
    let end = rate + harmless.text[rate..].find('\n').unwrap();
    harmless.text.replace_range(rate..end, "rate = \"900 Gb/s\"");
    harmless.causes[0].faults = vec!["f".to_owned()];
    let tried = try_draft(&harmless, Path::new("J6")).unwrap();
    assert_eq!((tried.kind, tried.truths.len()), (CaseKind::Healthy, 0));
    // Bits that are missing for another reason make no case.
    let mut other = draft("J6");
    other.causes[0].faults.clear();
    assert!(matches!(try_draft(&other, Path::new("J6")), Err(Unfit::Unwell)));
}

/// A rule would see the faults, or miss the time that all of them share.
#[test]
fn a_blind_reader_finds_the_wait() {
    let template = template("J6");
    let challenge = Challenge::parse(&template.text, Path::new("J6")).unwrap();
    let seen = blind(&report(&challenge).unwrap());
    assert!(seen.faults.is_empty() && seen.deficits.is_empty() && !seen.signals.is_empty());
    assert!(
        seen.events.iter().all(|event| !event.text.contains("slow-read")),
        "{:?}",
        seen.events
    );
    assert_eq!(episodes(&seen).len(), 1, "{:?}", episodes(&seen));
    let tried = try_draft(&draft("J6"), Path::new("J6")).unwrap();
    let case = Case {
        id: "J6".to_owned(),
        kind: tried.kind,
        template: "INC-J6".to_owned(),
        axes: std::collections::BTreeMap::new(),
        truths: tried.truths,
    };
    let right = |name: &str| {
        let (_, rule) = BASELINES.iter().find(|(known, _)| *known == name).unwrap();
        judge(&case, &rule(&seen), seen.series.bin_s)
    };
    let by_wait = right("largest-wait");
    assert!(by_wait.is_right, "{by_wait:?}");
    assert!(!right("majority").is_place_right);
}

/// Whole templates would give no case at all.
#[test]
fn most_templates_give_cases_of_every_purpose() {
    let (mut made, mut all) = (0, 0);
    for id in ["J5", "D12", "D26", "D33", "D39", "D4", "D60"] {
        let template = template(id);
        for purpose in [Purpose::Variant, Purpose::Pair, Purpose::Healthy] {
            all += 1;
            let found = (0..12).find_map(|attempt| {
                let draft = draw(&template, purpose, 1, id, attempt);
                let tried = try_draft(&draft, Path::new(id));
                assert!(
                    !matches!(tried, Err(Unfit::Invalid(_))),
                    "{id}: {tried:?}\n{}",
                    draft.text
                );
                tried.ok()
            });
            made += u32::from(found.is_some());
        }
    }
    assert!(made * 10 >= all * 8, "{made} of {all}");
}

/// The causes that differ most, each without a look at its fault: a class, a place or a link would be wrong, or the wait of one link
/// would be blamed on the slots and not on what holds them.
#[test]
fn the_diagnosis_names_class_and_place() {
    for (id, class, place) in [
        ("J6", "storage-data-path", "rse-out:JINR"),
        ("D2", "outage", ""),
        ("D3", "storage-data-path", ""),
        ("D8", "", "issuer:tokens"),
        ("D15", "control-plane", "service:catalog"),
        ("D18", "space", ""),
        ("D23", "workload", "workload:"),
        ("D24", "scheduler-policy", ""),
        ("D33", "admission", ""),
        ("D67", "measurement", ""),
        ("D47", "software", ""),
    ] {
        let challenge = Challenge::parse(&template(id).text, Path::new(id)).unwrap();
        let said = diagnose(&blind(&report(&challenge).unwrap())).statements;
        let first = said.first().unwrap_or_else(|| panic!("{id}: nothing was said"));
        let at = first.place.as_ref().unwrap().to_string();
        assert!(
            first.class.as_str().contains(class) && at.starts_with(place),
            "{id}: {first:?}"
        );
    }
}

/// A report of an earlier build does not say what was injected: all of its missing bits would be the workload's.
#[test]
fn a_report_without_injected_rates_does_not_blame_the_workload() {
    let challenge = Challenge::parse(&template("J6").text, Path::new("J6")).unwrap();
    let mut old = blind(&report(&challenge).unwrap());
    for link in old.series.links.values_mut() {
        link.injected_bps.clear();
        link.injected_files.clear();
        link.lost_bps.clear();
    }
    let said = diagnose(&old).statements;
    let first = said.first().unwrap();
    assert_eq!(
        (first.class.as_str(), first.links.as_slice()),
        ("storage-data-path", ["JINR→CNAF".to_owned()].as_slice())
    );
}

/// Full, but not too full: a statement would be a false alarm.
#[test]
fn nothing_is_said_of_a_run_that_is_well() {
    for id in ["J6", "D24", "C4", "D18"] {
        let mut well = Challenge::parse(&template(id).text, Path::new(id)).unwrap();
        if id != "C4" {
            well.faults.clear();
        }
        assert_eq!(diagnose(&blind(&report(&well).unwrap())).statements, [], "{id}");
    }
}

/// A case of a template, as `weir incident vary` draws it.
fn drawn(id: &str, purpose: Purpose, seed: u64) -> Option<(Case, Report)> {
    let template = template(id);
    let name = format!("{id}-{purpose:?}");
    let (draft, tried) = (0..12).find_map(|attempt| {
        let draft = draw(&template, purpose, seed, &name, attempt);
        let tried = try_draft(&draft, Path::new(&name)).ok()?;
        Some((draft, tried))
    })?;
    let challenge = Challenge::parse(&draft.text, Path::new(&name)).unwrap();
    let case = Case {
        id: name,
        kind: tried.kind,
        template: id.to_owned(),
        axes: draft.axes,
        truths: tried.truths,
    };
    Some((case, blind(&report(&challenge).unwrap())))
}

/// One template in four, or all of them and more seeds where `WEIR_SOAK` is set: fewer right answers than simple rules give, a false
/// alarm, or a bit that is in two parts or in none.
#[test]
fn drawn_cases_are_named_better_than_by_simple_rules() {
    let is_soak = std::env::var_os("WEIR_SOAK").is_some();
    let (step, seeds) = if is_soak { (1, 5..9) } else { (4, 5..6) };
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../incidents");
    let mut ids: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|entry| {
            Some(
                entry
                    .ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".toml")?
                    .strip_prefix("INC-")?
                    .to_owned(),
            )
        })
        .collect();
    ids.sort_unstable();
    let mut wanted = Vec::new();
    for seed in seeds {
        for id in ids.iter().step_by(step) {
            wanted.extend([Purpose::Variant, Purpose::Pair, Purpose::Healthy].map(|purpose| (id, purpose, seed)));
        }
    }
    let (mut own, mut rule) = (Vec::new(), Vec::new());
    for (case, report) in wanted
        .into_iter()
        .filter_map(|(id, purpose, seed)| drawn(id, purpose, seed))
    {
        let diagnosis = diagnose(&report);
        for ledger in &diagnosis.ledger {
            for bin in 0..ledger.asked_bits.len() {
                let parts: i64 = ledger.causes.iter().map(|cause| cause.bits[bin]).sum();
                let missing = ledger.asked_bits[bin] - ledger.achieved_bits[bin];
                assert_eq!(
                    missing,
                    parts + ledger.rest_bits[bin],
                    "{}: {} {bin}",
                    case.id,
                    ledger.link
                );
            }
        }
        own.push(judge(&case, &diagnosis.statements, report.series.bin_s));
        let (_, largest_wait) = BASELINES.iter().find(|(name, _)| *name == "largest-wait").unwrap();
        rule.push(judge(&case, &largest_wait(&report), report.series.bin_s));
    }
    let (own, rule) = (score(&own), score(&rule));
    assert!(own.n_one >= 15, "{}", own.n_one);
    let strict = |score: &Score| score.strict.share.unwrap();
    assert!(
        strict(&own) >= 0.6 && strict(&own) >= strict(&rule) + 0.1,
        "{own:?}\n{rule:?}"
    );
    assert!(
        own.false_alarms.hits * 50 <= own.false_alarms.of,
        "{:?}",
        own.false_alarms
    );
}

/// The handbook would say of an incident what Weir does not. `WEIR_GOLDEN=write` writes the page anew.
#[test]
fn the_handbook_has_the_diagnosis_of_every_incident() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<_> = std::fs::read_dir(dir.join("incidents"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort_unstable();
    let (mut rows, mut n_right) = (String::new(), 0);
    for path in &files {
        let incident = Incident::parse(&std::fs::read_to_string(path).unwrap(), path).unwrap();
        let report = report(&incident.challenge).unwrap();
        let truths = try_incident(&incident, &report).map_or_else(|_| Vec::new(), |tried| tried.truths);
        let expected = truths.first().map_or_else(
            || "nothing".to_owned(),
            |truth| format!("{} at {}", truth.classes.join(" or "), truth.places.join(" or ")),
        );
        let said = report.statements.first().map_or_else(
            || "nothing".to_owned(),
            |first| {
                let place = first
                    .place
                    .as_ref()
                    .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
                format!("{} at {place}", first.class)
            },
        );
        let judged = named(&incident, truths, &report);
        n_right += usize::from(judged.is_right);
        let mark = if judged.is_right { "✓" } else { "✗" };
        let id = incident.id.trim_start_matches("INC-");
        writeln!(rows, "| {id} | {expected} | {said} | {mark} |").unwrap();
    }
    let page = format!(
        "# The diagnosis of every incident\n\n\
         The [diagnosis](diagnosis.md) of each [incident](incidents.md) in the simulated world, as `weir incident run --all` makes it: {n_right} of {} are \
         right in class, place, time and rate. The table is generated (`crates/weir-sim/tests/cases.rs`).\n\n\
         | incident | cause | named | right |\n|---|---|---|---|\n{rows}",
        files.len()
    );
    let known = dir.join("docs/incidents-diagnosed.md");
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|what| what == "write") {
        std::fs::write(&known, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&known).unwrap(), page);
    assert!(n_right * 10 >= files.len() * 9, "{n_right} of {}", files.len());
}

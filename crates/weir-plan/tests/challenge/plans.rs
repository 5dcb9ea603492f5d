//! Plans of challenges.

use std::time::Duration;

use weir_plan::{Comparison, Inject, Metric, Mode, Overrides, Plan, Subject, TEMPLATE, Workload};
use weir_units::{BitRate, Bytes};

use crate::{RATES, plan, problems, rates, valid, with};

/// The template of `weir challenge new` would not run.
#[test]
fn the_template_is_valid() {
    let plan = plan(TEMPLATE, &Overrides::default());
    assert_eq!(
        (plan.name.as_str(), plan.scale, plan.workloads.len()),
        ("two-sites", 1.0, 1)
    );
    assert_eq!(plan.phases.hold, Duration::from_secs(10));
    let summary = plan.summary();
    assert_eq!(summary.asked, BitRate(300_000_000));
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    assert!(summary.rses.iter().all(|need| need.fits));
}

/// A default would differ from the handbook's.
#[test]
fn defaults() {
    let challenge = valid(&with(RATES));
    assert_eq!(
        (challenge.seed, challenge.scale, challenge.description.as_str()),
        (1, 1.0, "")
    );
    let plan = plan(&with(RATES), &Overrides::default());
    let seconds = |phase: Duration| phase.as_secs();
    assert_eq!(
        (
            seconds(plan.phases.ramp),
            seconds(plan.phases.hold),
            seconds(plan.phases.drain)
        ),
        (10, 60, 30)
    );
    let rates = rates(&plan);
    assert_eq!(
        (rates.name.as_str(), rates.activity.as_str(), rates.inject),
        ("rates", "Data Challenge", Inject::Transfers)
    );
    assert_eq!((seconds(rates.lifetime), seconds(rates.cycle)), (20, 1));
    assert!(rates.links.iter().all(|rated| rated.source_files == 2));
    let steps = with("kind = \"matrix\"\nsizes = [\"1 MB\"]\n");
    let plan = self::plan(&steps, &Overrides::default());
    assert_eq!(
        (
            seconds(plan.phases.ramp),
            seconds(plan.phases.hold),
            seconds(plan.phases.drain)
        ),
        (0, 0, 30)
    );
}

/// A threshold would be put on the wrong figure, or `*` on sites that nothing is asked of.
#[test]
fn thresholds() {
    let text = format!(
        "{}[[threshold]]\nsite = \"*\"\nmetric = \"ratio\"\nmin = 0.9\n\
         [[threshold]]\nsite = \"*\"\nmetric = \"failed_ratio\"\nmin = 0\nmax = 0.01\n\
         [[threshold]]\nlink = \"A -> B\"\nmetric = \"achieved\"\nmin = \"900 Mb/s\"\n\
         [[threshold]]\ntotal = true\nmetric = \"lateness_p95\"\nmax = \"500 ms\"\n",
        with(RATES)
    );
    let plan = plan(
        &text,
        &Overrides {
            scale: Some(0.5),
            ..Overrides::default()
        },
    );
    let texts: Vec<String> = plan
        .thresholds
        .iter()
        .map(|t| format!("{} {} {}{}", t.name, t.comparison.sign(), t.asked, t.metric.unit()))
        .collect();
    assert_eq!(
        texts,
        [
            "site B ratio >= 0.9",
            "site A failed ratio >= 0",
            "site A failed ratio <= 0.01",
            "site B failed ratio >= 0",
            "site B failed ratio <= 0.01",
            "link A→B achieved >= 450000000bit/s",
            "total lateness p95 <= 0.5s",
        ]
    );
    let ratio = &plan.thresholds[0];
    assert_eq!((ratio.metric, ratio.comparison), (Metric::Ratio, Comparison::AtLeast));
    assert!(matches!(&ratio.subject, Subject::Site(site) if site.as_str() == "B"));
    assert!(ratio.passes(0.9) && !ratio.passes(0.89) && !ratio.passes(f64::NAN));
}

/// Scale, duration or seed would not act as the handbook says.
#[test]
fn overrides() {
    let text = with(&format!(
        "{RATES}[[workload]]\nkind = \"ramp\"\nparallel = [4]\nfile_size = \"10 MB\"\n"
    ));
    let overrides = Overrides {
        scale: Some(0.01),
        duration: Some(Duration::from_secs(20)),
        seed: Some(9),
    };
    let plan = plan(&text, &overrides);
    assert_eq!(
        (plan.scale, plan.seed, plan.phases.hold),
        (0.01, 9, Duration::from_secs(20))
    );
    let link = &rates(&plan).links[0];
    assert_eq!((link.rate, link.volume), (BitRate(10_000_000), Bytes(25_000_000)));
    assert_eq!((link.file_size, link.n_files), (Bytes(781_200), 32));
    let Workload::Ramp(ramp) = &plan.workloads[1] else {
        panic!("the second workload is a ramp")
    };
    let cell = &ramp.steps[0].cells[0];
    assert_eq!((cell.size, cell.parallel, cell.transfers), (Bytes(100_000), 4, 4));

    let refused = |overrides: Overrides| valid(&text).resolve(&overrides).unwrap_err()[0].to_string();
    let scale = |scale| {
        refused(Overrides {
            scale: Some(scale),
            ..Overrides::default()
        })
    };
    assert_eq!(
        scale(0.0),
        "c.toml: --scale: 0 is not a scale; write a number above 0 and up to 1000000, such as 0.01"
    );
    assert!(scale(f64::NAN).contains("NaN is not a scale"));
    assert_eq!(
        scale(1e-12),
        "c.toml: workload rates: A→B would be asked for nothing: 1 Gb/s at scale 0.000000000001; choose a larger scale or \
         a longer hold"
    );
    assert!(
        valid(&text.replace("1 Gb/s", "1 Pb/s"))
            .resolve(&Overrides {
                scale: Some(2.0),
                ..Overrides::default()
            })
            .is_err()
    );
    let duration = refused(Overrides {
        duration: Some(Duration::ZERO),
        ..Overrides::default()
    });
    assert_eq!(
        duration,
        "c.toml: --duration: nothing is measured in no time; write a duration such as \"60 s\""
    );
    assert!(
        refused(Overrides {
            seed: Some(u64::MAX),
            ..Overrides::default()
        })
        .contains("--seed")
    );
}

/// A run could not be repeated from its run folder.
#[test]
fn the_resolved_file_resolves_to_the_same_plan() {
    let text = with(&format!(
        "{RATES}lifetime = \"1m30s\"\ncycle = \"250 ms\"\n\
         [[workload]]\nkind = \"matrix\"\nsizes = [\"1 MB\", \"256 KiB\"]\nat_once = 4\n\
         [[workload]]\nkind = \"ramp\"\nname = \"up\"\nparallel = [4, 2]\nfile_size = \"10 MB\"\nmode = \"push\"\n\
         [[threshold]]\nsite = \"*\"\nmetric = \"ratio\"\nmin = 0.9\n\
         [[threshold]]\ntotal = true\nmetric = \"achieved\"\nmin = \"900.5 Mb/s\"\n\
         [[threshold]]\ntotal = true\nmetric = \"lateness_max\"\nmin = \"100 ms\"\nmax = \"2 s\"\n"
    ));
    let overrides = Overrides {
        scale: Some(0.01),
        duration: Some(Duration::from_secs(20)),
        seed: Some(9),
    };
    let first = plan(&text, &overrides);
    let second = plan(&first.resolved, &Overrides::default());
    assert_eq!(first, second, "{}", first.resolved);
}

/// Steps would be missing, or come in an order that shows what cannot work last.
#[test]
fn steps() {
    let text = with("kind = \"matrix\"\nsizes = [\"100 MB\", \"1 MB\"]\nrepeat = 2\n");
    let plan = plan(&text, &Overrides::default());
    let Workload::Matrix(matrix) = &plan.workloads[0] else {
        panic!("the workload is a matrix")
    };
    assert_eq!(matrix.steps.len(), 6 * 3 * 2);
    let cells: Vec<_> = matrix.steps.iter().map(|step| &step.cells[0]).collect();
    assert!(
        cells[..18]
            .iter()
            .all(|cell| cell.size == Bytes(1_000_000) && cell.transfers == 2 && cell.parallel == 1)
    );
    let first: Vec<_> = cells[..4]
        .iter()
        .map(|cell| (cell.link.to_string(), cell.mode.unwrap()))
        .collect();
    let [ab, ac] = ["A→B", "A→C"].map(str::to_owned);
    assert_eq!(
        first,
        [
            (ab.clone(), Mode::Pull),
            (ab.clone(), Mode::Push),
            (ab, Mode::Streamed),
            (ac, Mode::Pull)
        ]
    );
    assert_eq!(matrix.steps.last().unwrap().index, 35);
    assert_eq!(plan.source_files().len(), 6);
    let summary = plan.summary();
    assert_eq!((summary.transfers, summary.volume), (72, Bytes(36 * 101_000_000)));
    assert_eq!(summary.rses[0].arriving, Bytes(200_000_000));

    let text = with("kind = \"matrix\"\nsizes = [\"1 MB\"]\nat_once = 5\nlinks = [\"A->B\", \"C->A\"]\n");
    let Workload::Matrix(matrix) = &self::plan(&text, &Overrides::default()).workloads[0] else {
        panic!("a matrix")
    };
    assert_eq!(
        matrix.steps.iter().map(|step| step.cells.len()).collect::<Vec<_>>(),
        [5, 1]
    );
}

/// A plan would promise less than it needs, or keep silent about what somebody should know.
#[test]
fn summaries() {
    let text = with(RATES).replace("name = \"B\"", "name = \"B\"\nquota = \"1 GB\"\nread_only = true");
    let summary = plan(&text, &Overrides::default()).summary();
    assert_eq!(summary.asked, BitRate(1_000_000_000));
    assert_eq!(summary.volume, Bytes(125_000_000 * 265 / 4)); // 60 s, 2.5 s, and half of 7.5 s
    let need = &summary.rses[1];
    assert_eq!(
        (need.rse.as_str(), need.ingress, need.egress),
        ("B", BitRate(1_000_000_000), BitRate(0))
    );
    assert_eq!(need.arriving, Bytes(125_000_000 * 22 + 63_550_000 * 10)); // 20 s and 2 cycles, and 5 s of backlog
    assert_eq!(
        summary.notes,
        [
            "B needs 3.4 GB and may hold 1.0 GB: injection will wait for space",
            "B is read-only: every transfer into it will fail",
            "there is no threshold: the run ends without a verdict",
        ]
    );
    let few = plan(
        &with(RATES),
        &Overrides {
            scale: Some(0.000_5),
            duration: Some(Duration::from_secs(20)),
            seed: None,
        },
    );
    let note = "fewer than 10 files pass in the hold on 1 links (A→B: 4), so their figures are coarse: raise scale or duration";
    assert_eq!(few.summary().notes[0], note);
}

/// A grid with a catalogue would be asked past it, or a source would hold too few files for rules: one whose copy is still at the
/// destination cannot take part.
#[test]
fn rules_need_a_catalogue_and_files_for_a_lifetime() {
    let rates = |more: &str| {
        format!("kind = \"rates\"\nrates = [{{ source = \"A\", destination = \"B\", rate = \"80 Mb/s\" }}]\n{more}")
    };
    let with_catalog = |workload: &str| with(workload).replacen("[[workload]]", "[grid.catalog]\n[[workload]]", 1);
    let size = "file_size_min = \"1 MB\"\nfile_size_max = \"1 MB\"\n";
    let made = self::plan(&with_catalog(&rates(size)), &Overrides::default());
    let of = |plan: &Plan| {
        let rates = self::rates(plan);
        (rates.inject, rates.links[0].source_files)
    };
    // Ten files a second, for 20 s of the lifetime, 5 s until they are deleted, and a cycle; a few more wait, and a third more may be audited.
    assert_eq!(of(&made), (Inject::Rules, 352));
    assert!(made.makes_rules());
    let kept = self::plan(&made.resolved, &Overrides::default());
    assert_eq!(of(&kept), of(&made));
    let small = with_catalog(&rates(size)).replace("name = \"B\"", "name = \"B\"\nquota = \"1 MB\"");
    let notes = self::plan(&small, &Overrides::default()).summary().notes;
    assert!(
        notes[0].ends_with("transfers of rules will fail for want of space"),
        "{notes:?}"
    );
    let past = self::plan(&with_catalog(&rates("inject = \"transfers\"\n")), &Overrides::default());
    assert_eq!(of(&past), (Inject::Transfers, 2));
    let without = problems(&with(&rates("inject = \"rules\"\n")));
    assert!(
        without.contains("workload.inject: the grid has no catalogue"),
        "{without}"
    );
    let part = problems(&with_catalog(&rates("lifetime = \"1500 ms\"\n")));
    assert!(
        part.contains("workload.lifetime: is no whole number of seconds"),
        "{part}"
    );
}

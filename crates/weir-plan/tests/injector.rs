//! The injector against a reference link: what arrives, what waits, and what the ledger says.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use weir_model::Link;
use weir_plan::inject::{BACKLOG_CYCLES, BACKLOG_FILES, DEBT_CYCLES};
use weir_plan::{Challenge, Injection, LedgerRow, LinkObservation, Overrides, Plan, RatesCore, RatesPlan, Workload};
use weir_units::{BitRate, Bytes, Timestamp};

/// The moment at which every run begins.
const START: Timestamp = Timestamp(1_700_000_000_000_000_000);

/// A plan of links between A, B, C and D with these rates in kb/s.
fn plan(rates: &[u64], ramp: u64, hold: u64, seed: u64) -> Plan {
    plan_on("", rates, ramp, hold, seed)
}

/// The same on a grid with a catalogue: the files of a cycle are injected together.
fn plan_of_rules(rates: &[u64], ramp: u64, hold: u64, seed: u64) -> Plan {
    plan_on("[grid.catalog]\n", rates, ramp, hold, seed)
}

fn plan_on(catalog: &str, rates: &[u64], ramp: u64, hold: u64, seed: u64) -> Plan {
    let pairs = [
        ("A", "B"),
        ("B", "A"),
        ("C", "B"),
        ("A", "C"),
        ("D", "B"),
        ("A", "D"),
        ("B", "D"),
        ("D", "C"),
    ];
    let rates: Vec<String> = pairs
        .iter()
        .zip(rates)
        .map(|((a, b), rate)| format!("{{source = \"{a}\", destination = \"{b}\", rate = \"{rate} kb/s\"}}"))
        .collect();
    let rses: String = ["A", "B", "C", "D"]
        .map(|name| format!("[[grid.rse]]\nname = \"{name}\"\n"))
        .concat();
    let text = format!(
        "name = \"t\"\nseed = {seed}\n[phases]\nramp = \"{ramp} ms\"\nhold = \"{hold} s\"\n[grid]\nname = \"g\"\n{rses}\n{catalog}\
         [[workload]]\nkind = \"rates\"\nrates = [{}]\n",
        rates.join(",")
    );
    let challenge = Challenge::parse(&text, "t.toml".as_ref()).unwrap_or_else(|p| panic!("{p:?}\n{text}"));
    challenge.resolve(&Overrides::default()).unwrap()
}

fn rates(plan: &Plan) -> &RatesPlan {
    let Workload::Rates(rates) = &plan.workloads[0] else {
        panic!("the plan is of rates")
    };
    rates
}

/// One file on the reference link.
struct Move {
    begin: Timestamp,
    end: Timestamp,
    size: Bytes,
    fails: bool,
}

/// The reference link: a file waits `latency`, then for the one before it, then moves at `capacity`; every `fails`th
/// one fails at the end.
struct ReferenceLink {
    capacity: BitRate,
    latency: Duration,
    fails: u64,
    free_at: Timestamp,
    moves: Vec<Move>,
}

impl ReferenceLink {
    fn take(&mut self, injection: &Injection) {
        let begin = (injection.injected_at + self.latency).max(self.free_at);
        let end = begin + self.capacity.time_for(injection.size).unwrap();
        self.free_at = end;
        let fails = self.fails > 0 && (self.moves.len() as u64 + 1).is_multiple_of(self.fails);
        self.moves.push(Move {
            begin,
            end,
            size: injection.size,
            fails,
        });
    }

    fn sum(&self, keep: impl Fn(&Move) -> bool) -> Bytes {
        self.moves.iter().filter(|file| keep(file)).map(|file| file.size).sum()
    }

    fn delivered(&self, now: Timestamp) -> Bytes {
        self.sum(|file| file.end <= now && !file.fails)
    }

    fn queued(&self, now: Timestamp) -> Bytes {
        self.sum(|file| file.end > now)
    }

    fn active(&self, now: Timestamp) -> u32 {
        self.moves
            .iter()
            .filter(|file| file.begin <= now && file.end > now)
            .count() as u32
    }

    /// Bytes that moved in a window, those of each file spread over its own time.
    fn moved(&self, from: Timestamp, to: Timestamp) -> f64 {
        let share = |file: &Move| {
            let inside = file.end.min(to).since(file.begin.max(from)).as_secs_f64();
            file.size.as_f64() * inside / file.end.since(file.begin).as_secs_f64()
        };
        self.moves.iter().filter(|file| !file.fails).map(share).sum()
    }
}

/// The outcome of a run.
struct Run {
    injections: Vec<Injection>,
    ledger: Vec<LedgerRow>,
    links: BTreeMap<Link, ReferenceLink>,
    hold: (Timestamp, Timestamp),
    queued_max: BTreeMap<Link, Bytes>,
}

impl Run {
    fn ratio(&self, plan: &Plan, link: &Link) -> f64 {
        let asked = rates(plan)
            .links
            .iter()
            .find(|rated| rated.link == *link)
            .unwrap()
            .volume;
        self.links[link].moved(self.hold.0, self.hold.1) / asked.as_f64()
    }

    fn ratio_total(&self, plan: &Plan) -> f64 {
        let moved: f64 = self
            .links
            .values()
            .map(|link| link.moved(self.hold.0, self.hold.1))
            .sum();
        moved / rates(plan).links.iter().map(|rated| rated.volume.as_f64()).sum::<f64>()
    }
}

/// How the world behaves in a run.
#[derive(Clone, Copy)]
struct World {
    /// Capacity of every link in percent of its asked rate.
    capacity: u64,
    latency: Duration,
    /// By how much a transfer takes longer for each second of the run, in milliseconds.
    latency_grows: u64,
    fails: u64,
    /// From when to when, in milliseconds of the run, the driver sleeps.
    sleeps: (u64, u64),
    /// Bytes that each destination can take; nothing is ever deleted.
    space: Option<Bytes>,
    reverse: bool,
}

const GOOD: World = World {
    capacity: 150,
    latency: Duration::from_millis(300),
    latency_grows: 0,
    fails: 0,
    sleeps: (0, 0),
    space: None,
    reverse: false,
};

fn observe(run: &Run, world: World, now: Timestamp) -> Vec<LinkObservation> {
    let stored = |to: &Link| -> Bytes {
        let same = run.links.iter().filter(|(link, _)| link.destination == to.destination);
        same.map(|(_, state)| state.delivered(now)).sum()
    };
    let one = |(link, state): (&Link, &ReferenceLink)| LinkObservation {
        link: link.clone(),
        delivered: state.delivered(now),
        queued: state.queued(now),
        active: state.active(now),
        space_left: world.space.map(|space| space - stored(link)),
        free_files: None,
    };
    let mut seen: Vec<_> = run.links.iter().map(one).collect();
    if world.reverse {
        seen.reverse();
    }
    seen
}

fn run(plan: &Plan, world: World) -> Run {
    let mut core = RatesCore::new(plan, 0, START).unwrap();
    let link = |rate: BitRate| ReferenceLink {
        capacity: BitRate(rate.0 * world.capacity / 100),
        latency: world.latency,
        fails: world.fails,
        free_at: START,
        moves: Vec::new(),
    };
    let links = rates(plan)
        .links
        .iter()
        .map(|rated| (rated.link.clone(), link(rated.rate)))
        .collect();
    let hold = (START + plan.phases.ramp, START + plan.phases.end());
    let mut run = Run {
        injections: Vec::new(),
        ledger: Vec::new(),
        links,
        hold,
        queued_max: BTreeMap::new(),
    };
    let mut now = START;
    loop {
        if (world.sleeps.0..world.sleeps.1).contains(&(now.since(START).as_millis() as u64)) {
            now = START + Duration::from_millis(world.sleeps.1);
        }
        let mut out = Vec::new();
        core.cycle(now, &observe(&run, world, now), &mut out);
        for injection in &out {
            let link = run.links.get_mut(&injection.link).unwrap();
            link.latency = world.latency + Duration::from_millis(world.latency_grows * now.since(START).as_secs());
            link.take(injection);
        }
        for (link, state) in &run.links {
            let most = run.queued_max.entry(link.clone()).or_default();
            *most = state.queued(now).max(*most);
        }
        run.injections.extend(out);
        let Some(next) = core.next_due(now) else { break };
        assert!(
            next > now && next <= now + rates(plan).cycle,
            "{} then {}",
            now.0,
            next.0
        );
        now = next;
    }
    core.finish(now);
    run.ledger = core.take_ledger();
    run
}

fn rate() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![1_960, 3_910, 14_210, 71_050, 142_110, 500_000, 2_000_000])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A link that can carry what is asked would be given less or more of it.
    #[test]
    fn asked_is_delivered(
        rates in prop::collection::vec(rate(), 4..8),
        ramp in 4_000_u64..20_000, hold in 20_u64..120, seed: u64,
        capacity in 110_u64..1_000, latency in 0_u64..2_000,
    ) {
        let plan = plan(&rates, ramp, hold, seed >> 1);
        let run = run(&plan, World { capacity, latency: Duration::from_millis(latency), ..GOOD });
        let total = run.ratio_total(&plan);
        prop_assert!((0.98..1.02).contains(&total), "total {total}");
        for rated in &self::rates(&plan).links {
            let ratio = run.ratio(&plan, &rated.link);
            let file = 1.0 / rated.n_files as f64; // one file more or less may end within the hold
            prop_assert!((ratio - 1.0).abs() < 0.01 + file, "{}: {ratio}", rated.link);
        }
    }

    /// The files of a cycle would come in several batches, late, or a cycle too early; or those of all links at one moment.
    #[test]
    fn a_batch_holds_the_files_of_a_cycle(
        rates in prop::collection::vec(rate(), 4..8), ramp in 0_u64..20_000, hold in 5_u64..90, seed: u64, latency in 0_u64..1_500,
    ) {
        let plan = plan_of_rules(&rates, ramp, hold, seed >> 1);
        let run = run(&plan, World { capacity: 500, latency: Duration::from_millis(latency), ..GOOD });
        let (cycle, slack) = (Duration::from_secs(1), Duration::from_millis(25));
        for rated in &self::rates(&plan).links {
            let own: Vec<_> = run.injections.iter().filter(|i| i.link == rated.link).collect();
            for injection in &own {
                prop_assert!(injection.late <= slack, "{}: late by {:?}", rated.link, injection.late);
                let early = injection.wanted_at.since(injection.injected_at);
                prop_assert!(early <= cycle + slack, "{}: early by {early:?}", rated.link);
            }
            let mut moments: Vec<_> = own.iter().map(|i| i.injected_at).filter(|at| *at > START).collect();
            moments.dedup();
            for pair in moments.windows(2) {
                let apart = pair[1].since(pair[0]);
                prop_assert!(apart + slack >= cycle, "{}: two batches within {apart:?}", rated.link);
            }
            let wanted: u64 = run.ledger.iter().filter(|row| row.link == rated.link).map(|row| row.wanted).sum();
            prop_assert_eq!(own.len() as u64, wanted);
        }
    }

    /// Transfers that take longer and longer would cost more than the time by which they do.
    #[test]
    fn growing_latency_costs_its_growth(seed: u64, grows in 0_u64..40) {
        let plan = plan(&[142_110, 71_050, 14_210, 28_420], 10_000, 60, seed >> 1);
        let run = run(&plan, World { latency_grows: grows, capacity: 300, ..GOOD });
        let total = run.ratio_total(&plan);
        let least = 0.98 - grows as f64 / 1_000.0; // grows × 60 s of 60 s
        prop_assert!((least..1.01).contains(&total), "total {total}");
    }

    /// A slow link would be flooded, or left idle, or fed with what it should have had long ago.
    #[test]
    fn a_slow_link_is_busy_and_its_backlog_bounded(
        rates in prop::collection::vec(rate(), 2..5), seed: u64, capacity in 10_u64..90,
    ) {
        let plan = plan(&rates, 5_000, 60, seed >> 1);
        let run = run(&plan, World { capacity, ..GOOD });
        for rated in &self::rates(&plan).links {
            let cycles = rated.rate.bytes_in(Duration::from_secs(1) * BACKLOG_CYCLES).0;
            let bound = cycles.max(BACKLOG_FILES * rated.file_size.0) + rated.file_size.0;
            prop_assert!(run.queued_max[&rated.link].0 <= bound, "{}", rated.link);
            let busy = run.ratio(&plan, &rated.link) * 100.0 / capacity as f64;
            prop_assert!(busy > 0.97, "{}: busy {busy}", rated.link);
            let late = run.injections.iter().filter(|i| i.link == rated.link).map(|i| i.late).max().unwrap();
            let debt = Duration::from_secs(1) * DEBT_CYCLES + 3 * rated.rate.time_for(rated.file_size).unwrap();
            prop_assert!(late <= debt, "{}: {late:?}", rated.link);
        }
    }

    /// The ledger would not add up: every wanted file must be injected, owed or given up.
    #[test]
    fn the_ledger_is_exact(
        rates in prop::collection::vec(rate(), 2..6), ramp in 0_u64..10_000, hold in 1_u64..60, seed: u64,
        capacity in 20_u64..300, fails in 0_u64..6, sleep in 0_u64..30_000,
    ) {
        let plan = plan(&rates, ramp, hold, seed >> 1);
        let run = run(&plan, World { capacity, fails, sleeps: (2_000, 2_000 + sleep), ..GOOD });
        for rated in &self::rates(&plan).links {
            let rows: Vec<_> = run.ledger.iter().filter(|row| row.link == rated.link).collect();
            let injections: Vec<_> = run.injections.iter().filter(|i| i.link == rated.link).collect();
            let sum = |count: &dyn Fn(&LedgerRow) -> u64| rows.iter().map(|row| count(row)).sum::<u64>();
            prop_assert_eq!(sum(&|row| row.injected), injections.len() as u64);
            let late_max = injections.iter().map(|i| i.late).max().unwrap_or_default();
            prop_assert_eq!(rows.iter().map(|row| row.late_max).max().unwrap(), late_max);
            let asked = plan.phases.end().saturating_sub(plan.phases.full() / 2);
            let wanted = rated.rate.bytes_in(asked).0 / rated.file_size.0;
            let counted = sum(&|row| row.wanted);
            prop_assert!(counted.abs_diff(wanted) <= 1, "{counted} of {wanted}");
            let given_up = sum(&|row| row.given_up);
            prop_assert!(given_up <= counted, "{given_up} given up of {counted}");
            if fails == 0 {
                let owed = rows.last().unwrap().owed;
                prop_assert_eq!(counted, injections.len() as u64 + given_up + owed);
            }
            for pair in rows.windows(2) {
                prop_assert_eq!(pair[0].to, pair[1].from);
            }
            if capacity > 120 && fails == 0 && sleep < 4_000 && hold > 20 {
                prop_assert_eq!(given_up, 0);
                prop_assert!(injections.len() as u64 + 1 >= counted, "{} of {counted}", injections.len());
            }
        }
    }

    /// Two runs of one seed would differ, the order of observations matter, or the order of injections be undefined.
    #[test]
    fn equal_seeds_equal_injections(rates in prop::collection::vec(rate(), 2..8), seed: u64, capacity in 50_u64..300) {
        let plan = plan(&rates, 5_000, 20, seed >> 1);
        let world = World { capacity, ..GOOD };
        let (first, second) = (run(&plan, world), run(&plan, World { reverse: true, ..world }));
        prop_assert_eq!(&first.injections, &second.injections);
        prop_assert_eq!(first.ledger, second.ledger);
        let place = |link: &Link| self::rates(&plan).links.iter().position(|rated| rated.link == *link).unwrap();
        let key = |i: &Injection| (i.injected_at, i.wanted_at, place(&i.link));
        for pair in first.injections.windows(2) {
            prop_assert!(pair[0].id < pair[1].id);
            prop_assert!(key(&pair[0]) < key(&pair[1]));
        }
    }

    /// A destination would overflow, or be left with room for a file that is wanted.
    #[test]
    fn a_full_destination_is_left_alone(seed: u64, files in 1_u64..60) {
        let plan = plan(&[14_210, 14_210, 28_420, 3_910, 14_210], 2_000, 60, seed >> 1);
        let largest = self::rates(&plan).links.iter().map(|rated| rated.file_size).max().unwrap();
        let space = largest * files;
        let run = run(&plan, World { space: Some(space), ..GOOD });
        let mut stored: BTreeMap<&str, Bytes> = BTreeMap::new();
        for injection in &run.injections {
            *stored.entry(injection.link.destination.as_str()).or_default() += injection.size;
        }
        for (rse, volume) in stored {
            prop_assert!(volume <= space, "{rse} gets {volume} and holds {space}");
            prop_assert!(rse != "B" || volume + largest > space, "{rse} gets {volume} of {space}");
        }
        prop_assert!(run.ledger.iter().any(|row| row.held == Some(weir_plan::Held::Space)));
    }

    /// Failures would go unreplaced, or a broken link be flooded with replacements.
    #[test]
    fn failures_are_replaced_within_bounds(seed: u64, fails in 1_u64..20) {
        let plan = plan(&[142_110, 14_210], 10_000, 60, seed >> 1);
        let run = run(&plan, World { fails, capacity: 200, ..GOOD });
        for rated in &self::rates(&plan).links {
            let injected = run.injections.iter().filter(|i| i.link == rated.link).count() as f64;
            let wanted: u64 = run.ledger.iter().filter(|row| row.link == rated.link).map(|row| row.wanted).sum();
            prop_assert!(injected <= wanted as f64 * 1.25 + 4.0, "{injected} for {wanted}");
            if fails > 5 {
                let ratio = run.ratio(&plan, &rated.link);
                prop_assert!((0.95..1.05).contains(&ratio), "{}: {ratio}", rated.link);
            }
        }
    }
}

/// A driver that slept would lose the time for good, or a long sleep be answered with a flood.
#[test]
fn a_late_driver_catches_up_within_bounds() {
    let plan = plan(&[142_110, 71_050, 14_210, 28_420], 10_000, 60, 7);
    let after = |sleep: u64| {
        let run = run(
            &plan,
            World {
                sleeps: (20_000, 20_000 + sleep),
                capacity: 300,
                ..GOOD
            },
        );
        let late = run.injections.iter().map(|i| i.late).max().unwrap();
        (
            run.ratio_total(&plan),
            late,
            run.ledger.iter().map(|row| row.given_up).sum::<u64>(),
        )
    };
    let (ratio, late, given_up) = after(8_000);
    assert!((0.98..1.03).contains(&ratio), "{ratio}");
    assert!(
        late > Duration::from_secs(6) && late < Duration::from_secs(9),
        "{late:?}"
    );
    assert_eq!(given_up, 0);
    let (ratio, late, given_up) = after(30_000);
    assert!((0.6..0.8).contains(&ratio), "{ratio}"); // 30 of 60 s were slept away, 10 s are made good
    assert!(late < Duration::from_secs(16), "{late:?}");
    assert!(given_up > 0);
}

/// All links would inject at the same moments, as a comb.
#[test]
fn links_do_not_burst_together() {
    let plan = plan(&[142_110; 8], 10_000, 60, 3);
    let run = run(&plan, GOOD);
    let moments: Vec<_> = run
        .injections
        .iter()
        .map(|i| i.injected_at)
        .filter(|at| *at >= run.hold.0)
        .collect();
    let within = |from: Timestamp| {
        moments
            .iter()
            .filter(|at| **at >= from && at.since(from) < Duration::from_millis(100))
            .count()
    };
    let most = moments.iter().map(|from| within(*from)).max().unwrap();
    assert!(
        most <= 4,
        "{most} of 8 links within 100 ms, where each injects every 1.9 s"
    );
}

/// A workload that is not of rates would get an injector.
#[test]
fn only_rates_have_an_injector() {
    let plan = plan(&[1_000], 0, 10, 1);
    assert!(RatesCore::new(&plan, 1, START).is_none());
    assert!(RatesCore::new(&plan, 0, START).unwrap().take_ledger().is_empty());
}

/// A driver that calls before the ramp or after the hold would be given injections.
#[test]
fn nothing_outside_ramp_and_hold() {
    let plan = plan(&[142_110], 0, 10, 1);
    let mut core = RatesCore::new(&plan, 0, START).unwrap();
    let mut out = Vec::new();
    let (before, after) = (START - Duration::from_secs(5), START + Duration::from_secs(10));
    core.cycle(before, &[], &mut out);
    assert_eq!(core.next_due(before), Some(START));
    core.cycle(after, &[], &mut out);
    assert!(out.is_empty() && core.is_over(after));
    assert_eq!(core.next_due(after), None);
}

/// A loop would make a rule beside the one before, or none after it.
#[test]
fn a_loop_injects_all_files_when_all_are_free() {
    let text = "name = \"t\"\n[grid]\nname = \"g\"\n[grid.catalog]\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n\
        [[workload]]\nkind = \"rates\"\nloop = true\nsource_files = 7\nrates = [{ source = \"A\", destination = \"B\", rate = \"1 Mb/s\" }]\n";
    let challenge = Challenge::parse(text, "t.toml".as_ref()).unwrap();
    let plan = challenge.resolve(&Overrides::default()).unwrap();
    let mut core = RatesCore::new(&plan, 0, START).unwrap();
    let size = rates(&plan).links[0].file_size;
    let mut observed = LinkObservation {
        link: rates(&plan).links[0].link.clone(),
        delivered: Bytes::ZERO,
        queued: Bytes::ZERO,
        active: 0,
        space_left: None,
        free_files: Some(7),
    };
    let injected = |core: &mut RatesCore, seconds: u64, observed: &LinkObservation| {
        let mut out = Vec::new();
        let now = START + Duration::from_secs(seconds);
        core.cycle(now, std::slice::from_ref(observed), &mut out);
        assert!(out.iter().all(|one| one.late == Duration::ZERO), "{out:?}");
        out.len()
    };
    assert_eq!(injected(&mut core, 0, &observed), 7);
    // On their way, then there, then some deleted.
    (observed.queued, observed.free_files) = (size * 7, Some(0));
    assert_eq!(injected(&mut core, 5, &observed), 0);
    (observed.queued, observed.delivered) = (Bytes::ZERO, size * 7);
    assert_eq!(injected(&mut core, 10, &observed), 0);
    observed.free_files = Some(6);
    assert_eq!(injected(&mut core, 11, &observed), 0);
    observed.free_files = Some(7);
    assert_eq!(injected(&mut core, 12, &observed), 7);
}

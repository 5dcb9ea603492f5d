//! The scheduler in a closed loop: it learns from a world that answers to what it does.
//!
//! Each test states what a good scheduler reaches; the world is [`fluid`].
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod fluid;

use std::time::Duration;

use fluid::{Demand, Fluid, Markers};
use weir_sched::{ActivityId, Direction, GroupId, Mode, Resource, SeId, Setting, Settings, VoId};
use weir_units::BitRate;
use weir_world::{ErrorClass, Party};

const MB: f64 = 1e6;
const GB: f64 = 1e9;

/// Limits that are never reached: only the scheduler's own judgement holds transfers back.
fn wide() -> Settings {
    Settings {
        link: 2_000,
        inbound: 5_000,
        outbound: 5_000,
        ..Settings::default()
    }
}

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates
        .iter()
        .fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    sum * sum / (rates.len() as f64 * squares)
}

/// Mean rate and mean concurrency of a path: at any moment a trial of more or fewer may be under way.
fn run(world: &mut Fluid, path: usize, seconds: f64) -> (f64, f64) {
    let (mut rate, mut active) = (0.0, 0.0);
    let steps = (seconds / 10.0) as u32;
    for _ in 0..steps {
        rate += world.run(10.0)[path] / f64::from(steps);
        active += world.active(path) as f64 / f64::from(steps);
    }
    (rate, active)
}

fn bits(bytes_per_second: f64) -> BitRate {
    BitRate((8.0 * bytes_per_second) as u64)
}

#[test]
fn a_link_is_filled_and_not_overfilled() {
    // 5 GB/s and 50 MB/s each: the knee is at 100.
    for markers in [Markers::All, Markers::One, Markers::None] {
        let mut world = Fluid::new(wide());
        let pipe = world.pipe(|_, _| 5.0 * GB);
        let path = world.path(1, 2, &[pipe], 50.0 * MB);
        world.paths[path].markers = markers;
        world.demand(Demand::backlog(path, GB));
        world.run(if markers == Markers::None { 600.0 } else { 180.0 });
        let (rate, active) = run(&mut world, path, 300.0);
        assert!(rate > 0.96 * 5.0 * GB, "{rate}");
        assert!((90.0..=160.0).contains(&active), "{active}");
    }
}

#[test]
fn a_storage_that_falls_over_is_held_at_its_best() {
    // JUNO, table 5: the best is at about 40; with 100 it brings half.
    let mut world = Fluid::new(wide());
    let curve = |n: usize| {
        let n = n as f64;
        if n <= 40.0 {
            15.8e9 / 8.0
        } else {
            15.8e9 / 8.0 * (1.0 - 0.5 * ((n - 40.0) / 60.0).min(1.2))
        }
    };
    let pipe = world.pipe(move |_, n| curve(n));
    let paths: Vec<usize> = (0..4).map(|n| world.path(n, 9, &[pipe], 60.0 * MB)).collect();
    for path in &paths {
        world.demand(Demand::backlog(*path, 2.0 * GB));
    }
    world.run(300.0);
    let rates = world.run(600.0);
    let total: f64 = rates.iter().sum();
    assert!(total > 0.95 * 15.8e9 / 8.0, "{total}");
    assert!(jain(&rates) > 0.99);
}

#[test]
fn it_follows_a_capacity_that_doubles_or_halves() {
    for (factor, at) in [2.0, 0.5]
        .into_iter()
        .flat_map(|factor| [400, 413, 426, 439, 452].map(|at| (factor, at)))
    {
        let at = f64::from(at);
        let mut world = Fluid::new(wide());
        let pipe = world.pipe(move |t, _| if t < at { 2.0 * GB } else { factor * 2.0 * GB });
        let path = world.path(1, 2, &[pipe], 40.0 * MB);
        world.demand(Demand::backlog(path, GB));
        world.run(at + 60.0);
        let rate = world.run(30.0)[0];
        assert!(rate > 0.9 * factor * 2.0 * GB, "x {factor} at {at} s: {rate}");
        let later = world.run(300.0)[0];
        assert!(later > 0.95 * factor * 2.0 * GB, "x {factor} at {at} s, later: {later}");
    }
}

#[test]
fn equal_links_get_equal_parts() {
    for slots in [5_000, 60] {
        let mut world = Fluid::new(Settings {
            inbound: slots,
            ..wide()
        });
        let pipe = world.pipe(|_, _| 4.0 * GB);
        for n in 0..12 {
            let path = world.path(n, 99, &[pipe], 50.0 * MB);
            world.demand(Demand::backlog(path, GB));
        }
        world.run(300.0);
        let rates = world.run(600.0);
        assert!(jain(&rates) > 0.99, "{rates:?}");
    }
}

#[test]
fn a_far_link_keeps_its_share_of_a_full_one() {
    // NET2: 10 Gb/s are full, and a window of 4 MiB brings 140 MB/s from near, 44 from three times as far. It is bytes
    // that are short, not slots: the far link gets as many as the near ones, all the time.
    for markers in [Markers::All, Markers::None] {
        let mut world = Fluid::new(wide());
        let pipe = world.pipe(|_, _| 1.25 * GB);
        for (n, each) in [(1, 140.0 * MB), (2, 140.0 * MB), (3, 44.0 * MB)] {
            let path = world.path(n, 9, &[pipe], each);
            world.paths[path].markers = markers;
            world.demand(Demand::backlog(path, 5.0 * GB));
        }
        world.run(1_800.0);
        for hour in 0..6 {
            let rates = world.run(3_600.0);
            let total: f64 = rates.iter().sum();
            assert!(total > 0.95 * 1.25 * GB, "{markers:?}, hour {hour}: {rates:?}");
            assert!(rates[2] > 0.09 * total, "{markers:?}, hour {hour}: {rates:?}");
            assert!(jain(&rates[..2]) > 0.99, "{markers:?}, hour {hour}: {rates:?}");
        }
    }
}

#[test]
fn a_slow_link_does_not_hold_what_a_fast_one_could_use() {
    // DUNE: BNL→FNAL brings 100 MB/s a transfer, RAL→FNAL 3; FNAL takes 50 transfers.
    let mut world = Fluid::new(Settings { inbound: 50, ..wide() });
    let fast = world.path(1, 9, &[], 100.0 * MB);
    let slow = world.path(2, 9, &[], 3.0 * MB);
    let (of_slow, of_fast) = (
        world.demand(Demand::backlog(slow, 4.0 * GB)),
        world.demand(Demand::backlog(fast, 4.0 * GB)),
    );
    world.demand(Demand {
        from: 0.0,
        ..Demand::backlog(slow, 4.0 * GB)
    });
    world.run(2_000.0);
    let rates = world.run(2_000.0);
    assert!(rates[fast] > 0.88 * 50.0 * 100.0 * MB, "{rates:?}");
    assert!(world.of_demand[of_slow] > 0.0 && world.of_demand[of_fast] > 0.0);
    assert!(rates[slow] > 3.0 * MB, "the slow one stands still");
}

#[test]
fn slow_links_use_the_slots_that_a_fast_one_leaves() {
    // The burst of DUNE, 3.5 GB/s in pulses of 5 minutes: a hundred slow transfers bring a fraction of what the fast ones
    // do, which come and go. They are worth having all the same.
    for markers in [Markers::All, Markers::One, Markers::None] {
        let mut world = Fluid::new(Settings { inbound: 200, ..wide() });
        let fast = world.path(1, 9, &[], 170.0 * MB);
        let burst = world.demand(Demand::rate(fast, 7.0 * GB, 1.0));
        let slow: Vec<usize> = (2..6).map(|n| world.path(n, 9, &[], 5.0 * MB)).collect();
        for path in &slow {
            world.demand(Demand::backlog(*path, GB));
        }
        for path in &mut world.paths {
            path.markers = markers;
        }
        let mut rates = vec![0.0; slow.len() + 1];
        for pulse in 0..24 {
            world.burst(burst, 150);
            let moved = world.run(300.0);
            if pulse >= 12 {
                rates
                    .iter_mut()
                    .zip(moved)
                    .for_each(|(rate, more)| *rate += more / 12.0);
            }
        }
        let of_slow: f64 = slow.iter().map(|path| rates[*path]).sum();
        assert!(rates[fast] > 0.95 * 3.5 * GB, "{markers:?}: {rates:?}");
        assert!(of_slow > 0.9 * 179.0 * 5.0 * MB, "{markers:?}: {rates:?}");
    }
}

#[test]
fn a_broken_link_holds_nobody_back_and_keeps_its_files() {
    let mut world = Fluid::new(Settings { inbound: 40, ..wide() });
    let good = world.path(1, 9, &[], 50.0 * MB);
    let broken = world.path(2, 9, &[], 50.0 * MB);
    world.paths[broken].fault = Some((120.0, ErrorClass::Timeout, Party::Network));
    world.demand(Demand::backlog(broken, GB));
    world.demand(Demand {
        from: 5.0,
        ..Demand::backlog(good, GB)
    });
    world.run(900.0);
    let rates = world.run(600.0);
    assert!(rates[good] > 0.9 * 40.0 * GB / 21.0, "{rates:?}");
    let failed = world.core.totals().failed;
    assert!(failed < 100, "{failed} transfers were spent on a broken link");
    world.paths[broken].fault = None;
    world.run(900.0);
    let rates = world.run(300.0);
    assert!(jain(&[rates[good], rates[broken]]) > 0.95, "{rates:?}");
}

#[test]
fn a_bandwidth_limit_is_met_and_not_passed() {
    let resources = |n: u32| {
        [
            Resource::Inbound(SeId(9)),
            Resource::Outbound(SeId(1)),
            Resource::Group(GroupId(0)),
            Resource::VoInbound(SeId(9), VoId(0)),
        ][n as usize]
    };
    for n in 0..4 {
        let mut world = Fluid::new(wide());
        world.set(&[
            Setting::Member(GroupId(0), SeId(9), Direction::In, true),
            Setting::Rate(resources(n), Some(bits(GB))),
        ]);
        let pipe = world.pipe(|_, _| 4.0 * GB);
        let path = world.path(1, 9, &[pipe], 70.0 * MB);
        world.demand(Demand::backlog(path, GB));
        world.run(60.0);
        let rate = world.run(120.0)[0];
        assert!((0.95 * GB..1.03 * GB).contains(&rate), "{n}: {rate}");
        world.set(&[Setting::Rate(resources(n), Some(bits(2.0 * GB)))]);
        world.run(30.0);
        let rate = world.run(60.0)[0];
        assert!((1.9 * GB..2.06 * GB).contains(&rate), "{n}, raised: {rate}");
    }
}

#[test]
fn one_transfer_that_is_faster_than_the_limit_is_paced() {
    let mut world = Fluid::new(wide());
    let path = world.path(1, 9, &[], 500.0 * MB);
    world.set(&[Setting::Rate(
        Resource::Link(world.paths[path].link),
        Some(bits(100.0 * MB)),
    )]);
    world.demand(Demand::backlog(path, GB));
    world.run(120.0);
    let rate = world.run(600.0)[0];
    assert!((80.0 * MB..110.0 * MB).contains(&rate), "{rate}");
}

#[test]
fn targets_are_served_first() {
    // One link with a target among thirty that want more than there is.
    let mut world = Fluid::new(wide());
    let pipe = world.pipe(|_, _| 10.0 * GB);
    let paths: Vec<usize> = (0..31).map(|n| world.path(n, 99, &[pipe], 50.0 * MB)).collect();
    world.demand(Demand::rate(paths[0], 2.0 * GB, 4.0 * GB));
    for path in &paths[1..] {
        world.demand(Demand::backlog(*path, 2.0 * GB));
    }
    let link = world.paths[paths[0]].link;
    world.set(&[Setting::Target(link, Some(bits(4.0 * GB)))]);
    world.run(300.0);
    let rates = world.run(900.0);
    assert!(rates[0] > 0.98 * 4.0 * GB, "{}", rates[0]);
    assert!(rates.iter().sum::<f64>() > 0.95 * 10.0 * GB);
}

#[test]
fn shares_hold_on_a_link() {
    let mut world = Fluid::new(Settings { link: 40, ..wide() });
    let path = world.path(1, 2, &[], 50.0 * MB);
    for (vo, activity, size) in [(1, 1, GB), (1, 2, 3.0 * GB), (2, 1, GB)] {
        let (vo, activity) = (VoId(vo), ActivityId(activity));
        world.demand(Demand {
            vo,
            activity,
            ..Demand::backlog(path, size)
        });
    }
    world.set(&[
        Setting::VoShare(VoId(2), Some(300)),
        Setting::ActivityShare(VoId(1), ActivityId(2), Some(400)),
    ]);
    world.run(1_200.0);
    let total: f64 = world.of_demand.iter().sum();
    let parts: Vec<f64> = world.of_demand.iter().map(|bytes| bytes / total).collect();
    for (part, expected) in parts.iter().zip([0.05, 0.20, 0.75]) {
        assert!((part - expected).abs() < 0.02, "{parts:?}");
    }
}

#[test]
fn priorities_are_strict_and_nothing_starves() {
    let mut world = Fluid::new(Settings {
        inbound: 20,
        ageing: Some(Duration::from_secs(120)),
        ..wide()
    });
    let urgent = world.path(1, 9, &[], 50.0 * MB);
    let patient = world.path(2, 9, &[], 50.0 * MB);
    let first = world.demand(Demand {
        priority: 5,
        from: 1.0,
        ..Demand::backlog(urgent, GB)
    });
    let last = world.demand(Demand {
        priority: 1,
        ..Demand::backlog(patient, GB)
    });
    world.run(300.0);
    let before = world.of_demand.clone();
    world.run(1_800.0);
    let came = |demand: usize| world.of_demand[demand] - before[demand];
    assert!(came(last) >= 3.0 * GB, "the patient one starved: {}", came(last));
    assert!(came(first) > 30.0 * came(last));
}

#[test]
fn a_near_deadline_goes_first() {
    let mut world = Fluid::new(Settings { link: 10, ..wide() });
    let path = world.path(1, 2, &[], 50.0 * MB);
    world.demand(Demand::backlog(path, GB));
    let dated = world.demand(Demand {
        deadline: 600.0,
        backlog: 60,
        from: 1.0,
        ..Demand::backlog(path, GB)
    });
    world.run(200.0);
    world.run(380.0);
    assert!(
        world.of_demand[dated] > 55.0 * GB,
        "{} of 60 GB arrived in time",
        world.of_demand[dated] / GB
    );
}

#[test]
fn small_files_get_more_transfers() {
    let mut actives = Vec::new();
    for size in [5.0 * GB, 50.0 * MB] {
        let mut world = Fluid::new(wide());
        let pipe = world.pipe(|_, _| GB);
        let path = world.path(1, 2, &[pipe], 50.0 * MB);
        world.demand(Demand::backlog(path, size));
        world.run(300.0);
        let (rate, active) = run(&mut world, path, 400.0);
        assert!(rate > 0.9 * GB, "{size}: {rate}");
        actives.push(active);
    }
    assert!(actives[1] > 1.5 * actives[0], "{actives:?}");
}

#[test]
fn load_that_is_not_ours_is_lived_with() {
    let mut world = Fluid::new(wide());
    let pipe = world.pipe(|t, _| {
        if (300.0..600.0).contains(&t) {
            0.4 * 3.0 * GB
        } else {
            3.0 * GB
        }
    });
    let path = world.path(1, 2, &[pipe], 50.0 * MB);
    world.demand(Demand::backlog(path, GB));
    world.run(360.0);
    let amid = world.run(240.0)[0];
    world.run(60.0);
    let after = world.run(120.0)[0];
    assert!(amid > 0.9 * 1.2 * GB && after > 0.9 * 3.0 * GB);
}

#[test]
fn the_switch_is_off_and_a_fixed_value_is_fixed() {
    let mut world = Fluid::new(Settings {
        link: 70,
        optimiser: Mode::Off,
        ..wide()
    });
    let pipe = world.pipe(|_, _| GB);
    let path = world.path(1, 2, &[pipe], 50.0 * MB);
    world.demand(Demand::backlog(path, GB));
    world.run(120.0);
    assert_eq!(world.active(path), 70);
    world.set(&[Setting::LinkOptimiser(world.paths[path].link, Some(Mode::Fixed(7)))]);
    world.run(300.0);
    assert_eq!(world.active(path), 7);
}

#[test]
fn demand_that_comes_in_bursts_is_learned_from_all_the_same() {
    // Half a minute of work, then silence: a window in which nobody reports must not be the last.
    let mut world = Fluid::new(wide());
    let pipe = world.pipe(|_, _| 4.0 * GB);
    let path = world.path(1, 2, &[pipe], 20.0 * MB);
    world.paths[path].markers = Markers::One;
    world.demand(Demand::rate(path, GB, 1.0));
    for _ in 0..8 {
        world.run(60.0);
        world.burst(0, 100);
    }
    world.run(120.0);
    let allowed = world.core.link(world.paths[path].link).unwrap().allowed;
    assert!(allowed >= 64, "only {allowed} after eight bursts");
}

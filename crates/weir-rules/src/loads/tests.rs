#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use proptest::prelude::*;
use weir_units::BitRate;

use super::*;

const MB: u64 = 1_000_000;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn curve(points: &[(u64, u64)]) -> Curve {
    let point = |(after, rate): &(u64, u64)| Point {
        after: secs(*after),
        rate: BitRate(*rate),
    };
    Curve::new(points.iter().map(point).collect()).unwrap()
}

/// 8 Mb/s, which is 1 MB/s, for an hour, in cycles of a minute.
fn terms() -> Terms {
    Terms {
        curve: curve(&[(0, 8 * MB)]),
        length: secs(3600),
        interval: secs(60),
        phase: secs(30),
        fudge: 0,
        overshoot: 200,
    }
}

#[test]
fn the_area_under_a_curve_is_exact() {
    let curve = curve(&[(10, 0), (20, 80), (20, 160), (30, 160)]);
    let by = |at| curve.bytes_by(secs(at)).0;
    assert_eq!(
        (by(0), by(10), by(15), by(20)),
        (0, 0, 12, 50),
        "a ramp of 10 s to 80 b/s"
    );
    assert_eq!((by(21), by(30), by(40)), (70, 250, 450), "a step to 160 b/s");
    let at = |at| curve.rate_at(secs(at)).0;
    assert_eq!(
        [at(9), at(15), at(19), at(20), at(25), at(99)],
        [0, 40, 72, 160, 160, 160]
    );
}

#[test]
fn points_that_are_no_curve_are_refused() {
    let refused = |points: &[(u64, u64)]| {
        let point = |(after, rate): &(u64, u64)| Point {
            after: secs(*after),
            rate: BitRate(*rate),
        };
        Curve::new(points.iter().map(point).collect()).unwrap_err()
    };
    assert_eq!(refused(&[]), CurveError::Count);
    assert_eq!(refused(&[(5, 1), (4, 1)]), CurveError::Order(2));
    assert_eq!(refused(&[(0, 1), (400 * 86_400, 1)]), CurveError::Late(2));
    assert_eq!(refused(&[(0, 10_000_000_000_001)]), CurveError::High(1));
    assert_eq!(refused(&[(0, 0), (9, 0)]), CurveError::Zero);
}

#[test]
fn a_cycle_injects_what_is_due_before_the_next_one() {
    let terms = terms();
    assert_eq!(
        [terms.after(secs(0)), terms.after(secs(30)), terms.after(secs(95))],
        [secs(30), secs(90), secs(150)]
    );
    let first = terms.decide(secs(0), Sums::default());
    assert_eq!(
        (first.wanted, first.target, first.is_held()),
        (Bytes(30 * MB), Bytes(30 * MB), false)
    );
    let injected = Sums {
        injected: Bytes(30 * MB),
        waiting: Bytes(30 * MB),
        ..Sums::default()
    };
    assert_eq!(terms.decide(secs(30), injected).target, Bytes(60 * MB));
    let over = terms.decide(secs(3599), injected);
    assert_eq!(over.due, Bytes(3600 * MB), "nothing is asked for after the end");
}

#[test]
fn waiting_bytes_hold_back_and_old_ones_are_given_up() {
    let terms = terms();
    let waiting = Sums {
        injected: Bytes(400 * MB),
        waiting: Bytes(250 * MB),
        ..Sums::default()
    };
    let cycle = terms.decide(secs(570), waiting);
    assert_eq!((cycle.due, cycle.wanted), (Bytes(630 * MB), Bytes(230 * MB)));
    assert_eq!(
        (cycle.target, cycle.is_held()),
        (Bytes(50 * MB), true),
        "five cycles are 300 MB"
    );
    let late = terms.decide(secs(1230), waiting);
    assert_eq!(
        late.given_up,
        Bytes(690 * MB - 400 * MB),
        "what was due ten cycles before"
    );
    assert_eq!(late.wanted, Bytes(600 * MB));
}

#[test]
fn lost_bytes_are_replaced_to_a_quarter() {
    let terms = terms();
    let decide = |lost: u64| {
        let sums = Sums {
            injected: Bytes(630 * MB),
            lost: Bytes(lost * MB),
            ..Sums::default()
        };
        terms.decide(secs(570), sums).wanted
    };
    assert_eq!(
        [decide(0), decide(50), decide(630)],
        [Bytes(0), Bytes(50 * MB), Bytes(126 * MB)]
    );
}

#[test]
fn files_are_chosen_up_to_the_target() {
    let chosen = |target: u64, left: Option<u64>, sizes: &[u64]| {
        let mut choice = Choice::new(Bytes(target), 200, left.map(Bytes));
        let taken = sizes.iter().map(|size| choice.offer(Bytes(*size))).collect::<Vec<_>>();
        (taken, choice.lacks_room())
    };
    assert_eq!(
        chosen(100, None, &[40, 90, 50, 10]),
        (vec![true, false, true, true], false)
    );
    assert_eq!(
        chosen(100, None, &[60, 70, 50]),
        (vec![true, false, false], false),
        "near enough: the rest is wanted by the next cycle"
    );
    assert_eq!(
        chosen(100, None, &[500, 1]),
        (vec![true, false], false),
        "the first one always goes"
    );
    assert_eq!(chosen(100, Some(50), &[60, 40, 20]), (vec![false, true, false], true));
    assert_eq!(chosen(0, None, &[1]), (vec![false], false));
}

#[test]
fn loads_one_after_the_other_are_apart() {
    let mut phases = (1..=100).map(|number| phase(number, secs(100))).collect::<Vec<_>>();
    phases.sort();
    let gaps = phases.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    assert!(gaps.clone().min().unwrap() > Duration::from_millis(350) && gaps.max().unwrap() < secs(2));
}

proptest! {
    /// A load would inject another volume than its curve asks for.
    #[test]
    fn a_link_that_delivers_gets_what_is_asked(
        rates in prop::collection::vec(1_000_000_u64..100_000_000_000, 1..5),
        (interval, phase) in (1_u64..900).prop_flat_map(|interval| (Just(interval), 0..interval)),
        size in 1_000_000_u64..8_000_000_000,
        late in 0_u64..3,
    ) {
        let length = secs(3600 * rates.len() as u64);
        let points = rates.iter().enumerate().map(|(at, rate)| (3600 * at as u64, *rate)).collect::<Vec<_>>();
        let terms = Terms {
            curve: curve(&points), length, interval: secs(interval), phase: secs(phase), fudge: 0, overshoot: 200,
        };
        let (mut at, mut sums, mut asked) = (Duration::ZERO, Sums::default(), Bytes(0));
        while at < length {
            let cycle = terms.decide(at, sums);
            asked = cycle.due;
            sums.given_up.0 += cycle.given_up.0;
            let mut choice = Choice::new(cycle.target, terms.overshoot, None);
            while choice.offer(Bytes(size)) {}
            // Files of a cycle are bounded, and a cycle that comes late makes up for it.
            prop_assume!(choice.files < FILES_MAX);
            sums.injected.0 += choice.bytes().0;
            at = terms.after(at) + secs(late);
        }
        prop_assert!(late > 0 || asked == terms.asked_by(length));
        // The last file may be left, because it exceeds the last target by too much.
        prop_assert!(sums.injected.0 + size > asked.0);
        prop_assert!(sums.injected.0 <= asked.0 + size);
        prop_assert_eq!(sums.given_up, Bytes(0));
    }

    /// A link that delivers nothing would be flooded.
    #[test]
    fn a_dead_link_gets_a_backlog_and_no_more(rate in 1_000_000_u64..1_000_000_000_000, size in 1_000_000_u64..8_000_000_000) {
        let terms = Terms { curve: curve(&[(0, rate)]), ..terms() };
        let (mut at, mut sums) = (Duration::ZERO, Sums::default());
        while at < terms.length {
            let cycle = terms.decide(at, sums);
            sums.given_up.0 += cycle.given_up.0;
            let mut choice = Choice::new(cycle.target, terms.overshoot, None);
            while choice.offer(Bytes(size)) {}
            sums.injected.0 += choice.bytes().0;
            sums.waiting = sums.injected;
            at = terms.after(at);
        }
        let backlog = BitRate(rate).bytes_in(terms.interval * BACKLOG_CYCLES).0;
        prop_assert!(sums.injected.0 <= backlog + size);
        prop_assert!(sums.injected.0 + sums.given_up.0 <= terms.asked_by(terms.length).0 + size);
    }

    /// The curve would run backwards, or reach its end with another volume when looked at in steps.
    #[test]
    fn curves_rise(points in prop::collection::vec((0_u64..1000, 0_u64..1_000_000_000), 1..6), at in prop::collection::vec(0_u64..7_000_000, 2..20)) {
        let mut after = 0;
        let points = points.iter().map(|(step, rate)| { after += step; (after, *rate) }).collect::<Vec<_>>();
        prop_assume!(points.iter().any(|(_, rate)| *rate > 0));
        let (curve, mut at) = (curve(&points), at);
        at.sort_unstable();
        let bytes = at.iter().map(|at| curve.bytes_by(Duration::from_millis(*at)).0).collect::<Vec<_>>();
        prop_assert!(bytes.is_sorted());
        let most = points.iter().map(|(_, rate)| *rate).max().unwrap_or_default();
        for (pair, at) in bytes.windows(2).zip(at.windows(2)) {
            prop_assert!(u128::from(pair[1] - pair[0]) <= u128::from(most) * u128::from(at[1] - at[0]) / 8000 + 1);
        }
    }
}

//! Moves of the world, and how they are drawn.

use proptest::prelude::*;
use weir_world::Retry;

use crate::world::SES;

/// One move of the world. Indices are taken modulo what there is.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    Submit {
        source: u32,
        destination: u32,
        files: u64,
        priority: i64,
        retries: i32,
        /// The relation of the files to each other.
        together: Together,
        /// Its request to tape.
        tape: u8,
    },
    Cancel {
        which: usize,
        many: usize,
    },
    SetPriority {
        which: usize,
        priority: i64,
    },
    /// Transfers are to start whatever the limits say.
    Force {
        which: usize,
        many: usize,
    },
    SetLimit {
        which: u8,
        se: u32,
        limit: u32,
    },
    /// The core gets back some of what an earlier life left.
    Restore {
        records: usize,
    },
    /// The store takes up to so many records.
    Commit {
        records: usize,
    },
    /// The store tells how far it is.
    TellDurable,
    /// An operation comes to its end.
    End {
        which: usize,
        fate: Fate,
    },
    /// An operation tells of its progress.
    Progress {
        which: usize,
    },
    /// The core gets one input, not always the oldest; it may get it once more later.
    Deliver {
        which: usize,
        keep: bool,
    },
    /// The core gets all inputs in one step, in order or in reverse.
    DeliverAll {
        reversed: bool,
    },
    /// An input is lost.
    Lose {
        which: usize,
    },
    /// Time passes, and every alarm that is due in it rings.
    Wait {
        millis: u64,
    },
    /// One source and one destination are busy: so many files on each link out of the one and into the other, with so many
    /// seconds until a retry. So many copies end, one after the other, as in [`Move::Work`]. Then the source may be banned, while
    /// the destination keeps a slot for it, and so many more end.
    Crowd {
        source: u32,
        destination: u32,
        files: u64,
        delay_secs: u64,
        rounds: usize,
        banned: usize,
    },
    /// Every copy over a link fails from now on, or at a storage element in one direction; or they work again.
    Break {
        what: Part,
        se: u32,
        on: bool,
    },
    /// An operator lets nothing pass any more, or lets it pass again.
    Ban {
        what: Part,
        se: u32,
        on: bool,
    },
    /// The store and the executors are quick for a while: so many rounds, in each of which the
    /// oldest operation ends, or all of them.
    Work {
        rounds: usize,
        all: bool,
    },
    /// The process dies; some of the records on their way still reach the store.
    Crash {
        records: usize,
        from_log: bool,
    },
}

/// A part of the grid that breaks, or is banned. A link goes from a storage element to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Link,
    Source,
    Destination,
}

/// The relation of a job's files to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Together {
    Nothing,
    Replicas(usize),
    Hops,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Done,
    FailedEarly(Retry),
    FailedLate { retry: Retry, whole: bool },
    Lost { whole: bool },
}

fn fate() -> impl Strategy<Value = Fate> {
    let retry = || prop_oneof![Just(Retry::Now), Just(Retry::Later), Just(Retry::Never)];
    prop_oneof![
        4 => Just(Fate::Done),
        1 => retry().prop_map(Fate::FailedEarly),
        2 => (retry(), any::<bool>()).prop_map(|(retry, whole)| Fate::FailedLate { retry, whole }),
        1 => any::<bool>().prop_map(|whole| Fate::Lost { whole }),
    ]
}

fn together() -> impl Strategy<Value = Together> {
    prop_oneof![
        2 => Just(Together::Nothing),
        1 => any::<usize>().prop_map(Together::Replicas),
        1 => Just(Together::Hops),
    ]
}

pub(crate) fn a_move() -> impl Strategy<Value = Move> {
    let n = || any::<usize>();
    prop_oneof![
        4 => (0..SES, 0..SES, 1..6u64, 1..6i64, -1..3i32, together(), 0..8u8).prop_map(
            |(source, destination, files, priority, retries, together, tape)| {
                Move::Submit { source, destination, files, priority, retries, together, tape }
            }),
        2 => (n(), 1..4usize).prop_map(|(which, many)| Move::Cancel { which, many }),
        1 => (n(), 1..6i64).prop_map(|(which, priority)| Move::SetPriority { which, priority }),
        4 => (1..8usize).prop_map(|records| Move::Restore { records }),
        10 => (1..6usize).prop_map(|records| Move::Commit { records }),
        8 => Just(Move::TellDurable),
        10 => (n(), fate()).prop_map(|(which, fate)| Move::End { which, fate }),
        1 => n().prop_map(|which| Move::Progress { which }),
        16 => (n(), any::<bool>()).prop_map(|(which, keep)| Move::Deliver { which, keep }),
        4 => any::<bool>().prop_map(|reversed| Move::DeliverAll { reversed }),
        2 => n().prop_map(|which| Move::Lose { which }),
        3 => (1..20_000u64).prop_map(|millis| Move::Wait { millis }),
        1 => (0..8usize, any::<bool>()).prop_map(|(records, from_log)| Move::Crash { records, from_log }),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![Just(Part::Link), Just(Part::Source), Just(Part::Destination)]
}

/// A busy grid: crowded destinations, parts that break, bans, and retries that are due later than a pause ends.
pub(crate) fn busy_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        5 => (0..SES, 0..SES, 1..20u64, 1..30u64, 0..120usize, prop_oneof![2 => Just(0), 1 => 1..40usize]).prop_map(
            |(source, destination, files, delay_secs, rounds, banned)| {
                Move::Crowd { source, destination, files, delay_secs, rounds, banned }
            }),
        3 => (part(), 0..SES, prop::bool::weighted(0.6)).prop_map(|(what, se, on)| Move::Break { what, se, on }),
        3 => (part(), 0..SES, prop::bool::weighted(0.5)).prop_map(|(what, se, on)| Move::Ban { what, se, on }),
        6 => (1..120usize, prop::bool::weighted(0.2)).prop_map(|(rounds, all)| Move::Work { rounds, all }),
        2 => (1..20_000u64).prop_map(|millis| Move::Wait { millis }),
        2 => a_move(),
    ]
}

pub(crate) fn limit_move() -> impl Strategy<Value = Move> {
    (any::<u8>(), 0..SES, 0..4u32).prop_map(|(which, se, limit)| Move::SetLimit { which, se, limit })
}

pub(crate) fn force_move() -> impl Strategy<Value = Move> {
    (any::<usize>(), 1..4usize).prop_map(|(which, many)| Move::Force { which, many })
}

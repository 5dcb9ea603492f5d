#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
use proptest::prelude::*;
use weir_sched::{End, Next, Work};
use weir_units::Bytes;
use weir_world::{CopyMode, OpId, TransferId};

use super::*;
use crate::store::submission;

fn op(file: u64) -> OpId {
    OpId {
        transfer: TransferId(file),
        attempt: 1,
        epoch: 1,
    }
}

fn ended(file: u64) -> Record {
    Record::Ended {
        op: op(file),
        end: End::Done {
            bytes: Bytes(1),
            mode: CopyMode::Pull,
            counted: None,
            first_byte: None,
        },
        next: Next::Finished,
        released: None,
    }
}

fn limits(depth: u64, age: u64) -> QueueLimits {
    let limit = QueueLimit {
        depth: Some(depth),
        age: Some(Duration::from_secs(age)),
    };
    QueueLimits {
        client: limit,
        ..QueueLimits::default()
    }
}

fn come(depth: &mut Depth, job: u128, first: u64, n: usize, at: Millis) -> Result<(), Full> {
    let mut submission = submission(job, first, n as u64);
    submission.job.submitted = at;
    let mut names = Names::default();
    let spec = crate::driver::records::job_spec(&submission, &mut names);
    depth.submitted(&submission.job, &spec, &names)
}

#[test]
fn before_the_queue_is_back_there_is_no_room_within_limits() {
    // Just after a restart every client could submit beyond every limit: the queue is not counted yet.
    let mut depth = Depth::default();
    depth.await_queue();
    assert_eq!(come(&mut depth, 1, 1, 2, 0), Ok(()), "there are no limits");
    depth.limit_to(limits(3, 3600));
    let refused = come(&mut depth, 2, 10, 1, 0).unwrap_err();
    assert!(refused.unknown && refused.retry_after == Duration::from_secs(1));
    depth.queue_is_back();
    assert_eq!(come(&mut depth, 4, 20, 1, 0), Ok(()));
    assert!(!come(&mut depth, 6, 30, 5, 0).unwrap_err().unknown);
}

#[test]
fn the_sources_of_a_file_are_one_transfer_in_every_queue() {
    // If each replica counted, a file with ten replicas would use up the room of ten, and unused ones would stay
    // counted for ever.
    let (mut depth, mut names) = (Depth::default(), Names::default());
    let mut submission = submission(1, 1, 3);
    submission.job.kind = weir_executor::job::SEVERAL_SOURCES;
    let spec = crate::driver::records::job_spec(&submission, &mut names);
    depth.submitted(&submission.job, &spec, &names).unwrap();
    let count = |depth: &Depth| {
        let all = depth.standings(&names);
        all.iter().find(|standing| standing.kind == "vo").unwrap().depth
    };
    assert_eq!(count(&depth), 1);
    depth.follow(&Record::Submitted(spec), 0);
    let over = |file, released: Option<u64>, next| Record::Ended {
        op: op(file),
        end: End::Lost,
        next,
        released: released.map(TransferId),
    };
    depth.follow(&over(1, Some(3), Next::Failed), 0);
    assert_eq!(count(&depth), 1);
    let cancelled = Record::Cancelled {
        ticket: weir_sched::Ticket(1),
        settled: vec![TransferId(3)],
        stopping: vec![],
        released: vec![TransferId(2)],
    };
    depth.follow(&cancelled, 0);
    assert_eq!(count(&depth), 1);
    depth.follow(&over(2, None, Next::Failed), 0);
    assert_eq!(count(&depth), 0);
    assert!(depth.jobs.is_empty());
}

#[test]
fn a_queue_beyond_depth_or_age_refuses_until_it_shrinks() {
    let mut depth = Depth::default();
    depth.limit_to(limits(10, 3600));
    come(&mut depth, 1, 1, 20, 0).unwrap();
    let full = come(&mut depth, 3, 100, 1, 0).unwrap_err();
    assert!(full.reason.contains("20 transfers of the client"), "{}", full.reason);
    for file in 1..=15 {
        depth.follow(&ended(file), 0);
    }
    come(&mut depth, 3, 100, 5, 0).unwrap();
    let late = 3_700_000;
    for file in 16..=20 {
        depth.follow(&ended(file), late);
    }
    let old = come(&mut depth, 5, 200, 1, late).unwrap_err();
    assert!(old.reason.contains("waits for 3700 s"), "{}", old.reason);
    for file in 100..105 {
        depth.follow(
            &Record::Started {
                op: op(file),
                work: Work::Copy,
            },
            late,
        );
    }
    come(&mut depth, 5, 200, 1, late).unwrap();
}

#[test]
fn a_job_that_was_not_taken_leaves_nothing() {
    let mut depth = Depth::default();
    depth.limit_to(limits(10, 3600));
    come(&mut depth, 1, 1, 7, 0).unwrap();
    depth.refused(1);
    assert!(depth.jobs.is_empty());
    assert!(
        depth
            .standings(&Names::default())
            .iter()
            .all(|queue| queue.depth == 0 && queue.oldest.is_none())
    );
}

proptest! {
    #[test]
    fn depths_are_what_is_left(moves in prop::collection::vec((0..3_u8, 0..40_u64), 1..200)) {
        // A count that drifts would refuse everything one day, or nothing.
        let (mut depth, mut live, mut started) = (Depth::default(), std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let mut next = 0;
        for (what, which) in moves {
            match what {
                0 => {
                    let n = which % 5 + 1;
                    come(&mut depth, u128::from(next) * 2 + 1, next, n as usize, 0).unwrap();
                    live.extend(next..next + n);
                    next += n;
                }
                1 => {
                    depth.follow(&Record::Started { op: op(which), work: Work::Copy }, 0);
                    if live.contains(&which) {
                        started.insert(which);
                    }
                }
                _ => {
                    if live.remove(&which) {
                        depth.follow(&ended(which), 0);
                    }
                }
            }
            let waiting = live.difference(&started).count();
            for queue in depth.queues.values() {
                prop_assert_eq!(queue.live, live.len() as u64);
                prop_assert_eq!(queue.waiting.values().sum::<u64>(), waiting as u64);
            }
        }
    }
}

#[test]
fn a_route_of_another_node_is_one_transfer_too() {
    // Thirty replicas of one file would be refused at one door, and taken at the next.
    let (mut depth, names) = (Depth::default(), Names::default());
    depth.limit_to(limits(4, 3600));
    come(&mut depth, 1, 1, 2, 0).unwrap();
    let client = submission(1, 1, 1).job.cred_id;
    let room = |route| Room {
        vo: "vo".into(),
        client: client.clone(),
        at: 0,
        links: vec![("a".into(), "b".into()); 30],
        route,
    };
    assert!(depth.room(&room(false), &names).is_err());
    assert_eq!(depth.room(&room(true), &names), Ok(()));
}

//! Executors and destinations: outcomes of operations.

use weir_sched::{Op, Staging};
use weir_units::Bytes;
use weir_world::{CopyMode, ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, WorldEvent};

use super::{Copied, Input, Operation, SIZE, World};
use crate::moves::Fate;

impl World {
    pub(super) fn running(&self) -> Vec<OpId> {
        let running = |(op, operation): (&OpId, &Operation)| matches!(operation, Operation::Running(_)).then_some(*op);
        self.operations.iter().filter_map(running).collect()
    }

    pub(super) fn end_some(&mut self, which: usize, fate: Fate) {
        if let Some(op) = pick(&self.running(), which) {
            self.end_one(op, fate);
        }
    }

    /// Ends an operation that runs: by this fate, unless a part on its way is broken.
    pub(super) fn end_one(&mut self, op: OpId, fate: Fate) {
        let Operation::Running(order) = self.operations[&op].clone() else {
            unreachable!("it runs")
        };
        let event = match self.fault_of(&order) {
            Some((fate, party)) => by(party, self.end(op, order, fate)),
            None => self.end(op, order, fate),
        };
        self.operations.insert(op, Operation::Ended(event.clone()));
        if op.epoch != self.epoch {
            self.held_no_more(op.transfer, false);
        }
        self.inbox.push_back(Input::World(op, event));
    }

    /// The outcome of an operation, and the state of the destination.
    pub(super) fn end(&mut self, op: OpId, order: Op, fate: Fate) -> WorldEvent {
        if let Op::Stage { .. } | Op::Archive { .. } = order {
            return self.end_tape(op, order, fate);
        }
        let copied = self.destinations.entry(self.place(op.transfer)).or_default();
        if *copied == Copied::Whole && !matches!(fate, Fate::Lost { .. } | Fate::FailedEarly(_)) {
            return WorldEvent::Adopted(SIZE);
        }
        let cleanup = matches!(order, Op::Cleanup { .. });
        let mut fails = |phase, retry, whole: bool| {
            if phase == Phase::Transfer && !cleanup && *copied != Copied::Whole {
                *copied = if whole { Copied::Whole } else { Copied::Part };
            }
            WorldEvent::Ended(failed(phase, retry))
        };
        match fate {
            Fate::Done if cleanup => {
                *copied = Copied::Nothing;
                WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) })
            }
            Fate::Done => {
                *copied = Copied::Whole;
                WorldEvent::Ended(Outcome::Done {
                    bytes: SIZE,
                    mode: CopyMode::Pull,
                    counted: None,
                    first_byte: None,
                })
            }
            Fate::FailedEarly(retry) => fails(Phase::Preparation, retry, false),
            Fate::FailedLate { retry, whole } => fails(Phase::Transfer, retry, whole),
            Fate::Lost { whole } => {
                if !cleanup && *copied != Copied::Whole {
                    *copied = if whole { Copied::Whole } else { Copied::Part };
                }
                WorldEvent::Lost
            }
        }
    }

    /// The outcome of an operation at a tape.
    fn end_tape(&mut self, op: OpId, order: Op, fate: Fate) -> WorldEvent {
        match fate {
            Fate::Done => {
                match order {
                    Op::Stage { .. } => self.online.insert(op.transfer),
                    _ => self.on_tape.insert(op.transfer),
                };
                WorldEvent::Ended(Outcome::Ready)
            }
            Fate::FailedEarly(retry) | Fate::FailedLate { retry, .. } => {
                WorldEvent::Ended(failed(Phase::Preparation, retry))
            }
            Fate::Lost { .. } => WorldEvent::Lost,
        }
    }

    /// Nothing is copied before it is online, or watched before it is copied.
    fn check_order(&self, op: OpId, order: Op) {
        let tape = self.tapes[&op.transfer];
        let copied = self.destinations.get(&self.place(op.transfer)) == Some(&Copied::Whole);
        let online = self.online.contains(&op.transfer);
        let as_asked = match order {
            Op::Copy { .. } => tape.stage != Staging::Only && (tape.stage == Staging::No || online),
            Op::Stage { .. } => tape.stage != Staging::No,
            Op::Archive { .. } => tape.archive && copied,
            _ => true,
        };
        assert!(
            as_asked,
            "{op} is {order:?}, of {tape:?}, online: {online}, copied: {copied}"
        );
    }

    pub(super) fn start(&mut self, op: OpId, order: Op) {
        self.check_order(op, order);
        let seq = self.started[&op];
        assert!(
            seq <= self.told,
            "{op} started before its record was known to be durable"
        );
        assert!(
            self.is_live(op.transfer),
            "{op} started, but its transfer is {:?}",
            self.store.rows.get(&op.transfer)
        );
        self.check_turn(op);
        let others = self.running();
        let other = others
            .iter()
            .find(|other| other.transfer == op.transfer && other.epoch == self.epoch);
        assert_eq!(
            other, None,
            "{op} started beside another operation of the same transfer"
        );
        // A take-over ends what an earlier life left running.
        for other in others.iter().filter(|other| other.transfer == op.transfer) {
            self.operations.remove(other);
        }
        if matches!(order, Op::Copy { resume: false, .. }) {
            let copied = self
                .destinations
                .get(&self.place(op.transfer))
                .copied()
                .unwrap_or_default();
            assert_eq!(
                copied,
                Copied::Nothing,
                "{op} would copy over what an earlier attempt left"
            );
        }
        if let Op::Cleanup { .. } = order {
            self.cleanups.begun(op);
        }
        let former = self.operations.insert(op, Operation::Running(order));
        assert_eq!(former, None, "{op} started twice");
        self.inbox.push_back(Input::World(op, WorldEvent::Started));
    }

    pub(super) fn stop(&mut self, op: OpId) {
        if let Some(Operation::Running(order)) = self.operations.get(&op).cloned() {
            if let Op::Stage { .. } | Op::Archive { .. } = order {
                // Half of all tapes are faster than their stop.
                let event = if op.transfer.0.is_multiple_of(2) {
                    self.end_tape(op, order, Fate::Done)
                } else {
                    WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) })
                };
                self.operations.insert(op, Operation::Ended(event.clone()));
                self.inbox.push_back(Input::World(op, event));
                return;
            }
            assert!(matches!(order, Op::Copy { .. }), "{op} cleans up, and is stopped at it");
            let copied = self.destinations.entry(self.place(op.transfer)).or_default();
            // Half of all copies are faster than their stop.
            let event =
                if op.transfer.0.is_multiple_of(2) && matches!(order, Op::Copy { .. }) || *copied == Copied::Whole {
                    *copied = Copied::Whole;
                    WorldEvent::Ended(Outcome::Done {
                        bytes: SIZE,
                        mode: CopyMode::Pull,
                        counted: None,
                        first_byte: None,
                    })
                } else {
                    *copied = Copied::Nothing;
                    WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) })
                };
            self.operations.insert(op, Operation::Ended(event.clone()));
            self.inbox.push_back(Input::World(op, event));
        }
    }
}

/// A failure is the fault of this party.
fn by(party: Party, event: WorldEvent) -> WorldEvent {
    match event {
        WorldEvent::Ended(Outcome::Failed(failure)) => WorldEvent::Ended(Outcome::Failed(Failure { party, ..failure })),
        other => other,
    }
}

fn failed(phase: Phase, retry: Retry) -> Outcome {
    Outcome::Failed(Failure {
        class: ErrorClass::Network,
        party: Party::Network,
        phase,
        message: "it failed".into(),
        remedy: String::new(),
        bytes_moved: Bytes(0),
        retry,
    })
}

pub(super) fn pick<T: Copy>(all: &[T], which: usize) -> Option<T> {
    if all.is_empty() {
        None
    } else {
        Some(all[which % all.len()])
    }
}

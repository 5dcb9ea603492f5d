//! A store as the driver's store behaves, in a map: strict about what it is given.

use std::collections::{BTreeMap, BTreeSet};

use weir_sched::{JobSpec, Live, LiveState, Next, Record, RouteKind, Settled, Work};
use weir_units::Timestamp;
use weir_world::TransferId;

/// One row per transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Live(Live),
    Settled(Settled),
}

/// Durable records, as a log and as current rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelStore {
    pub(crate) log: Vec<Record>,
    pub(crate) rows: BTreeMap<TransferId, Row>,
    /// Transfers of refused jobs: records of them concern no row.
    pub(crate) refused: BTreeSet<TransferId>,
}

impl ModelStore {
    /// Makes a record durable. Panics if no careful store would take it.
    pub(crate) fn commit(&mut self, record: &Record) {
        self.log.push(record.clone());
        match record {
            Record::Started { op, .. } if self.refused.contains(&op.transfer) => {}
            Record::Submitted(spec) => self.submitted(spec),
            Record::Started { op, work } => {
                let live = self.live(op.transfer, record);
                assert_eq!(live.work, *work, "what begins is what was to come: {record:?}");
                assert_eq!(
                    op.attempt,
                    live.attempt + 1,
                    "attempts are counted one by one: {record:?}"
                );
                live.attempt = op.attempt;
                live.not_before = Timestamp(0);
                if matches!(live.state, LiveState::Queued | LiveState::Forced) {
                    live.state = LiveState::Active;
                }
            }
            Record::Ended { op, next, released, .. } => {
                let live = self.live(op.transfer, record);
                assert_eq!(
                    op.attempt, live.attempt,
                    "an end belongs to the attempt started last: {record:?}"
                );
                assert!(
                    !matches!(live.state, LiveState::Queued | LiveState::Forced),
                    "what ends was started: {record:?}"
                );
                let leader = *live;
                self.follow(op.transfer, *next);
                if let Some(released) = released {
                    let (kind, first) = leader.route.expect("only a route has somebody to release");
                    assert_eq!(
                        matches!(kind, RouteKind::Hops),
                        *next == Next::Finished,
                        "a hop goes on after success, a replica after failure: {record:?}"
                    );
                    assert_eq!(self.release(*released, record), first, "{record:?}");
                }
            }
            Record::Cancelled {
                settled,
                stopping,
                released,
                ..
            } => {
                for transfer in self.known(settled) {
                    let live = self.live(transfer, record);
                    assert!(
                        matches!(live.state, LiveState::Queued | LiveState::Forced | LiveState::Held),
                        "only what waits is cancelled at once: {record:?}"
                    );
                    self.rows.insert(transfer, Row::Settled(Settled::Cancelled));
                }
                for transfer in self.known(released) {
                    self.release(transfer, record);
                }
                for transfer in self.known(stopping) {
                    self.live(transfer, record).state = LiveState::Stopping;
                }
            }
            Record::PrioritySet {
                transfers, priority, ..
            } => {
                for transfer in self.known(transfers) {
                    self.live(transfer, record).terms.priority = *priority;
                }
            }
            Record::Forced { transfers, .. } => {
                for transfer in self.known(transfers) {
                    let live = self.live(transfer, record);
                    assert_eq!(
                        (live.state, live.work),
                        (LiveState::Queued, Work::Copy),
                        "only what waits for its copy is forced: {record:?}"
                    );
                    (live.state, live.not_before) = (LiveState::Forced, Timestamp(0));
                }
            }
            Record::SettingsChanged { .. } | Record::Learned(_) => {}
            Record::Live(_) => panic!("the core never issues {record:?}"),
        }
    }

    fn submitted(&mut self, spec: &JobSpec) {
        for (place, transfer) in spec.transfers.iter().enumerate() {
            let route = spec.routes.iter().find(|route| route.places.contains(&place));
            let held = route.is_some_and(|route| route.live != place);
            let live = Live {
                transfer: *transfer,
                terms: spec.terms,
                route: route.map(|route| (route.kind, spec.transfers[route.places.start].id)),
                state: if held { LiveState::Held } else { LiveState::Queued },
                work: transfer.first_work(),
                attempt: 0,
                failures: 0,
                free_retries: 0,
                resume: false,
                not_before: Timestamp(0),
            };
            let former = self.rows.insert(transfer.id, Row::Live(live));
            assert_eq!(former, None, "transfer {} was submitted twice", transfer.id);
        }
    }

    /// It is the turn of a held one. Gives the name of its route.
    fn release(&mut self, transfer: TransferId, record: &Record) -> TransferId {
        let live = self.live(transfer, record);
        assert_eq!(live.state, LiveState::Held, "only what is held is released: {record:?}");
        let (kind, first) = live.route.expect("what is held belongs to a route");
        live.state = LiveState::Queued;
        live.resume = matches!(kind, RouteKind::Replicas(_));
        first
    }

    fn follow(&mut self, transfer: TransferId, next: Next) {
        if let Some(settled) = next.settled() {
            self.rows.insert(transfer, Row::Settled(settled));
            return;
        }
        let Some(Row::Live(live)) = self.rows.get_mut(&transfer) else {
            unreachable!("looked at before")
        };
        match next {
            Next::Queued {
                work,
                not_before,
                failures,
                free_retries,
                resume,
            } => {
                assert_ne!(
                    live.state,
                    LiveState::Stopping,
                    "{transfer} is cancelled and not tried again"
                );
                *live = Live {
                    state: LiveState::Queued,
                    work,
                    not_before,
                    failures,
                    free_retries,
                    resume,
                    ..*live
                };
            }
            Next::Cleanup { not_before } => {
                *live = Live {
                    state: LiveState::Stopping,
                    not_before,
                    ..*live
                }
            }
            Next::Finished | Next::Failed | Next::Cancelled => {}
        }
    }

    fn known(&self, transfers: &[TransferId]) -> Vec<TransferId> {
        transfers
            .iter()
            .copied()
            .filter(|transfer| !self.refused.contains(transfer))
            .collect()
    }

    fn live(&mut self, transfer: TransferId, record: &Record) -> &mut Live {
        match self.rows.get_mut(&transfer) {
            Some(Row::Live(live)) => live,
            other => panic!("{record:?} speaks of a transfer that is {other:?}"),
        }
    }

    /// Transfers that were forced and have not started.
    #[allow(dead_code, reason = "not every suite forces anything")]
    pub(crate) fn forced(&self) -> BTreeSet<TransferId> {
        let forced = |(transfer, row): (&TransferId, &Row)| match row {
            Row::Live(live) if live.state == LiveState::Forced => Some(*transfer),
            _ => None,
        };
        self.rows.iter().filter_map(forced).collect()
    }

    /// The records that a store gives back after a restart: limits, then current rows, in order of submission.
    pub(crate) fn restore(&self) -> Vec<Record> {
        let limits = self
            .log
            .iter()
            .filter(|record| matches!(record, Record::SettingsChanged { .. }))
            .cloned();
        let live = self.rows.values().filter_map(|row| match row {
            Row::Live(live) => Some(Record::Live(*live)),
            Row::Settled(_) => None,
        });
        limits.chain(live).collect()
    }
}

//! The faults stop, and everything comes to its end.

use weir_sched::{Command, GroupId, Input, Mode, Resource, SeId, Setting, Ticket, VoId};
use weir_world::{OpId, WorldEvent};

use super::{Operation, SES, World};
use crate::moves::Fate;

impl World {
    /// Takes back what an operator may have set.
    fn unlimited(&self) -> Vec<Setting> {
        let mut all = vec![
            Setting::EveryLink(2),
            Setting::Optimiser(Mode::Auto),
            Setting::Ageing(None),
            Setting::Hold(false),
            Setting::Slots(Resource::Group(GroupId(0)), None),
        ];
        for se in (0..SES).map(SeId) {
            all.extend([
                Setting::Slots(Resource::Inbound(se), Some(3)),
                Setting::Slots(Resource::Outbound(se), Some(3)),
                Setting::Slots(Resource::VoInbound(se, VoId(0)), None),
                Setting::Rate(Resource::Outbound(se), None),
                Setting::Slots(Resource::Staging(se), None),
                Setting::Slots(Resource::VoStaging(se, VoId(0)), None),
            ]);
        }
        let links = self.limits.optimisers.keys();
        all.extend(links.map(|link| Setting::LinkOptimiser(*link, None)));
        all
    }

    /// The faults stop: the store is quick, nothing is lost, and every copy succeeds.
    pub(crate) fn heal(&mut self) {
        if self.limits_changed {
            let changes = self.unlimited().into();
            self.inbox.push_back(Input::Command(Command::Set {
                ticket: Ticket(4),
                changes,
            }));
        }
        for _ in 0..1_000 {
            self.deliver_all(false);
            self.commit(usize::MAX);
            self.inbox.push_back(Input::Persisted(self.durable));
            let known: Vec<OpId> = self.core.operations().collect();
            for op in known {
                match self.operations.get(&op).cloned() {
                    Some(Operation::Running(_)) => {}
                    Some(Operation::Ended(event)) => self.inbox.push_back(Input::World(op, event)),
                    None => self.inbox.push_back(Input::World(op, WorldEvent::Lost)),
                }
            }
            for _ in 0..self.running().len() {
                self.end_some(0, Fate::Done);
            }
            if self.core.is_empty() && self.pending.is_empty() && self.core.waiting_for_store() == 0 {
                return;
            }
            if let Some(at) = self.woken {
                self.now = self.now.max(at);
            }
        }
        panic!("it does not settle: {:?}", self.store.rows);
    }
}

//! Names of objects that the scheduler knows by number.

use indexmap::IndexSet;

use crate::{ActivityId, GroupId, Link, SeId, VoId};

/// Gives numbers to names, and the names back. Numbers are dense, from 0, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct Names {
    ses: IndexSet<String>,
    vos: IndexSet<String>,
    activities: IndexSet<String>,
    groups: IndexSet<String>,
}

fn number(names: &mut IndexSet<String>, name: &str) -> u32 {
    match names.get_index_of(name) {
        Some(known) => known as u32,
        None => names.insert_full(name.to_owned()).0 as u32,
    }
}

impl Names {
    /// The number of a storage element, a new one if it was not known.
    pub fn se(&mut self, name: &str) -> SeId {
        SeId(number(&mut self.ses, name))
    }

    /// The number of a virtual organisation, a new one if it was not known.
    pub fn vo(&mut self, name: &str) -> VoId {
        VoId(number(&mut self.vos, name))
    }

    /// The number of an activity, a new one if it was not known.
    pub fn activity(&mut self, name: &str) -> ActivityId {
        ActivityId(number(&mut self.activities, name))
    }

    /// The number of a shared resource, a new one if it was not known.
    pub fn group(&mut self, name: &str) -> GroupId {
        GroupId(number(&mut self.groups, name))
    }

    /// The number of a storage element that is known.
    pub fn find_se(&self, name: &str) -> Option<SeId> {
        self.ses.get_index_of(name).map(|known| SeId(known as u32))
    }

    /// The number of a virtual organisation that is known.
    pub fn find_vo(&self, name: &str) -> Option<VoId> {
        self.vos.get_index_of(name).map(|known| VoId(known as u32))
    }

    /// How many storage elements have a number.
    pub fn n_ses(&self) -> usize {
        self.ses.len()
    }

    /// The name of a storage element, `?` if it has none.
    pub fn se_name(&self, se: SeId) -> &str {
        self.ses.get_index(se.0 as usize).map_or("?", String::as_str)
    }

    /// The name of a virtual organisation, `?` if it has none.
    pub fn vo_name(&self, vo: VoId) -> &str {
        self.vos.get_index(vo.0 as usize).map_or("?", String::as_str)
    }

    /// The name of an activity, `?` if it has none.
    pub fn activity_name(&self, activity: ActivityId) -> &str {
        self.activities
            .get_index(activity.0 as usize)
            .map_or("?", String::as_str)
    }

    /// The name of a shared resource, `?` if it has none.
    pub fn group_name(&self, group: GroupId) -> &str {
        self.groups.get_index(group.0 as usize).map_or("?", String::as_str)
    }

    /// A link as people write it: `GLA→MAN`.
    pub fn link_name(&self, link: Link) -> String {
        format!("{}→{}", self.se_name(link.source), self.se_name(link.destination))
    }
}

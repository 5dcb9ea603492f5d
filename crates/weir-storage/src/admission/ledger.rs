//! The ledger of slots: slots in use by class, and the check of limits. No clocks, no waiting.

use std::collections::HashMap;

use crate::{
    config::{Limits, Share, ShareKind, share_of},
    memory::Scarce,
};

/// A kind of limited work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A GET or PUT that moves data.
    Transfer,
    /// A third-party copy.
    Copy,
    /// A long listing.
    Listing,
}

impl Work {
    /// Whether it needs memory for data in flight.
    pub(super) fn moves_data(self) -> bool {
        self != Self::Listing
    }

    /// In the plural, for people.
    fn named(self) -> &'static str {
        match self {
            Self::Transfer => "transfers",
            Self::Copy => "third-party copies",
            Self::Listing => "long listings",
        }
    }
}

/// The party that asks for a slot, as far as shares are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) vo: Option<String>,
    /// Subject, name of a certificate, or address.
    pub(crate) client: String,
    pub(crate) area: String,
}

impl Party {
    pub(crate) fn name(&self, kind: ShareKind) -> Option<&str> {
        match kind {
            ShareKind::Vo => self.vo.as_deref(),
            ShareKind::Client => Some(&self.client),
            ShareKind::Area => Some(&self.area),
        }
    }

    /// The group in the round-robin of the queue: the VO, or the client itself without one.
    pub(crate) fn group(&self) -> &str {
        self.vo.as_deref().unwrap_or(&self.client)
    }
}

/// Parties that are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Class {
    All,
    /// Of the endpoint's memory, which is counted elsewhere.
    Memory,
    /// Of the part of it that one client may have.
    MemoryShare,
    One(ShareKind, String),
}

/// A limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Full {
    class: Class,
    work: Work,
    limit: usize,
}

impl Full {
    /// True if the party's own share is used up, false if the endpoint's limit is reached.
    pub(crate) fn is_theirs(&self) -> bool {
        matches!(
            self.class,
            Class::One(ShareKind::Vo | ShareKind::Client, _) | Class::MemoryShare
        )
    }
}

impl Full {
    /// There is no memory for one more transfer.
    pub(crate) fn of_memory(work: Work, total: usize, scarce: Scarce) -> Self {
        Self {
            class: match scarce {
                Scarce::All => Class::Memory,
                Scarce::Share => Class::MemoryShare,
            },
            work,
            limit: total,
        }
    }

    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.class, Class::Memory | Class::MemoryShare)
    }

    pub(crate) fn work(&self) -> Work {
        self.work
    }
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (limit, what) = (self.limit, self.work.named());
        match &self.class {
            Class::All => write!(f, "{limit} {what} are under way, as many as this endpoint takes"),
            Class::Memory => {
                let limit = weir_units::Bytes(limit as u64);
                write!(
                    f,
                    "the transfers under way have taken all memory that there is for them, {limit}"
                )
            }
            Class::MemoryShare => {
                let limit = weir_units::Bytes(limit as u64);
                write!(
                    f,
                    "your transfers under way hold three times the memory that is left, as much as one client may (of {limit} in all)"
                )
            }
            Class::One(ShareKind::Vo, name) => write!(f, "VO {name} has {limit} {what} under way, as many as it may"),
            Class::One(ShareKind::Client, _) => {
                write!(f, "{limit} {what} are under way for you, as many as one client may")
            }
            Class::One(ShareKind::Area, name) => {
                write!(f, "{limit} {what} are under way in area {name}, as many as it takes")
            }
        }
    }
}

/// The places that are taken.
pub(crate) struct Ledger {
    all: [usize; 3],
    shares: Vec<Share>,
    taken: [usize; 3],
    /// By the name of a client, a VO and an area. A name without a place is missing, or has zeros.
    taken_by: [HashMap<Box<str>, [usize; 3]>; 3],
}

/// The shares in which a party counts beside the endpoint as a whole, in the order in which they are checked.
const KINDS: [ShareKind; 3] = [ShareKind::Client, ShareKind::Vo, ShareKind::Area];

/// Names of a kind without a place that are remembered: most come again with the next request.
const REMEMBERED: usize = 1024;

impl Ledger {
    pub(crate) fn new(limits: &Limits, shares: &[Share]) -> Self {
        Self {
            all: [limits.transfers, limits.copies, limits.listings],
            shares: shares.to_vec(),
            taken: [0; 3],
            taken_by: Default::default(),
        }
    }

    /// Changes the limits; slots in use stay.
    pub(crate) fn adjust(&mut self, limits: &Limits, shares: &[Share]) {
        self.all = [limits.transfers, limits.copies, limits.listings];
        self.shares = shares.to_vec();
    }

    /// Changes the total limit of a kind; slots in use stay.
    pub(crate) fn set_all(&mut self, work: Work, limit: usize) {
        self.all[work as usize] = limit;
    }

    /// How many places of a kind are taken.
    pub(crate) fn taken(&self, work: Work) -> usize {
        self.taken[work as usize]
    }

    /// How many places of a kind this client, VO or area has.
    fn taken_by(&self, place: usize, name: &str, work: Work) -> usize {
        self.taken_by[place].get(name).map_or(0, |taken| taken[work as usize])
    }

    /// Takes one slot of each kind that the work needs, or none.
    ///
    /// # Errors
    /// The first limit that is reached. The endpoint's own is checked last, so that a party that has used up its share
    /// learns that.
    pub(crate) fn take(&mut self, work: Work, party: &Party) -> Result<(), Full> {
        for (place, kind) in KINDS.into_iter().enumerate() {
            let Some(name) = party.name(kind) else { continue };
            if let Some(limit) = self.limit(kind, name, work)
                && self.taken_by(place, name, work) >= limit
            {
                let class = Class::One(kind, name.to_owned());
                return Err(Full { class, work, limit });
            }
        }
        let limit = self.all[work as usize];
        if self.taken(work) >= limit {
            let class = Class::All;
            return Err(Full { class, work, limit });
        }
        self.taken[work as usize] += 1;
        // It counts where there is no limit, too: there may be one by the time it gives its place back.
        for (place, name) in names(party) {
            let taken = &mut self.taken_by[place];
            if let Some(taken) = taken.get_mut(name) {
                taken[work as usize] += 1;
            } else {
                let mut one = [0; 3];
                one[work as usize] = 1;
                taken.insert(name.into(), one);
            }
        }
        Ok(())
    }

    /// Returns the slots of [`Self::take`].
    pub(crate) fn give(&mut self, work: Work, party: &Party) {
        self.taken[work as usize] -= 1;
        for (place, name) in names(party) {
            let all = &mut self.taken_by[place];
            let Some(taken) = all.get_mut(name) else { continue };
            taken[work as usize] -= 1;
            if *taken == [0; 3] && all.len() > REMEMBERED {
                all.remove(name);
            }
        }
    }

    /// Most third-party copies that may wait for each share of a party: its VO's, and its own. `withheld` slots that do
    /// not start yet allow as many more waiting copies.
    pub(crate) fn queue_shares(&self, party: &Party, withheld: usize) -> Vec<(ShareKind, usize)> {
        let queued = |kind| {
            let name = party.name(kind)?;
            let share = self.share(kind, name)?;
            let place = KINDS.iter().position(|other| *other == kind)?;
            let taken = self.taken_by(place, name, Work::Copy);
            let theirs = share.copies.map_or(withheld, |copies| copies.saturating_sub(taken));
            Some((kind, share.copies_queued?.saturating_add(theirs.min(withheld))))
        };
        [ShareKind::Vo, ShareKind::Client]
            .into_iter()
            .filter_map(queued)
            .collect()
    }

    /// Whether the endpoint as a whole has a place for one more.
    pub(crate) fn has_room(&self, work: Work) -> bool {
        self.taken(work) < self.all[work as usize]
    }

    /// How many places of a kind this client, VO or area may have.
    fn limit(&self, kind: ShareKind, name: &str, work: Work) -> Option<usize> {
        let share = self.share(kind, name)?;
        match work {
            Work::Transfer => share.transfers,
            Work::Copy => share.copies,
            Work::Listing => None,
        }
    }

    /// The share of one by name, or else the one for each.
    fn share(&self, kind: ShareKind, name: &str) -> Option<&Share> {
        share_of(&self.shares, kind, name)
    }
}

/// The shares in which a party counts: indices of [`KINDS`], and names.
fn names(party: &Party) -> impl Iterator<Item = (usize, &str)> {
    let kinds = KINDS.into_iter().enumerate();
    kinds.filter_map(|(place, kind)| Some((place, party.name(kind)?)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use proptest::prelude::*;

    use super::*;

    fn party(vo: &str, client: &str) -> Party {
        Party {
            vo: (!vo.is_empty()).then(|| vo.to_owned()),
            client: client.to_owned(),
            area: "data".to_owned(),
        }
    }

    fn ledger(all: usize, shares: &str) -> Ledger {
        #[derive(serde::Deserialize)]
        struct Tables {
            #[serde(default)]
            limit: Vec<Share>,
        }
        let limits = Limits {
            transfers: all,
            copies: all,
            ..Limits::default()
        };
        Ledger::new(&limits, &toml::from_str::<Tables>(shares).unwrap().limit)
    }

    #[test]
    fn a_vo_has_its_share_and_its_name_comes_before_the_star() {
        let mut ledger = ledger(
            10,
            "[[limit]]\nvo = \"*\"\ntransfers = 1\n[[limit]]\nvo = \"atlas\"\ntransfers = 2\n",
        );
        let take = |ledger: &mut Ledger, vo| ledger.take(Work::Transfer, &party(vo, "me"));
        take(&mut ledger, "cms").unwrap();
        let full = take(&mut ledger, "cms").unwrap_err();
        assert_eq!(full.to_string(), "VO cms has 1 transfers under way, as many as it may");
        assert!(full.is_theirs());
        take(&mut ledger, "lhcb").unwrap();
        take(&mut ledger, "atlas").unwrap();
        take(&mut ledger, "atlas").unwrap();
        assert!(take(&mut ledger, "atlas").is_err());
        // Copies are counted apart, and those without a VO are of none.
        ledger.take(Work::Copy, &party("cms", "me")).unwrap();
        take(&mut ledger, "").unwrap();
        ledger.give(Work::Transfer, &party("cms", "me"));
        take(&mut ledger, "cms").unwrap();
    }

    #[test]
    fn few_names_are_remembered_that_have_no_place() {
        // Wrong: each client that ever came takes memory for good.
        let mut ledger = ledger(100_000, "");
        let names: Vec<_> = (0..3 * REMEMBERED)
            .map(|number| party("vo", &number.to_string()))
            .collect();
        for party in &names {
            ledger.take(Work::Transfer, party).unwrap();
            ledger.give(Work::Transfer, party);
        }
        assert!(
            ledger.taken_by[0].len() <= REMEMBERED + 1,
            "{}",
            ledger.taken_by[0].len()
        );
        for party in &names {
            ledger.take(Work::Transfer, party).unwrap();
        }
        for party in &names {
            ledger.give(Work::Transfer, party);
        }
        assert!(
            ledger.taken_by[0].len() <= REMEMBERED + 1,
            "{}",
            ledger.taken_by[0].len()
        );
    }

    proptest! {
        /// A place that is lost is lost until the next restart; one too many breaks the promise of memory.
        #[test]
        fn no_limit_is_passed_and_nothing_is_lost(asked in prop::collection::vec((0..3_usize, 0..4_usize, 0..4_usize, any::<bool>()), 1..200)) {
            let mut ledger = ledger(5, "[[limit]]\nvo = \"*\"\ntransfers = 3\n[[limit]]\nclient = \"*\"\ntransfers = 2\n[[limit]]\narea = \"data\"\ncopies = 4\n");
            let mut held: Vec<(Work, Party)> = Vec::new();
            for (work, vo, client, give) in asked {
                if give && !held.is_empty() {
                    let (work, party) = held.swap_remove(vo % held.len());
                    ledger.give(work, &party);
                    continue;
                }
                let work = [Work::Transfer, Work::Copy, Work::Listing][work];
                let party = party(["", "a", "b", "c"][vo], ["w", "x", "y", "z"][client]);
                let count = |fits: &dyn Fn(&Party) -> bool| held.iter().filter(|(of, party)| *of == work && fits(party)).count();
                let all = if work == Work::Listing { Limits::default().listings } else { 5 };
                let room = count(&|_| true) < all
                    && (work != Work::Transfer || party.vo.is_none() || count(&|other| other.vo == party.vo) < 3)
                    && (work != Work::Transfer || count(&|other| other.client == party.client) < 2)
                    && (work != Work::Copy || count(&|_| true) < 4);
                prop_assert_eq!(ledger.take(work, &party).is_ok(), room);
                if room {
                    held.push((work, party));
                }
            }
            for (work, party) in held {
                ledger.give(work, &party);
            }
            prop_assert_eq!(ledger.taken, [0; 3]);
            prop_assert!(ledger.taken_by.iter().flat_map(HashMap::values).all(|taken| *taken == [0; 3]));
        }
    }
}

//! All that a decision about requests needs: their files with their replicas, the RSEs, the links.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry};

use weir_database::Session;
use weir_model::catalog::ReplicaState;
use weir_rules::{
    expression::Expression,
    ids::{DidId, RequestId, RseId},
    sources::Links,
};
use weir_service::time::Millis;
use weir_store::StoreError;

use super::{history, outgoing::Due};
use crate::{
    dids::{self, Known},
    paths,
    places::{At, at, keys},
    replicas::{
        self, Replica,
        holders::{Folders, Holder},
    },
    rses::{self, Described, distances, protocols, protocols::Protocol, space},
};

/// The slice of the catalogue that concerns some requests.
#[derive(Debug, Default)]
pub struct Slice {
    /// Their files.
    pub files: HashMap<DidId, Known>,
    /// The replicas of these, all of them.
    pub replicas: HashMap<DidId, Vec<Replica>>,
    /// All RSEs.
    pub sites: BTreeMap<RseId, Site>,
    /// All links.
    pub links: Links,
    /// Of a thousand recent attempts on a link, those that failed.
    pub failing: BTreeMap<(RseId, RseId), u32>,
    /// So many attempts of a request failed with this source.
    pub failed: BTreeMap<(RequestId, RseId), u32>,
    /// Files whose paths at their destinations, or at RSEs over which they may hop, belong to other files.
    pub taken: BTreeMap<At, Holder>,
    /// The source expressions of the rules that hold a place; a place that a rule without one holds is not there.
    pub source_expressions: BTreeMap<At, Vec<String>>,
}

/// An RSE as decisions about transfers see it.
#[derive(Debug)]
pub struct Site {
    /// The RSE with its attributes.
    pub described: Described,
    /// Its protocols.
    pub protocols: Vec<Protocol>,
    /// Bytes that may still be sent there; `None`: the RSE does not say how much is free.
    pub room: Option<u64>,
}

/// The penalty of a hop over an RSE that names none (Rucio).
const HOP_PENALTY: u32 = 10;

impl Site {
    /// The penalty of a hop over it, if files may hop there: attributes `available_for_multihop` and `hop_penalty`, as in Rucio.
    fn hop_penalty(&self) -> Option<u32> {
        let (attributes, traits) = (&self.described.attributes, &self.described.rse.traits);
        let may = attributes.get("available_for_multihop")?.eq_ignore_ascii_case("true");
        let penalty = attributes.get("hop_penalty").and_then(|text| text.parse().ok());
        (may && traits.can_read && traits.can_write && traits.deterministic).then(|| penalty.unwrap_or(HOP_PENALTY))
    }
}

impl Slice {
    /// Reads it, for these requests.
    ///
    /// # Errors
    /// The database fails, or a row cannot be read.
    pub fn read(session: &mut dyn Session, due: &[Due], now: Millis) -> Result<Self, StoreError> {
        let files = due.iter().map(|one| one.attempt.at.0).collect::<BTreeSet<_>>();
        let files = files.into_iter().collect::<Vec<_>>();
        let mut replicas = HashMap::<_, Vec<Replica>>::new();
        for replica in replicas::of(session, &files)? {
            if replica.state == ReplicaState::Available {
                replicas.entry(replica.file).or_default().push(replica);
            }
        }
        let requests = due
            .iter()
            .filter(|one| one.n_failures > 0)
            .map(|one| one.attempt.request);
        let destinations = due.iter().map(|one| one.attempt.at.1).collect::<BTreeSet<_>>();
        let places = due.iter().map(|one| one.attempt.at).collect::<BTreeSet<_>>();
        let (sites, mut links) = (sites(session, &destinations)?, distances::all(session)?);
        for (rse, penalty) in sites.iter().filter_map(|(rse, site)| Some((*rse, site.hop_penalty()?))) {
            links.allow_hop(rse, penalty);
        }
        let files = dids::by_number(session, &files)?;
        Ok(Self {
            taken: taken(session, (&files, &sites), &places)?,
            files,
            replicas,
            sites,
            links,
            failing: history::failing(session, now)?,
            failed: history::failed_sources(session, &requests.collect::<Vec<_>>())?,
            source_expressions: source_expressions(session, &places.into_iter().collect::<Vec<_>>())?,
        })
    }

    /// The RSEs that each of the expressions means: a file that one of its rules lets come from there may.
    pub fn wanted_sources(&self, at: At) -> Option<BTreeSet<RseId>> {
        let expressions = self.source_expressions.get(&at)?;
        let mut wanted = BTreeSet::new();
        for expression in expressions.iter().filter_map(|text| text.parse::<Expression>().ok()) {
            let meant = self
                .sites
                .iter()
                .filter(|(_, site)| expression.matches(&site.described));
            wanted.extend(meant.map(|(rse, _)| *rse));
        }
        Some(wanted)
    }
}

/// Finds the places, and the places at RSEs over which files may hop, whose paths belong to other files.
fn taken(
    session: &mut dyn Session,
    (files, sites): (&HashMap<DidId, Known>, &BTreeMap<RseId, Site>),
    places: &BTreeSet<At>,
) -> Result<BTreeMap<At, Holder>, StoreError> {
    let (mut taken, mut folders) = (BTreeMap::new(), BTreeMap::new());
    let hops = sites
        .iter()
        .filter(|(_, site)| site.hop_penalty().is_some())
        .map(|(rse, _)| *rse);
    let hops = hops.collect::<Vec<_>>();
    let over_hops = files.keys().flat_map(|file| hops.iter().map(|hop| (*file, *hop)));
    for (file, rse) in places.iter().copied().chain(over_hops).collect::<BTreeSet<_>>() {
        let (Some(known), Some(site)) = (files.get(&file), sites.get(&rse)) else {
            continue;
        };
        let folders = match folders.entry(rse) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Folders::of(session, rse)?),
        };
        let path = paths::hashed(&known.did);
        // Nearly all files: the database need not be asked.
        let is_own = || paths::dids_of(&path).iter().all(|did| *did == known.did);
        if site.described.rse.traits.deterministic && folders.is_alone() && is_own() {
            continue;
        }
        if let Some(holder) = folders.holder(session, &known.did, &path)? {
            taken.insert((file, rse), holder);
        }
    }
    Ok(taken)
}

fn sites(session: &mut dyn Session, destinations: &BTreeSet<RseId>) -> Result<BTreeMap<RseId, Site>, StoreError> {
    let mut sites = BTreeMap::new();
    let mut all = protocols::all(session)?;
    for described in rses::list(session)? {
        let rse = described.rse.id;
        let is_destination = destinations.contains(&rse);
        let room = if is_destination {
            space::room(session, rse)?
        } else {
            None
        };
        let protocols = all.remove(&rse).unwrap_or_default();
        let site = Site {
            described,
            protocols,
            room,
        };
        sites.insert(rse, site);
    }
    Ok(sites)
}

fn source_expressions(session: &mut dyn Session, places: &[At]) -> Result<BTreeMap<At, Vec<String>>, StoreError> {
    let mut found = BTreeMap::<At, Vec<String>>::new();
    let mut from_anywhere = BTreeSet::new();
    let text =
        "SELECT DISTINCT l.did_id, l.rse_id, r.source_expression FROM locks l JOIN rules r ON r.rule_id = l.rule_id
        WHERE l.did_id = $1 AND l.rse_id = $2";
    for row in session.query_many(text, &keys(places))? {
        match row.optional(2, weir_database::Row::text)? {
            Some(expression) => found.entry(at(&row)?).or_default().push(expression.to_owned()),
            None => {
                from_anywhere.insert(at(&row)?);
            }
        }
    }
    found.retain(|at, _| !from_anywhere.contains(at));
    Ok(found)
}

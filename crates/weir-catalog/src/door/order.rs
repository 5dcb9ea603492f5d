//! The order in which a client is to try the replicas of a file: those of its own site first, then by distance from there, or at random.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
};

use weir_database::{Session, values};
use weir_rules::ids::RseId;
use weir_store::StoreError;

use super::{answer::Failure, body::Object};
use crate::{
    refusal::{Class, Refusal},
    replicas::Replica,
    rses::rse_id,
};

/// The order that a client asks for.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The client's site: RSEs of it have an attribute `site` of this value.
    site: Option<String>,
    is_random: bool,
    /// So many replicas of each file, drawn at random.
    n_random: Option<usize>,
    by_chance: RandomState,
}

impl Order {
    pub(super) fn read(body: &Object) -> Result<Self, Failure> {
        let unknown = |sort: &str| {
            let message = format!("Sorting algorithm: {sort} is not supported. Supported: geoip, custom_table, random");
            Failure::from(Refusal::new(Class::SortingAlgorithmNotSupported, message))
        };
        let is_random = match body.text("sort")? {
            None | Some("geoip" | "custom_table") => false,
            Some("random") => true,
            Some(other) => return Err(unknown(other)),
        };
        let site = body.value("client_location").and_then(|at| at.get("site")?.as_str());
        let n_random = body.number("nrandom")?.filter(|n| *n > 0);
        Ok(Self {
            site: site.map(str::to_owned),
            is_random,
            n_random: n_random.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            by_chance: RandomState::new(),
        })
    }

    /// Puts the replicas of a file in order, and leaves those out that are too many. Of equals the first stays the first.
    pub(super) fn put(&self, near: &Near, replicas: &mut Vec<Replica>) {
        let drawn = |one: &Replica| self.by_chance.hash_one((one.file.0, one.rse.0));
        if let Some(n) = self.n_random.filter(|n| *n < replicas.len()) {
            replicas.sort_by_cached_key(drawn);
            replicas.truncate(n);
        }
        replicas.sort_by_cached_key(|one| match near.distances.get(&one.rse) {
            _ if near.local.contains(&one.rse) => (0, u64::from(one.rse.0)),
            _ if self.is_random => (1, drawn(one)),
            Some(distance) => (1, u64::from(*distance)),
            None => (2, u64::from(one.rse.0)),
        });
    }
}

/// How far RSEs are from a client's site.
#[derive(Debug, Default)]
pub(super) struct Near {
    /// RSEs of the site itself.
    pub(super) local: BTreeSet<RseId>,
    distances: BTreeMap<RseId, u32>,
}

impl Near {
    pub(super) fn read(session: &mut dyn Session, order: &Order) -> Result<Self, StoreError> {
        let Some(site) = &order.site else {
            return Ok(Self::default());
        };
        let text = "SELECT rse_id FROM rse_attributes WHERE key = 'site' AND value = $1";
        let rows = session.query(text, &values![site.as_str()])?;
        let local = rows.iter().map(|row| rse_id(row, 0)).collect::<Result<_, _>>()?;
        let text = "SELECT d.source, min(d.distance) FROM distances d JOIN rse_attributes a ON a.rse_id = d.destination
            WHERE a.key = 'site' AND a.value = $1 GROUP BY d.source";
        let rows = session.query(text, &values![site.as_str()])?;
        let distance = |row: &weir_database::Row| Ok((rse_id(row, 0)?, row.size(1)? as u32));
        let distances = rows.iter().map(distance).collect::<Result<_, StoreError>>()?;
        Ok(Self { local, distances })
    }
}

//! Limits on concurrency.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Link, SeId};

/// How many transfers may be active at once. Zero holds back everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Per link, unless `links` says otherwise.
    pub link: u32,
    /// Per storage element as destination, unless `inbounds` says otherwise.
    pub inbound: u32,
    /// Per storage element as source, unless `outbounds` says otherwise.
    pub outbound: u32,
    /// Links with a limit of their own.
    pub links: BTreeMap<Link, u32>,
    /// Destinations with a limit of their own.
    pub inbounds: BTreeMap<SeId, u32>,
    /// Sources with a limit of their own.
    pub outbounds: BTreeMap<SeId, u32>,
}

impl Default for Limits {
    /// 20 per link, 100 in and 100 out per storage element: safe on a laptop.
    fn default() -> Self {
        Self {
            link: 20,
            inbound: 100,
            outbound: 100,
            links: BTreeMap::new(),
            inbounds: BTreeMap::new(),
            outbounds: BTreeMap::new(),
        }
    }
}

/// One change of a limit. `None` goes back to what holds for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitChange {
    /// Of every link without a limit of its own.
    EveryLink(u32),
    /// Of every destination without a limit of its own.
    EveryInbound(u32),
    /// Of every source without a limit of its own.
    EveryOutbound(u32),
    /// Of one link.
    Link(Link, Option<u32>),
    /// Of one destination.
    Inbound(SeId, Option<u32>),
    /// Of one source.
    Outbound(SeId, Option<u32>),
}

fn set<K: Ord>(own: &mut BTreeMap<K, u32>, key: K, limit: Option<u32>) {
    match limit {
        Some(limit) => own.insert(key, limit),
        None => own.remove(&key),
    };
}

impl Limits {
    /// Makes one change.
    pub fn apply(&mut self, change: LimitChange) {
        match change {
            LimitChange::EveryLink(limit) => self.link = limit,
            LimitChange::EveryInbound(limit) => self.inbound = limit,
            LimitChange::EveryOutbound(limit) => self.outbound = limit,
            LimitChange::Link(link, limit) => set(&mut self.links, link, limit),
            LimitChange::Inbound(se, limit) => set(&mut self.inbounds, se, limit),
            LimitChange::Outbound(se, limit) => set(&mut self.outbounds, se, limit),
        }
    }

    /// The limit of one link.
    pub fn of_link(&self, link: Link) -> u32 {
        self.links.get(&link).copied().unwrap_or(self.link)
    }

    /// The limit of one destination.
    pub fn of_inbound(&self, se: SeId) -> u32 {
        self.inbounds.get(&se).copied().unwrap_or(self.inbound)
    }

    /// The limit of one source.
    pub fn of_outbound(&self, se: SeId) -> u32 {
        self.outbounds.get(&se).copied().unwrap_or(self.outbound)
    }
}

//! The submission plan: the source of each request, the grouping of requests into jobs, and the requests that wait.
//! Pure.

use std::collections::BTreeMap;

use weir_model::catalog::{RequestState, RequestWait, RseType};
use weir_rules::{
    ids::RseId,
    place::End,
    sources::{Excluded, Ranking, Source, Ways, rank},
};

use crate::{
    dids::Known,
    paths,
    pfn::{self, family},
    requests::{
        CopyTimes, Ended,
        outgoing::{Due, Group, Held, Member},
        slice::{Site, Slice},
    },
    rses::protocols::Protocol,
};

/// Files of one job, at most.
pub const FILES_MAX: usize = 200;

/// The actions for requests that are due.
#[derive(Debug, Default)]
pub struct SubmissionPlan {
    /// Jobs to submit.
    pub groups: Vec<(Group, Vec<Copy>)>,
    /// Requests that no RSE can serve.
    pub ends: Vec<Ended>,
    /// Requests that wait, with the reasons.
    pub waits: Vec<(crate::requests::Attempt, Held)>,
}

/// A file that is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its request.
    pub due: Due,
    /// Its source, and its path at the destination.
    pub member: Member,
    /// The URL of the source.
    pub source_url: String,
    /// The URLs of the RSEs in between, in order.
    pub hop_urls: Vec<String>,
    /// The URL of the destination.
    pub destination_url: String,
}

/// Why a request does not go out.
enum Waiting {
    /// For the time being.
    Wait(Held),
    /// No RSE can give the file.
    NoSource(RequestState, String),
}

impl Waiting {
    fn on(wait: RequestWait, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Wait(Held { wait, reason })
    }
}

/// Plans the requests, in their order. `services` are the transfer services, the first one for RSEs that name none.
pub fn plan(due: &[Due], slice: &Slice, services: &[String]) -> SubmissionPlan {
    let mut plan = SubmissionPlan::default();
    let mut ways = BTreeMap::<RseId, Ways<'_>>::new();
    let mut rooms = BTreeMap::<RseId, u64>::new();
    let mut groups = BTreeMap::<_, Vec<Copy>>::new();
    for one in due {
        let destination = one.attempt.at.1;
        let ways = ways.entry(destination).or_insert_with(|| slice.links.to(destination));
        let chosen = service_of(slice, destination, services)
            .and_then(|service| Ok((service, choose(one, slice, ways)?)))
            .and_then(|found| reserve(one, slice, &mut rooms).map(|()| found));
        match chosen {
            Ok((service, copy)) => {
                // A request that failed before travels alone: a job that is refused for one file holds no other back. Hops are the files of a job.
                let alone = one.n_failures > 0 || !copy.hop_urls.is_empty();
                let alone = alone.then_some(one.attempt.request);
                let about = (
                    one.activity.clone(),
                    one.account.clone(),
                    std::cmp::Reverse(one.priority),
                );
                groups
                    .entry((
                        about.2,
                        service,
                        copy.member.source,
                        destination,
                        about.0,
                        about.1,
                        alone,
                    ))
                    .or_default()
                    .push(copy);
            }
            Err(Waiting::Wait(held)) => plan.waits.push((one.attempt, held)),
            Err(Waiting::NoSource(state, reason)) => plan.ends.push(Ended {
                attempt: one.attempt,
                end: End::NoSource(state),
                reason: Some(reason),
                times: CopyTimes::default(),
            }),
        }
    }
    for ((_, service, ..), copies) in groups {
        for copies in copies.chunks(FILES_MAX) {
            let members = copies.iter().map(|copy| copy.member.clone()).collect();
            let service = service.to_owned();
            plan.groups.push((Group { service, members }, copies.to_vec()));
        }
    }
    plan
}

/// The transfer service of a destination: the first that its attribute `fts` names and the configuration has.
fn service_of<'a>(slice: &Slice, destination: RseId, services: &'a [String]) -> Result<&'a str, Waiting> {
    let site = slice
        .sites
        .get(&destination)
        .ok_or_else(|| Waiting::on(RequestWait::Other, "its RSE is deleted"))?;
    if services.is_empty() {
        return Err(Waiting::on(
            RequestWait::Service,
            "the catalogue has no transfer service: set transfers.services in its configuration",
        ));
    }
    let named = site.described.attributes.get("fts");
    let wanted = |service: &&String| match named {
        None => true,
        Some(named) => named
            .split(',')
            .any(|url| url.trim().trim_end_matches('/') == service.as_str()),
    };
    services.iter().find(wanted).map(String::as_str).ok_or_else(|| {
        let rse = &site.described.rse.name;
        let named = named.map_or("", String::as_str);
        Waiting::on(RequestWait::Service, format!(
            "the attribute fts of {rse} names {named:?}, which the catalogue does not use: add it to transfers.services, or change the attribute"
        ))
    })
}

/// Takes the room of a file at its destination: a file that does not fit there is not sent.
fn reserve(one: &Due, slice: &Slice, rooms: &mut BTreeMap<RseId, u64>) -> Result<(), Waiting> {
    let (file, destination) = one.attempt.at;
    let site = &slice.sites[&destination];
    let Some(room) = site.room else { return Ok(()) };
    let left = rooms.entry(destination).or_insert(room);
    let bytes = slice.files.get(&file).and_then(|file| file.bytes).unwrap_or_default();
    if bytes > *left {
        let rse = &site.described.rse.name;
        return Err(Waiting::on(
            RequestWait::Room,
            format!("{rse} has no room: {left} bytes are free beside those on their way, and the file has {bytes}"),
        ));
    }
    *left -= bytes;
    Ok(())
}

/// Chooses source and URLs for a request.
fn choose(one: &Due, slice: &Slice, ways: &Ways<'_>) -> Result<Copy, Waiting> {
    let (file, destination) = one.attempt.at;
    let gone = || Waiting::on(RequestWait::Other, "the file is deleted");
    let (file, site) = (slice.files.get(&file).ok_or_else(gone)?, &slice.sites[&destination]);
    if !site.described.rse.traits.can_write {
        return Err(Waiting::on(
            RequestWait::Other,
            format!("{} may not be written now", site.described.rse.name),
        ));
    }
    if let Some(holder) = slice.taken.get(&one.attempt.at) {
        let (did, rse) = (&file.did, &site.described.rse.name);
        let reason = format!("{did} cannot be written at {rse}: its path there is that of {holder}");
        return Err(Waiting::NoSource(RequestState::NoSources, reason));
    }
    let ranking = ranking(one, slice, ways);
    let Some(best) = ranking.sources.first() else {
        let state = ranking.refusal().unwrap_or(RequestState::NoSources);
        return Err(Waiting::NoSource(state, explain(file, slice, &ranking)));
    };
    let hop = best
        .route
        .hops
        .iter()
        .find_map(|hop| slice.taken.get(&(one.attempt.at.0, *hop)));
    if let Some(holder) = hop {
        let did = &file.did;
        return Err(Waiting::on(
            RequestWait::Other,
            format!("{did} cannot hop: its path on the way is that of {holder}"),
        ));
    }
    let copy = copy(one, slice, best.rse, &best.route.hops);
    copy.ok_or_else(|| {
        Waiting::on(
            RequestWait::Other,
            "its source is gone, or two RSEs on its way share no protocol",
        )
    })
}

/// Ranks the sources of a request.
fn ranking(one: &Due, slice: &Slice, ways: &Ways<'_>) -> Ranking {
    let (file, destination) = one.attempt.at;
    let wanted = slice.wanted_sources(one.attempt.at);
    let to = &slice.sites[&destination];
    let source = |replica: &crate::replicas::Replica| {
        let from = slice.sites.get(&replica.rse)?;
        let failed = slice
            .failed
            .get(&(one.attempt.request, replica.rse))
            .copied()
            .unwrap_or_default();
        Some(Source {
            rse: replica.rse,
            readable: from.described.rse.traits.can_read,
            wanted: wanted.as_ref().is_none_or(|wanted| wanted.contains(&replica.rse)),
            // With hops it is the next RSE that counts; `copy` looks at all of them.
            shares_scheme: pair(from, to).is_some()
                || ways.from(replica.rse).is_some_and(|route| !route.hops.is_empty()),
            tape: from.described.rse.traits.kind == RseType::Tape,
            ranking: 0_i32.saturating_sub_unsigned(failed),
            failing: slice
                .failing
                .get(&(replica.rse, destination))
                .copied()
                .unwrap_or_default(),
        })
    };
    let replicas = slice.replicas.get(&file).map(Vec::as_slice).unwrap_or_default();
    let sources = replicas.iter().filter_map(source).collect::<Vec<_>>();
    rank(&sources, ways, true)
}

/// The sentence that says why no RSE can give a file.
fn explain(file: &Known, slice: &Slice, ranking: &Ranking) -> String {
    let because = |(rse, why): &(RseId, Excluded)| {
        let name = slice.sites.get(rse).map(|site| site.described.rse.name.as_str());
        format!("{}: {why}", name.unwrap_or("a deleted RSE"))
    };
    let reasons = ranking.excluded.iter().map(because).collect::<Vec<_>>();
    match reasons.as_slice() {
        [] => format!("no RSE has {}", file.did),
        reasons => format!("no RSE can give {} ({})", file.did, reasons.join("; ")),
    }
}

/// The copy of a request from this source over these RSEs. `None`: the RSEs share no protocol any more, or one of them is gone.
pub fn copy(one: &Due, slice: &Slice, source: RseId, hops: &[RseId]) -> Option<Copy> {
    let (id, destination) = one.attempt.at;
    let (file, from, to) = (
        slice.files.get(&id)?,
        slice.sites.get(&source)?,
        slice.sites.get(&destination)?,
    );
    let way = hops
        .iter()
        .map(|hop| slice.sites.get(hop))
        .collect::<Option<Vec<_>>>()?;
    let way = std::iter::once(from).chain(way).chain([to]).collect::<Vec<_>>();
    let steps = way
        .windows(2)
        .map(|ends| pair(ends[0], ends[1]))
        .collect::<Option<Vec<_>>>()?;
    // A file is read at a hop as it was written there.
    let joined = steps.windows(2).all(|steps| steps[0].1.endpoint == steps[1].0.endpoint);
    let ((read, _), (_, write)) = (steps.first().filter(|_| joined)?, steps.last()?);
    let replica = slice.replicas.get(&id)?.iter().find(|replica| replica.rse == source)?;
    let hashed = paths::hashed(&file.did);
    let source_path = replica.path.as_deref().unwrap_or(&hashed);
    // Earlier versions took any text for a path.
    if source_path != hashed && pfn::normal(source_path).is_err() {
        return None;
    }
    Some(Copy {
        due: one.clone(),
        member: Member {
            attempt: one.attempt,
            source,
            hops: hops.to_vec(),
            path: (!to.described.rse.traits.deterministic).then(|| hashed.clone()),
        },
        source_url: paths::on_the_wire(read, source_path),
        hop_urls: steps[..steps.len() - 1]
            .iter()
            .map(|(_, write)| paths::on_the_wire(write, &hashed))
            .collect(),
        destination_url: paths::on_the_wire(write, &hashed),
    })
}

/// The protocols for a third-party copy between two RSEs: those of the best priorities that transfer services can join, the destination's first.
pub fn pair<'a>(from: &'a Site, to: &'a Site) -> Option<(&'a Protocol, &'a Protocol)> {
    let reads = from
        .protocols
        .iter()
        .filter_map(|one| Some((one.priorities.tpc_read?, one)));
    let pairs = reads.flat_map(|(read, source)| {
        let writes = to
            .protocols
            .iter()
            .filter_map(|one| Some((one.priorities.tpc_write?, one)));
        writes.map(move |(write, destination)| ((write, read), source, destination))
    });
    pairs
        .filter(|(_, source, destination)| family(&source.endpoint.scheme) == family(&destination.endpoint.scheme))
        .min_by_key(|(priorities, ..)| *priorities)
        .map(|(_, source, destination)| (source, destination))
}

#[cfg(test)]
mod tests;

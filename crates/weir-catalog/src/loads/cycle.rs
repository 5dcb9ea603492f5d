//! One step of a load: counts ended files, injects the cycle that is due, and records both, in one transaction.

use weir_database::{Session, values};
use weir_model::{
    RseName,
    catalog::{Did, DidType, Grouping, LoadState, Notification},
};
use weir_rules::{
    ids::DidId,
    loads::{Choice, Cycle, Held},
};
use weir_service::time::Millis;
use weir_store::StoreError;
use weir_units::Bytes;

use super::{
    Entry, Load, between,
    choice::{Chosen, choose},
    get_locked,
    ledger::{self, Made},
};
use crate::{
    dids,
    refusal::{Class, Refusal},
    rses,
    rules::{RuleTerms, create, left},
};

/// A load that injects no more is looked at after this time, until all its rules are gone; in milliseconds.
const SETTLING: Millis = 60_000;

/// Loads whose next step is due, the longest first, at most `limit`.
///
/// # Errors
/// The database fails.
pub fn due(session: &mut dyn Session, now: Millis, limit: usize) -> Result<Vec<u64>, StoreError> {
    let text = "SELECT load_id FROM loads WHERE due <= $1 ORDER BY due, load_id LIMIT $2";
    let rows = session.query(text, &values![now, limit as u64])?;
    rows.iter().map(|row| row.size(0)).collect()
}

/// Does the step of a load that is due. After a refusal of the cycle's rule, of which nothing is left, the step is repeated with that: the
/// cycle injects nothing, and its row says why. `uid` is a new random number of 32 hexadecimal digits, for the rule.
///
/// # Errors
/// The refusals of [`create::add`].
pub fn step(
    session: &mut dyn Session,
    id: u64,
    (uid, refused): (&str, Option<&Refusal>),
    now: Millis,
) -> Result<(), StoreError> {
    let Some(mut load) = get_locked(session, id)? else {
        return Ok(());
    };
    if load.due.is_none_or(|due| due > now) {
        return Ok(());
    }
    let mut n_open = ledger::count(session, &mut load)?;
    if load.state == LoadState::Waiting {
        load.state = LoadState::Injecting;
    }
    if load.state == LoadState::Injecting && now >= load.plan.ends {
        load.state = LoadState::Ended;
    }
    if load.state == LoadState::Injecting {
        inject(session, &mut load, (uid, refused), now)?;
        n_open += 1;
    } else if load.ends_rules {
        end_rules(session, &load, now)?;
    }
    load.due = match load.state {
        LoadState::Injecting => {
            let next = load.terms()?.after(between(load.plan.starts, now)).as_millis();
            let next = load.plan.starts + Millis::try_from(next).unwrap_or(Millis::MAX / 2);
            Some(next.max(now + 1).min(load.plan.ends))
        }
        _ => (n_open > 0).then_some(now + SETTLING),
    };
    write(session, &load, now)
}

fn write(session: &mut dyn Session, load: &Load, now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE loads SET state = $2, due = $3, place = $4, n_cycles = $5, injected_files = $6, injected_bytes = $7,
        arrived_files = $8, arrived_bytes = $9, lost_bytes = $10, given_up_bytes = $11, held = $12, reason = $13, updated = $14
        WHERE load_id = $1";
    let sums = &load.sums;
    let values = values![
        load.id,
        load.state.letter(),
        load.due,
        load.place.0,
        load.n_cycles,
        sums.injected_files,
        sums.injected.0,
        sums.arrived_files,
        sums.arrived.0,
        sums.lost.0,
        sums.given_up.0,
        load.held.map(Held::as_str),
        load.reason.as_deref(),
        now,
    ];
    session.execute(text, &values).map(drop)
}

fn end_rules(session: &mut dyn Session, load: &Load, now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE rules SET expires = $2, updated = $2 WHERE (expires IS NULL OR expires > $2)
        AND rule_id IN (SELECT rule_id FROM load_cycles WHERE load_id = $1 AND NOT counted AND ended IS NULL)";
    session.execute(text, &values![load.id, now]).map(drop)
}

/// Injects the cycle that is due.
fn inject(
    session: &mut dyn Session,
    load: &mut Load,
    (uid, refused): (&str, Option<&Refusal>),
    now: Millis,
) -> Result<(), StoreError> {
    let waiting = ledger::waiting(session, load)?;
    let so_far = weir_rules::loads::Sums {
        injected: load.sums.injected,
        given_up: load.sums.given_up,
        lost: load.sums.lost,
        waiting,
    };
    let cycle = load.terms()?.decide(between(load.plan.starts, now), so_far);
    let Some((source, destination)) = names(session, load)? else {
        load.state = LoadState::Stopped;
        load.reason = Some("an RSE of the link is deleted".to_owned());
        return Ok(());
    };
    let mut made = None;
    let mut taken = Taken::default();
    if let Some(refusal) = refused {
        taken.held = Some(held_by(refusal.class));
        taken.reason = Some(refusal.message.clone());
    } else if cycle.target > Bytes::ZERO {
        taken = take(session, load, cycle)?;
        if !taken.files.is_empty() && !load.plan.settings.dry_run {
            made = Some(rule(session, load, (&taken, uid), (&source, &destination), now)?);
        }
    }
    if cycle.is_held() {
        taken.held.get_or_insert(Held::Backlog);
    }
    note(session, load, (cycle, waiting), (taken, made.as_ref()), now)
}

/// Adds a cycle to the ledger, and to the sums of its load. A cycle in which nothing was wanted has no row.
fn note(
    session: &mut dyn Session,
    load: &mut Load,
    (cycle, waiting): (Cycle, Bytes),
    (taken, made): (Taken, Option<&Made>),
    now: Millis,
) -> Result<(), StoreError> {
    load.held = taken.held;
    load.reason.clone_from(&taken.reason);
    if taken.files.is_empty() && taken.held.is_none() && cycle.given_up == Bytes::ZERO {
        return Ok(());
    }
    load.n_cycles += 1;
    load.place = taken.place.unwrap_or(load.place);
    load.sums.injected_files += taken.files.len() as u64;
    load.sums.injected.0 += taken.bytes.0;
    load.sums.given_up.0 += cycle.given_up.0;
    let entry = Entry {
        cycle: load.n_cycles,
        asked: now,
        due: cycle.due,
        given_up: cycle.given_up,
        waiting,
        files: taken.files.len() as u64,
        bytes: taken.bytes,
        rule: None,
        held: taken.held,
        reason: taken.reason,
        ended: None,
        arrived_files: 0,
        arrived: Bytes::ZERO,
    };
    ledger::write(session, load.id, &entry, made)
}

/// The files of a cycle.
#[derive(Debug, Default)]
struct Taken {
    files: Vec<DidId>,
    bytes: Bytes,
    place: Option<DidId>,
    held: Option<Held>,
    reason: Option<String>,
}

fn take(session: &mut dyn Session, load: &Load, cycle: Cycle) -> Result<Taken, StoreError> {
    let left = left(session, &load.plan.account, load.plan.destination)?;
    let mut choice = Choice::new(cycle.target, load.plan.settings.overshoot, left.least());
    let Chosen { files, place } = choose(session, load, &mut choice)?;
    let held = match choice.is_full() {
        true => None,
        false if choice.lacks_room() && left.is_quota() => Some(Held::Quota),
        false if choice.lacks_room() => Some(Held::Space),
        false => Some(Held::Sources),
    };
    Ok(Taken {
        bytes: choice.bytes(),
        place: Some(place),
        files,
        held,
        reason: None,
    })
}

/// The names of the link's ends, unless one is deleted.
fn names(session: &mut dyn Session, load: &Load) -> Result<Option<(RseName, RseName)>, StoreError> {
    let mut name = |id| Ok::<_, StoreError>(rses::by_number(session, id)?.map(|one| one.rse.name));
    let (source, destination) = (name(load.plan.source)?, name(load.plan.destination)?);
    Ok(source.zip(destination))
}

fn held_by(class: Class) -> Held {
    match class {
        Class::InsufficientAccountLimit => Held::Quota,
        Class::InsufficientTargetRses => Held::Space,
        Class::RseWriteBlocked => Held::Blocked,
        _ => Held::Refused,
    }
}

/// Makes the dataset of a cycle, and the rule over it.
fn rule(
    session: &mut dyn Session,
    load: &Load,
    (taken, uid): (&Taken, &str),
    (source, destination): (&RseName, &RseName),
    now: Millis,
) -> Result<Made, StoreError> {
    let (plan, settings) = (&load.plan, &load.plan.settings);
    let cycle = load.n_cycles + 1;
    let name = format!("load.{}.{cycle:06}", load.uid).parse();
    let did = Did {
        scope: plan.scope.clone(),
        name: name.map_err(|_| StoreError::Broken("a load has a strange id".into()))?,
    };
    let after = |millis: u64| now.saturating_add(Millis::try_from(millis).unwrap_or(Millis::MAX));
    let new = dids::NewDid {
        did: did.clone(),
        kind: DidType::Dataset,
        account: plan.account.clone(),
        bytes: None,
        adler32: None,
        md5: None,
        monotonic: false,
        meta: "{}".to_owned(),
        // As long as the dataset is there, its files take no part in the load again.
        expires: Some(after(settings.lifetime.saturating_add(settings.cooldown))),
    };
    dids::add(session, &[new], now)?;
    let dataset = dids::get(session, &did)?;
    dids::content::fill(session, dataset.id, &taken.files, now)?;
    dids::set_open(session, &did, false, now)?;
    let wish = RuleTerms {
        account: plan.account.clone(),
        expression: destination.to_string(),
        copies: 1,
        grouping: Grouping::Dataset,
        weight: None,
        source_expression: Some(source.to_string()),
        activity: settings.activity.clone(),
        priority: settings.priority,
        expires: Some(after(settings.lifetime)),
        is_locked: false,
        purge: true,
        notify: Notification::No,
        comments: Some(format!("load {}, cycle {cycle}", load.uid)),
        meta: None,
    };
    let number = dataset.id.0;
    let new = create::NewRule {
        uid: uid.to_owned(),
        did: dataset,
        wish,
        ignore_availability: false,
    };
    Ok(Made {
        dataset: number,
        rule: create::add(session, &new, now)?,
        uid: uid.to_owned(),
    })
}

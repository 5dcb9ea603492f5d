//! Places units of rules on RSEs.

use std::collections::BTreeMap;

use weir_database::{Row, Session, values};
use weir_model::catalog::AccountName;
use weir_rules::{
    ids::{DidId, RseId, RuleId},
    placement::{Candidate, Placement, Shortage, Unit, Weight},
};
use weir_store::StoreError;
use weir_units::Bytes;

use super::{PART, RuleTerms, content};
use weir_service::time::Millis;

use crate::{
    accounts,
    places::At,
    refusal::{Class, Refusal},
    rses::{self, Described, rse_id},
};

/// Chooses RSEs for units of a rule that have none yet; returns the number of these units.
///
/// # Errors
/// As [`super::create::add`], without duplicates.
pub(super) fn place(
    session: &mut dyn Session,
    id: RuleId,
    (did, wish): (DidId, &RuleTerms),
    ignore_availability: bool,
    now: Millis,
) -> Result<usize, StoreError> {
    let rows = session.query(&content::unplaced(wish.grouping), &values![id.0, did.0, PART])?;
    let units = rows.iter().map(|row| Ok((row.size(0)?, row.bool(1)?)));
    let units = units.collect::<Result<Vec<_>, StoreError>>()?;
    if !units.is_empty() {
        choose(session, (id, wish), &units, ignore_availability, now)?;
    }
    Ok(units.len())
}

/// Chooses RSEs for units, of which it is known whether each is a file: each with the RSEs for it, and its size.
pub(super) fn choose(
    session: &mut dyn Session,
    (id, wish): (RuleId, &RuleTerms),
    units: &[(u64, bool)],
    ignore_availability: bool,
    now: Millis,
) -> Result<Vec<(At, u64)>, StoreError> {
    let mut rses = rses::matching(session, &wish.expression)?;
    if !ignore_availability {
        rses.retain(|one| one.rse.traits.can_write);
        if rses.is_empty() {
            let message = "RSE excluded due to write blocking";
            return Err(Refusal::new(Class::RseWriteBlocked, message).into());
        }
    }
    let candidates = candidates(session, wish, &rses)?;
    // The same rule is placed in the same way whenever its transaction is repeated.
    let seed = id.0 ^ now as u64;
    let mut placement =
        Placement::new(candidates, wish.copies as usize, seed).map_err(|shortage| refusal(&shortage))?;
    let mut chosen = Vec::new();
    for ((unit, _), described) in units.iter().zip(described(session, units)?) {
        let rses = placement.place(&described).map_err(|shortage| refusal(&shortage))?;
        chosen.extend(rses.iter().map(|rse| ((DidId(*unit), *rse), described.bytes.0)));
    }
    let text = "INSERT INTO rule_units (rule_id, unit, rse_id) VALUES ($1, $2, $3)";
    let row = |((unit, rse), _): &(At, u64)| values![id.0, unit.0, rse.0].to_vec();
    session.execute_later(text, chosen.iter().map(row).collect())?;
    Ok(chosen)
}

/// Units, of which it is known whether each is a file. All are files, or all collections.
fn described(session: &mut dyn Session, units: &[(u64, bool)]) -> Result<Vec<Unit>, StoreError> {
    let keys = units
        .iter()
        .map(|(unit, _)| values![*unit].to_vec())
        .collect::<Vec<_>>();
    let mut described = Vec::<Unit>::with_capacity(units.len());
    let rows = if units.iter().all(|(_, is_file)| *is_file) {
        session.query_many(content::FILE, &keys)?
    } else {
        let all = keys.iter().map(|key| session.query_by_index(content::COLLECTION, key));
        all.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
    };
    for row in rows {
        let bytes = Bytes(row.size(1)?);
        // A unit begins with its size.
        match (row.optional(0, rse_id)?, described.last_mut()) {
            (Some(rse), Some(unit)) => unit.held.push((rse, bytes)),
            _ => described.push(Unit {
                bytes,
                held: Vec::new(),
            }),
        }
    }
    Ok(described)
}

fn candidates(session: &mut dyn Session, wish: &RuleTerms, rses: &[Described]) -> Result<Vec<Candidate>, StoreError> {
    let numbers = rses.iter().map(|one| one.rse.id).collect::<Vec<_>>();
    let rooms = rooms(session, &numbers)?;
    let quota = accounts::limits::quota(session, &wish.account)?;
    let mut candidates = Vec::new();
    for one in rses {
        let id = one.rse.id;
        let weight = match &wish.weight {
            None => Weight::ONE,
            // An RSE without the attribute is not weighed, and gets nothing.
            Some(key) => match one.attributes.get(key) {
                None => continue,
                Some(value) => Weight::read(value).ok_or_else(|| {
                    let message = format!(
                        "The weight '{key}' of {} is no number from 0 to 1,000,000: {value}",
                        one.rse.name
                    );
                    Refusal::new(Class::InvalidRuleWeight, message)
                })?,
            },
        };
        candidates.push(Candidate {
            rse: id,
            weight,
            quota_left: quota.left(id).map(Bytes),
            room: rooms.get(&id).copied(),
        });
    }
    Ok(candidates)
}

/// The bytes that still fit into RSEs: free by their own reports, without files on their way, and above their
/// `MinFreeSpace`. RSEs that do not report are left out.
fn rooms(session: &mut dyn Session, rses: &[RseId]) -> Result<BTreeMap<RseId, Bytes>, StoreError> {
    let text = "SELECT u.rse_id, u.free, (SELECT value FROM rse_limits l WHERE l.rse_id = u.rse_id AND l.name = 'MinFreeSpace'),
        (SELECT CAST(coalesce(sum(p.bytes), 0) AS BIGINT) FROM replicas p WHERE p.rse_id = u.rse_id AND p.state = 'C')
        FROM rse_usage u WHERE u.rse_id = $1 AND u.source = 'storage' AND u.free IS NOT NULL";
    let keys = rses.iter().map(|rse| values![rse.0].to_vec()).collect::<Vec<_>>();
    let room = |row: &Row| {
        let reserved = row.optional(2, Row::int)?.unwrap_or_default();
        let reserved = u64::try_from(reserved).unwrap_or_default();
        let left = row.size(1)?.saturating_sub(reserved).saturating_sub(row.size(3)?);
        Ok((rse_id(row, 0)?, Bytes(left)))
    };
    session.query_many(text, &keys)?.iter().map(room).collect()
}

/// The room that an account has left at an RSE; `None`: there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    quota: Option<Bytes>,
    space: Option<Bytes>,
}

impl Left {
    /// The smaller one.
    pub(crate) fn least(self) -> Option<Bytes> {
        self.quota.into_iter().chain(self.space).min()
    }

    /// Whether the quota is the smaller one.
    pub(crate) fn is_quota(self) -> bool {
        self.quota.is_some() && self.quota == self.least()
    }
}

/// Reads the room that an account has left at an RSE.
pub(crate) fn left(session: &mut dyn Session, account: &AccountName, rse: RseId) -> Result<Left, StoreError> {
    let space = rooms(session, &[rse])?.get(&rse).copied();
    let quota = accounts::limits::quota(session, account)?.left(rse).map(Bytes);
    Ok(Left { quota, space })
}

fn refusal(shortage: &Shortage) -> Refusal {
    let class = match shortage {
        Shortage::Rses { .. } | Shortage::Room { .. } => Class::InsufficientTargetRses,
        Shortage::Quota { .. } => Class::InsufficientAccountLimit,
    };
    Refusal::new(class, shortage.to_string())
}

//! Places units of rules on RSEs.

use weir_rules::{
    ids::{DidId, RseId, RuleId},
    placement::{Candidate, Placement, Shortage, Unit, Weight},
};
use weir_store::StoreError;
use weir_units::Bytes;

use super::{PART, Wish, content};
use weir_service::time::Millis;

use crate::{
    accounts,
    database::{Session, values},
    refusal::{Class, Refusal},
    rses::{self, Described, rse_id},
};

/// Chooses RSEs for units of a rule that have none yet; how many these were.
///
/// # Errors
/// Those of [`super::create::add`] but for duplicates.
pub(super) fn place(
    session: &mut dyn Session,
    id: RuleId,
    (did, wish): (DidId, &Wish),
    ignore_availability: bool,
    now: Millis,
) -> Result<usize, StoreError> {
    let rows = session.query(&content::unplaced(wish.grouping), &values![id.0, did.0, PART])?;
    let units = rows.iter().map(|row| row.size(0)).collect::<Result<Vec<_>, _>>()?;
    if units.is_empty() {
        return Ok(0);
    }
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
    for unit in &units {
        let described = described(session, *unit)?;
        let rses = placement.place(&described).map_err(|shortage| refusal(&shortage))?;
        chosen.extend(rses.iter().map(|rse| values![id.0, *unit, rse.0].to_vec()));
    }
    let text = "INSERT INTO rule_units (rule_id, unit, rse_id) VALUES ($1, $2, $3)";
    session.execute_many(text, &chosen)?;
    Ok(units.len())
}

fn described(session: &mut dyn Session, unit: u64) -> Result<Unit, StoreError> {
    let size = session.row(content::UNIT_SIZE, &values![unit])?;
    let held = session.query(content::UNIT_HELD, &values![unit])?;
    let held = held.iter().map(|row| Ok((rse_id(row, 0)?, Bytes(row.size(1)?))));
    Ok(Unit {
        bytes: Bytes(size.map_or(Ok(0), |row| row.size(0))?),
        held: held.collect::<Result<_, StoreError>>()?,
    })
}

fn candidates(session: &mut dyn Session, wish: &Wish, rses: &[Described]) -> Result<Vec<Candidate>, StoreError> {
    let is_admin = accounts::is_admin(session, &wish.account)?;
    let limits = accounts::limits::of(session, &wish.account)?;
    let usage = accounts::limits::usage(session, &wish.account)?;
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
        let used = usage.get(&id).map_or(0, |usage| usage.bytes);
        let left = limits.get(&id).map_or(0, |limit| limit.saturating_sub(used));
        candidates.push(Candidate {
            rse: id,
            weight,
            quota_left: (!is_admin).then_some(Bytes(left)),
            room: room(session, id)?,
        });
    }
    Ok(candidates)
}

/// The bytes that still fit into an RSE: free by its own report, without those that are on their way, and above its `MinFreeSpace`.
fn room(session: &mut dyn Session, rse: RseId) -> Result<Option<Bytes>, StoreError> {
    let reported = rses::space::usage(session, rse)?;
    let Some(free) = reported
        .iter()
        .find(|one| one.source == "storage")
        .and_then(|one| one.free)
    else {
        return Ok(None);
    };
    let limits = rses::space::limits(session, rse)?;
    let reserved = limits.iter().find(|(name, _)| name == "MinFreeSpace");
    let reserved = reserved.map_or(0, |(_, bytes)| u64::try_from(*bytes).unwrap_or_default());
    let text = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM replicas WHERE rse_id = $1 AND state = 'C'";
    let coming = session.row(text, &values![rse.0])?.map_or(Ok(0), |row| row.size(0))?;
    Ok(Some(Bytes(free.saturating_sub(reserved).saturating_sub(coming))))
}

fn refusal(shortage: &Shortage) -> Refusal {
    let class = match shortage {
        Shortage::Rses { .. } | Shortage::Room { .. } => Class::InsufficientTargetRses,
        Shortage::Quota { .. } => Class::InsufficientAccountLimit,
    };
    Refusal::new(class, shortage.to_string())
}

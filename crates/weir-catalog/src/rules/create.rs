//! Adds rules.

use weir_database::{Session, values};
use weir_model::catalog::DidType;
use weir_rules::ids::RuleId;
use weir_store::StoreError;

use super::{PART, RuleTerms, evaluate, placing};
use weir_service::time::Millis;

use crate::{
    accounts,
    dids::Known,
    places::rule_id,
    refusal::{Class, Refusal},
};

/// A rule that is to be added.
#[derive(Debug, Clone)]
pub struct NewRule {
    /// The id that clients see: 32 hexadecimal digits, new.
    pub uid: String,
    /// The DID that it is about.
    pub did: Known,
    /// Its terms.
    pub wish: RuleTerms,
    /// Whether RSEs that take no files now may be chosen.
    pub ignore_availability: bool,
}

/// Adds a rule, places its units, and makes the first part of its locks. [`evaluate::part`] makes the others.
///
/// # Errors
/// [`Class::InvalidRseExpression`], [`Class::RseWriteBlocked`], [`Class::InvalidRuleWeight`],
/// [`Class::InsufficientTargetRses`], [`Class::InsufficientAccountLimit`], [`Class::DuplicateRule`].
pub fn add(session: &mut dyn Session, new: &NewRule, now: Millis) -> Result<RuleId, StoreError> {
    let wish = &new.wish;
    accounts::existing(session, &wish.account)?;
    let text = "INSERT INTO rules (uid, did_id, account, state, expression, copies, grouped, weight, source_expression, activity, priority,
        is_locked, purge, notify, comments, meta, n_ok, n_replicating, n_stuck, created, updated, expires, evaluate_at)
        VALUES ($1, $2, $3, 'I', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 0, 0, 0, $16, $16, $17, $16)
        ON CONFLICT DO NOTHING RETURNING rule_id";
    let values = values![
        new.uid.as_str(),
        new.did.id.0,
        wish.account.as_str(),
        wish.expression.as_str(),
        wish.copies,
        wish.grouping.letter(),
        wish.weight.as_deref(),
        wish.source_expression.as_deref(),
        wish.activity.as_str(),
        wish.priority,
        wish.is_locked,
        wish.purge,
        wish.notify.letter(),
        wish.comments.as_deref(),
        wish.meta.as_deref(),
        now,
        wish.expires,
    ];
    let made = session.row(text, &values)?;
    let duplicate = || {
        let message = "A duplicate rule for this account, did, rse_expression, copies already exists";
        Refusal::new(Class::DuplicateRule, message)
    };
    let id = rule_id(&made.ok_or_else(duplicate)?, 0)?;
    let did = new.did.id;
    if new.did.kind == DidType::File {
        // It is its only unit, and the chosen RSEs are its locks.
        let locks = placing::choose(session, (id, wish), &[(did.0, true)], new.ignore_availability, now)?;
        evaluate::make(session, (id, wish), &locks, false, now)?;
        return Ok(id);
    }
    let placed = placing::place(session, id, (did, wish), new.ignore_availability, now)?;
    evaluate::complete(session, id, (did, wish), placed as u64 == PART, now)?;
    Ok(id)
}

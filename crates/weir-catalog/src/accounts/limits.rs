//! Limits of accounts at RSEs, and the bytes that their rules hold there.

use std::collections::BTreeMap;

use weir_database::{Session, values};
use weir_model::catalog::AccountName;
use weir_rules::ids::RseId;
use weir_store::StoreError;

use crate::rses::rse_id;

/// Sets the bytes that the rules of an account may hold at an RSE.
pub fn set(session: &mut dyn Session, account: &AccountName, rse: RseId, bytes: u64) -> Result<(), StoreError> {
    let text = "INSERT INTO account_limits (account, rse_id, bytes) VALUES ($1, $2, $3)
        ON CONFLICT (account, rse_id) DO UPDATE SET bytes = excluded.bytes";
    session
        .execute(text, &values![account.as_str(), rse.0, bytes])
        .map(drop)
}

/// Removes the limit of an account at an RSE: its rules may hold nothing more there.
pub fn remove(session: &mut dyn Session, account: &AccountName, rse: RseId) -> Result<(), StoreError> {
    let text = "DELETE FROM account_limits WHERE account = $1 AND rse_id = $2";
    session.execute(text, &values![account.as_str(), rse.0]).map(drop)
}

/// The limits of an account, by RSE.
pub fn of(session: &mut dyn Session, account: &AccountName) -> Result<BTreeMap<RseId, u64>, StoreError> {
    let text = "SELECT rse_id, bytes FROM account_limits WHERE account = $1";
    let rows = session.query(text, &values![account.as_str()])?;
    rows.iter().map(|row| Ok((rse_id(row, 0)?, row.size(1)?))).collect()
}

/// Bytes and files that the rules of an account hold at an RSE. A file that several rules hold counts once for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccountUsage {
    /// Bytes.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

/// The usage of an account, by RSE.
pub fn usage(session: &mut dyn Session, account: &AccountName) -> Result<BTreeMap<RseId, AccountUsage>, StoreError> {
    let text = "SELECT rse_id, CAST(sum(bytes) AS BIGINT), CAST(sum(files) AS BIGINT) FROM (
        SELECT rse_id, bytes, files FROM account_usage WHERE account = $1
        UNION ALL SELECT rse_id, bytes, files FROM usage_changes WHERE account = $1) AS u GROUP BY rse_id";
    let rows = session.query(text, &values![account.as_str()])?;
    let usage = |row: &weir_database::Row| {
        let (bytes, files) = (row.size(1)?, row.size(2)?);
        Ok((rse_id(row, 0)?, AccountUsage { bytes, files }))
    };
    rows.iter().map(usage).collect()
}

/// How much more the rules of an account may hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Quota {
    is_unlimited: bool,
    limits: BTreeMap<RseId, u64>,
    used: BTreeMap<RseId, u64>,
}

impl Quota {
    /// The bytes that are left at an RSE; `None`: there is no limit.
    pub(crate) fn left(&self, rse: RseId) -> Option<u64> {
        let of = |all: &BTreeMap<RseId, u64>| all.get(&rse).copied().unwrap_or_default();
        (!self.is_unlimited).then(|| of(&self.limits).saturating_sub(of(&self.used)))
    }
}

/// The quota of an account. Administrators have no limits.
pub(crate) fn quota(session: &mut dyn Session, account: &AccountName) -> Result<Quota, StoreError> {
    let text = "SELECT 'limit', rse_id, bytes FROM account_limits WHERE account = $1
        UNION ALL SELECT 'used', rse_id, CAST(sum(bytes) AS BIGINT) FROM (SELECT rse_id, bytes FROM account_usage WHERE account = $1
        UNION ALL SELECT rse_id, bytes FROM usage_changes WHERE account = $1) AS u GROUP BY rse_id
        UNION ALL SELECT 'admin', 0, 0 FROM account_attributes WHERE account = $1 AND key = 'admin' AND lower(value) = 'true'";
    let mut quota = Quota {
        is_unlimited: account.as_str() == "root",
        ..Quota::default()
    };
    for row in session.query(text, &values![account.as_str()])? {
        let of = match row.text(0)? {
            "limit" => &mut quota.limits,
            "used" => &mut quota.used,
            _ => {
                quota.is_unlimited = true;
                continue;
            }
        };
        of.insert(rse_id(&row, 1)?, row.size(2)?);
    }
    Ok(quota)
}

/// Changes the usage of an account by increments, which may be negative.
pub(crate) fn add_usage(
    session: &mut dyn Session,
    account: &AccountName,
    increments: &BTreeMap<RseId, (i64, i64)>,
) -> Result<(), StoreError> {
    let text = "INSERT INTO usage_changes (account, rse_id, bytes, files) VALUES ($1, $2, $3, $4)";
    let row = |(rse, (bytes, files)): (&RseId, &(i64, i64))| values![account.as_str(), rse.0, *bytes, *files].to_vec();
    session.execute_later(text, increments.iter().map(row).collect())
}

/// Adds changes of usage up, at most so many; whether there may be more.
///
/// # Errors
/// The database fails.
pub(crate) fn add_up(session: &mut dyn Session, limit: u64) -> Result<bool, StoreError> {
    let text =
        "DELETE FROM usage_changes WHERE change_id IN (SELECT change_id FROM usage_changes ORDER BY change_id LIMIT $1)
        RETURNING account, rse_id, bytes, files";
    let mut sums = BTreeMap::<(String, u64), (i64, i64)>::new();
    let changes = session.query(text, &values![limit])?;
    for row in &changes {
        let sum = sums.entry((row.text(0)?.to_owned(), row.size(1)?)).or_default();
        *sum = (sum.0 + row.int(2)?, sum.1 + row.int(3)?);
    }
    let text = "INSERT INTO account_usage (account, rse_id, bytes, files) VALUES ($1, $2, $3, $4)
        ON CONFLICT (account, rse_id) DO UPDATE SET bytes = account_usage.bytes + excluded.bytes,
        files = account_usage.files + excluded.files";
    let row = |((account, rse), (bytes, files)): (&(String, u64), &(i64, i64))| {
        values![account.as_str(), *rse, *bytes, *files].to_vec()
    };
    session.execute_later(text, sums.iter().map(row).collect())?;
    Ok(changes.len() as u64 == limit)
}

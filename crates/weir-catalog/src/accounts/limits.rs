//! Limits of accounts at RSEs, and the bytes that their rules hold there.

use std::collections::BTreeMap;

use weir_model::catalog::AccountName;
use weir_rules::ids::RseId;
use weir_store::StoreError;

use crate::{
    database::{Session, values},
    rses::rse_id,
};

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
pub struct Usage {
    /// Bytes.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

/// The usage of an account, by RSE.
pub fn usage(session: &mut dyn Session, account: &AccountName) -> Result<BTreeMap<RseId, Usage>, StoreError> {
    let text = "SELECT rse_id, bytes, files FROM account_usage WHERE account = $1";
    let rows = session.query(text, &values![account.as_str()])?;
    let usage = |row: &crate::database::Row| {
        let (bytes, files) = (row.size(1)?, row.size(2)?);
        Ok((rse_id(row, 0)?, Usage { bytes, files }))
    };
    rows.iter().map(usage).collect()
}

/// Changes the usage of an account by increments, which may be negative.
pub(crate) fn add_usage(
    session: &mut dyn Session,
    account: &AccountName,
    increments: &BTreeMap<RseId, (i64, i64)>,
) -> Result<(), StoreError> {
    let text = "INSERT INTO account_usage (account, rse_id, bytes, files) VALUES ($1, $2, $3, $4)
        ON CONFLICT (account, rse_id) DO UPDATE SET bytes = account_usage.bytes + excluded.bytes,
        files = account_usage.files + excluded.files";
    let row = |(rse, (bytes, files)): (&RseId, &(i64, i64))| values![account.as_str(), rse.0, *bytes, *files].to_vec();
    let rows = increments.iter().map(row).collect::<Vec<_>>();
    session.execute_many(text, &rows).map(drop)
}

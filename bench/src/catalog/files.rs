//! Files, datasets and rules that rows ask for.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use serde_json::{Value, json};

use super::caller::Caller;

/// Files of one bulk.
pub(super) const BULK: u64 = 1_000;

/// Numbers of files, never given again.
static FILES: AtomicU64 = AtomicU64::new(0);

fn file(n: u64) -> Value {
    json!({ "scope": "mc", "name": format!("f{n:08}"), "bytes": 2_000_000_000_u64, "adler32": "0cc737eb" })
}

/// Registers so many new files at S; gives the number of the first.
pub(super) async fn register(caller: &Caller, n_files: u64) -> Result<u64> {
    let first = FILES.fetch_add(n_files, Ordering::Relaxed);
    for begin in (first..first + n_files).step_by(BULK as usize) {
        let files = (begin..(begin + BULK).min(first + n_files))
            .map(file)
            .collect::<Vec<_>>();
        caller
            .ask("POST", "/replicas", Some(&json!({ "rse": "S", "files": files })))
            .await?;
    }
    Ok(first)
}

/// A dataset of so many new files.
pub(super) async fn dataset(caller: &Caller, n_files: u64) -> Result<String> {
    let first = register(caller, n_files).await?;
    let name = format!("d{first:08}");
    caller
        .ask("POST", &format!("/dids/mc/{name}"), Some(&json!({ "type": "DATASET" })))
        .await?;
    for begin in (first..first + n_files).step_by(BULK as usize) {
        let files = (begin..(begin + BULK).min(first + n_files))
            .map(file)
            .collect::<Vec<_>>();
        caller
            .ask(
                "POST",
                &format!("/dids/mc/{name}/dids"),
                Some(&json!({ "dids": files })),
            )
            .await?;
    }
    Ok(name)
}

pub(super) fn rule(name: &str) -> Value {
    json!({
        "dids": [{ "scope": "mc", "name": name }], "copies": 1, "rse_expression": "A", "account": "root", "grouping": "DATASET",
        "lifetime": 86_400, "ignore_availability": false, "locked": false, "notify": "N", "purge_replicas": false,
        "activity": "Data Challenge", "priority": 3,
    })
}

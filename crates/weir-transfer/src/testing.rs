//! For tests of this crate and of those above it.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{collections::BTreeMap, sync::Arc};

use serde_json::value::RawValue;
use uuid::Uuid;
use weir_auth::Secret;
use weir_executor::{
    job::{ChecksumMode, JobParams, NewFile, NewJob, Overwrite, hash_of},
    surl::Surl,
};

use crate::store::{Store, Submission, sqlite::SqliteStore};

/// A store in memory, for as long as it is used.
pub fn in_memory() -> Arc<dyn Store> {
    Arc::new(SqliteStore::in_memory())
}

/// This URL.
pub fn surl(text: impl AsRef<str>) -> Surl {
    Surl::parse(text.as_ref()).unwrap()
}

/// Alice's job of so many files, the first of which has this id, with the one token that they name.
pub fn submission(job: u128, first: u64, n: u64) -> Submission {
    let token = format!("token-of-{job}");
    let hash = hash_of(&token);
    let job = NewJob {
        id: Uuid::from_u128(job),
        kind: 'N',
        user_dn: "alice".into(),
        cred_id: format!("cred-{}", job % 2),
        vo: "testvo".into(),
        submitted: 1000,
        priority: 3,
        source_se: Some("https://a".into()),
        dest_se: Some("https://b".into()),
        params: JobParams {
            retry: 1,
            retry_delay: 0,
            overwrite: Overwrite::Yes,
            verify_checksum: ChecksumMode::Both,
            timeout: Some(60),
            ..JobParams::default()
        },
        metadata: Some(RawValue::from_string(r#"{"k":"ü😀"}"#.into()).unwrap()),
    };
    let files = (0..n).map(|index| NewFile {
        id: first + index,
        index: index as u32,
        checksum: "ADLER32".into(),
        user_filesize: Some(u64::from(u32::MAX) + index),
        activity: "default".into(),
        selection_strategy: "auto".into(),
        scitag: Some(65),
        source_token: Some(hash),
        destination_token: Some(hash),
        ..NewFile::new(
            &surl(format!("https://a/f{index}")),
            &surl(format!("https://b/f{index}")),
        )
    });
    Submission {
        job,
        files: files.collect(),
        tokens: BTreeMap::from([(hash, Secret::new(token))]),
        sealed: BTreeMap::new(),
        live: None,
        expiring: BTreeMap::new(),
        one_writer: false,
        storages: Vec::new(),
    }
}

//! Invariants of this crate's readers of requests, for any input. Built for tests and for the targets of `fuzz/` only.

use axum::extract::{Query, Request};
use http::{Method, Uri};
use std::time::Instant;

use serde_json::Value;
use weir_auth::Secret;
use weir_executor::{job::SEVERAL_SOURCES, surl::Surl};

use crate::{
    access::caller::{By, Caller},
    collapse_slashes,
    jobs::{
        list,
        submission::{self, SubmissionLimits, Submitter},
    },
    messages::body,
};
use weir_transfer::{
    config::Level,
    settings::{Kind, Settings, normal_activities, normal_group, normal_link, normal_share},
};

/// A token that no message may hold.
const TOKEN: &str = "s3cr3t-0f-the-call";

/// A body, after a byte that says which kind it claims to be.
pub fn bodies(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let kinds = [body::Kind::Json, body::Kind::EncodedJson, body::Kind::Form];
    if let Err(refusal) = body::parse(kinds[usize::from(*kind) % kinds.len()], data, 1000) {
        assert!(refusal.status.is_client_error());
    }
}

/// The path and query of a job listing: users must see only their own jobs, for any query.
pub fn queries(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(uri) = text.parse::<Uri>() else { return };
    let mut request = Request::new(axum::body::Body::empty());
    (*request.method_mut(), *request.uri_mut()) = (Method::GET, uri.clone());
    collapse_slashes(&mut request);
    assert!(!request.uri().path().contains("//"), "{uri}");
    assert_eq!(request.uri().query(), uri.query());
    let Ok(Query(query)) = Query::try_from_uri(request.uri()) else {
        return;
    };
    let caller = |level| Caller {
        user_dn: "alice".into(),
        cred_id: "01".into(),
        vo: "test".into(),
        level,
        reach: level,
        by: By::Token(Secret::new("t"), std::time::SystemTime::UNIX_EPOCH),
    };
    if let Ok(Some(filter)) = list::filter(&query, &caller(Level::Private)) {
        assert_eq!(filter.cred_id.as_deref(), Some("01"));
        assert!(filter.limit.is_none_or(|limit| (1..=list::JOBS_MAX).contains(&limit)));
    }
    if let Ok(Some(filter)) = list::filter(&query, &caller(Level::Vo)) {
        assert!(filter.cred_id.as_deref() == Some("01") || filter.vo.as_deref() == Some("test"));
    }
    let _ = list::filter(&query, &caller(Level::All));
}

/// The body of a change of settings: accepted values must be valid for the core, and as a row of the store.
pub fn limits(data: &[u8]) {
    let Ok(serde_json::Value::Object(body)) = serde_json::from_slice(data) else {
        return;
    };
    let settings = Settings::default();
    let rows = [
        (Kind::Link, normal_link(&body, None)),
        (Kind::Share, normal_share(&body)),
        (Kind::Activities, normal_activities(&body)),
        (Kind::Group, normal_group(&body)),
    ];
    for (kind, row) in rows {
        if let Ok(row) = row {
            assert!(settings.draft(vec![((kind, "x".into()), Some(row.clone()))]).is_ok());
            if kind == Kind::Link {
                assert_eq!(normal_link(&row, None), Ok(row));
            }
        }
    }
    for kind in [Kind::Storage, Kind::Global] {
        let _ = settings.draft(vec![((kind, "https://se.example.org".into()), Some(body.clone()))]);
    }
}

/// The body of a submission: an accepted job must be storable, executable and presentable.
pub fn submissions(data: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let user = Submitter {
        user_dn: "alice".into(),
        cred_id: "0123".into(),
        vo: "test".into(),
        token: Some(Secret::new(TOKEN)),
    };
    let limits = SubmissionLimits::default();
    let draft = match submission::read(&body, &user, &limits, 1_700_000_000_000) {
        Ok(draft) => draft,
        Err(refusal) => {
            // A body that holds the token as a path, say, is quoted with it: that is the caller's own doing, and goes to the caller alone.
            assert!(!refusal.to_string().contains(TOKEN) || body.to_string().contains(TOKEN));
            return;
        }
    };
    assert!(!draft.files.is_empty() && draft.files.len() <= limits.files);
    assert!((1..=5).contains(&draft.job.priority));
    // A timeout beyond the range of a clock would end the waiting task.
    let wait = draft.job.params.timeout.unwrap_or_default();
    assert!(
        Instant::now()
            .checked_add(std::time::Duration::from_secs(wait))
            .is_some()
    );
    for (place, file) in draft.files.iter().enumerate() {
        let index = if draft.job.kind == SEVERAL_SOURCES { 0 } else { place };
        assert_eq!(file.index as usize, index);
        assert!(file.source_url() != file.destination_url() || draft.job.params.bring_online.is_some());
        for url in [&file.source, &file.destination] {
            assert_eq!(Surl::parse(url.as_str()).as_ref(), Ok(url));
        }
        for token in [file.source_token, file.destination_token] {
            assert!(token.is_none_or(|hash| draft.tokens.contains_key(&hash)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("transfer_submissions", super::submissions);
        run("transfer_bodies", super::bodies);
        run("transfer_queries", super::queries);
        run("transfer_limits", super::limits);
    }
}

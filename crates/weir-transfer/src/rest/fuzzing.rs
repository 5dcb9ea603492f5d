//! Targets for what comes in at the door.

use axum::extract::{Query, Request};
use http::{Method, Uri};
use weir_auth::Secret;

use super::{
    body,
    caller::{By, Caller},
    collapse_slashes, list,
};
use crate::{
    config::Level,
    settings::{Kind, Settings, normal_activities, normal_group, normal_link, normal_share},
};

/// A body, after a byte that says which kind it claims to be.
pub fn bodies(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let kinds = [body::Kind::Json, body::Kind::EncodedJson, body::Kind::Form];
    if let Err(refusal) = body::parse(kinds[usize::from(*kind) % kinds.len()], data, 1000) {
        assert!(refusal.status.is_client_error());
    }
}

/// The path and query of a request for a list of jobs: users must stay among their own, whatever they ask for.
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

/// The body of a call that changes settings: what is taken must make sense to the core, and again as a row of the store.
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

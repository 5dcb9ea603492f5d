//! Query keys of GETs: those that a route heeds. Others are refused, since a filter that is ignored answers everything.

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::Method;

use super::answer::Failure;
use crate::refusal::{Class, Refusal};

/// The keys of each route that has some. `key=value` is a key that may only have this value, which is what the route does anyway.
const KEYS: &[(&str, &[&str])] = &[
    ("/accounts", &["account_type", "identity"]),
    ("/dids/{scope}/{name}", &["dynamic_depth"]),
    ("/dids/{scope}/{name}/files", &["long"]),
    ("/dids/{scope}/{name}/meta", &["plugin"]),
    ("/locks/{rse}", &["did_type"]),
    ("/locks/{scope}/{name}", &["did_type"]),
    (
        "/requests/list",
        &["request_states", "src_rse", "src_site", "dst_rse", "dst_site"],
    ),
    (
        "/requests/history/list",
        &["request_states", "src_rse", "src_site", "dst_rse", "dst_site"],
    ),
    ("/rses", &["expression"]),
    ("/rses/{rse}/lfns2pfns", &["scheme", "operation", "lfn"]),
    ("/rses/{rse}/protocols", &["protocol_domain=ALL"]),
    ("/rses/{rse}/protocols/{scheme}", &["protocol_domain=ALL"]),
    ("/rses/{rse}/usage", &["source", "per_account=False"]),
];

/// Routes that read their keys themselves, as filters.
const FILTERS: &[&str] = &["/dids/{scope}/dids/search", "/rules"];

/// Refuses a GET with a key that its route does not heed.
pub(super) async fn check(request: Request, next: Next) -> Response {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    if request.method() == Method::GET
        && let (Some(route), Some(query)) = (route, request.uri().query())
        && let Some(key) = ignored(&route, query)
    {
        return refused(&key).into_response();
    }
    next.run(request).await
}

/// The refusal of a key.
pub(super) fn refused(key: &str) -> Failure {
    let key = key.chars().take(100).collect::<String>();
    Refusal::new(
        Class::InputValidation,
        format!("The parameter {key:?} is not known here, so that it would be ignored"),
    )
    .into()
}

/// The first key of a query that a route would ignore.
fn ignored(route: &str, query: &str) -> Option<String> {
    let route = route.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(route);
    if FILTERS.contains(&route) {
        return None;
    }
    let known = KEYS
        .iter()
        .find(|(one, _)| *one == route)
        .map_or(&[][..], |(_, keys)| keys);
    // What cannot be read is refused by the route itself, if it reads a query.
    let pairs = pairs_of(query);
    let is_known = |(key, value): &(String, String)| {
        let fits = |one: &&str| match one.split_once('=') {
            None => one == key,
            Some((name, only)) => name == key && value.eq_ignore_ascii_case(only),
        };
        known.iter().any(fits)
    };
    pairs.into_iter().find(|pair| !is_known(pair)).map(|(key, _)| key)
}

/// Keys and values of a query.
fn pairs_of(query: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text)
            .decode_utf8_lossy()
            .into_owned()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_ignored() {
        let check = |route: &str, query: &str| ignored(route, query);
        assert_eq!(check("/rses/", "expression=a%3Db"), None);
        assert_eq!(check("/rses", "expression=a&sort=name").as_deref(), Some("sort"));
        assert_eq!(check("/accounts/whoami", "x").as_deref(), Some("x"));
        assert_eq!(check("/rses/{rse}/protocols", "protocol_domain=ALL"), None);
        assert_eq!(
            check("/rses/{rse}/protocols", "protocol_domain=wan").as_deref(),
            Some("protocol_domain")
        );
        assert_eq!(check("/dids/{scope}/dids/search", "name=x"), None);
        assert_eq!(check("/ping", "&"), None);
    }
}

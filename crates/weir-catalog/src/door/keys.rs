//! Query keys of GETs: a table of the keys that each route heeds. Other keys are refused, since an ignored filter answers everything.

use axum::{
    extract::{MatchedPath, Query, Request},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::Method;

use super::answer::Failure;
use crate::refusal::{Class, Refusal};

/// The keys of each route that has some. `key=value` is a key that may only have this value, which is the route's
/// behaviour anyway.
const KEYS: &[(&str, &[&str])] = &[
    ("/accounts", &["account_type", "identity"]),
    ("/dids/{scope}/{name}", &["dynamic_depth"]),
    ("/dids/{scope}/{name}/files", &["long"]),
    ("/dids/{scope}/{name}/meta", &["plugin"]),
    ("/loads", &["account"]),
    ("/loads/{id}/cycles", &["after"]),
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

/// The only key that may be given several times.
const REPEATED: &str = "lfn";

/// Refuses a GET with a key that its route does not heed.
pub(super) async fn check(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if request.method() == Method::GET
        && let Some(route) = route
    {
        match Query::<Vec<(String, String)>>::try_from_uri(request.uri()) {
            Err(unreadable) => return unreadable.into_response(),
            Ok(Query(pairs)) => {
                if let Some(key) = ignored(route, &pairs) {
                    return refused(key).into_response();
                }
            }
        }
    }
    next.run(request).await
}

/// The refusal of a key.
pub(super) fn refused(key: &str) -> Failure {
    let key = key.chars().take(100).collect::<String>();
    Refusal::new(
        Class::InputValidation,
        format!("The parameter {key:?} is not known here, or is given twice: it would be ignored"),
    )
    .into()
}

/// The first key of a query that a route would ignore. Of a key that is given twice one value would be.
fn ignored<'a>(route: &str, pairs: &'a [(String, String)]) -> Option<&'a str> {
    let route = route.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(route);
    let known = KEYS.iter().find(|(one, _)| *one == route).map(|(_, keys)| *keys);
    let is_heeded = |key: &str, value: &str| {
        let fits = |one: &&str| match one.split_once('=') {
            None => *one == key,
            Some((name, only)) => name == key && value.eq_ignore_ascii_case(only),
        };
        FILTERS.contains(&route) || known.unwrap_or_default().iter().any(fits)
    };
    let is_again = |at: usize, key: &str| key != REPEATED && pairs[..at].iter().any(|(before, _)| before == key);
    let mut pairs = pairs.iter().enumerate();
    let ignored = pairs.find(|(at, (key, value))| !is_heeded(key, value) || is_again(*at, key));
    ignored.map(|(_, (key, _))| key.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_ignored() {
        let check = |route: &str, query: &str| {
            let uri = format!("/?{query}").parse().expect("a query");
            let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&uri).expect("a query");
            ignored(route, &pairs).map(str::to_owned)
        };
        assert_eq!(check("/rses/", "expression=a%3Db"), None);
        assert_eq!(check("/rses", "expression=a&sort=name").as_deref(), Some("sort"));
        assert_eq!(check("/accounts/whoami", "x").as_deref(), Some("x"));
        assert_eq!(check("/rses/{rse}/protocols", "protocol_domain=ALL"), None);
        assert_eq!(
            check("/rses/{rse}/protocols", "protocol_domain=wan").as_deref(),
            Some("protocol_domain")
        );
        assert_eq!(check("/dids/{scope}/dids/search", "name=x"), None);
        assert_eq!(check("/rules/", "account=a&account=b").as_deref(), Some("account"));
        assert_eq!(check("/rses/{rse}/lfns2pfns", "lfn=a%3Ab&lfn=a%3Ac"), None);
        assert_eq!(check("/ping", ""), None);
    }
}

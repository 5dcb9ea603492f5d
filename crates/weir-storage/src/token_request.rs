//! Requests for tokens of this endpoint's own, in the form of macaroons or of OAuth 2.0.
//!
//! Source: what gfal2, davix, dCache and XRootD send. The caveats of a macaroon *restrict* it, so an unknown caveat
//! must be refused; an unknown activity grants no right.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use serde::Deserialize;
use weir_auth::{StorageAction, StoragePath};
use weir_http::form;
use weir_units::iso8601;

/// Wishes in one request: a client asks for a few.
const WISHES_MAX: usize = 32;

/// A token that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The requested rights; at least one.
    pub rights: Vec<RequestedRight>,
    /// How long.
    pub lifetime: Option<Duration>,
    /// And until when at most.
    pub before: Option<SystemTime>,
}

/// A requested right at a path and below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedRight {
    /// As much of this as the client may do itself; never empty. None: all that it may.
    pub actions: Option<BTreeSet<StorageAction>>,
    /// Where.
    pub path: StoragePath,
}

/// Why a form is refused: the code of RFC 6749 section 5.2, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormError {
    /// Such as `invalid_scope`.
    pub code: &'static str,
    /// Lower case, without a full stop.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MacaroonRequest {
    #[serde(default)]
    caveats: Vec<String>,
    #[serde(default)]
    validity: Option<String>,
}

/// Parses the body of a POST of `application/macaroon-request` on a path. An empty one requests every right there.
///
/// # Errors
/// The problem with it, for people.
pub fn parse_macaroon(body: &[u8], path: &StoragePath) -> Result<TokenRequest, String> {
    let empty = body.trim_ascii().is_empty();
    let body: &[u8] = if empty { b"{}" } else { body };
    let request: MacaroonRequest = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no JSON object with \"caveats\" and \"validity\": {error}"))?;
    let lifetime = request.validity.as_deref().map(|text| {
        iso8601::duration(text).ok_or_else(|| "\"validity\" is no duration of ISO 8601 such as \"PT1H\"".to_owned())
    });
    let (mut activities, mut path, mut before) = (None::<Activities>, path.clone(), None);
    for caveat in &request.caveats {
        match caveat.split_once(':') {
            Some(("activity", names)) => {
                let named: Activities = names.split(',').filter_map(activity).collect();
                activities = Some(match activities {
                    None => named,
                    Some(before) => before.intersection(&named).copied().collect(),
                });
            }
            Some(("path", narrower)) => {
                let narrower = StoragePath::from_plain(narrower).map_err(|error| format!("caveat path: {error}"))?;
                if !path.covers(&narrower) {
                    return Err(format!("caveat path: {narrower} does not lie below {path}"));
                }
                path = narrower;
            }
            Some(("before", end)) => {
                let end = iso8601::timestamp(end).ok_or("caveat before: no time such as 2026-11-22T12:00:00Z")?;
                before = Some(before.map_or(end, |other: SystemTime| other.min(end)));
            }
            _ => return Err("only the caveats activity, path and before are understood".to_owned()),
        }
    }
    let actions = activities.as_ref().map(allowed_by);
    if actions.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(INEXPRESSIBLE.to_owned());
    }
    Ok(TokenRequest {
        rights: vec![RequestedRight { actions, path }],
        lifetime: lifetime.transpose()?,
        before,
    })
}

/// Reads the form of a request to a token endpoint (RFC 6749 section 4.4), with scopes in either language:
/// `DOWNLOAD:/path` as gfal2 writes it, or `storage.read:/path`.
///
/// # Errors
/// [`FormError`].
pub fn parse_form(body: &[u8]) -> Result<TokenRequest, FormError> {
    let refuse = |code, text: &str| FormError {
        code,
        text: text.to_owned(),
    };
    let fields = form::read(body).map_err(|error| refuse("invalid_request", &error.to_string()))?;
    let (mut grant, mut scopes, mut lifetime) = (None, None, None);
    for (name, value) in fields {
        let place = match &*name {
            "grant_type" => &mut grant,
            // Not RFC 6749's word, but gfal2's.
            "scope" | "scopes" => &mut scopes,
            "expire_in" => &mut lifetime,
            // RFC 6749 section 3.2: unknown parameters are ignored.
            _ => continue,
        };
        if place.replace(value).is_some() {
            return Err(refuse("invalid_request", &format!("{name} comes twice")));
        }
    }
    if grant.as_deref() != Some("client_credentials") {
        return Err(refuse("unsupported_grant_type", "only client_credentials is granted"));
    }
    let scopes = scopes.unwrap_or_default();
    let mut asked = Vec::new();
    for scope in scopes.split(' ').filter(|scope| !scope.is_empty()) {
        ask(scope, &mut asked).map_err(|text| refuse("invalid_scope", &text))?;
    }
    let rights = asked.into_iter().map(ScopeRights::wish).collect::<Result<Vec<_>, _>>();
    let rights = rights.map_err(|text| refuse("invalid_scope", text))?;
    if rights.is_empty() {
        let text = "ask for scopes with paths, such as storage.read:/path or DOWNLOAD:/path";
        return Err(refuse("invalid_scope", text));
    }
    let lifetime = lifetime.map(|text| text.parse().map(Duration::from_secs));
    Ok(TokenRequest {
        rights,
        lifetime: lifetime
            .transpose()
            .map_err(|_| refuse("invalid_request", "expire_in is no number of seconds"))?,
        before: None,
    })
}

/// The rights that the scopes of a form request at one path.
struct ScopeRights {
    path: StoragePath,
    actions: BTreeSet<StorageAction>,
    activities: Activities,
}

impl ScopeRights {
    fn wish(mut self) -> Result<RequestedRight, &'static str> {
        self.actions.extend(allowed_by(&self.activities));
        if self.actions.is_empty() {
            return Err(INEXPRESSIBLE);
        }
        Ok(RequestedRight {
            actions: Some(self.actions),
            path: self.path,
        })
    }
}

/// Adds the rights of a scope.
fn ask(scope: &str, asked: &mut Vec<ScopeRights>) -> Result<(), String> {
    let (name, path) = scope.split_once(':').ok_or("a scope has no path")?;
    let path = StoragePath::from_url_path(path).map_err(|error| format!("a scope's path: {error}"))?;
    let profile = StorageAction::ALL.iter().find(|action| action.as_str() == name);
    let activity = activity(name);
    if profile.is_none() && activity.is_none() {
        return Ok(());
    }
    let place = match asked.iter().position(|known| known.path == path) {
        Some(place) => place,
        None if asked.len() == WISHES_MAX => return Err(format!("more than {WISHES_MAX} paths")),
        None => {
            asked.push(ScopeRights {
                path,
                actions: BTreeSet::new(),
                activities: Activities::new(),
            });
            asked.len() - 1
        }
    };
    asked[place].actions.extend(profile);
    asked[place].activities.extend(activity);
    Ok(())
}

/// Activities of a macaroon.
type Activities = BTreeSet<&'static str>;

/// A known activity. `READ_METADATA` comes with every right, and `UPDATE_METADATA` changes nothing that is stored here.
fn activity(name: &str) -> Option<&'static str> {
    let known = ["LIST", "DOWNLOAD", "UPLOAD", "MANAGE", "DELETE", "STAGE"];
    known.into_iter().find(|known| *known == name.trim())
}

const INEXPRESSIBLE: &str = "no scope allows what is asked for and nothing more: ask for LIST with DOWNLOAD, for DELETE and MANAGE with \
    UPLOAD and DELETE, or for DOWNLOAD, UPLOAD or STAGE alone";

/// The scopes of activities: none that allows more than they do. The right to read includes listing, not the other way
/// round; the right to modify includes upload and deletion.
fn allowed_by(activities: &Activities) -> BTreeSet<StorageAction> {
    let all = |wanted: &[&str]| wanted.iter().all(|one| activities.contains(one));
    let scopes = [
        (all(&["DOWNLOAD"]), StorageAction::Read),
        (all(&["UPLOAD"]), StorageAction::Create),
        (all(&["UPLOAD", "DELETE"]), StorageAction::Modify),
        (all(&["STAGE"]), StorageAction::Stage),
    ];
    scopes
        .into_iter()
        .filter_map(|(is, scope)| is.then_some(scope))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::time::UNIX_EPOCH;

    use StorageAction::{Create, Modify, Read, Stage};

    use super::*;

    fn path(text: &str) -> StoragePath {
        StoragePath::from_url_path(text).unwrap()
    }

    fn macaroon(body: &str) -> Result<TokenRequest, String> {
        parse_macaroon(body.as_bytes(), &path("/a/b"))
    }

    /// A token would allow more than its macaroon's caveats say.
    #[test]
    fn caveats_narrow() {
        let check = |caveats: &str, expected: &[StorageAction]| {
            let request = macaroon(&format!("{{\"caveats\": [{caveats}]}}")).unwrap();
            let expected: BTreeSet<_> = expected.iter().copied().collect();
            assert_eq!(request.rights[0].actions, Some(expected), "{caveats}");
        };
        check("\"activity:LIST,DOWNLOAD\"", &[Read]);
        check(
            "\"activity:LIST,DOWNLOAD,MANAGE,UPLOAD,DELETE\"",
            &[Read, Create, Modify],
        );
        check("\"activity:DOWNLOAD, STAGE\"", &[Read, Stage]);
        check("\"activity:DOWNLOAD,READ_METADATA,SING\"", &[Read]);
        check("\"activity:DOWNLOAD,UPLOAD\", \"activity:UPLOAD,DELETE\"", &[Create]);
        check("\"activity:DOWNLOAD,LIST\", \"activity:DOWNLOAD\"", &[Read]);
        check("\"activity:DOWNLOAD,DELETE,MANAGE\"", &[Read]);
        check("\"activity:UPLOAD,MANAGE\"", &[Create]);
        // A token for listing would read, and one for deleting would replace.
        for nothing in [
            "\"activity:LIST\"",
            "\"activity:DELETE\"",
            "\"activity:MANAGE\"",
            "\"activity:MANAGE,DELETE,LIST\"",
            "\"activity:MANAGE\", \"activity:UPLOAD\"",
            "\"activity:LIST,DOWNLOAD\", \"activity:LIST\"",
            "\"activity:\"",
            "\"activity:READ_METADATA\"",
            "\"activity:download\"",
            "\"activity:DOWNLOAD\", \"activity:UPLOAD\"",
        ] {
            assert!(macaroon(&format!("{{\"caveats\": [{nothing}]}}")).is_err(), "{nothing}");
        }
        let all = macaroon("{}").unwrap();
        assert_eq!(all, macaroon(" \n").unwrap());
        assert_eq!(
            (all.rights[0].actions.as_ref(), &all.rights[0].path),
            (None, &path("/a/b"))
        );

        let narrower = macaroon(r#"{"caveats": ["path:/a/b/c", "path:/a/b/c/d e"]}"#).unwrap();
        assert_eq!(narrower.rights[0].path, path("/a/b/c/d%20e"));
        for outside in ["/a", "/", "/a/bc", "/a/b/../c", "b", ""] {
            assert!(
                macaroon(&format!("{{\"caveats\": [\"path:{outside}\"]}}")).is_err(),
                "{outside}"
            );
        }
        for unknown in ["ip:192.0.2.1", "home:/a", "max-upload:1", "nonsense", "Activity:LIST"] {
            assert!(
                macaroon(&format!("{{\"caveats\": [\"{unknown}\"]}}")).is_err(),
                "{unknown}"
            );
        }
    }

    /// A token would live for another time than was asked for.
    #[test]
    fn times_are_read() {
        let request = macaroon(
            r#"{"validity": "PT60M", "caveats": ["before:1970-01-01T01:00:00Z", "before:1970-01-01T00:01:00Z"]}"#,
        );
        let request = request.unwrap();
        assert_eq!(request.lifetime, Some(Duration::from_secs(3600)));
        assert_eq!(request.before, Some(UNIX_EPOCH + Duration::from_secs(60)));
        for bad in [
            r#"{"validity": "60"}"#,
            r#"{"validity": 60}"#,
            r#"{"caveats": ["before:tomorrow"]}"#,
            r#"{"caveats": "activity:LIST"}"#,
            r#"{"rights": []}"#,
            "x",
        ] {
            assert!(macaroon(bad).is_err(), "{bad}");
        }
    }

    /// gfal2's request, or a plain OAuth client's, would be misread.
    #[test]
    fn forms_are_read_in_both_languages() {
        let ask = |form: &str| parse_form(form.as_bytes());
        let form =
            "grant_type=client_credentials&expire_in=3600&scopes=LIST%3A%2Fa%20DOWNLOAD%3A%2Fa+UPLOAD:/a/b%2520c";
        let request = ask(form).unwrap();
        assert_eq!(request.lifetime, Some(Duration::from_secs(3600)));
        let wish = |actions: &[StorageAction], at: &str| RequestedRight {
            actions: Some(actions.iter().copied().collect()),
            path: path(at),
        };
        assert_eq!(request.rights, [wish(&[Read], "/a"), wish(&[Create], "/a/b%20c")]);
        let request = ask("scope=storage.read:/a storage.modify:/a&grant_type=client_credentials&x=y").unwrap();
        assert_eq!(request.rights, [wish(&[Read, Modify], "/a")]);
        let request = ask("grant_type=client_credentials&scope=DELETE:/a storage.read:/a UPLOAD:/a").unwrap();
        assert_eq!(request.rights, [wish(&[Read, Create, Modify], "/a")]);

        let code = |form: &str| ask(form).unwrap_err().code;
        assert_eq!(
            code("grant_type=password&scope=storage.read:/a"),
            "unsupported_grant_type"
        );
        assert_eq!(code("scope=storage.read:/a"), "unsupported_grant_type");
        for scopes in [
            "",
            "storage.read",
            "storage.read:a",
            "DOWNLOAD:/../a",
            "openid:/a",
            "LIST:/a",
            "DELETE:/a UPLOAD:/b",
            "%20",
        ] {
            let form = format!("grant_type=client_credentials&scope={scopes}");
            assert_eq!(code(&form), "invalid_scope", "{scopes}");
        }
        assert_eq!(
            code("grant_type=client_credentials&scope=a&scopes=b"),
            "invalid_request"
        );
        assert_eq!(code("grant_type=client_credentials&scope=%ff"), "invalid_request");
        assert_eq!(
            code("grant_type=client_credentials&expire_in=-1&scope=DOWNLOAD:/"),
            "invalid_request"
        );
    }
}

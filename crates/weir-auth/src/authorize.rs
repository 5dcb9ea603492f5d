//! Authorisation: the operation table of the WLCG token profile 1.3.
//!
//! A token that holds any capability is judged by its capabilities alone, even if none fits. A token without any, and
//! the holder of a certificate, is judged by the service's own rules ([`crate::rules`]), which give the same rights.
//!
//! | operation | needs one of |
//! |---|---|
//! | read, list | `storage.read` |
//! | stat (attributes and checksum of the named path) | `storage.read`, `create`, `modify`, `stage`; also above the path of a `create` or `modify` scope |
//! | create | `storage.create`, `storage.modify` |
//! | make directory | the same; also above the path of the scope, so that missing parents can be made |
//! | overwrite, delete, move | `storage.modify`; moving a file onto a free name: `storage.create` |
//! | stage | `storage.stage` |
//! | poll a staging request | `storage.stage`, `storage.poll` |
//! | locality | any `storage.*` |

pub use super::denied::{Denied, DeniedReason};
pub use super::operation::Operation;
use crate::path::StoragePath;
use crate::scope::StorageAction;
use crate::token::{Access, Capability, Token};

/// Decides by the capabilities of a token alone.
///
/// A MOVE is two decisions: [`authorize_move`].
///
/// # Errors
/// [`Denied`], which names the scope that would have sufficed.
pub fn authorize(token: &Token, operation: Operation, path: &StoragePath) -> Result<(), Denied> {
    authorize_with(token, |_, _| false, operation, path)
}

/// Decides by the capabilities of a token or, if it has none, by the service's rules for its holder.
///
/// # Errors
/// [`Denied`], which names the scope that would have sufficed.
pub fn authorize_with(
    token: &Token,
    rules: impl Fn(Operation, &StoragePath) -> bool,
    operation: Operation,
    path: &StoragePath,
) -> Result<(), Denied> {
    let reason = match token.access() {
        Access::Capabilities(capabilities) => {
            if capabilities
                .iter()
                .any(|capability| allows(capability, operation, path))
            {
                return Ok(());
            }
            if capabilities
                .iter()
                .any(|capability| operation.allowed_by().contains(&capability.action))
            {
                DeniedReason::OtherPath
            } else {
                DeniedReason::NoSuchScope
            }
        }
        Access::Groups(_) => {
            if rules(operation, path) {
                return Ok(());
            }
            DeniedReason::Rules
        }
    };
    Err(deny(token, operation, path, reason))
}

/// Decides by the service's rules for the holder of a certificate.
///
/// # Errors
/// [`Denied`], which names the right that a rule would have to give.
pub fn authorize_certificate(
    rules: impl Fn(Operation, &StoragePath) -> bool,
    operation: Operation,
    path: &StoragePath,
) -> Result<(), Denied> {
    if rules(operation, path) {
        return Ok(());
    }
    Err(Denied {
        operation,
        path: path.clone(),
        needs: format!("a rule with \"{}\"", operation.allowed_by()[0].word()),
        reason: DeniedReason::Certificate,
    })
}

/// The operations that a MOVE needs at its source and at its destination.
///
/// `onto_free_name` is true for a *file* that moves to a free name: then `storage.create` at both ends suffices, so
/// that an upload under a temporary name can end. Otherwise both ends need `storage.modify`.
pub fn move_needs(onto_free_name: bool) -> (Operation, Operation) {
    if onto_free_name {
        (Operation::MoveFile, Operation::MoveFile)
    } else {
        (Operation::Delete, Operation::Overwrite)
    }
}

/// Decides a MOVE by the capabilities of a token alone: [`move_needs`] at both ends.
///
/// # Errors
/// [`Denied`] for the first end that is refused.
pub fn authorize_move(
    token: &Token,
    source: &StoragePath,
    destination: &StoragePath,
    onto_free_name: bool,
) -> Result<(), Denied> {
    let (take, put) = move_needs(onto_free_name);
    authorize(token, take, source)?;
    authorize(token, put, destination)
}

/// Whether one capability allows the operation.
fn allows(capability: &Capability, operation: Operation, path: &StoragePath) -> bool {
    permits(capability.action, &capability.path, operation, path)
}

/// Whether the right to an action at and below `at` allows the operation with `path`.
pub(crate) fn permits(action: StorageAction, at: &StoragePath, operation: Operation, path: &StoragePath) -> bool {
    if !operation.allowed_by().contains(&action) {
        return false;
    }
    if at.covers(path) {
        return true;
    }
    if operation.takes_directories() && at.covers(&path.as_directory()) {
        return true;
    }
    operation.reaches_ancestors()
        && matches!(action, StorageAction::Create | StorageAction::Modify)
        && path.is_ancestor_of(at)
}

fn deny(token: &Token, operation: Operation, path: &StoragePath, reason: DeniedReason) -> Denied {
    let action = token.dialect.name_of(operation.allowed_by()[0]);
    let seen = token.prefixes.iter().find_map(|prefix| path.relative_to(prefix));
    let reason = if seen.is_none() {
        DeniedReason::OutsideIssuer
    } else {
        reason
    };
    let wanted = seen.as_ref().unwrap_or(path).to_url_path();
    Denied {
        operation,
        path: path.clone(),
        needs: format!("{action}:{wanted}"),
        reason,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use proptest::prelude::*;

    use super::*;
    use crate::token::tests::{scitoken, token, token_below, token_of_groups};

    fn path(text: &str) -> StoragePath {
        StoragePath::from_url_path(text).unwrap()
    }

    fn may(scopes: &str, operation: Operation, at: &str) -> bool {
        authorize(&token(scopes), operation, &path(at)).is_ok()
    }

    /// Asserts that with these scopes exactly these operations are allowed at the path.
    fn check(scopes: &str, at: &str, allowed: &[Operation]) {
        for operation in Operation::ALL {
            assert_eq!(
                may(scopes, operation, at),
                allowed.contains(&operation),
                "{scopes}: {operation} {at}"
            );
        }
    }

    use Operation::{Create, Delete, List, Locality, MakeDirectory, MoveFile, Overwrite, PollStage, Read, Stage, Stat};

    #[test]
    fn each_scope_allows_what_the_profile_says_at_and_below_its_path() {
        // A token would allow more or less than every other server of the field makes of it.
        for at in ["/d", "/d/", "/d/x", "/d/x/y"] {
            check("storage.read:/d", at, &[Read, List, Stat, Locality]);
            check(
                "storage.create:/d",
                at,
                &[Create, MakeDirectory, MoveFile, Stat, Locality],
            );
            let modify = [Create, Overwrite, Delete, MakeDirectory, MoveFile, Stat, Locality];
            check("storage.modify:/d", at, &modify);
            check("storage.stage:/d", at, &[Stage, PollStage, Stat, Locality]);
            check("storage.poll:/d", at, &[PollStage, Locality]);
            check("compute.read", at, &[]);
            check("openid", at, &[]);
        }
    }

    #[test]
    fn neighbours_with_longer_names_are_not_covered() {
        // `/foo` would open `/foobar`: the best known fault of servers that compare texts.
        for action in StorageAction::ALL {
            check(&format!("{}:/foo", action.as_str()), "/foobar", &[]);
            check(&format!("{}:/foo", action.as_str()), "/foo.bar/x", &[]);
            check(&format!("{}:/foo", action.as_str()), "/fo", &[]);
        }
    }

    #[test]
    fn above_a_scope_only_parents_can_be_seen_and_made_and_only_to_write() {
        // Transfers with tokens for one file would fail at its parents, or a token would look around.
        for at in ["/", "/a", "/a/", "/a/b"] {
            check("storage.create:/a/b/c", at, &[Stat, MakeDirectory]);
            check("storage.modify:/a/b/c", at, &[Stat, MakeDirectory]);
            check("storage.read:/a/b/c", at, &[]);
            check("storage.stage:/a/b/c", at, &[]);
            check("storage.poll:/a/b/c", at, &[]);
        }
        check("storage.create:/a/b", "/a/c", &[]);
    }

    #[test]
    fn a_scope_with_a_trailing_slash_is_for_a_directory() {
        // A right to a directory would be one to a file of its name.
        check("storage.modify:/d/", "/d", &[Stat, MakeDirectory]);
        check("storage.read:/d/", "/d", &[Stat, List]);
        assert!(may("storage.read:/d/", Read, "/d/x"));
        assert!(may("storage.read:/", Read, "/x") && may("storage.modify:/", Create, "/x"));
        assert!(may("storage.read:/", List, "/"));
    }

    #[test]
    fn overwriting_needs_modify() {
        // A token to add files could replace one.
        let denied = authorize(&token("storage.create:/d"), Overwrite, &path("/d/f")).unwrap_err();
        assert_eq!(
            (denied.needs.as_str(), denied.reason),
            ("storage.modify:/d/f", DeniedReason::NoSuchScope)
        );
    }

    #[test]
    fn a_move_needs_rights_at_both_ends() {
        // A file could be moved out of reach of its owner, or over another one.
        let may = |scopes: &str, from: &str, to: &str, onto_free_name: bool| {
            authorize_move(&token(scopes), &path(from), &path(to), onto_free_name).is_ok()
        };
        assert!(may("storage.modify:/a storage.modify:/b", "/a/f", "/b/f", false));
        assert!(!may("storage.modify:/a", "/a/f", "/b/f", true));
        assert!(!may("storage.modify:/b", "/a/f", "/b/f", true));
        assert!(may("storage.create:/a", "/a/f.tmp", "/a/f", true));
        assert!(!may("storage.create:/a", "/a/f.tmp", "/a/f", false));
        assert!(!may("storage.create:/a", "/a/f", "/b/f", true));
        assert!(may("storage.create:/a storage.modify:/b", "/b/f", "/a/f", true));
        assert!(!may("storage.read:/", "/a/f", "/b/f", true));
    }

    #[test]
    fn a_refusal_names_what_is_missing_as_the_issuer_would_write_it() {
        // Users would have to guess which scope to ask for.
        let check = |scopes: &str, operation, at: &str, needs: &str, reason| {
            let denied = authorize(&token_below(scopes, &["/vo"]), operation, &path(at)).unwrap_err();
            assert_eq!((denied.needs.as_str(), denied.reason), (needs, reason), "{scopes} {at}");
            assert!(denied.www_authenticate().unwrap().contains(needs));
        };
        check(
            "storage.read:/a",
            Read,
            "/vo/b%20c",
            "storage.read:/b%20c",
            DeniedReason::OtherPath,
        );
        check(
            "storage.read:/a",
            Create,
            "/vo/a",
            "storage.create:/a",
            DeniedReason::NoSuchScope,
        );
        check(
            "storage.read:/",
            Read,
            "/other/a",
            "storage.read:/other/a",
            DeniedReason::OutsideIssuer,
        );
        check(
            "compute.read",
            Read,
            "/vo/a",
            "storage.read:/a",
            DeniedReason::NoSuchScope,
        );
        check("openid", Read, "/vo/a", "storage.read:/a", DeniedReason::Rules);
        let denied = authorize(&token("storage.read:/a"), Delete, &path("/a")).unwrap_err();
        assert_eq!(
            denied.to_string(),
            "this token may not delete /a: no scope of it gives this right, it needs storage.modify:/a"
        );
    }

    #[test]
    fn rules_count_only_without_capabilities() {
        // A token cut down to one scope would keep all that its groups may do.
        let may =
            |token: &Token, operation| authorize_with(token, |asked, _| asked == Read, operation, &path("/a")).is_ok();
        assert!(may(&token_of_groups(&["/dteam"]), Read));
        assert!(!may(&token_of_groups(&["/dteam"]), Delete));
        assert!(authorize(&token_of_groups(&["/dteam"]), Read, &path("/a")).is_err());
        assert!(!may(&token("compute.read"), Read) && !may(&scitoken("queue"), Read));
    }

    #[test]
    fn a_certificate_is_told_which_rule_is_missing() {
        // Its holder would be sent to a token issuer, or left to guess.
        let decide = |operation| authorize_certificate(|asked, _| asked == Read, operation, &path("/a"));
        decide(Read).unwrap();
        let denied = decide(Delete).unwrap_err();
        assert_eq!(
            denied.to_string(),
            "this certificate may not delete /a: no rule gives its holder this right, it needs a rule with \"modify\""
        );
        assert_eq!(denied.www_authenticate(), None);
    }

    #[test]
    fn scitokens_have_the_same_rights_under_their_own_names() {
        // A token of the other dialect would allow more or less, or its holder be told to request an unknown scope.
        for operation in Operation::ALL {
            for at in ["/d", "/d/x", "/", "/dx"] {
                let agrees = |sci: &str, wlcg: &str| {
                    let one = authorize(&scitoken(sci), operation, &path(at));
                    assert_eq!(one.is_ok(), may(wlcg, operation, at), "{sci} {operation} {at}");
                };
                agrees("read:/d", "storage.read:/d");
                agrees("write:/d", "storage.modify:/d");
                agrees("read write:/d", "storage.read:/ storage.modify:/d");
            }
        }
        let needs = |operation| authorize(&scitoken("queue"), operation, &path("/d")).unwrap_err().needs;
        assert_eq!((needs(Read).as_str(), needs(Create).as_str()), ("read:/d", "write:/d"));
    }

    /// The operation table once more, as lists of words, over paths as texts.
    fn model(scopes: &[(StorageAction, String)], operation: Operation, at: &str) -> bool {
        let words = match operation {
            Read | List => "read",
            Stat => "read create modify stage",
            Create | MakeDirectory | MoveFile => "create modify",
            Overwrite | Delete => "modify",
            Locality => "read create modify stage poll",
            Stage => "stage",
            PollStage => "stage poll",
        };
        scopes.iter().any(|(action, scope)| {
            let action = action.as_str().strip_prefix("storage.").unwrap();
            let below =
                |above: &str, below: &str| above == below || above == "/" || below.starts_with(&format!("{above}/"));
            let climbs = ["create", "modify"].contains(&action) && [Stat, MakeDirectory].contains(&operation);
            words.split(' ').any(|word| word == action) && (below(scope, at) || climbs && below(at, scope))
        })
    }

    fn any_path() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "ab"]), 0..4)
            .prop_map(|names| format!("/{}", names.join("/")))
    }

    proptest! {
        #[test]
        fn every_decision_agrees_with_the_table(
            scopes in prop::collection::vec((prop::sample::select(StorageAction::ALL.to_vec()), any_path()), 1..4),
            operation in prop::sample::select(Operation::ALL.to_vec()),
            at in any_path().prop_filter("operations on files have a name", |at| at != "/"),
        ) {
            // Some combination of scopes would open a path that none of them names.
            let text: Vec<String> = scopes.iter().map(|(action, path)| format!("{}:{path}", action.as_str())).collect();
            let decision = authorize(&token(&text.join(" ")), operation, &path(&at));
            prop_assert_eq!(decision.is_ok(), model(&scopes, operation, &at), "{:?} {} {}", text, operation, at);
            if let Err(denied) = decision {
                let with_more = format!("{} {}", text.join(" "), denied.needs);
                prop_assert!(authorize(&token(&with_more), operation, &path(&at)).is_ok(), "{}", with_more);
            }
        }
    }
}

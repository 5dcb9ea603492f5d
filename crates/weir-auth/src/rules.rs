//! Access rules of a service for callers whose token holds no capability, or who show a certificate.
//!
//! A rule grants a right in the terms of the token profile, so that one table ([`mod@crate::authorize`]) applies to
//! every caller. It applies to callers who match *all* of its names; one matching rule with the right suffices, and
//! none takes a right away.

use serde::{Deserialize, Serialize};

use crate::authorize::{Operation, permits};
use crate::path::StoragePath;
use crate::scope::StorageAction;
use crate::token::{Access, Group, Token};
use crate::x509::{Identity, short_fqan};

/// A rule: its callers, and their rights at and below a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `iss` of tokens.
    #[serde(default)]
    pub issuer: Option<String>,
    /// `sub` of tokens.
    #[serde(default)]
    pub subject: Option<String>,
    /// The name of an end entity's certificate, in slash form.
    #[serde(default)]
    pub dn: Option<String>,
    /// The VO: of a token's issuer, of a certificate's VOMS attributes, or of its grid-mapfile entry.
    #[serde(default)]
    pub vo: Option<String>,
    /// A group in `wlcg.groups`, or of a FQAN: exactly, parents are not implied.
    #[serde(default)]
    pub group: Option<String>,
    /// The role of a FQAN; together with `vo` and `group` it must be of one FQAN.
    #[serde(default)]
    pub role: Option<String>,
    /// The granted rights.
    pub may: Vec<StorageAction>,
    /// Where. Default: everywhere.
    #[serde(default)]
    pub path: Option<StoragePath>,
}

/// A caller who is judged by rules.
#[derive(Debug, Clone, Copy)]
pub enum Person<'a> {
    /// The bearer of a token, and the VO that its issuer speaks for. Has no rights if the token holds a capability.
    Token(&'a Token, Option<&'a str>),
    /// The holder of a certificate, and the VO of its name in a grid-mapfile, which counts where there are no VOMS
    /// attributes.
    Certificate(&'a Identity, Option<&'a str>),
}

impl Rule {
    /// Whether the rule allows a caller an operation on a path.
    ///
    /// It applies to the bearer of a token only where the issuer is accepted.
    pub fn allows(&self, person: Person<'_>, operation: Operation, path: &StoragePath) -> bool {
        let root = StoragePath::root();
        let below = self.path.as_ref().unwrap_or(&root);
        let may = |at| self.may.iter().any(|action| permits(*action, at, operation, path));
        match person {
            _ if !self.fits(person) => false,
            Person::Certificate(..) => may(below),
            Person::Token(token, _) => token
                .prefixes
                .iter()
                .filter_map(|prefix| narrower(prefix, below))
                .any(may),
        }
    }

    /// Whether the rule grants the right to an action at a path and below.
    pub fn gives(&self, person: Person<'_>, action: StorageAction, path: &StoragePath) -> bool {
        let covers = |at: &StoragePath| at.covers(path);
        let say = match person {
            Person::Certificate(..) => true,
            Person::Token(token, _) => token.prefixes.iter().any(covers),
        };
        say && self.may.contains(&action) && self.path.as_ref().is_none_or(covers) && self.fits(person)
    }

    /// Whether all of the rule's names are names of this person.
    fn fits(&self, person: Person<'_>) -> bool {
        match person {
            Person::Token(token, vo) => self.fits_token(token, vo),
            Person::Certificate(identity, vo) => self.fits_certificate(identity, vo),
        }
    }

    fn fits_token(&self, token: &Token, vo: Option<&str>) -> bool {
        let Access::Groups(groups) = token.access() else {
            return false;
        };
        let is_member = |group: &String| groups.iter().any(|one| one.as_str() == group);
        self.dn.is_none()
            && self.role.is_none()
            && self.issuer.as_ref().is_none_or(|issuer| *issuer == token.issuer)
            && self.subject.as_ref().is_none_or(|subject| *subject == token.subject)
            && self.vo.as_deref().is_none_or(|wanted| vo == Some(wanted))
            && self.group.as_ref().is_none_or(is_member)
    }

    fn fits_certificate(&self, identity: &Identity, vo: Option<&str>) -> bool {
        if self.issuer.is_some() || self.subject.is_some() {
            return false;
        }
        if self.dn.as_ref().is_some_and(|dn| *dn != identity.subject) {
            return false;
        }
        if self.vo.is_none() && self.group.is_none() && self.role.is_none() {
            return true;
        }
        if identity.voms.is_empty() {
            return self.group.is_none() && self.role.is_none() && self.vo.as_deref() == vo;
        }
        identity
            .voms
            .iter()
            .filter(|attributes| self.vo.as_ref().is_none_or(|vo| *vo == attributes.vo))
            .any(|attributes| attributes.fqans.iter().any(|fqan| self.fits_fqan(fqan)))
    }

    fn fits_fqan(&self, fqan: &str) -> bool {
        let fqan = short_fqan(fqan);
        let (group, role) = match fqan.split_once("/Role=") {
            Some((group, role)) => (group, Some(role)),
            None => (fqan, None),
        };
        self.group.as_ref().is_none_or(|wanted| wanted == group)
            && self.role.as_deref().is_none_or(|wanted| role == Some(wanted))
    }

    /// Checks the rule for the reader of a configuration.
    ///
    /// # Errors
    /// The key at fault, and the problem with its remedy.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let of_tokens = self.issuer.is_some() || self.subject.is_some();
        let of_certificates = self.dn.is_some() || self.role.is_some();
        if !of_tokens && !of_certificates && self.vo.is_none() && self.group.is_none() {
            return Err(("vo", "the rule names no caller".to_owned()));
        }
        if of_tokens && of_certificates {
            return Err((
                "issuer",
                "no one has a token's names and a certificate's at once".to_owned(),
            ));
        }
        if self.subject.is_some() && self.issuer.is_none() {
            return Err((
                "subject",
                "another issuer may give the same name to another user".to_owned(),
            ));
        }
        if self.may.is_empty() {
            return Err(("may", "the rule gives no right".to_owned()));
        }
        let names = [
            ("issuer", &self.issuer),
            ("subject", &self.subject),
            ("vo", &self.vo),
            ("role", &self.role),
        ];
        if let Some((key, _)) = names.iter().find(|(_, name)| name.as_deref() == Some("")) {
            return Err((key, "the name is empty".to_owned()));
        }
        match (&self.group, &self.dn) {
            (Some(group), _) if Group::parse(group).is_none() => Err(("group", format!("\"{group}\" is no group"))),
            (_, Some(dn)) if !dn.starts_with('/') => Err(("dn", format!("\"{dn}\" is not in slash form"))),
            _ => Ok(()),
        }
    }
}

/// The narrower of two places, if one lies in the other.
fn narrower<'a>(one: &'a StoragePath, other: &'a StoragePath) -> Option<&'a StoragePath> {
    if one.is_within(other) {
        Some(one)
    } else {
        other.is_within(one).then_some(other)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;
    use crate::authorize::authorize;
    use crate::token::tests::{token, token_below, token_of_groups};
    use crate::x509::VomsAttributes;

    fn path(text: &str) -> StoragePath {
        StoragePath::from_url_path(text).unwrap()
    }

    fn named(set: impl FnOnce(&mut Rule)) -> Rule {
        let mut rule = Rule {
            may: vec![StorageAction::Read],
            ..Rule::default()
        };
        set(&mut rule);
        rule
    }

    #[expect(clippy::unnecessary_wraps, reason = "the names of a rule are optional")]
    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn identity(voms: &[(&str, &[&str])]) -> Identity {
        let attributes = |(vo, fqans): &(&str, &[&str])| VomsAttributes {
            vo: (*vo).to_owned(),
            fqans: fqans.iter().map(|fqan| (*fqan).to_owned()).collect(),
            not_after: UNIX_EPOCH,
            issuer: String::new(),
            host: String::new(),
            serial: String::new(),
        };
        Identity {
            subject: "/CN=Ada".to_owned(),
            issuer: "/CN=CA".to_owned(),
            not_after: UNIX_EPOCH,
            n_proxies: 1,
            is_limited: false,
            voms: voms.iter().map(attributes).collect(),
            certificate: Vec::new(),
        }
    }

    fn reads(rule: &Rule, person: Person<'_>) -> bool {
        rule.allows(person, Operation::Read, &path("/a/f"))
    }

    /// A rule would be for others than it names.
    #[test]
    fn every_name_of_a_rule_must_fit() {
        let ada = identity(&[
            (
                "atlas",
                &["/atlas/Role=NULL/Capability=NULL", "/atlas/prod/Role=production"],
            ),
            ("cms", &["/cms/Role=pilot"]),
        ]);
        let check = |rule: &Rule, expected: bool| {
            assert_eq!(
                reads(rule, Person::Certificate(&ada, Some("dune"))),
                expected,
                "{rule:?}"
            );
        };
        check(&named(|rule| rule.dn = text("/CN=Ada")), true);
        check(&named(|rule| rule.dn = text("/CN=Ad")), false);
        check(&named(|rule| rule.vo = text("atlas")), true);
        check(&named(|rule| rule.vo = text("cms")), true);
        check(&named(|rule| rule.vo = text("dune")), false);
        check(&named(|rule| rule.group = text("/atlas")), true);
        check(&named(|rule| rule.group = text("/atlas/prod")), true);
        check(&named(|rule| rule.group = text("/cms/prod")), false);
        check(&named(|rule| rule.role = text("pilot")), true);
        check(&named(|rule| rule.role = text("pil")), false);
        let both = |group: &str, role: &str| named(|rule| (rule.group, rule.role) = (text(group), text(role)));
        check(&both("/atlas/prod", "production"), true);
        check(&both("/atlas", "production"), false);
        check(
            &named(|rule| (rule.vo, rule.role) = (text("atlas"), text("pilot"))),
            false,
        );
        check(
            &named(|rule| (rule.vo, rule.dn) = (text("atlas"), text("/CN=Bob"))),
            false,
        );
        check(
            &named(|rule| (rule.vo, rule.issuer) = (text("atlas"), text("/CN=CA"))),
            false,
        );
        check(&named(|rule| rule.subject = text("/CN=Ada")), false);
    }

    /// A caller without VOMS attributes would get those of a VO, or none where the grid-mapfile names one.
    #[test]
    fn a_grid_mapfile_gives_a_vo_and_nothing_else() {
        let (bare, dune) = (identity(&[]), Some("dune"));
        assert!(reads(
            &named(|rule| rule.vo = text("dune")),
            Person::Certificate(&bare, dune)
        ));
        assert!(!reads(
            &named(|rule| rule.vo = text("dune")),
            Person::Certificate(&bare, None)
        ));
        assert!(!reads(
            &named(|rule| rule.group = text("/dune")),
            Person::Certificate(&bare, dune)
        ));
        let role = named(|rule| (rule.vo, rule.role) = (text("dune"), text("production")));
        assert!(!reads(&role, Person::Certificate(&bare, dune)));
    }

    /// A group of one issuer would count for another VO, or where the issuer is not accepted.
    #[test]
    fn bearers_are_known_by_groups_where_their_issuer_counts() {
        let token_of = |groups: &[&str]| token_of_groups(groups);
        let prod = token_of(&["/dteam", "/dteam/production"]);
        let check = |rule: &Rule, vo: Option<&str>, expected: bool| {
            assert_eq!(reads(rule, Person::Token(&prod, vo)), expected, "{rule:?}");
        };
        check(&named(|rule| rule.group = text("/dteam/production")), None, true);
        check(&named(|rule| rule.group = text("/dteam/prod")), None, false);
        check(&named(|rule| rule.vo = text("dteam")), None, false);
        check(&named(|rule| rule.vo = text("dteam")), Some("dteam"), true);
        check(&named(|rule| rule.issuer = text("https://issuer.example/")), None, true);
        check(&named(|rule| rule.issuer = text("https://issuer.example")), None, false);
        check(&named(|rule| rule.role = text("production")), None, false);
        check(&named(|rule| rule.dn = text("someone")), None, false);

        let elsewhere = token_below("openid", &["/b"]);
        let rule = named(|rule| rule.issuer = text("https://issuer.example/"));
        assert!(!reads(&rule, Person::Token(&elsewhere, None)));
        assert!(rule.allows(Person::Token(&elsewhere, None), Operation::Read, &path("/b/f")));
        assert!(!rule.gives(Person::Token(&elsewhere, None), StorageAction::Read, &path("/")));
    }

    /// A rule that means something else than its writer thinks would be taken silently.
    #[test]
    fn rules_that_make_no_sense_are_found() {
        for (key, rule) in [
            ("vo", named(|_| {})),
            (
                "issuer",
                named(|rule| (rule.issuer, rule.dn) = (text("x"), text("/CN=x"))),
            ),
            ("subject", named(|rule| rule.subject = text("x"))),
            (
                "may",
                Rule {
                    vo: text("x"),
                    ..Rule::default()
                },
            ),
            ("vo", named(|rule| rule.vo = text(""))),
            ("group", named(|rule| rule.group = text("atlas"))),
            ("dn", named(|rule| rule.dn = text("CN=x"))),
        ] {
            assert_eq!(rule.check().unwrap_err().0, key, "{rule:?}");
        }
        named(|rule| rule.group = text("/atlas/Higgs")).check().unwrap();
    }

    fn any_path() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "ab"]), 0..4)
            .prop_map(|names| format!("/{}", names.join("/")))
    }

    proptest! {
        /// A rule would give other rights than a token with the scopes of the same names.
        #[test]
        fn a_rule_gives_what_the_same_scopes_would(
            may in prop::collection::vec(prop::sample::select(StorageAction::ALL.to_vec()), 1..3),
            below in any_path(),
            at in any_path(),
            operation in prop::sample::select(Operation::ALL.to_vec()),
        ) {
            let scopes: Vec<String> = may.iter().map(|action| format!("{}:{below}", action.as_str())).collect();
            let scopes = token(&scopes.join(" "));
            let rule = Rule { vo: text("dune"), may, path: Some(path(&below)), ..Rule::default() };
            let (bare, group) = (identity(&[]), token_of_groups(&[]));
            let expected = authorize(&scopes, operation, &path(&at)).is_ok();
            prop_assert_eq!(rule.allows(Person::Certificate(&bare, Some("dune")), operation, &path(&at)), expected);
            prop_assert_eq!(rule.allows(Person::Token(&group, Some("dune")), operation, &path(&at)), expected);
            // A token that was cut down to some scopes gains nothing.
            prop_assert!(!rule.allows(Person::Token(&scopes, Some("dune")), operation, &path(&at)));
            for action in StorageAction::ALL {
                if rule.gives(Person::Certificate(&bare, Some("dune")), action, &path(&at)) {
                    let scope = token(&format!("{}:{at}", action.as_str()));
                    let more = authorize(&scope, operation, &path(&at)).is_ok();
                    prop_assert!(!more || expected, "what is given can be handed on, and no more");
                }
            }
        }
    }
}

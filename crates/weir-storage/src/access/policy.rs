//! Access rules of the configuration: the rules and issuers of each area, and the members of VOs.

use std::collections::BTreeSet;

use weir_auth::{Denied, DeniedReason, Operation, Person, Rule, StorageAction, StoragePath, Token, mint::Mint};

use crate::config::{AreaConfig, IssuerConfig, StorageConfig};

/// The access rules of all areas.
pub(crate) struct Policy {
    /// The longest prefix first: of areas inside one another the inner one decides alone.
    areas: Vec<AreaPolicy>,
    issuers: Vec<IssuerConfig>,
    /// The issuer of the endpoint's own tokens. They count everywhere: each was made for an area.
    own: Option<String>,
}

struct AreaPolicy {
    prefix: StoragePath,
    /// Accepted issuers; empty: all.
    issuers: Vec<String>,
    /// Each with its path.
    rules: Vec<Rule>,
}

impl AreaPolicy {
    fn new(area: &AreaConfig) -> Self {
        let placed = |rule: &Rule| Rule {
            path: Some(rule.path.clone().unwrap_or_else(|| area.prefix.clone())),
            ..rule.clone()
        };
        Self {
            prefix: area.prefix.clone(),
            issuers: area.issuers.clone(),
            rules: area.rules.iter().map(placed).collect(),
        }
    }
}

impl Policy {
    /// `url` is the endpoint's own.
    pub(crate) fn new(config: &StorageConfig, url: &str) -> Self {
        let mut areas: Vec<_> = config.areas.iter().map(AreaPolicy::new).collect();
        areas.sort_by_key(|area| std::cmp::Reverse(area.prefix.depth()));
        Self {
            areas,
            issuers: config.issuers.clone(),
            own: config.tokens.as_ref().map(|_| url.to_owned()),
        }
    }

    /// The VO of a token's issuer; for a token of the endpoint's own, the VO of its owner.
    pub(crate) fn vo<'a>(&'a self, token: &'a Token) -> Option<&'a str> {
        if self.is_own(token) {
            return Mint::vo(token);
        }
        let issuer = self.issuers.iter().find(|issuer| issuer.url == token.issuer)?;
        issuer.vo.as_deref()
    }

    fn is_own(&self, token: &Token) -> bool {
        self.own.as_ref() == Some(&token.issuer)
    }

    /// Whether rules allow a person an operation at a path. Rules hold in their own area, and above it for the
    /// directories that lead there.
    pub(crate) fn allows(&self, person: Person<'_>, operation: Operation, path: &StoragePath) -> bool {
        let inside = self.area_of(path).into_iter();
        let below = self.areas.iter().filter(|area| path.is_ancestor_of(&area.prefix));
        let mut rules = inside.chain(below).flat_map(|area| &area.rules);
        rules.any(|rule| rule.allows(person, operation, path))
    }

    /// Whether a rule of the path's own area grants a right there and below.
    pub(crate) fn gives(&self, person: Person<'_>, action: StorageAction, path: &StoragePath) -> bool {
        let mut rules = self.area_of(path).into_iter().flat_map(|area| &area.rules);
        rules.any(|rule| rule.gives(person, action, path))
    }

    /// Whether a path lies in an area, and no other area in it.
    pub(crate) fn is_of_one_area(&self, path: &StoragePath) -> bool {
        self.area_of(path).is_some() && !self.areas.iter().any(|area| path.is_ancestor_of(&area.prefix))
    }

    /// Whether the token's issuer counts in the area of this path.
    pub(crate) fn takes(&self, token: &Token, path: &StoragePath) -> bool {
        let Some(area) = self.area_of(path) else { return true };
        area.issuers.is_empty() || area.issuers.contains(&token.issuer) || self.is_own(token)
    }

    /// Refuses a token of an issuer that does not count in the area of this path.
    pub(crate) fn check_issuer(&self, token: &Token, operation: Operation, path: &StoragePath) -> Result<(), Denied> {
        if self.takes(token, path) {
            return Ok(());
        }
        Err(Denied {
            operation,
            path: path.clone(),
            needs: format!("{}:{}", operation.allowed_by()[0].as_str(), path.to_url_path()),
            reason: DeniedReason::OutsideIssuer,
        })
    }

    /// The VOs of an area: those of its rules, and those of its accepted issuers.
    pub(crate) fn vos_of(&self, prefix: &StoragePath) -> BTreeSet<&str> {
        let Some(area) = self.areas.iter().find(|area| area.prefix == *prefix) else {
            return BTreeSet::new();
        };
        let counts = |issuer: &&IssuerConfig| area.issuers.is_empty() || area.issuers.contains(&issuer.url);
        let speaks = |issuer: &&IssuerConfig| {
            let mut prefixes = issuer.prefixes.iter();
            prefixes.any(|prefix| prefix.is_within(&area.prefix) || area.prefix.is_within(prefix))
        };
        let issuers = self.issuers.iter().filter(counts).filter(speaks);
        let of_issuers = issuers.filter_map(|issuer| issuer.vo.as_deref());
        let of_rules = area.rules.iter().filter_map(|rule| rule.vo.as_deref());
        of_rules.chain(of_issuers).collect()
    }

    fn area_of(&self, path: &StoragePath) -> Option<&AreaPolicy> {
        self.areas.iter().find(|area| path.is_within(&area.prefix))
    }
}

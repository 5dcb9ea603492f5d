//! Administrators.

use serde::{Deserialize, Serialize};

/// The jobs that a user may see and cancel, in FTS3's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Their own.
    Private,
    /// The jobs of their VO.
    Vo,
    /// All jobs; and they read and change the settings.
    #[default]
    All,
}

/// An administrator. With a token: by subject, by group, or by a scope without path. With a certificate: by name, or by VOMS
/// attribute. All that are given must fit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminConfig {
    /// The issuer; may be left out if there is only one.
    #[serde(default)]
    pub issuer: Option<String>,
    /// `sub`.
    #[serde(default)]
    pub subject: Option<String>,
    /// One of `wlcg.groups`.
    #[serde(default)]
    pub group: Option<String>,
    /// A scope without path, such as `fts:admin`.
    #[serde(default)]
    pub scope: Option<String>,
    /// A certificate's name: `/DC=ch/DC=cern/CN=Somebody`.
    #[serde(default)]
    pub dn: Option<String>,
    /// A VO, group or role, as VOMS writes it: `/atlas/Role=production`.
    #[serde(default)]
    pub fqan: Option<String>,
    /// Of everything, or of the VO they come with.
    #[serde(default)]
    pub level: Level,
}

impl Level {
    /// The level of users with a token: never `All`. FTS3's default gives every token that.
    #[must_use]
    pub fn of_tokens(self) -> Self {
        self.min(Self::Vo)
    }
}

impl AdminConfig {
    /// The problem of the entry, if there is one.
    pub(super) fn problem(&self, issuers: usize) -> Option<&'static str> {
        match self.kinds() {
            (false, false) => Some("an [[admin]] needs a subject, a group, a scope, a dn or a fqan"),
            (true, true) => Some("an [[admin]] is of a token or of a certificate; make two"),
            (false, true) if self.issuer.is_some() => Some("an [[admin]] of a certificate has no issuer: tokens have"),
            _ if self.level == Level::Private => Some("an [[admin]] has the level \"vo\" or \"all\""),
            // Each issuer names subjects, groups and scopes as it likes.
            (true, _) if self.issuer.is_none() && issuers > 1 => {
                Some("with several issuers, an [[admin]] of a token needs its issuer")
            }
            _ => None,
        }
    }

    /// Whether it is about users with a token, and whether about users with a certificate.
    pub fn kinds(&self) -> (bool, bool) {
        let token = self.subject.is_some() || self.group.is_some() || self.scope.is_some();
        (token, self.dn.is_some() || self.fqan.is_some())
    }
}

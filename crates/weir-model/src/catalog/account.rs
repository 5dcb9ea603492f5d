//! Accounts, and the identities with which people and programs use them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::word::words;

/// Longest name of an account (Rucio's `ACCOUNT_LENGTH`).
const ACCOUNT_MAX: usize = 25;

/// Names an account: 1 to 25 of the characters `a` to `z`, `0` to `9`, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AccountName(String);

/// Says why a text names no account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no name of an account: 1 to 25 of a-z, 0-9, - and _")]
pub struct AccountNameError(String);

impl AccountName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for AccountName {
    type Err = AccountNameError;

    fn from_str(text: &str) -> Result<Self, AccountNameError> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if (1..=ACCOUNT_MAX).contains(&text.len()) && text.chars().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(AccountNameError(text.chars().take(40).collect()))
        }
    }
}

impl<'de> Deserialize<'de> for AccountName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

words! {
    /// The type of an account. Permissions depend on it.
    AccountType, "account type" {
        /// A person.
        User = "USER", 'U';
        /// Several persons.
        Group = "GROUP", 'G';
        /// A program.
        Service = "SERVICE", 'S';
    }
}

words! {
    /// Whether an account may be used.
    AccountStatus, "account status" {
        /// It may.
        Active = "ACTIVE", 'A';
        /// An administrator suspended it.
        Suspended = "SUSPENDED", 'S';
        /// An administrator deleted it; its data, scopes and rules stay.
        Deleted = "DELETED", 'D';
    }
}

words! {
    /// How an identity is proven.
    IdentityType, "identity type" {
        /// A certificate, or a proxy of one: the subject's name.
        X509 = "X509", 'X';
        /// A user name and a password.
        UserPass = "USERPASS", 'U';
        /// A token of an OIDC issuer: `SUB=…, ISS=…`.
        Oidc = "OIDC", 'O';
        /// A Kerberos principal.
        Gss = "GSS", 'G';
        /// A public key.
        Ssh = "SSH", 'S';
        /// An assertion of an identity provider.
        Saml = "SAML", 'A';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_names_are_those_of_rucio() {
        for name in ["root", "a", "panda-1", "user_x", &"a".repeat(25)] {
            assert!(name.parse::<AccountName>().is_ok(), "{name}");
        }
        for name in ["", "Root", "a b", "a.b", "é", "a/b", &"a".repeat(26)] {
            assert!(name.parse::<AccountName>().is_err(), "{name}");
        }
    }
}

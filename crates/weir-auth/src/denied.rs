//! Refusals of an operation for want of a right.

use std::fmt;

use thiserror::Error;

use super::operation::Operation;
use crate::path::StoragePath;

/// A valid token or certificate that does not suffice: 403.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("this {} may not {operation} {path}: {reason}, it needs {needs}", reason.of())]
pub struct Denied {
    /// The requested operation.
    pub operation: Operation,
    /// The path.
    pub path: StoragePath,
    /// The narrowest scope that would have sufficed, as to be asked of the issuer, such as `storage.modify:/x`; for a
    /// certificate, the rule.
    pub needs: String,
    /// Why it does not suffice.
    pub reason: DeniedReason,
}

/// Why a token or certificate does not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedReason {
    /// No scope gives the right anywhere.
    NoSuchScope,
    /// There is a scope for it, for other paths.
    OtherPath,
    /// The path lies outside the prefixes of the token's issuer here.
    OutsideIssuer,
    /// The token holds no capability, and no rule gives its holder the right.
    Rules,
    /// No rule gives the holder of the certificate the right.
    Certificate,
    /// The right is one to files that the holder wrote, and the record of this one does not name the holder.
    NotYours,
}

impl DeniedReason {
    fn of(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            _ => "token",
        }
    }
}

impl fmt::Display for DeniedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchScope => "no scope of it gives this right",
            Self::OtherPath => "its scopes are for other paths",
            Self::OutsideIssuer => "its issuer has no say over this path",
            Self::Rules => "it holds no storage scope, and no rule gives its holder this right",
            Self::Certificate => "no rule gives its holder this right",
            Self::NotYours => "its right to create is one to move files that its holder wrote",
        })
    }
}

impl Denied {
    /// The `WWW-Authenticate` header of the answer (RFC 6750 section 3); none where a certificate was shown.
    pub fn www_authenticate(&self) -> Option<String> {
        let insufficient = || format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", self.needs);
        (self.reason != DeniedReason::Certificate).then(insufficient)
    }

    /// The remedy for the holder or the operator.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.reason {
            DeniedReason::Certificate => {
                "show VOMS attributes of a group that may do it, or a token; the operator can add a rule"
            }
            _ => "ask the issuer for a token with the scope named",
        }
    }
}

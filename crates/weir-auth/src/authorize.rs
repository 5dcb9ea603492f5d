//! Who may do what where: the operation table of the WLCG token profile 1.3.
//!
//! A token that holds any capability is judged by its capabilities alone, even if none fits; only a token without any is
//! judged by its groups, through [`GroupRules`].
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

use std::fmt;

use thiserror::Error;

use crate::path::StoragePath;
use crate::scope::StorageAction;
use crate::token::{Access, Capability, Group, Token};

/// What is to be done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reads a file's content: GET, the local side of a COPY that pushes.
    Read,
    /// Asks for the attributes or the checksum of the named path: HEAD, PROPFIND with depth 0.
    Stat,
    /// Lists what is in a directory: PROPFIND with depth 1.
    List,
    /// Makes a file where none is: PUT, a COPY that pulls.
    Create,
    /// Replaces a file that is there: PUT, a COPY that pulls.
    Overwrite,
    /// Removes a file or directory, or moves it away.
    Delete,
    /// Makes a directory: MKCOL.
    MakeDirectory,
    /// Moves a file onto a free name (the end of an upload under a temporary name); needed at both ends.
    MoveFile,
    /// Asks whether a file is on disk or on tape.
    Locality,
    /// Brings a file from tape to disk, or ends such a request.
    Stage,
    /// Asks how a staging request goes.
    PollStage,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Stat,
        Self::List,
        Self::Create,
        Self::Overwrite,
        Self::Delete,
        Self::MakeDirectory,
        Self::MoveFile,
        Self::Locality,
        Self::Stage,
        Self::PollStage,
    ];

    /// The verb in "may not … /path".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Create => "create",
            Self::Overwrite => "overwrite",
            Self::Delete => "delete",
            Self::MakeDirectory => "make directory",
            Self::MoveFile => "move",
            Self::Locality => "ask for the locality of",
            Self::Stage => "stage",
            Self::PollStage => "poll the staging of",
        }
    }

    /// Actions that allow the operation at and below a scope's path; the first is the one to ask an issuer for.
    pub fn allowed_by(self) -> &'static [StorageAction] {
        use StorageAction::{Create, Modify, Poll, Read, Stage};
        match self {
            Self::Read | Self::List => &[Read],
            Self::Stat => &[Read, Create, Modify, Stage],
            Self::Create | Self::MakeDirectory | Self::MoveFile => &[Create, Modify],
            Self::Overwrite | Self::Delete => &[Modify],
            Self::Locality => &[Read, Create, Modify, Stage, Poll],
            Self::Stage => &[Stage],
            Self::PollStage => &[Stage, Poll],
        }
    }

    /// Whether scopes to make or change things allow the operation on the directories above their path too.
    ///
    /// Transfer clients look at the parents of a destination and make those that are missing.
    fn reaches_ancestors(self) -> bool {
        matches!(self, Self::Stat | Self::MakeDirectory)
    }

    /// Whether the operation is one on a directory, or shows no more of a path than a directory's holder may see.
    fn takes_directories(self) -> bool {
        matches!(self, Self::Stat | Self::List | Self::MakeDirectory)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A valid token that does not suffice: 403.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("this token may not {operation} {path}: {reason}, it needs {needs}")]
pub struct Denied {
    /// What was to be done.
    pub operation: Operation,
    /// With what.
    pub path: StoragePath,
    /// The narrowest scope that would have sufficed, as to be asked of the issuer, such as `storage.modify:/x`.
    pub needs: String,
    /// Why the token does not suffice.
    pub reason: DeniedReason,
}

/// Why a token does not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedReason {
    /// No scope gives the right anywhere.
    NoSuchScope,
    /// There is a scope for it, for other paths.
    OtherPath,
    /// The path lies outside what the token's issuer may speak for here.
    OutsideIssuer,
    /// The token holds no capability, and its groups give no such right.
    Groups,
}

impl fmt::Display for DeniedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchScope => "no scope of it gives this right",
            Self::OtherPath => "its scopes are for other paths",
            Self::OutsideIssuer => "its issuer has no say over this path",
            Self::Groups => "it holds no storage scope and its groups give no such right",
        })
    }
}

impl Denied {
    /// The `WWW-Authenticate` header of the answer (RFC 6750 section 3).
    pub fn www_authenticate(&self) -> String {
        format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", self.needs)
    }
}

/// What groups may do, for tokens without any capability: a storage area's own rules.
pub trait GroupRules {
    /// Whether a member of `groups` (in the token's order) may do `operation` with `path`.
    fn allow(&self, groups: &[Group], operation: Operation, path: &StoragePath) -> bool;
}

/// Rules under which groups may do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGroupRules;

impl GroupRules for NoGroupRules {
    fn allow(&self, _: &[Group], _: Operation, _: &StoragePath) -> bool {
        false
    }
}

/// Decides by the capabilities of a token; groups give no right.
///
/// A MOVE is two decisions: [`authorize_move`].
///
/// # Errors
/// [`Denied`], which names the scope that would have sufficed.
pub fn authorize(token: &Token, operation: Operation, path: &StoragePath) -> Result<(), Denied> {
    authorize_with(token, &NoGroupRules, operation, path)
}

/// Decides by the capabilities of a token or, if it has none, by its groups.
///
/// # Errors
/// [`Denied`], which names the scope that would have sufficed.
pub fn authorize_with(
    token: &Token,
    groups: &impl GroupRules,
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
        Access::Groups(members) => {
            if groups.allow(members, operation, path) {
                return Ok(());
            }
            DeniedReason::Groups
        }
    };
    Err(deny(token, operation, path, reason))
}

/// Decides a MOVE: the right to take the source away, and to put it where it goes.
///
/// `onto_free_name` says that a *file* moves to a name that does not exist: then `storage.create` at both ends suffices,
/// so that an upload under a temporary name can end. Otherwise both ends need `storage.modify`.
///
/// # Errors
/// [`Denied`] for the first end that is refused.
pub fn authorize_move(
    token: &Token,
    source: &StoragePath,
    destination: &StoragePath,
    onto_free_name: bool,
) -> Result<(), Denied> {
    let (take, put) = if onto_free_name {
        (Operation::MoveFile, Operation::MoveFile)
    } else {
        (Operation::Delete, Operation::Overwrite)
    };
    authorize(token, take, source)?;
    authorize(token, put, destination)
}

/// Whether one capability allows the operation.
fn allows(capability: &Capability, operation: Operation, path: &StoragePath) -> bool {
    if !operation.allowed_by().contains(&capability.action) {
        return false;
    }
    if capability.path.covers(path) {
        return true;
    }
    if operation.takes_directories() && capability.path.covers(&path.as_directory()) {
        return true;
    }
    operation.reaches_ancestors()
        && matches!(capability.action, StorageAction::Create | StorageAction::Modify)
        && path.is_ancestor_of(&capability.path)
}

fn deny(token: &Token, operation: Operation, path: &StoragePath, reason: DeniedReason) -> Denied {
    let action = operation.allowed_by()[0].as_str();
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

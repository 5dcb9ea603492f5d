//! Operations on paths, and the scopes that allow them.

use std::fmt;

use crate::scope::StorageAction;

/// An operation on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reads a file's content: GET, the local side of a COPY that pushes.
    Read,
    /// Asks for the attributes or the checksum of the named path: HEAD, PROPFIND with depth 0.
    Stat,
    /// Lists the entries of a directory: PROPFIND with depth 1.
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
    pub(super) fn reaches_ancestors(self) -> bool {
        matches!(self, Self::Stat | Self::MakeDirectory)
    }

    /// Whether the operation is one on a directory, or shows no more of a path than a directory's holder may see.
    pub(super) fn takes_directories(self) -> bool {
        matches!(self, Self::Stat | Self::List | Self::MakeDirectory)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

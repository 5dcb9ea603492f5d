//! Answers about the namespace of a storage: `/dm`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One name of a directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedFile {
    /// Bytes.
    pub size: u64,
    /// Kind and permissions, as in POSIX.
    pub mode: u32,
    /// Seconds since the Unix epoch.
    pub mtime: i64,
}

/// The attributes of a path. Attributes that the storage does not send are 0.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Stat {
    /// Kind and permissions, as in POSIX.
    pub mode: u32,
    /// Always 1.
    pub nlink: u32,
    /// Bytes.
    pub size: u64,
    /// Last access, in seconds since the Unix epoch.
    pub atime: i64,
    /// Last change of the content.
    pub mtime: i64,
    /// Creation.
    pub ctime: i64,
}

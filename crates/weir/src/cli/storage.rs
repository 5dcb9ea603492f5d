//! `weir storage …`, as data.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_units::Algorithm;

/// `weir storage …`
#[derive(Debug, Subcommand)]
pub(crate) enum StorageCommand {
    /// List directories
    Ls(StorageLsArguments),
    /// Copy a file from a storage to this machine
    Get(StorageGetArguments),
    /// Copy a file from this machine to a storage
    Put(StoragePutArguments),
    /// Remove files, or directories with all that is in them
    Rm(StorageRmArguments),
    /// Print checksums of files
    Checksum(StorageChecksumArguments),
    /// Say how much room directories take, and how much is left
    Du(StorageDuArguments),
}

/// The credential, and the trusted authorities.
#[derive(Debug, Args)]
pub(crate) struct AccessArguments {
    /// Take the token from this file (default: BEARER_TOKEN, BEARER_TOKEN_FILE, then where WLCG tools look)
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust these certificate authorities instead of the system's and the grid's
    #[arg(
        long,
        value_name = "FILE",
        env = "WEIR_CA_FILE",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) ca: Option<PathBuf>,
    /// Find the grid's certificate authorities here
    #[arg(
        long,
        value_name = "DIR",
        env = "X509_CERT_DIR",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) ca_directory: Option<PathBuf>,
}

/// `weir storage ls`
#[derive(Debug, Args)]
pub(crate) struct StorageLsArguments {
    /// The directories or files (https://host:port/path)
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
    /// Show sizes and times too
    #[arg(short, long)]
    pub(crate) long: bool,
    /// List subdirectories too
    #[arg(short, long)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// `weir storage get`
#[derive(Debug, Args)]
pub(crate) struct StorageGetArguments {
    /// The file
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Where to: a file, a directory, or - for standard output (default: its name, here)
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) to: PathBuf,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// `weir storage put`
#[derive(Debug, Args)]
pub(crate) struct StoragePutArguments {
    /// The file
    #[arg(value_name = "PATH")]
    pub(crate) file: PathBuf,
    /// Where to; a directory if it ends in /
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// `weir storage rm`
#[derive(Debug, Args)]
pub(crate) struct StorageRmArguments {
    /// The files or directories
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
    /// Remove directories with all that is in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Count missing ones as removed
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// `weir storage checksum`
#[derive(Debug, Args)]
pub(crate) struct StorageChecksumArguments {
    /// The files
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
    /// The checksum algorithm (adler32, crc32c, md5, sha-256)
    #[arg(short, long, value_name = "NAME", default_value = "adler32")]
    pub(crate) algorithm: Algorithm,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// `weir storage du`
#[derive(Debug, Args)]
pub(crate) struct StorageDuArguments {
    /// The directories
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

//! `weir authority …`

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `weir authority …`
#[derive(Debug, Subcommand)]
pub(crate) enum AuthorityCommand {
    /// Make a certificate authority of your own in a folder
    New(AuthorityNewArguments),
    /// Make key and certificate of a host
    Host(AuthorityHostArguments),
    /// Make key and certificate of a user
    User(AuthorityUserArguments),
}

/// `weir authority new`
#[derive(Debug, Args)]
pub(crate) struct AuthorityNewArguments {
    /// The folder; made with mode 0700
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// `weir authority host`
#[derive(Debug, Args)]
pub(crate) struct AuthorityHostArguments {
    /// The folder of the authority
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Names and addresses by which the host is reached; the first names the files
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// Write NAME.pem and NAME.key here
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
}

/// `weir authority user`
#[derive(Debug, Args)]
pub(crate) struct AuthorityUserArguments {
    /// The folder of the authority
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The user's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Write NAME.pem and NAME.key here
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
}

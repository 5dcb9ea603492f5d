//! `weir probe`

use std::time::Duration;

use clap::Args;
use weir_units::Bytes;

use super::AccessArguments;

/// `weir probe`
#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// The endpoint: https://host:port/folder, or root://host:port
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Write and read a file of this size to see how fast a storage is
    #[arg(long, value_name = "SIZE", default_value = "32 MB")]
    pub(crate) size: Bytes,
    /// Take at most this long
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = weir_units::duration::parse)]
    pub(crate) limit: Duration,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

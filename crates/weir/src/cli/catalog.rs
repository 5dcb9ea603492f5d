//! `weir rule …` and `weir catalog …`, as data.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::AccessArguments;

/// `weir rule …`
#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    /// Ask for copies of files, datasets or containers, and print the rules' ids
    Add(RuleAddArguments),
    /// List rules
    List(RuleListArguments),
    /// Show rules
    Show(RulesArguments),
    /// Follow rules until all are OK
    Watch(RulesArguments),
    /// Explain why a rule waits, down to the scheduler's reason
    Why(RuleWhyArguments),
    /// Let rules end within the hour
    Delete(RulesArguments),
}

/// `weir catalog …`
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Say how the catalogue stands: rules, requests, transfer services, deletions
    Status(CatalogStatusArguments),
    /// Look for replicas whose paths are shared or lead elsewhere
    Check(CatalogCheckArguments),
    /// Copy the database of a catalogue, also while it serves
    Backup(CatalogBackupArguments),
    /// Restore the copy of a database that no service uses
    Restore(CatalogRestoreArguments),
}

/// The catalogue, and the login.
#[derive(Debug, Args)]
pub(crate) struct CatalogArguments {
    /// The catalogue (default: of RUCIO_CONFIG)
    #[arg(
        long,
        value_name = "URL",
        env = "WEIR_CATALOG",
        hide_env_values = true,
        help_heading = "Catalogue"
    )]
    pub(crate) catalog: Option<String>,
    /// The account (default: of RUCIO_CONFIG)
    #[arg(
        long,
        value_name = "NAME",
        env = "RUCIO_ACCOUNT",
        hide_env_values = true,
        help_heading = "Catalogue"
    )]
    pub(crate) account: Option<String>,
    /// The user name (default: of RUCIO_CONFIG)
    #[arg(long, value_name = "NAME", help_heading = "Catalogue")]
    pub(crate) user: Option<String>,
    /// Take the password from this file's first line (default: of RUCIO_CONFIG)
    #[arg(long, value_name = "FILE", help_heading = "Catalogue")]
    pub(crate) password_file: Option<PathBuf>,
    /// The configuration of Rucio's client
    #[arg(
        long,
        value_name = "FILE",
        env = "RUCIO_CONFIG",
        hide_env_values = true,
        help_heading = "Catalogue"
    )]
    pub(crate) rucio_config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// `weir rule add`
#[derive(Debug, Args)]
pub(crate) struct RuleAddArguments {
    /// The files, datasets or containers (scope:name)
    #[arg(value_name = "DID", required = true)]
    pub(crate) dids: Vec<String>,
    /// The RSEs among which the copies are placed (tier=1&country=uk)
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) rses: String,
    /// The number of copies
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) copies: u32,
    /// End after this time (12h, 30d; default: never)
    #[arg(long, value_name = "TIME", value_parser = weir_units::duration::parse)]
    pub(crate) lifetime: Option<Duration>,
    /// The set of files that share their RSEs
    #[arg(long, value_name = "UNIT", default_value = "dataset")]
    pub(crate) grouping: GroupingArgument,
    /// The RSEs from which files may come (default: any)
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) source_rses: Option<String>,
    /// The activity, for its share
    #[arg(long, value_name = "NAME")]
    pub(crate) activity: Option<String>,
    /// More urgent is higher
    #[arg(long, value_name = "1-5", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: Option<u8>,
    /// A remark
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Delete the copies when the rule has ended, also where there is room
    #[arg(long)]
    pub(crate) purge: bool,
    /// Follow the rules until all are OK
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// The unit of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupingArgument {
    /// All files
    All,
    /// The files of a dataset
    Dataset,
    /// Each file by itself
    None,
}

impl GroupingArgument {
    /// Rucio's word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::All => "ALL",
            Self::Dataset => "DATASET",
            Self::None => "NONE",
        }
    }
}

/// `weir rule list`
#[derive(Debug, Args)]
pub(crate) struct RuleListArguments {
    /// Rules of this file, dataset or container (default: of the account)
    #[arg(value_name = "DID")]
    pub(crate) did: Option<String>,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// `weir rule show`, `watch`, `delete`
#[derive(Debug, Args)]
pub(crate) struct RulesArguments {
    /// The rules' ids
    #[arg(value_name = "RULE", required = true)]
    pub(crate) rules: Vec<String>,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// `weir rule why`
#[derive(Debug, Args)]
pub(crate) struct RuleWhyArguments {
    /// The rule's id
    #[arg(value_name = "RULE")]
    pub(crate) rule: String,
    /// Ask this transfer service for its scheduler's reasons, with the token (default: none)
    #[arg(
        long,
        value_name = "URL",
        env = "FTS_ENDPOINT",
        hide_env_values = true,
        help_heading = "Transfer service"
    )]
    pub(crate) endpoint: Option<String>,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// `weir catalog status`
#[derive(Debug, Args)]
pub(crate) struct CatalogStatusArguments {
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// `weir catalog check`
#[derive(Debug, Args)]
pub(crate) struct CatalogCheckArguments {
    /// The catalogue's configuration; a catalogue on SQLite must be stopped
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// `weir catalog backup`
#[derive(Debug, Args)]
pub(crate) struct CatalogBackupArguments {
    /// The database (`store` of the catalogue's configuration)
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
    /// Where to; must not be there
    #[arg(value_name = "COPY")]
    pub(crate) copy: PathBuf,
}

/// `weir catalog restore`
#[derive(Debug, Args)]
pub(crate) struct CatalogRestoreArguments {
    /// The copy
    #[arg(value_name = "COPY")]
    pub(crate) copy: PathBuf,
    /// The database (`store` of the catalogue's configuration)
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
    /// Keep a database that is there as STORE.before, and put the copy in its place
    #[arg(long)]
    pub(crate) replace: bool,
}

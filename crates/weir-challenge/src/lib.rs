//! The room that runs a plan against real doors and writes the report's data.
//!
//! It stands at the end of the house. [`run()`] starts the embedded part of a grid, puts source files of known content in
//! place, submits transfers or makes rules through an [`InjectionDoor`], and watches them. It deletes delivered files
//! at the end of their lifetime, compares independent counters, cleans up everywhere, and writes the run folder.
//! `weir-measure` does the arithmetic, `weir-plan` decides the injections.
//!
//! Invariants:
//! - Every submitted transfer is in `transfers.csv` once, with its end.
//! - Nothing here waits for a service without a limit; an interruption is heard within a tick of the loop.
//! - Tokens are of least privilege: a source's may only read, a destination's may only write below the run's directory.
//!   Files of rules lie below `/weir-challenge`, where the catalogue puts them; tokens for them reach that directory
//!   and no other.
//! - A run leaves its run folder behind, and nothing at any storage.
//! - Deliberately absent: arithmetic of its own, presentation.
//!
//! ```no_run
//! use std::sync::Arc;
//! use weir_challenge::{NetworkGround, Options, Silent, Stop, run};
//! use weir_plan::{Challenge, Overrides, TEMPLATE};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let challenge = Challenge::parse(TEMPLATE, "two-sites.toml".as_ref()).expect("the template is valid");
//! let plan = challenge.resolve(&Overrides::default()).expect("nothing is overridden");
//! let options = Options {
//!     out: "weir-runs".into(),
//!     audit: Some(5.0),
//!     preflight: Some(std::time::Duration::from_secs(120)),
//!     command: "weir challenge run two-sites.toml --audit 5%".to_owned(),
//!     ..Options::default()
//! };
//! let outcome = run(plan, options, Arc::new(Silent), Stop::default()).await?;
//! println!("{}: {}", outcome.report.verdict.as_str(), outcome.folder.display());
//! # Ok(()) }
//! ```

mod error;
mod execute;
pub mod faults;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod inject;
mod options;
mod output;
mod prepare;
mod removal;
mod run;
mod services;
pub mod sites;
mod verify;

pub use error::RunError;
pub use execute::diagnosing::{WHY_FILE, WhySoFar};
pub use execute::progress::{Live, LiveLink, LiveSite, Preflight, Progress, Seeding, Silent, Update, Why};
pub use weir_network::namespace;

pub use faults::{DiskRates, NetworkGround, SharedPath};
pub use inject::injection::{
    Batch, InjectionDoor, InjectionError, JobId, JobState, Observed, Order, Passages, Phase, RuleCopy, RuleTerms,
};
pub use options::{Options, RunNetwork, Stop};
pub use output::assemble::{build, write_report, write_report_into};
pub use output::folder::{PartFile, RunFolder, write_atomically};
pub use output::html::{NoPlace, render, render_data};
pub use output::rebuild::{RebuildError, rebuild};
pub use removal::clean;
pub use run::{RunOutcome, check_sites, run};
pub use services::listing;

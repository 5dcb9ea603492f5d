//! A challenge as data, and the injections that follow from it.
//!
//! Third room of the house: after the words, before any world that could run a challenge. A challenge file (TOML) is
//! read into a [`Challenge`]. With [`Overrides`] from the command line it resolves to a [`Plan`], in which every value
//! is decided: rates are scaled, tables read, file sizes chosen, thresholds named. Two pure state machines produce the
//! injections of a plan. [`RatesCore`] is a closed loop that holds links at their asked rates. [`StepsCore`] goes
//! through the ordered [`Step`]s of `matrix` and `ramp` workloads.
//!
//! Invariants:
//! - Pure: no clock, no sockets, no runtime. Time comes in as an argument, randomness from the plan's seed
//!   ([`stream`]).
//! - Same plan, same observations: same injections, in the same total order.
//! - The injector's ledger is exact: every due file is counted as injected, still owed, or given up.
//! - Deliberately absent: the world that runs the plan, real or simulated.
//!
//! ```
//! use weir_plan::{Challenge, Overrides, TEMPLATE};
//! let challenge = Challenge::parse(TEMPLATE, "template.toml".as_ref()).expect("the template is valid");
//! let plan = challenge.resolve(&Overrides { scale: Some(0.5), ..Overrides::default() }).expect("half of it fits");
//! assert_eq!(plan.scale, 0.5);
//! ```

mod challenge;
mod curve;
mod keys;
mod mode;
mod phases;
mod plan;
mod read;
mod resolve;
mod seed;
mod sizing;
mod spec;
mod steps;
mod summary;
mod table;
mod template;
mod threshold;
mod write;

pub mod fault;
pub mod incident;
mod incident_scale;
pub mod inject;
pub mod loads;
pub mod vary;

pub use fault::{Fault, FaultKind, FaultPlace};
pub use incident::{Expect, Finding, Incident};
pub use incident_scale::Smaller;
pub use inject::{Held, Injection, LedgerRow, LinkObservation, RatesCore, StepInjection, StepsCore, Variation};
pub use keys::CHALLENGE_TABLES;
pub use mode::Mode;
pub use phases::Phases;
pub use plan::{Plan, RatedLink, RatesPlan, SourceFile, StepsPlan, Workload};
pub use seed::stream;
pub use sizing::{FileSizes, Sizing};
pub use spec::{Challenge, Inject, MatrixSpec, Overrides, RampSpec, RateSpec, RatesSpec, WorkloadSpec};
pub use steps::{Cell, Step};
pub use summary::{PlanSummary, RseNeed, WorkloadSummary};
pub use template::TEMPLATE;
pub use threshold::{Comparison, Metric, Subject, Threshold};

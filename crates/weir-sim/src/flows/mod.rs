//! The network model alone: flows from a JSON file, their ends as JSON.
//!
//! The file names links (each in one direction), flows over them, and routes for flows without a path of their own:
//!
//! ```json
//! {"nodes": ["A", "B"],
//!  "links": [{"name": "A.up", "bandwidth_bps": 1e10, "latency_s": 0.01, "policy": "shared"}],
//!  "routes": [{"src": "A", "dst": "B", "path": ["A.up"]}],
//!  "flows": [{"id": "f1", "start_s": 0, "size_bytes": 1000000, "src": "A", "dst": "B", "streams": 1, "rate_limit_bps": 0}]}
//! ```
//!
//! ```
//! use weir_sim::flows::{Model, Scenario};
//!
//! let text = r#"{"links": [{"name": "wan", "bandwidth_bps": 8e9, "latency_s": 0.5}],
//!                "flows": [{"id": 1, "size_bytes": 1000000000, "path": ["wan"]}]}"#;
//! let scenario = Scenario::parse(text).unwrap();
//! let outcome = scenario.run(Model::MaxMin).unwrap();
//! assert_eq!(outcome.flows[0].finish.to_string(), "1.5");
//! ```

mod check;
mod file;
mod place;
mod problem;
mod run;
mod write;

pub use problem::Problem;
pub use run::{FlowOutcome, Model, ScenarioOutcome, Stats};

/// The checked content of a file: every name resolved, every number in its range.
#[derive(Debug, Clone)]
pub struct Scenario {
    links: Vec<Link>,
    flows: Vec<ScenarioFlow>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    bandwidth: crate::network::Rate,
    latency: crate::network::Moment,
    sharing: crate::network::Sharing,
}

#[derive(Debug, Clone)]
struct ScenarioFlow {
    id: file::Id,
    start: crate::network::Moment,
    size: weir_units::Bytes,
    /// Positions in `links`.
    path: std::rc::Rc<[u32]>,
    streams: u32,
    limit: Option<crate::network::Rate>,
}

//! Flows over shared capacities: their rates and their ends.
//!
//! A **resource** is a capacity: a link in one direction, a storage's reading or writing, a site's door. A **class** is
//! a set of flows with the same resources, weight and cap on the rate of each. A **flow** moves bytes in a class. Rates
//! are weighted max-min fair (Bertsekas and Gallager, *Data Networks*, section 6.5.2): no flow can get more without
//! taking from a flow that has no more per weight.
//!
//! Changes made at one instant count together. The rates are worked out again when time moves on or a rate is asked
//! for, and only if a class has then more or fewer flows than before.
//!
//! ```
//! use weir_sim::network::{Network, Rate, Sharing, Weight};
//! use weir_units::{Bytes, Timestamp};
//!
//! let mut network = Network::new();
//! let link = network.add_resource(Rate::bits_per_second(8e9).unwrap(), Sharing::Shared);
//! let class = network.class(&[link], Weight::ONE, None);
//! let short = network.start(Timestamp(0), class, Bytes(1_000_000_000));
//! let long = network.start(Timestamp(0), class, Bytes(3_000_000_000));
//!
//! let mut ended = Vec::new();
//! while let Some(next) = network.next_end() {
//!     network.advance(next, &mut ended);
//! }
//! let ends: Vec<_> = ended.iter().map(|ended| (ended.flow, ended.at.timestamp())).collect();
//! assert_eq!(ends, [(short, Timestamp::from_secs(2)), (long, Timestamp::from_secs(4))]);
//! ```

mod clocks;
mod engine;
mod fill;
mod flows;
mod held;
mod quantities;
mod shares;
mod tournament;

pub use engine::{ClassId, Ended, HeldFlows, Network, ResourceId, Sharing, Work};
pub use flows::FlowId;
pub use quantities::{Moment, Rate, Weight};

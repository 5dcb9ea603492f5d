//! The catalogue's core: evaluation of rules, placement, choice of sources, lifetimes, deletion.
//!
//! Plain functions over slices: one rule or a part of one, with the rows that concern it, the time and a seed. The catalogue loads a slice,
//! applies what was decided in one transaction, and repeats; a simulator keeps the same rows in maps. Nothing here has a socket, a clock, a
//! database or a random number of its own.
//!
//! Invariants:
//! - The state of a lock follows from the replica and the request that it is about ([`state::of_place`]); the state of a rule from the
//!   states of its locks ([`state::of_rule`]). No other place keeps either.
//! - The same slice and seed give the same decision.
//! - A replica that a lock holds, or that a transfer reads, is never chosen for deletion.
//! - Deliberately absent: the mechanics of transfers, SQL, HTTP.
//!
//! ```
//! use std::collections::BTreeMap;
//! use weir_rules::expression::{Attributes, Expression};
//!
//! struct Rse(BTreeMap<&'static str, &'static str>);
//! impl Attributes for Rse {
//!     fn attribute(&self, key: &str) -> Option<&str> {
//!         self.0.get(key).copied()
//!     }
//! }
//! let ral = Rse(BTreeMap::from([("RAL", "true"), ("tier", "1"), ("country", "uk")]));
//! let expression = "tier=1 & country=uk \\ istape".parse::<Expression>()?;
//! assert!(expression.matches(&ral));
//! # Ok::<(), weir_rules::expression::ExpressionError>(())
//! ```

pub mod deletion;
pub mod evaluation;
pub mod expression;
pub mod ids;
pub mod lifetime;
pub mod loads;
pub mod place;
pub mod placement;
pub mod retry;
pub mod share;
pub mod sources;
pub mod state;

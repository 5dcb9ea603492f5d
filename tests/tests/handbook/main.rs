//! Pages of the handbook, followed step by step: their commands run as they stand but for names and places.
#![allow(clippy::unwrap_used, reason = "tests")]

mod experiment;
mod machine;
mod postgres;
mod storage;
mod unit;
mod verdict;

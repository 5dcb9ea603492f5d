//! Leader election.

/// The outcome of standing for election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing<T> {
    /// This process leads now.
    Elected(T),
    /// Another one is alive, or was until a few seconds ago: host, process, and where it lives.
    HeldBy(String),
}

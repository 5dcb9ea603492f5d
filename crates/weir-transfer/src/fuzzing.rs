//! Invariants of this crate's readers for any input. Built for tests and for the targets of `fuzz/` only.

use std::path::Path;

use crate::config::TransferConfig;

/// A configuration: errors are printed in lines that an operator can read.
pub fn configs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path = Path::new("transfer.toml");
    if let Err(error) = weir_service::config::read::<TransferConfig>(text, path) {
        let problems = error.problems(path);
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.message.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("transfer_configs", super::configs);
    }
}

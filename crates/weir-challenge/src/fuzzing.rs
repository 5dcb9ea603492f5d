//! Fuzz targets for the readers of services' answers. Built for tests and for the targets of `fuzz/` only.
#![allow(clippy::missing_panics_doc, reason = "a target panics where it finds something")]

/// Answers of catalogues: locks, requests, rules, places of files.
pub fn answers(data: &[u8]) {
    crate::inject::rules::fuzz(data);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("challenge_answers", super::answers);
    }
}

//! A target for the reader of STOMP frames. Built for tests and for the targets of `fuzz/` only.

/// Frames of a STOMP broker.
pub fn frames(data: &[u8]) {
    crate::stomp::fuzz(data);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("transfer_frames", super::frames);
    }
}

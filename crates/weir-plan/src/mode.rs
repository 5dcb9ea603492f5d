//! The modes of a copy.

use serde::Serialize;

/// How a third-party copy moves its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The destination reads from the source.
    Pull,
    /// The source writes to the destination.
    Push,
    /// The transfer service reads from the one and writes to the other.
    Streamed,
}

impl Mode {
    /// Every mode, in the order in which a transfer service tries them.
    pub const ALL: [Mode; 3] = [Mode::Pull, Mode::Push, Mode::Streamed];

    /// Gives the word: `pull`, `push`, `streamed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Pull => "pull",
            Mode::Push => "push",
            Mode::Streamed => "streamed",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

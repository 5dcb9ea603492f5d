//! The kinds of messages about transfers.

/// The kind of a message, with FTS3's prefix on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageKind {
    /// An attempt began.
    Start,
    /// An attempt ended.
    Complete,
    /// A file changed its state.
    State,
}

impl MessageKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Start, Self::Complete, Self::State];

    /// The two letters that begin its line in the spool.
    pub fn letters(self) -> &'static str {
        match self {
            Self::Start => "ST",
            Self::Complete => "CO",
            Self::State => "SS",
        }
    }

    /// In words: the `type` of JSON lines, and a label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Complete => "complete",
            Self::State => "state",
        }
    }

    /// The kind of these letters.
    pub fn from_letters(letters: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.letters() == letters)
    }
}

//! Closed sets of words: enums that print themselves and parse back.

/// Writes `as_str`, `Display` and `ALL` for a plain enum from one table.
macro_rules! words {
    ($name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs, reason = "each variant's own documentation comes with the table")]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All values, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word used in reports, metrics and JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The value with this word.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use words;

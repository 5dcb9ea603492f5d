//! Words that have a name and a letter.

/// Says that a text is none of the words that belong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no {kind}; there is {known}")]
pub struct UnknownWord {
    /// The text as it was read, cut after 40 characters.
    pub text: String,
    /// The kind of word that belongs there, such as `rule state`.
    pub kind: &'static str,
    /// The words that are known, separated by commas.
    pub known: String,
}

/// Defines an enumeration whose variants have a name, as the REST API shows them, and a letter, as databases hold them.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $kind:literal { $($(#[$variant_doc:meta])* $variant:ident = $name:literal, $letter:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// Each of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name that the REST API shows, in capitals.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The letter that stands for it in databases, and in requests of some clients.
            pub fn letter(self) -> char {
                match self {
                    $(Self::$variant => $letter,)*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::catalog::UnknownWord;

            /// Reads the name, in capitals or not, or the letter.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let is_it = |word: &&Self| {
                    text.eq_ignore_ascii_case(word.as_str()) || text.chars().eq([word.letter()])
                };
                Self::ALL.iter().find(is_it).copied().ok_or_else(|| $crate::catalog::UnknownWord {
                    text: text.chars().take(40).collect(),
                    kind: $kind,
                    known: Self::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(super) use words;

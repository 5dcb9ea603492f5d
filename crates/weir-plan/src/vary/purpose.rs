//! Purposes of cases.

/// The purpose of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// An incident in other circumstances.
    Variant,
    /// The same grid with a fault of another class that looks alike.
    Twin,
    /// Two faults of different classes at once.
    Pair,
    /// No fault, under as much load as the grid carries.
    Healthy,
}

impl Purpose {
    /// The word in names of cases.
    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::Variant => "variant",
            Purpose::Twin => "twin",
            Purpose::Pair => "pair",
            Purpose::Healthy => "healthy",
        }
    }
}

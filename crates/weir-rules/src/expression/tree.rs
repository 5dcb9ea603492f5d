//! The parsed form of an expression.

/// Terms, combined from left to right.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain {
    pub(super) first: Term,
    pub(super) rest: Vec<(Operator, Term)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Without,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    Every,
    Group(Box<Chain>),
    /// An attribute that is `true`; an RSE's name is one of its attributes.
    Tag(Box<str>),
    Compare {
        key: Box<str>,
        comparison: Comparison,
        value: Box<str>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// The attributes of an RSE, its own name (with the value `true`) among them.
pub trait Attributes {
    /// The value of an attribute, if the RSE has it.
    fn attribute(&self, key: &str) -> Option<&str>;
}

impl Chain {
    pub(super) fn matches(&self, rse: &(impl Attributes + ?Sized)) -> bool {
        let combine = |found: bool, (operator, term): &(Operator, Term)| match operator {
            Operator::Or => found || term.matches(rse),
            Operator::And => found && term.matches(rse),
            Operator::Without => found && !term.matches(rse),
        };
        self.rest.iter().fold(self.first.matches(rse), combine)
    }
}

impl Term {
    pub(super) fn matches(&self, rse: &(impl Attributes + ?Sized)) -> bool {
        match self {
            Self::Every => true,
            Self::Group(chain) => chain.matches(rse),
            Self::Tag(key) => rse.attribute(key).is_some_and(|value| is_same(value, "true")),
            Self::Compare { key, comparison, value } => comparison.holds(rse.attribute(key), value),
        }
    }
}

impl Comparison {
    /// An RSE without the attribute fits `!=` alone.
    fn holds(self, found: Option<&str>, value: &str) -> bool {
        let Some(found) = found else {
            return self == Self::NotEqual;
        };
        match self {
            Self::Equal => is_same(found, value),
            Self::NotEqual => !is_same(found, value),
            _ => match (number(found), number(value)) {
                (Some(found), Some(value)) => self.orders(found, value),
                _ => false,
            },
        }
    }

    fn orders(self, found: f64, value: f64) -> bool {
        match self {
            Self::Less => found < value,
            Self::AtMost => found <= value,
            Self::Greater => found > value,
            Self::AtLeast => found >= value,
            Self::Equal | Self::NotEqual => false,
        }
    }
}

/// Clients write `true` and `True` for the same value.
fn is_same(one: &str, other: &str) -> bool {
    let is_bool = |text: &str| text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
    one == other || (is_bool(one) && one.eq_ignore_ascii_case(other))
}

pub(super) fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

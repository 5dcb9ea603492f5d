//! RSE expressions: the set of RSEs of a rule, a limit or a listing.
//!
//! The grammar is Rucio's, with a few additions. Operators have no precedence: they apply from left to right, and only parentheses group.
//!
//! ```text
//! expression = term { ( "|" | "&" | "\" ) term }
//! term       = "(" expression ")" | "*" | word | key comparison value
//! comparison = "=" | "!=" | "<" | "<=" | ">" | ">="
//! ```
//!
//! `|` is the union, `&` the intersection, `\` the difference. A word is an RSE's name, or an attribute whose value is `true`. `<` and `>`
//! compare numbers. Beyond Rucio's grammar: white space between the parts, `!=`, `<=`, `>=`, and dots in values.

mod parse;

use std::{fmt, str::FromStr};

pub use parse::ExpressionError;

/// Longest expression, in bytes (Rucio's column).
pub const LENGTH_MAX: usize = 3000;

/// Deepest nesting of parentheses.
pub const DEPTH_MAX: usize = 50;

/// An RSE expression that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: Box<str>,
    chain: Chain,
}

/// Terms, combined from left to right.
#[derive(Debug, Clone, PartialEq)]
struct Chain {
    first: Term,
    rest: Vec<(Operator, Term)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Without,
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
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
enum Comparison {
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

impl Expression {
    /// As it was written, without white space around it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the expression means this RSE.
    pub fn matches(&self, rse: &(impl Attributes + ?Sized)) -> bool {
        self.chain.matches(rse)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let text = text.trim();
        let chain = parse::chain(text)?;
        let text = text.into();
        Ok(Self { text, chain })
    }
}

impl Chain {
    fn matches(&self, rse: &(impl Attributes + ?Sized)) -> bool {
        let combine = |found: bool, (operator, term): &(Operator, Term)| match operator {
            Operator::Or => found || term.matches(rse),
            Operator::And => found && term.matches(rse),
            Operator::Without => found && !term.matches(rse),
        };
        self.rest.iter().fold(self.first.matches(rse), combine)
    }
}

impl Term {
    fn matches(&self, rse: &(impl Attributes + ?Sized)) -> bool {
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

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests;

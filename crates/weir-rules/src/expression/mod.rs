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
mod tree;

use std::{fmt, str::FromStr};

pub use parse::ExpressionError;
pub use parse::{DEPTH_MAX, LENGTH_MAX};
pub use tree::Attributes;
use tree::{Chain, Comparison, Operator, Term, number};

/// An RSE expression that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: Box<str>,
    chain: Chain,
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

#[cfg(test)]
mod tests;

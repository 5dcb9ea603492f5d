//! Reads RSE expressions.

use super::{Chain, Comparison, Operator, Term, number};

/// Longest expression, in bytes (Rucio's column).
pub const LENGTH_MAX: usize = 3000;

/// Deepest nesting of parentheses.
pub const DEPTH_MAX: usize = 50;

/// Says why a text is no RSE expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is longer than [`LENGTH_MAX`] bytes.
    #[error("the RSE expression has {0} bytes, at most {LENGTH_MAX} are read")]
    Length(usize),
    /// Something else was expected at a place.
    #[error("RSE expression: expected {expected} at character {at}, found {found}")]
    Expected {
        /// The tokens that the grammar allows there.
        expected: &'static str,
        /// The place, from 1.
        at: usize,
        /// The character that stands there, or `the end`.
        found: String,
    },
    /// Parentheses are nested deeper than [`DEPTH_MAX`].
    #[error("RSE expression: parentheses are nested deeper than {DEPTH_MAX} at character {0}")]
    Depth(usize),
    /// The value behind `<` or `>` is no number.
    #[error("RSE expression: {key} is compared with \"{value}\", which is no number")]
    Number {
        /// The attribute.
        key: String,
        /// The value.
        value: String,
    },
}

pub(super) fn chain(text: &str) -> Result<Chain, ExpressionError> {
    if text.len() > LENGTH_MAX {
        return Err(ExpressionError::Length(text.len()));
    }
    let mut reader = Reader {
        rest: text,
        at: 1,
        depth: 0,
    };
    let chain = reader.chain()?;
    match reader.peek() {
        None => Ok(chain),
        Some(_) => Err(reader.expected("|, & or \\")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    /// The place of `rest`, in characters from 1.
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn chain(&mut self) -> Result<Chain, ExpressionError> {
        let first = self.term()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.operator() {
            rest.push((operator, self.term()?));
        }
        Ok(Chain { first, rest })
    }

    fn operator(&mut self) -> Option<Operator> {
        let operator = match self.peek()? {
            '|' => Operator::Or,
            '&' => Operator::And,
            '\\' => Operator::Without,
            _ => return None,
        };
        self.skip(1);
        Some(operator)
    }

    fn term(&mut self) -> Result<Term, ExpressionError> {
        match self.peek() {
            Some('(') => self.group(),
            Some('*') => {
                self.skip(1);
                Ok(Term::Every)
            }
            _ => self.comparison(),
        }
    }

    fn group(&mut self) -> Result<Term, ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(ExpressionError::Depth(self.at));
        }
        self.skip(1);
        let chain = self.chain()?;
        if self.peek() != Some(')') {
            return Err(self.expected("|, &, \\ or )"));
        }
        self.skip(1);
        self.depth -= 1;
        Ok(Term::Group(Box::new(chain)))
    }

    fn comparison(&mut self) -> Result<Term, ExpressionError> {
        let key = self.word("an RSE, an attribute, * or (")?;
        let comparison = self.peek().and_then(|_| {
            // The longer ones first.
            let known = [
                ("!=", Comparison::NotEqual),
                ("<=", Comparison::AtMost),
                (">=", Comparison::AtLeast),
                ("=", Comparison::Equal),
                ("<", Comparison::Less),
                (">", Comparison::Greater),
            ];
            known.into_iter().find(|(sign, _)| self.rest.starts_with(sign))
        });
        let Some((sign, comparison)) = comparison else {
            return Ok(Term::Tag(key.into()));
        };
        self.skip(sign.len());
        let value = self.word("a value")?;
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        if !is_equality && number(value).is_none() {
            return Err(ExpressionError::Number {
                key: key.to_owned(),
                value: value.to_owned(),
            });
        }
        Ok(Term::Compare {
            key: key.into(),
            comparison,
            value: value.into(),
        })
    }

    fn word(&mut self, expected: &'static str) -> Result<&'a str, ExpressionError> {
        self.peek();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.expected(expected));
        }
        let word = &self.rest[..end];
        self.skip(end);
        Ok(word)
    }

    /// The next character that is no white space, which is skipped.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest.trim_start();
        self.at += self.rest[..self.rest.len() - rest.len()].chars().count();
        self.rest = rest;
        rest.chars().next()
    }

    /// Skips so many bytes, which are ASCII.
    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
        self.at += bytes;
    }

    fn expected(&self, expected: &'static str) -> ExpressionError {
        let found = self.rest.chars().next();
        ExpressionError::Expected {
            expected,
            at: self.at,
            found: found.map_or_else(|| "the end".to_owned(), |c| format!("'{}'", c.escape_debug())),
        }
    }
}

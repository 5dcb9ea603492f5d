//! Exact decimal numbers with a unit: parsing and printing shared by bytes, rates and durations.

use std::fmt;

/// Says why a text is not a quantity, and how to write it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{input}\" {cause}")]
pub struct ParseError {
    what: &'static str,
    input: String,
    cause: Cause,
    remedy: String,
}

impl ParseError {
    /// Says in one clause what to write instead, for example `add a unit, such as "5 GB"`.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// Names the error, without the text that was read: `has no unit`.
    pub fn cause(&self) -> String {
        self.cause.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    Empty,
    Negative,
    NoNumber,
    NoUnit,
    UnknownUnit(String),
    TooFine(&'static str),
    TooLarge,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Empty => f.write_str("is empty"),
            Cause::Negative => f.write_str("is negative"),
            Cause::NoNumber => f.write_str("does not start with a number"),
            Cause::NoUnit => f.write_str("has no unit"),
            Cause::UnknownUnit(unit) => write!(f, "has an unknown unit \"{unit}\""),
            Cause::TooFine(finest) => write!(f, "is finer than {finest}"),
            Cause::TooLarge => f.write_str("is too large"),
        }
    }
}

/// One kind of quantity: its name, its units and an example for remedies.
pub(crate) struct Kind {
    pub(crate) what: &'static str,
    pub(crate) example_unit: &'static str,
    pub(crate) finest: &'static str,
    /// Accepted spellings with their value in the finest unit as numerator and denominator.
    pub(crate) units: &'static [(&'static str, u128)],
    /// The spellings shown in remedies.
    pub(crate) shown: &'static str,
}

/// A decimal number as read: `digits` × 10^-`decimals`.
struct Decimal {
    digits: u128,
    decimals: u32,
}

impl Kind {
    /// Reads one number with one unit; `factor` multiplies the result (8 for bytes per second read as bits).
    pub(crate) fn parse(&self, input: &str) -> Result<u64, ParseError> {
        let text = input.trim();
        let (value, rest) = self.term(input, text)?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(self.error(input, Cause::UnknownUnit(rest.to_owned())))
        }
    }

    /// Reads the first `number unit` of `text`, gives its value in the finest unit and the text behind it.
    pub(crate) fn term<'a>(&self, input: &str, text: &'a str) -> Result<(u64, &'a str), ParseError> {
        let fail = |cause| self.error(input, cause);
        if text.is_empty() {
            return Err(fail(Cause::Empty));
        }
        if text.starts_with(['-', '−']) {
            return Err(fail(Cause::Negative));
        }
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        if number.is_empty() {
            return Err(fail(Cause::NoNumber));
        }
        let decimal = decimal(number).map_err(&fail)?;
        let rest = rest.trim_start();
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c.is_whitespace())
            .unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        if unit.is_empty() {
            return Err(fail(Cause::NoUnit));
        }
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(fail(Cause::UnknownUnit(unit.to_owned())));
        };
        let product = decimal
            .digits
            .checked_mul(*factor)
            .ok_or_else(|| fail(Cause::TooLarge))?;
        let divisor = 10_u128.pow(decimal.decimals);
        if product % divisor != 0 {
            return Err(fail(Cause::TooFine(self.finest)));
        }
        let value = u64::try_from(product / divisor).map_err(|_| fail(Cause::TooLarge))?;
        Ok((value, rest.trim_start()))
    }

    pub(crate) fn too_large(&self, input: &str) -> ParseError {
        self.error(input, Cause::TooLarge)
    }

    fn error(&self, input: &str, cause: Cause) -> ParseError {
        let number: String = input
            .trim()
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        let number = if number.is_empty() { "5" } else { &number };
        let remedy = match &cause {
            Cause::NoUnit => format!("add a unit, such as \"{number} {}\"", self.example_unit),
            Cause::UnknownUnit(_) => format!("use one of {}", self.shown),
            Cause::TooFine(_) => "write fewer decimals or a larger number".to_owned(),
            Cause::TooLarge => "write a smaller number".to_owned(),
            Cause::Empty | Cause::Negative | Cause::NoNumber => {
                format!("write a number and a unit, such as \"5 {}\"", self.example_unit)
            }
        };
        ParseError {
            what: self.what,
            input: input.chars().take(80).collect(),
            cause,
            remedy,
        }
    }
}

fn decimal(number: &str) -> Result<Decimal, Cause> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || !whole.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(Cause::NoNumber);
    }
    let fraction = fraction.trim_end_matches('0');
    let mut digits: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit) {
        let next = digits
            .checked_mul(10)
            .and_then(|d| d.checked_add(u128::from(digit - b'0')));
        digits = next.ok_or(Cause::TooLarge)?;
    }
    let decimals = fraction.bytes().filter(u8::is_ascii_digit).count();
    match u32::try_from(decimals) {
        Ok(decimals) if decimals <= 38 => Ok(Decimal { digits, decimals }),
        _ => Err(Cause::TooLarge),
    }
}

/// Writes `value` in the largest of `units` that does not exceed it: exactly, or rounded if a precision is given.
///
/// `units` is ordered from large to small and ends with the finest, of factor 1.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let finest = units.last().expect("a table of units is never empty");
    let (unit, factor) = units.iter().find(|(_, factor)| value >= *factor).unwrap_or(finest);
    let text = match f.precision() {
        Some(digits) if *factor > 1 => format!("{} {unit}", rounded(value, *factor, digits)),
        _ => format!("{} {unit}", exact(value, *factor)),
    };
    f.pad_integral(true, "", &text)
}

/// `value / factor` as an exact decimal; `factor` is a power of ten.
pub(crate) fn exact(value: u64, factor: u64) -> String {
    let (whole, rest) = (value / factor, value % factor);
    if rest == 0 {
        return whole.to_string();
    }
    let width = factor.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

fn rounded(value: u64, factor: u64, digits: usize) -> String {
    let digits = digits.min(factor.ilog10() as usize);
    let scale = 10_u128.pow(u32::try_from(digits).expect("at most 19 digits"));
    let factor = u128::from(factor);
    let scaled = (u128::from(value) * scale + factor / 2) / factor;
    if digits == 0 {
        return scaled.to_string();
    }
    format!("{}.{:0digits$}", scaled / scale, scaled % scale)
}

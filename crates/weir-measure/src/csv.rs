//! Lines of CSV (RFC 4180), field by field: where there are millions of lines, without a string for each field.

use std::io::{self, Write};
use std::time::Duration;

/// Writes the line of the names of columns.
pub(crate) fn heading(to: &mut dyn Write, columns: &[&str]) -> io::Result<()> {
    let mut line = Line::new(to);
    for column in columns {
        line.text(column)?;
    }
    line.end()
}

/// One line.
pub(crate) struct Line<'w> {
    to: &'w mut dyn Write,
    separator: &'static str,
}

impl<'w> Line<'w> {
    pub(crate) fn new(to: &'w mut dyn Write) -> Self {
        Self { to, separator: "" }
    }

    fn separate(&mut self) -> io::Result<()> {
        let separator = std::mem::replace(&mut self.separator, ",");
        self.to.write_all(separator.as_bytes())
    }

    /// Writes a text; one with comma, quote or line break is quoted. A text that a spreadsheet would take for a formula
    /// gets an apostrophe before it (OWASP, CSV injection), which [`unguarded`] removes.
    pub(crate) fn text(&mut self, field: &str) -> io::Result<&mut Self> {
        self.separate()?;
        let guarded;
        let field = if begins_formula(field) {
            guarded = format!("'{field}");
            &guarded
        } else {
            field
        };
        if field.contains([',', '"', '\n', '\r']) {
            write!(self.to, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            self.to.write_all(field.as_bytes())?;
        }
        Ok(self)
    }

    pub(crate) fn number(&mut self, number: u64) -> io::Result<&mut Self> {
        self.separate()?;
        write!(self.to, "{number}")?;
        Ok(self)
    }

    /// A number; nothing if there is none.
    pub(crate) fn count(&mut self, number: Option<u64>) -> io::Result<&mut Self> {
        match number {
            Some(number) => self.number(number),
            None => self.text(""),
        }
    }

    /// A number with a fraction, in as many digits as tell it from its neighbours.
    pub(crate) fn real(&mut self, number: f64) -> io::Result<&mut Self> {
        self.separate()?;
        write!(self.to, "{number}")?;
        Ok(self)
    }

    /// A time in seconds with microseconds; nothing if there is none.
    pub(crate) fn time(&mut self, time: Option<Duration>) -> io::Result<&mut Self> {
        self.separate()?;
        if let Some(time) = time {
            write!(self.to, "{}.{:06}", time.as_secs(), time.subsec_micros())?;
        }
        Ok(self)
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.to.write_all(b"\n")
    }
}

/// Leading apostrophes are ignored: otherwise an apostrophe of the text itself would be removed.
fn begins_formula(field: &str) -> bool {
    field
        .trim_start_matches('\'')
        .starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// A field as it was before [`Line::text`].
pub(crate) fn unguarded(field: &str) -> &str {
    field
        .strip_prefix('\'')
        .filter(|rest| begins_formula(rest))
        .unwrap_or(field)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        // Wrong: an error text with a comma or a quote moves the columns of its row.
        let mut text = Vec::new();
        let mut line = Line::new(&mut text);
        for field in ["a", "b,c", "say \"no\"", ""] {
            line.text(field).unwrap();
        }
        line.number(7).unwrap();
        line.time(Some(Duration::from_millis(1_250)))
            .unwrap()
            .time(None)
            .unwrap();
        line.end().unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "a,\"b,c\",\"say \"\"no\"\"\",,7,1.250000,\n"
        );
    }

    #[test]
    fn no_field_is_a_formula() {
        // Wrong: a storage's error text runs as a formula in the reader's spreadsheet.
        for (field, written) in [
            ("=1+1", "'=1+1\n"),
            ("@SUM(A1)", "'@SUM(A1)\n"),
            ("-x,y", "\"'-x,y\"\n"),
            ("+1", "'+1\n"),
            ("'=1", "''=1\n"),
            ("it's", "it's\n"),
            ("'quoted'", "'quoted'\n"),
        ] {
            let mut text = Vec::new();
            let mut line = Line::new(&mut text);
            line.text(field).unwrap().end().unwrap();
            assert_eq!(String::from_utf8(text.clone()).unwrap(), written);
            let read = written.trim().trim_matches('"');
            assert_eq!(unguarded(read), field);
        }
    }
}

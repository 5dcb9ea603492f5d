//! Traffic tables: CSV files with a rate per link.

use std::collections::BTreeMap;
use std::path::Path;

use weir_model::Link;
use weir_model::file::{Document, Problem, Refusal, nearest};
use weir_units::BitRate;

use crate::spec::RateSpec;

/// Reads the rows of a table; with `test` only those whose column `test` holds it. `check` may refuse a row.
///
/// # Errors
/// The file cannot be read (one problem without line), or every problem found in its rows.
pub(crate) fn read(
    file: &Path,
    test: Option<&str>,
    check: impl Fn(&RateSpec) -> Result<(), Refusal>,
) -> Result<Vec<RateSpec>, Vec<Problem>> {
    let document = Document::read(file).map_err(|problem| vec![problem])?;
    let mut lines = (1..)
        .zip(document.text().lines())
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let problem = |line, key: &str, refusal: Refusal| Problem {
        file: file.to_owned(),
        line,
        key: key.to_owned(),
        message: refusal.message,
        remedy: refusal.remedy,
    };
    let Some((header_line, header)) = lines.next() else {
        let refusal = Refusal::new("is empty", "add a header and a row per link");
        return Err(vec![problem(None, "", refusal)]);
    };
    let columns = Columns::find(header, test.is_some())
        .map_err(|(key, refusal)| vec![problem(Some(header_line), &key, refusal)])?;
    let (mut rates, mut problems, mut seen) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (line, text) in lines {
        let cells = cells(text);
        if test.is_some_and(|test| {
            columns
                .test
                .and_then(|at| cells.get(at))
                .is_some_and(|cell| cell != test)
        }) {
            continue;
        }
        let row = columns
            .row(&cells)
            .and_then(|spec| check(&spec).map(|()| spec).map_err(|r| ("rate", r)));
        match row {
            Ok(spec) => match seen.insert(spec.link.clone(), line) {
                Some(first) => {
                    let message = format!("{} is there twice, first on line {first}", spec.link);
                    problems.push(problem(Some(line), "", Refusal::new(message, "add the rates up")));
                }
                None => rates.push(spec),
            },
            Err((key, refusal)) => problems.push(problem(Some(line), key, refusal)),
        }
    }
    if problems.is_empty() { Ok(rates) } else { Err(problems) }
}

/// Splits a line at its commas; quotes around a cell are dropped.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

/// Where the columns are, from 0.
struct Columns {
    source: usize,
    destination: usize,
    rate: usize,
    rate_in_mbps: bool,
    test: Option<usize>,
}

impl Columns {
    fn find(header: &str, wants_test: bool) -> Result<Columns, (String, Refusal)> {
        let header = cells(header);
        let find = |names: &[&str]| header.iter().position(|cell| names.contains(&cell.as_str()));
        let missing = |name: &str| {
            let remedy = match nearest(name, header.iter().map(String::as_str)) {
                Some(near) => format!("rename \"{near}\""),
                None => format!("add it to the header {}", header.join(",")),
            };
            (name.to_owned(), Refusal::new("the column is missing", remedy))
        };
        let rate = find(&["rate"]);
        let test = find(&["test"]);
        if wants_test && test.is_none() {
            return Err(missing("test"));
        }
        Ok(Columns {
            source: find(&["source", "src"]).ok_or_else(|| missing("source"))?,
            destination: find(&["destination", "dst"]).ok_or_else(|| missing("destination"))?,
            rate: rate.or_else(|| find(&["rate_mbps"])).ok_or_else(|| missing("rate"))?,
            rate_in_mbps: rate.is_none(),
            test,
        })
    }

    fn row(&self, cells: &[String]) -> Result<RateSpec, (&'static str, Refusal)> {
        let cell = |at: usize| cells.get(at).map_or("", String::as_str);
        let name = |key: &'static str, at: usize| {
            let refusal =
                |error: weir_model::NameError| (key, Refusal::new(error.to_string(), "write the name of an RSE"));
            cell(at).parse().map_err(refusal)
        };
        let source = name("source", self.source)?;
        let destination = name("destination", self.destination)?;
        let rate = if self.rate_in_mbps {
            format!("{} Mb/s", cell(self.rate))
        } else {
            cell(self.rate).to_owned()
        };
        let rate: BitRate = rate
            .parse()
            .map_err(|error: weir_units::ParseError| ("rate", Refusal::new(error.to_string(), error.remedy())))?;
        Ok(RateSpec {
            link: Link { source, destination },
            rate,
        })
    }
}

//! Rule `size`: a crate divides before it gets large.
//!
//! Counted are lines below `src` that are not blank, without items and modules for tests. A crate that is larger is listed in
//! `xtask/tidy.toml` with its count, which may only fall.

use std::collections::BTreeMap;

use super::{Finding, cycles::Crate};

const SETTINGS: &str = "xtask/tidy.toml";

/// The margin of a listed count above the real one, before it must be written down anew.
const SLACK: usize = 100;

/// Finds crates of more lines than they may have.
pub(super) fn check(
    files: &BTreeMap<String, String>,
    most: usize,
    listed: &BTreeMap<String, usize>,
    findings: &mut Vec<Finding>,
) {
    let folders = files.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let mut sizes = BTreeMap::new();
    for folder in folders.filter(|folder| folder.starts_with("crates/")) {
        let name = folder.trim_start_matches("crates/");
        // A file that is no Rust is told by the rule on cycles.
        let Ok(read) = Crate::read(folder, files) else { continue };
        let count = |(file, tests): (&str, &[(usize, usize)])| {
            let text = files.get(&format!("{folder}/src/{file}"));
            text.map_or(0, |text| lines(text, tests))
        };
        sizes.insert(name, read.files().map(count).sum::<usize>());
    }
    for (name, size) in &sizes {
        let may = listed.get(*name).copied().unwrap_or(most);
        if *size > may {
            let text = format!("{size} lines without tests: look for where it divides (at most {may})");
            findings.push(Finding::new(&format!("crates/{name}"), 0, text));
        } else if listed.contains_key(*name) && *size <= most {
            let text = format!("{name} has {size} lines by now: take it off the list of large crates");
            findings.push(Finding::new(SETTINGS, 0, text));
        } else if listed.contains_key(*name) && size + SLACK < may {
            let text = format!("{name} has {size} lines by now: write that instead of {may}");
            findings.push(Finding::new(SETTINGS, 0, text));
        }
    }
    for name in listed.keys().filter(|name| !sizes.contains_key(name.as_str())) {
        let text = format!("there is no crate {name} that could be large");
        findings.push(Finding::new(SETTINGS, 0, text));
    }
}

/// Lines that are not blank, but those between these.
fn lines(text: &str, tests: &[(usize, usize)]) -> usize {
    let is_test = |line: usize| tests.iter().any(|(first, last)| (*first..=*last).contains(&line));
    let counted = (1..).zip(text.lines());
    counted
        .filter(|(number, line)| !line.trim().is_empty() && !is_test(*number))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(library: &str, most: usize, listed: &[(&str, usize)]) -> Vec<String> {
        let files = [
            ("crates/one/Cargo.toml", ""),
            ("crates/one/src/lib.rs", library),
            ("crates/one/src/examples.rs", "fn a() {}\nfn b() {}\n"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let listed = listed
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        let mut findings = Vec::new();
        check(&files, most, &listed, &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn tests_and_blank_lines_do_not_count() {
        // A crate would be divided because it is tested well.
        let library = "//! One.\n\nfn one() {}\n\n#[cfg(test)]\nmod examples;\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n\n    fn d() {}\n}\n";
        assert!(found(library, 2, &[]).is_empty());
        assert_eq!(found(library, 1, &[]).len(), 1);
        assert_eq!(
            found("fn a() {}\n", 2, &[]).len(),
            1,
            "the other file counts where it is no test"
        );
    }

    #[test]
    fn a_list_only_shrinks() {
        let library = "fn a() {}\n".repeat(10);
        assert!(found(&library, 5, &[("one", 12)]).is_empty());
        assert_eq!(found(&library, 5, &[("one", 11)]).len(), 1, "it has grown");
        assert_eq!(
            found(&library, 5, &[("one", 200)]).len(),
            1,
            "the list says more than there is"
        );
        assert_eq!(found(&library, 15, &[("one", 12)]).len(), 1, "it need not be listed");
        assert_eq!(
            found(&library, 15, &[("two", 12)]).len(),
            1,
            "there is none of this name"
        );
    }
}

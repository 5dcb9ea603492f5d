//! Rule `peers`: bytes that come from a peer become text in one place.
//!
//! Text of a peer may move the cursor of a terminal, end a line of a log or hold a secret; `weir_auth::peer_text` takes that out. Code outside
//! of tests that calls `from_utf8_lossy` itself is in a file that `xtask/tidy.toml` lists with the reason why that text needs no cleaning, or
//! where it is cleaned.

use std::collections::BTreeMap;

use super::{Finding, cycles::Crate};

const SETTINGS: &str = "xtask/tidy.toml";
const CALL: &str = "from_utf8_lossy";

/// Finds files that make text of bytes and are not listed, and listed ones that do not.
pub(super) fn check(files: &BTreeMap<String, String>, listed: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    let mut using = Vec::new();
    let folders = files.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    for folder in folders.filter(|folder| folder.starts_with("crates/")) {
        // A file that is no Rust is told by the rule on cycles.
        let Ok(read) = Crate::read(folder, files) else { continue };
        for (file, tests) in read.files() {
            let path = format!("{folder}/src/{file}");
            let Some(line) = files.get(&path).and_then(|text| first_call(text, tests)) else {
                continue;
            };
            if !listed.contains_key(&path) {
                let text = "text of a peer is made by weir_auth::peer_text; a file whose bytes are no peer's is listed in xtask/tidy.toml";
                findings.push(Finding::new(&path, line, text));
            }
            using.push(path);
        }
    }
    for path in listed.keys().filter(|path| !using.contains(path)) {
        let text = format!("{path} makes no text of bytes: take it off the list of peer_bytes");
        findings.push(Finding::new(SETTINGS, 0, text));
    }
}

/// The first line outside of tests that calls it.
fn first_call(text: &str, tests: &[(usize, usize)]) -> Option<usize> {
    let is_test = |line: usize| tests.iter().any(|(first, last)| (*first..=*last).contains(&line));
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(number, line)| line.contains(CALL) && !line.trim_start().starts_with("//") && !is_test(*number))
        .map(|(number, _)| number)
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(library: &str, listed: &[&str]) -> Vec<String> {
        let files = [("crates/one/Cargo.toml", ""), ("crates/one/src/lib.rs", library)];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let listed = listed
            .iter()
            .map(|path| ((*path).to_owned(), "why".to_owned()))
            .collect();
        let mut findings = Vec::new();
        check(&files, &listed, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn text_of_bytes_is_made_where_it_is_listed() {
        let reads =
            "//! One.\n\nfn one(bytes: &[u8]) -> String {\n    String::from_utf8_lossy(bytes).into_owned()\n}\n";
        let found_one = found(reads, &[]);
        assert!(found_one[0].starts_with("crates/one/src/lib.rs:4: "), "{found_one:?}");
        assert_eq!(found(reads, &["crates/one/src/lib.rs"]), Vec::<String>::new());
        let tested = "//! One.\n\n#[cfg(test)]\nmod tests {\n    fn one(bytes: &[u8]) {\n        String::from_utf8_lossy(bytes);\n    }\n}\n";
        assert_eq!(found(tested, &[]), Vec::<String>::new());
        assert_eq!(
            found(tested, &["crates/one/src/lib.rs"]).len(),
            1,
            "the list only shrinks"
        );
    }
}

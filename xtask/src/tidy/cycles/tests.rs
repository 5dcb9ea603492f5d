use super::*;

fn found(files: &[(&str, &str)], listed: usize) -> Vec<String> {
    let manifest = [("crates/room/Cargo.toml".to_owned(), String::new())];
    let sources = files
        .iter()
        .map(|(file, text)| (format!("crates/room/src/{file}"), (*text).to_owned()));
    let files = manifest.into_iter().chain(sources).collect();
    let listed = BTreeMap::from([("room".to_owned(), listed)]);
    let mut findings = Vec::new();
    check(&files, &listed, &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

const STRAIGHT: [(&str, &str); 4] = [
    ("lib.rs", "mod above; mod below; pub use below::Below;"),
    (
        "above.rs",
        "use crate::below::part::{self, Part}; pub fn f() -> Part { part::g() }",
    ),
    ("below/mod.rs", "mod part; pub struct Below(part::Part);"),
    (
        "below/part.rs",
        "use super::Below; pub struct Part; pub fn g() -> Part { Part }",
    ),
];

/// Rooms that are built in order would be called crooked: a part knows its whole, nothing else goes back.
#[test]
fn one_direction_and_a_part_that_knows_its_whole_are_no_cycle() {
    assert_eq!(found(&STRAIGHT, 0), Vec::<String>::new());
}

/// A way back would be overlooked: in a `use`, a path in code, one in a macro, by `super` or to everything.
#[test]
fn each_way_back_is_found() {
    for back in [
        "use crate::above::f;",
        "use crate::{above::{f as other}};",
        "use super::super::above::*;",
        "pub fn h() { crate::above::f(); }",
        "pub fn h() { println!(\"{}\", [crate::above::f()].len()); }",
        "mod inner { use super::super::super::above; }",
    ] {
        let mut files = STRAIGHT;
        let text = format!("{}\n{back}", files[3].1);
        files[3].1 = &text;
        let found = found(&files, 0);
        assert_eq!(found.len(), 2, "{back}: {found:?}");
        assert!(
            found[0].contains("in a circle: above.rs:1 uses below/part.rs, "),
            "{back}: {found:?}"
        );
    }
}

/// Words that only look like a way back would be told: tests, comments, text, visibility, other crates, methods.
#[test]
fn a_request_that_uses_nothing_is_not_counted() {
    for other in [
        "#[cfg(test)] mod tests { use crate::above::f; }",
        "#[cfg(test)] use crate::above::f;",
        "// crate::above::f",
        "const TEXT: &str = \"crate::above::f\";",
        "pub(in crate::below) fn h() {}",
        "pub fn h() { ::above::f(); }",
        "pub fn h(x: X) { x.above::<u8>(); }",
    ] {
        let mut files = STRAIGHT;
        let text = format!("{}\n{other}", files[3].1);
        files[3].1 = &text;
        assert_eq!(found(&files, 0), Vec::<String>::new(), "{other}");
    }
}

/// A test in a file of its own would count.
#[test]
fn files_of_tests_are_left_out() {
    let mut files = STRAIGHT.to_vec();
    files[3].1 = "pub struct Part; pub fn g() -> Part { Part } #[cfg(test)] mod tests;";
    files.push(("below/part/tests.rs", "use crate::above::f;"));
    assert_eq!(found(&files, 0), Vec::<String>::new());
}

/// The number of a crate that is listed could rise, or stay high when it fell.
#[test]
fn a_listed_number_may_only_fall() {
    let mut files = STRAIGHT;
    files[3].1 = "use crate::above::f; pub struct Part; pub fn g() -> Part { Part }";
    assert_eq!(found(&files, 2), Vec::<String>::new());
    assert!(
        found(&files, 1)
            .concat()
            .contains("room has 2 files in import cycles, 1 are allowed")
    );
    assert!(found(&files, 3).concat().contains("by now: write that instead of 3"));
    assert!(found(&STRAIGHT, 1).concat().contains("room has 0 files"));
}

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
    ("lib.rs", "mod above; mod below; pub use below::{Below, Part};"),
    (
        "above.rs",
        "use crate::below::part::{self, Part}; pub fn f() -> Part { part::g() }",
    ),
    ("below/mod.rs", "mod part; pub use part::Part; pub struct Below;"),
    (
        "below/part.rs",
        "use super::Below; pub struct Part; impl Below {} pub fn g() -> Part { Part }",
    ),
];

/// Rooms that are built in order would be called crooked: a re-export is no use, a part may use its whole.
#[test]
fn one_direction_and_a_part_that_uses_its_whole_are_no_cycle() {
    assert_eq!(found(&STRAIGHT, 0), Vec::<String>::new());
}

/// A part and its whole that use each other would not be found.
#[test]
fn a_whole_that_uses_its_part_is_in_a_cycle_with_it() {
    for whole in [
        "mod part; pub use part::Part; pub struct Below(Part);",
        "mod part; use part::Part; pub struct Below;",
        "mod part; pub struct Below(part::Part);",
        "mod part; pub(crate) use part::g; pub struct Below; fn h() { g(); }",
        "mod part; pub use part::*; pub struct Below; fn h() { part::g(); }",
    ] {
        let mut files = STRAIGHT;
        files[2].1 = whole;
        let found = found(&files, 0).concat();
        assert!(found.contains("below/mod.rs:1 uses below/part.rs"), "{whole}: {found}");
    }
}

/// A name from a re-export would be a use of the file that re-exports it, and a real one be hidden by it.
#[test]
fn a_name_is_followed_to_its_definition() {
    for (use_, is_back) in [
        ("use crate::Below;", false),
        ("use crate::below::Below as Other;", false),
        ("use crate::F;", true),
        ("use crate::all::F;", true),
        ("use crate::all; fn h() -> all::F { all::F }", true),
        ("use crate::{all as other}; fn h() -> other::F { other::F }", true),
    ] {
        let text = format!("{use_} pub struct Part;");
        let files = [
            (
                "lib.rs",
                "mod above; mod below; mod all; pub use below::Below; pub use all::F;",
            ),
            ("all.rs", "pub use crate::above::*;"),
            (
                "above.rs",
                "use crate::below::part::Part; pub struct F; pub fn below(_: Part) {}",
            ),
            ("below/mod.rs", "pub mod part; pub struct Below;"),
            ("below/part.rs", text.as_str()),
        ];
        let found = found(&files, 0);
        assert_eq!(!found.is_empty(), is_back, "{use_}: {found:?}");
    }
}

/// A field or a method with the name of a re-export would be a use.
#[test]
fn a_field_with_the_name_of_a_reexport_is_no_use() {
    let mut files = STRAIGHT;
    files[2].1 = "mod part; pub use part::g; pub struct Below { g: u8 } impl Below { fn g(&self) -> u8 { self.g } }";
    assert_eq!(found(&files, 0), Vec::<String>::new());
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
        "mod inner { use super::super::super::above; pub fn h() { above::f(); } }",
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

use super::*;

fn entry(depth: usize, name: Option<&str>, collection: Option<bool>, status: Option<u16>) -> Entry {
    Entry {
        depth,
        name: name.map(str::to_owned),
        status,
        attributes: Attributes {
            collection,
            ..Attributes::default()
        },
    }
}

fn names(entries: Vec<Entry>, name: Option<&str>) -> Result<Vec<String>, Unlisted> {
    Ok(listing(entries, name)?.into_keys().collect())
}

#[test]
fn a_listing_holds_what_is_in_the_directory_and_nothing_else() {
    let (dir, file) = (Some(true), Some(false));
    let inside = |own: Entry| {
        vec![
            entry(3, Some("b"), file, None),
            own,
            entry(3, Some("a"), dir, None),
            entry(3, Some("unknown"), None, None),
            entry(3, Some("hidden"), None, Some(403)),
            entry(4, Some("deeper"), file, None),
            entry(3, Some(".."), dir, None),
            entry(3, Some("x/y"), file, None),
        ]
    };
    let known = ["a", "b", "unknown"].map(str::to_owned).to_vec();
    assert_eq!(names(inside(entry(2, Some("d"), dir, None)), Some("d")), Ok(known));
    let root = vec![entry(0, None, dir, None), entry(1, Some("f"), file, None)];
    assert_eq!(names(root, None), Ok(vec!["f".to_owned()]));
    let of_file = entry(2, Some("d"), file, None);
    assert_eq!(names(inside(of_file), Some("d")), Err(Unlisted::NoDirectory));
    let forbidden = entry(2, Some("d"), None, Some(403));
    let status = Unlisted::Status(StatusCode::FORBIDDEN);
    assert_eq!(names(inside(forbidden), Some("d")), Err(status));
    // An answer without the directory itself, or about another one: its members would be taken for it, and be lost.
    assert_eq!(
        names(inside(entry(2, Some("e"), dir, None)), Some("d")),
        Err(Unlisted::Nonsense)
    );
    let child = vec![entry(3, Some("c"), dir, None)];
    assert_eq!(names(child, Some("d")), Err(Unlisted::Nonsense));
    assert_eq!(names(Vec::new(), Some("d")), Err(Unlisted::Nonsense));
}

#[test]
fn statuses_are_told_apart() {
    let check = |status: u16, text: &str, expected: Obstacle| {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let refused = conflict("MKCOL https://a/d", status, text, "its parent is missing");
        assert_eq!(refused.obstacle, expected, "{status} {text}");
        assert!(refused.text.contains(status.as_str()), "{}", refused.text);
    };
    check(401, "", Obstacle::Forbidden);
    check(403, "read-only", Obstacle::Forbidden);
    check(404, "", Obstacle::Missing);
    check(409, "", Obstacle::Missing);
    check(409, "mkdir: file exists", Obstacle::Taken);
    check(412, "", Obstacle::Taken);
    check(423, "", Obstacle::Busy);
    check(503, "", Obstacle::Busy);
    check(504, "", Obstacle::Late);
    check(507, "", Obstacle::Failed);
    check(500, "", Obstacle::Failed);
}

#[test]
fn the_query_of_a_url_is_not_repeated() {
    let surl = Surl::parse_place("https://a/d?authz=needle-in-it");
    let surl = surl.expect("a URL");
    let refused = Refused::status(
        "DELETE",
        StatusCode::FORBIDDEN,
        "no needle-in-it for /d?authz=needle-in-it",
    );
    let hidden = refused.hiding(&surl);
    assert!(!hidden.text.contains("needle"), "{}", hidden.text);
}

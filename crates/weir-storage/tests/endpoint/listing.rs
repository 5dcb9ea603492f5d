//! PROPFIND as clients ask it.

use super::lab::{Lab, noise};

const DAVIX: &str = r#"<?xml version="1.0" encoding="utf-8" ?><D:propfind xmlns:D="DAV:" xmlns:L="LCGDM:"><D:prop><D:displayname/><D:getlastmodified/><D:creationdate/><D:getcontentlength/><D:quota-used-bytes/><D:resourcetype><D:collection/></D:resourcetype><L:mode/></D:prop></D:propfind>"#;

/// Entries that are missing, doubled or wrong make a catalogue believe in lost files.
#[tokio::test]
async fn a_directory_lists_what_is_in_it() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| config.areas[0].quota = Some("1 GB".parse().unwrap()))
        .await;
    // More than one batch of entries.
    for number in 0..600 {
        std::fs::create_dir_all(at.root.join("d")).unwrap();
        std::fs::write(at.root.join(format!("d/f{number:03}")), vec![b'x'; number]).unwrap();
    }
    at.put("/d/e/g", noise(5)).await.expect(201);
    std::os::unix::fs::symlink("/etc/passwd", at.root.join("d/link")).unwrap();
    std::fs::write(at.root.join("d/.weir-mine"), "x").unwrap();
    for body in ["", DAVIX] {
        let answer = at.ask("PROPFIND", "/d", &[("depth", "1")], body).await.expect(207);
        assert_eq!(answer.header("content-type"), "application/xml; charset=utf-8");
        let text = answer.text();
        assert!(text.trim_end().ends_with("</D:multistatus>"));
        assert_eq!(
            text.matches("<D:response>").count(),
            602,
            "the directory, 600 files and one directory"
        );
        assert!(text.find("<D:href>/d/</D:href>").unwrap() < text.find("<D:href>/d/f000</D:href>").unwrap());
        assert!(
            text.contains("<D:href>/d/f599</D:href>") && text.contains("<D:getcontentlength>599</D:getcontentlength>")
        );
        assert!(text.contains("<D:href>/d/e/</D:href>") && !text.contains("link") && !text.contains(".weir-"));
    }
    let root = at.ask("PROPFIND", "/", &[("depth", "0")], "").await.expect(207).text();
    let used = (0..600).sum::<usize>() + 5;
    assert!(
        root.contains("<D:quota-available-bytes>") && root.contains("<D:quota-used-bytes>"),
        "{root}"
    );
    assert!(!root.contains("/d/"), "{root}, {used}");
    let file = at
        .ask("PROPFIND", "/d/f007", &[("depth", "1")], DAVIX)
        .await
        .expect(207)
        .text();
    assert_eq!(file.matches("<D:response>").count(), 1);
    assert!(
        file.contains("GMT</D:getlastmodified>") && file.contains("<D:resourcetype></D:resourcetype>"),
        "{file}"
    );
}

/// Depth and body are where clients differ.
#[tokio::test]
async fn odd_questions_get_plain_answers() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/f", noise(5)).await.expect(201);
    let whole = at.ask("PROPFIND", "/", &[("depth", "infinity")], "").await.expect(403);
    assert_eq!(whole.header("content-type"), "application/xml; charset=utf-8");
    assert!(whole.text().contains("<D:propfind-finite-depth/>"), "{}", whole.text());
    at.ask("PROPFIND", "/", &[], "").await.expect(403);
    at.ask("PROPFIND", "/", &[("depth", "2")], "").await.expect(400);
    at.ask("PROPFIND", "/f/", &[("depth", "0")], "").await.expect(404);
    at.ask("PROPFIND", "/missing", &[("depth", "0")], "").await.expect(404);
    at.ask("PROPFIND", "/", &[("depth", "0")], "<x").await.expect(400);
    at.ask("PROPFIND", "/", &[("depth", "0")], vec![b' '; 100_000])
        .await
        .expect(413);
    // Names that nobody knows come back with every entry.
    let long = format!(
        "<propfind xmlns=\"DAV:\"><prop><{}/></prop></propfind>",
        "x".repeat(5000)
    );
    at.ask("PROPFIND", "/", &[("depth", "0")], long).await.expect(400);
    let checksums = r#"<propfind xmlns="DAV:"><prop><checksums xmlns="urn:weir:dav"/><Checksum xmlns="http://storm.italiangrid.org/2014/webdav"/></prop></propfind>"#;
    let text = at
        .ask("PROPFIND", "/f", &[("depth", "0")], checksums)
        .await
        .expect(207)
        .text();
    assert!(text.contains(">adler32:") && text.contains("crc32c:"), "{text}");
}

/// A client that believes that a property was set shows what is not there.
#[tokio::test]
async fn properties_are_refused_one_by_one() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/f", "x").await.expect(201);
    let update = r#"<D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:z"><D:set><D:prop><D:getetag>"x"</D:getetag><Z:author>me</Z:author></D:prop></D:set></D:propertyupdate>"#;
    let answer = at.ask("PROPPATCH", "/f", &[], update).await.expect(207).text();
    for part in [
        "<D:href>/f</D:href>",
        "<D:prop><D:getetag/></D:prop><D:status>HTTP/1.1 403 Forbidden</D:status><D:error><D:cannot-modify-protected-property/></D:error>",
        "<X:author xmlns:X=\"urn:z\"/></D:prop><D:status>HTTP/1.1 403 Forbidden</D:status></D:propstat>",
    ] {
        assert!(answer.contains(part), "{part} is not in {answer}");
    }
    at.ask("PROPPATCH", "/none", &[], update).await.expect(404);
    at.ask("PROPPATCH", "/f", &[], "<a/>").await.expect(400);
    let reader = format!("Bearer {}", lab.token("storage.read:/"));
    at.ask("PROPPATCH", "/f", &[("authorization", &reader)], update)
        .await
        .expect(403);
}

/// One name that no XML document can hold, and nobody could list its directory any more.
#[tokio::test]
async fn names_that_no_listing_can_show_are_not_made_and_break_none() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/d/f", "x").await.expect(201);
    for name in ["%EF%BF%BE", "a%EF%BF%BFb"] {
        let path = format!("/d/{name}");
        at.put(&path, "x").await.expect(400);
        at.ask("MKCOL", &path, &[], "").await.expect(400);
        at.ask("MOVE", "/d/f", &[("destination", &at.url(&path))], "")
            .await
            .expect(400);
        at.ask("COPY", "/d/f", &[("destination", &at.url(&path))], "")
            .await
            .expect(400);
    }
    // Names that came there by other ways, and neighbours that can be shown.
    std::fs::write(at.root.join("d/\u{fffe}"), "x").unwrap();
    at.put("/d/%EF%BF%BD", "x").await.expect(201);
    for body in ["", DAVIX] {
        let text = at
            .ask("PROPFIND", "/d", &[("depth", "1")], body)
            .await
            .expect(207)
            .text();
        assert!(
            !text.contains(['\u{fffe}', '\u{ffff}']) && !text.contains("%EF%BF%BE"),
            "{text}"
        );
        assert_eq!(
            text.matches("<D:response>").count(),
            3,
            "the directory and two files: {text}"
        );
    }
}

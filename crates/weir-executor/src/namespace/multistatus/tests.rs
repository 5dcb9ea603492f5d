#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use futures_util::FutureExt as _;
use http_body::Frame;
use http_body_util::StreamBody;
use proptest::prelude::*;

use super::*;

/// Reads a text that comes in pieces of this size.
fn read_in(text: &[u8], piece: usize, most: usize) -> Result<Vec<Entry>, Unread> {
    let pieces = text.chunks(piece.max(1));
    let frames = pieces.map(|piece| Ok::<_, io::Error>(Frame::data(Bytes::copy_from_slice(piece))));
    let body = StreamBody::new(futures_util::stream::iter(frames.collect::<Vec<_>>()));
    read(body, most).now_or_never().unwrap()
}

fn told(text: &str) -> Vec<Entry> {
    read_in(text.as_bytes(), 7, 10).unwrap()
}

fn refused(text: &str) -> String {
    read_in(text.as_bytes(), 7, 10).unwrap_err().to_string()
}

fn within(responses: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<D:multistatus xmlns:D=\"DAV:\">{responses}</D:multistatus>\n")
}

fn attributes(collection: bool, size: Option<u64>, modified: Option<i64>) -> Attributes {
    Attributes {
        collection: Some(collection),
        size,
        modified,
        ..Attributes::default()
    }
}

#[test]
fn a_storage_of_any_make_is_understood() {
    // Apache, with a prefix for each namespace, and one property that is not there.
    let apache = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" xmlns:ns0=\"DAV:\">\
        <D:response xmlns:lp1=\"DAV:\" xmlns:lp3=\"LCGDM:\"><D:href>/d%20d/f%26</D:href>\
        <D:propstat><D:prop><lp1:resourcetype/><lp1:getcontentlength>12</lp1:getcontentlength>\
        <lp1:getlastmodified>Thu, 29 Feb 2024 12:00:00 GMT</lp1:getlastmodified>\
        <lp1:creationdate>2024-02-29T12:00:01Z</lp1:creationdate><lp3:mode>100644</lp3:mode></D:prop>\
        <D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
        <D:propstat><D:prop><lp1:getcontentlength>99</lp1:getcontentlength></D:prop>\
        <D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response></D:multistatus>";
    let expected = Entry {
        depth: 2,
        name: Some("f&".into()),
        status: None,
        attributes: Attributes {
            created: Some(1_709_208_001),
            mode: Some(0o100_644),
            ..attributes(false, Some(12), Some(1_709_208_000))
        },
    };
    assert_eq!(told(apache), [expected]);

    // XRootD: dates of RFC 3339, `iscollection`, no resource type for a file, no status before the properties.
    let xrootd = "<multistatus xmlns=\"DAV:\"><response><href>https://h:1/a/b/?x=/y</href><propstat>\
        <prop><getcontentlength>4096</getcontentlength><getlastmodified>2024-02-29T12:00:00Z</getlastmodified>\
        <resourcetype><collection/></resourcetype><iscollection>1</iscollection></prop>\
        <status>HTTP/1.1 200 OK</status></propstat></response>\
        <response><href>/a/b/c</href><propstat><prop><iscollection>0</iscollection></prop></propstat></response>\
        </multistatus>";
    let told = told(xrootd);
    assert_eq!(told[0].attributes, attributes(true, Some(4096), Some(1_709_208_000)));
    assert_eq!((told[0].depth, told[0].name.as_deref()), (2, Some("b")));
    assert_eq!(told[1].attributes, attributes(false, None, None));
}

#[test]
fn unknown_figures_are_absent() {
    let forbidden = "<D:response><D:href>/d/f</D:href><D:status>HTTP/1.1 403 Forbidden</D:status></D:response>";
    assert_eq!(told(&within(forbidden))[0].status, Some(403));
    let none = "<D:response><D:href>/d/f</D:href><D:propstat><D:prop><D:resourcetype/></D:prop>\
        <D:status>HTTP/1.1 401 Unauthorized</D:status></D:propstat></D:response>";
    let none = &told(&within(none))[0];
    assert_eq!((none.status, none.attributes), (Some(401), Attributes::default()));
    let odd = "<D:response><D:href>/</D:href><D:propstat><D:prop><D:getcontentlength>-1</D:getcontentlength>\
        <D:getlastmodified>yesterday</D:getlastmodified><X:mode xmlns:X=\"LCGDM:\">999</X:mode>\
        <Y:collection xmlns:Y=\"urn:y\"/></D:prop></D:propstat></D:response>";
    let odd = &told(&within(odd))[0];
    assert_eq!((odd.depth, odd.name.as_deref()), (0, None));
    assert_eq!(odd.attributes, Attributes::default());
    assert_eq!(told(&within("<D:response/>")), []);
    let elsewhere = "<D:response><X><D:href>/f</D:href></X></D:response>";
    assert_eq!(told(&within(elsewhere)), []);
}

#[test]
fn texts_are_read_however_they_are_written() {
    let written = |href: &str| {
        let entry = &told(&within(&format!("<D:response><D:href>{href}</D:href></D:response>")))[0];
        entry.name.clone().unwrap()
    };
    assert_eq!(written("/d/a&amp;b&#x20;&#99;"), "a&b c");
    assert_eq!(written("<![CDATA[/d/<a>]]>&amp;"), "<a>&");
    assert_eq!(written("\n  /d/f/ <!-- not this -->\n"), "f");
    assert_eq!(written("/d/%e4%2Fx"), "\u{fffd}/x");
}

#[test]
fn nonsense_is_refused() {
    let check = |text: &str, why: &str| assert!(refused(text).contains(why), "{text}: {}", refused(text));
    check("", "ends too early");
    check("<html><body>Sorry</body></html>", "root must be");
    check("{\"a\":1}", "ends too early");
    check("<multistatus/>", "root must be");
    check("<D:multistatus xmlns:D=\"DAV:\">", "ends too early");
    check("<D:multistatus xmlns:D=\"DAV:\"></D:x>", "no multistatus");
    check("<D:multistatus xmlns:D=\"DAV:\"/><a/>", "root must be");
    check("<!DOCTYPE x [<!ENTITY e \"ha\">]><x/>", "document type");
    check(
        &within("<D:response><D:href>&e;</D:href></D:response>"),
        "unknown entity",
    );
    check(&within(&"<D:response>".repeat(DEPTH_MAX)), "too deeply");
}

/// A storage, or an attacker in its place, could fill the memory.
#[test]
fn an_endless_answer_is_cut_off() {
    let response = "<D:response><D:href>/d/f</D:href></D:response>";
    let many = read_in(within(&response.repeat(11)).as_bytes(), 1000, 10);
    assert_eq!(many, Err(Unread::TooMany(10)));
    let start = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>";
    for endless in ["a", "&amp;", "<D:x", "<![CDATA["] {
        let text = format!("{start}{endless}{}", endless.repeat(PIECE_MAX));
        let read = read_in(text.as_bytes(), 8192, 10);
        assert!(matches!(read, Err(Unread::Garbage(_))), "{endless}: {read:?}");
    }
    let spaces = Bytes::from(vec![b' '; 32 << 10]);
    let start = Bytes::from_static(b"<D:multistatus xmlns:D=\"DAV:\">");
    let body = std::iter::repeat([spaces, Bytes::from_static(b"<a/>")]).flatten();
    let frames = std::iter::once(start).chain(body);
    let frames = frames.map(|piece| Ok::<_, io::Error>(Frame::data(piece)));
    let endless = StreamBody::new(futures_util::stream::iter(frames));
    assert_eq!(read(endless, 10).now_or_never().unwrap(), Err(Unread::TooLarge));
    let long = "n".repeat(8 << 10);
    let long = format!("<D:response><D:href>/d/{long}</D:href></D:response>").repeat(NAMES_MAX / (8 << 10) + 1);
    let read = read_in(within(&long).as_bytes(), 1 << 20, ENTRIES_MAX);
    assert_eq!(read, Err(Unread::TooLong));
}

#[test]
fn a_connection_that_breaks_is_said_to() {
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"<D:multistatus xmlns:D=\"DAV:\">"))),
        Err(io::Error::other("reset")),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames));
    let read = read(body, 10).now_or_never().unwrap();
    assert_eq!(read, Err(Unread::Broken("reset".into())));
}

/// A name as a user may choose it, and its form in an `href`.
fn href(names: &[String]) -> String {
    let encoded = names
        .iter()
        .map(|name| percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string());
    format!("/{}", encoded.collect::<Vec<_>>().join("/"))
}

proptest! {
    /// Every name is returned unchanged, for any split into pieces.
    #[test]
    fn names_and_sizes_come_through(
        names in proptest::collection::vec("[^\u{0}-\u{1f}.]{1,12}", 1..4),
        size in 0..=SIZE_MAX,
        directory in any::<bool>(),
        piece in 1_usize..64,
    ) {
        let kind = if directory { "<D:collection/>" } else { "" };
        let text = within(&format!(
            "<D:response><D:href>{}</D:href><D:propstat><D:prop><D:resourcetype>{kind}</D:resourcetype>\
            <D:getcontentlength>{size}</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
            </D:response>",
            href(&names),
        ));
        let read = read_in(text.as_bytes(), piece, 10).unwrap();
        let expected = Entry {
            depth: names.len(),
            name: names.last().cloned(),
            status: None,
            attributes: attributes(directory, Some(size), None),
        };
        prop_assert_eq!(read, vec![expected]);
    }

    /// Nothing that a storage says ends this program, and pieces of any size say the same.
    #[test]
    fn any_text_is_read_or_refused(text in "(<[a-zA-Z:/!?\\[]{0,12}|[ -~]{0,8}|>|&|\"DAV:\"){0,40}", piece in 1_usize..32) {
        let text = within(&text);
        let whole = read_in(text.as_bytes(), text.len(), 10);
        let parts = read_in(text.as_bytes(), piece, 10);
        prop_assert_eq!(whole.is_ok(), parts.is_ok());
        if let (Ok(whole), Ok(parts)) = (whole, parts) {
            prop_assert_eq!(whole, parts);
        }
    }
}

//! Properties of every parser at the door, for any input. Shared by the fuzz targets and the corpus test.

use http::{HeaderMap, HeaderName, HeaderValue};
use weir_http::range::{self, Requested};
use weir_network::firefly::Tag;
use weir_storage::{
    backend::Meta,
    conditional, copy,
    dav::{self, Unchanged},
    digest,
    token_request::{TokenRequest, parse_form, parse_macaroon},
};

/// Eight bytes of file size, then a `Range` header.
pub(crate) fn range(data: &[u8]) {
    let Some((size, text)) = data.split_first_chunk::<8>() else {
        return;
    };
    let size = u64::from_le_bytes(*size);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let parts = match range::parse(text, size) {
        Requested::Part(part) => vec![part],
        Requested::Parts(parts) => {
            assert!(parts.len() > 1 && parts.len() <= text.len());
            parts
        }
        Requested::Whole | Requested::Unsatisfiable => return,
    };
    assert!(parts.iter().all(|part| part.first <= part.last && part.last < size));
    assert!(parts.iter().map(|part| u128::from(part.length())).sum::<u128>() <= u128::from(size));
}

/// The body of a PROPFIND: an understood one must be answered in well-formed XML.
pub(crate) fn propfind(data: &[u8]) {
    let Ok(wanted) = dav::parse(data) else { return };
    let resource = resource();
    let mut text = dav::OPEN.to_owned();
    dav::write_resource(&mut text, &resource, &wanted);
    text.push_str(dav::CLOSE);
    well_formed(&text);
}

fn resource() -> dav::Resource {
    dav::Resource {
        href: dav::href(["a b", "<&>"], false),
        name: "<&>".into(),
        collection: false,
        size: 1,
        modified: std::time::UNIX_EPOCH,
        created: None,
        etag: "\"1\"".into(),
        quota: Some((1, 2)),
        checksums: vec!["adler32:00000001".into()],
        dead: Vec::new(),
    }
}

/// The body of a PROPPATCH: an understood one must be answered in well-formed XML; kept properties must be read again as they were, and
/// shown in well-formed XML.
pub(crate) fn proppatch(data: &[u8]) {
    let Ok(updates) = dav::parse_update(data) else {
        return;
    };
    assert!(!updates.is_empty());
    let href = dav::href(["<&>"], true);
    let names = dav::named(&updates);
    for why in [Unchanged::NotKept, Unchanged::Protected, Unchanged::NoRoom] {
        let mut text = dav::OPEN.to_owned();
        dav::write_refused(&mut text, &href, &names, why);
        dav::write_changed(&mut text, &href, &names);
        text.push_str(dav::CLOSE);
        well_formed(&text);
    }
    let settable = updates.into_iter().filter(|update| dav::may_be_set(&update.property));
    let Ok(dead) = dav::updated(Vec::new(), settable.collect()) else {
        return;
    };
    let Some(kept) = dav::to_text(&dead) else { return };
    well_formed(&kept);
    assert_eq!(
        dav::to_text(&dav::from_text(&kept)),
        Some(kept),
        "it changes when it is kept again"
    );
    let mut text = dav::OPEN.to_owned();
    let resource = dav::Resource { dead, ..resource() };
    dav::write_resource(&mut text, &resource, &dav::Wanted::All(Vec::new()));
    text.push_str(dav::CLOSE);
    well_formed(&text);
}

/// Names of elements, in their namespaces, and of attributes too.
fn well_formed(text: &str) {
    let mut reader = quick_xml::NsReader::from_str(text);
    loop {
        match reader.read_resolved_event() {
            Ok((_, quick_xml::events::Event::Eof)) => return,
            Ok((quick_xml::name::ResolveResult::Unknown(prefix), _)) => panic!("{prefix:?} is not declared: {text}"),
            Ok(_) => {}
            Err(error) => panic!("{error}: {text}"),
        }
    }
}

/// Values of `SciTag`, a line each: a flow has one tag that is in the registry's range, or none.
pub(crate) fn scitag(data: &[u8]) {
    let values: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let tag = Tag::from_header(values.iter().copied());
    let number = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse::<u16>().ok();
    match (&values[..], tag) {
        (_, None) => {}
        ([value], Some(tag)) => {
            assert_eq!(number(value), Some(tag.number()));
            assert_eq!(Tag::of(tag.number().into()), Some(tag));
            assert_eq!(tag.experiment() << 6 | tag.activity(), tag.number());
        }
        (_, Some(tag)) => panic!("of several values one was taken: {}", tag.number()),
    }
    assert_eq!(Tag::from_header(values.iter().chain(&values).copied()), None);
}

/// Header lines of a COPY: headers that frame a message must never be forwarded.
pub(crate) fn copy_headers(data: &[u8]) {
    let headers = headers(data);
    if let Ok(request) = copy::parse(&headers) {
        for name in [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "expect",
            "range",
        ] {
            assert!(!request.forwarded.contains_key(name), "{name}");
        }
        assert!(!matches!(request.streams, copy::Streams::Asked(0 | 101..)));
        assert!(request.forwarded.get_all("authorization").iter().count() <= 1);
    }
}

/// Header lines with checksums and wishes: our answer must read back as the same.
pub(crate) fn digests(data: &[u8]) {
    let headers = headers(data);
    let Ok(announced) = digest::announced(&headers) else {
        return;
    };
    if let Some(wanted) = digest::wanted(&headers) {
        assert!(!wanted.algorithms.is_empty());
        if let Some(known) = wanted.known(&announced.iter().cloned().collect()) {
            let mut answer = HeaderMap::new();
            wanted.answer(&known, &mut answer);
            assert_eq!(digest::announced(&answer).as_ref(), Ok(&known));
        }
    }
}

/// Header lines of a conditional request.
pub(crate) fn conditions(data: &[u8]) {
    let headers = headers(data);
    let meta = Meta {
        directory: false,
        size: 3,
        modified_ns: 1_700_000_000_000_000_000,
        created: None,
        identity: 7,
    };
    for current in [None, Some(&meta)] {
        for reading in [false, true] {
            let _ = conditional::weigh(&headers, current, reading);
        }
    }
    let _ = conditional::range_counts(&headers, &meta);
}

/// A failed copy's last line, as another endpoint may write it.
pub(crate) fn failure(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(failure) = copy::CopyFailure::parse(text) {
        assert_eq!(failure.to_string(), text);
    }
}

/// A request for a token, in either language: nothing must be wished for outside of the path that was posted to.
pub(crate) fn token_request(data: &[u8]) {
    let path = weir_auth::StoragePath::from_plain("/a/b c").unwrap();
    let check = |request: TokenRequest| {
        assert!(!request.rights.is_empty());
        for wish in &request.rights {
            assert!(wish.actions.as_ref().is_none_or(|actions| !actions.is_empty()));
            let text = wish.path.to_url_path();
            assert_eq!(weir_auth::StoragePath::from_scope_path(&text).as_ref(), Ok(&wish.path));
        }
        request
    };
    if let Ok(request) = parse_macaroon(data, &path) {
        let request = check(request);
        assert!(request.rights.len() == 1 && path.covers(&request.rights[0].path));
    }
    if let Ok(request) = parse_form(data) {
        check(request);
    }
}

/// `Name: value` lines; those that no HTTP parser would let through are left out.
fn headers(data: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (
            HeaderName::from_bytes(&line[..colon]),
            HeaderValue::from_bytes(line[colon + 1..].trim_ascii()),
        );
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

//! Requests as no client library sends them: each byte counts.

use std::time::Duration;

use super::connection::World;

const GET: &str = "GET /f HTTP/1.1\r\nHost: a\r\n\r\n";

fn put(more: &str, body: &str) -> String {
    format!("PUT /new HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {{token}}\r\n{more}\r\n\r\n{body}")
}

/// Requests that lie in the bodies of others would be carried out, where something between us and the client sees one request alone.
#[test]
fn no_request_hides_in_another() {
    let world = World::new();
    let check = |sent: &str, expected: &[u16]| assert_eq!(world.feed(sent.as_bytes()), expected, "{sent:?}");
    let length = GET.len();
    let chunks = format!("{length:x}\r\n{GET}\r\n0\r\n\r\n");
    check(
        &format!("{}{GET}", put(&format!("Content-Length: {length}"), GET)),
        &[201, 200],
    );
    check(
        &format!("{}{GET}", put("Transfer-Encoding: chunked", &chunks)),
        &[201, 200],
    );
    // Whichever of the two counts elsewhere, the rest is not read.
    for both in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
    ] {
        check(&format!("{}{GET}", put(both, "0\r\n\r\n")), &[201]);
    }
    for frame in [
        "Content-Length: 0\r\nContent-Length: 5",
        "Content-Length: 0, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 99999999999999999999",
        "Content-Length : 5",
        "Content-Length\t: 5",
        " Content-Length: 5",
        "X: y\r\n Content-Length: 5",
        "X: y\r\n\tContent-Length: 5",
        "X: y\0\r\nContent-Length: 5",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding:\x0bchunked",
        "Transfer-Encoding : chunked",
    ] {
        check(&put(frame, GET), &[400]);
    }
    check(&put("Transfer-Encoding: gzip, chunked", &chunks), &[501]);
    for chunks in [
        "0x1\r\na\r\n0\r\n\r\n",
        "-1\r\na\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\na\n0\n\n",
        "\r\n1\r\na\r\n0\r\n\r\n",
    ] {
        check(&put("Transfer-Encoding: chunked", &format!("{chunks}{GET}")), &[400]);
    }
}

/// A request whose host is not beyond doubt is one request for us and another one for who stands before us (RFC 9112 section 3.2).
#[test]
fn a_request_names_its_host_once() {
    let world = World::new();
    let check = |sent: &str, expected: &[u16]| assert_eq!(world.feed(sent.as_bytes()), expected, "{sent:?}");
    check("GET /f HTTP/1.1\r\n\r\n", &[400]);
    check("GET /f HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", &[400]);
    check("GET /f HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", &[400]);
    check("GET /f HTTP/1.1\r\nHost: a b\r\n\r\n", &[400]);
    check("GET /f HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", &[400]);
    check("GET /f HTTP/1.0\r\n\r\n", &[200]);
    check("GET /f HTTP/1.1\r\nHost:\r\n\r\n", &[200]);
    check("GET /f HTTP/1.1\r\nHost: [::1]:8443\r\n\r\n", &[200]);
    check("GET http://elsewhere/f HTTP/1.1\r\nHost: a\r\n\r\n", &[200]);
}

/// A target that two readers read differently is a way around the one that guards it.
#[test]
fn targets_mean_one_thing_or_nothing() {
    let world = World::new();
    let check = |target: &str, expected: &[u16]| {
        let sent = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(world.feed(sent.as_bytes()), expected, "{target}");
    };
    check("/f?x=/../..", &[200]);
    check("//f", &[200]);
    check("/%66", &[200]);
    check("http://a/f", &[200]);
    check("/link/secret", &[403]);
    check("/.weir-private/lock", &[403]);
    for odd in [
        "/../f",
        "/d/../f",
        "/./f",
        "/%2e%2e/outside/secret",
        "/.%2e/f",
        "/d%2fg",
        "/f%00",
        "/%0a",
        "/%c0%ae%c0%ae/f",
        "/%ff",
        "/%",
        "/%zz",
        "*",
        "http://a/../f",
    ] {
        check(odd, &[400]);
    }
    for odd in ["f", "/f g", "/f\\", ""] {
        let sent = format!("GET {odd} HTTP/1.1\r\nHost: a\r\n\r\n");
        let statuses = world.feed(sent.as_bytes());
        assert!(statuses == [400] || statuses == [404], "{odd}: {statuses:?}");
    }
    let connect = "CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n";
    assert_eq!(world.feed(connect.as_bytes()), [400]);
}

/// A head without end would fill the memory, or hold the connection.
#[test]
fn heads_have_limits() {
    let world = World::new();
    let check = |sent: &str, expected: &[u16]| assert_eq!(world.feed(sent.as_bytes()), expected, "{sent:?}");
    check("GET /f HTTP/1.1\r\nHost: a\r\n{many}\r\n", &[431]);
    for endless in [
        "GET /{huge}",
        "GET /f HTTP/1.1\r\n{huge}",
        "GET /f HTTP/1.1\r\nHost: a\r\nX: {huge}\r\n\r\n",
    ] {
        let statuses = world.feed(format!("{endless}{GET}").as_bytes());
        assert!(
            statuses.iter().all(|status| (400..500).contains(status)) && statuses.len() <= 1,
            "{endless}: {statuses:?}"
        );
    }
    // Nor one that is sent for ever: a gigabyte, 100,000 lines, or a byte now and then.
    let head = "GET /f HTTP/1.1\r\nHost: a\r\nX: ";
    let at_once = Duration::from_millis(1);
    assert!(world.go_on(head, &b"a".repeat(65_536), at_once, 16_384) < 100);
    assert!(world.go_on("GET /f HTTP/1.1\r\n", &b"X: y\r\n".repeat(100), at_once, 1000) < 200);
    assert!(world.go_on(head, b"a", Duration::from_secs(5), 1000) < 10);
    for silent in ["", "G", "GET /f HTTP/1.1\r\nHo", "{cut}GET{cut} /f HTTP/1.1\r\n{cut}"] {
        check(silent, &[]);
    }
    check(&format!("G{{cut}}{}", &GET[1..]), &[200]);
}

/// A copy with two directions once truncated its source; and one from ourselves waits for itself, or asks in our name.
#[test]
fn copies_that_make_no_sense_are_refused() {
    let world = World::new();
    let copy = |more: &str| {
        let sent = format!("COPY /new HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {{token}}\r\n{more}\r\n");
        world.feed(sent.as_bytes())
    };
    assert_eq!(
        copy("Source: https://{here}/f\r\nDestination: https://{here}/f\r\n"),
        [400]
    );
    assert_eq!(copy("Source: https://{here}/f\r\nSource: https://{here}/f\r\n"), [400]);
    assert_eq!(copy(""), [400]);
    // The answer says no at its end: the area stays as it was, or this would not end well.
    assert_eq!(copy("Source: https://{here}/f\r\n"), [202]);
}

/// An answer that goes to another question gives one client's file to another.
#[test]
fn requests_that_come_at_once_are_answered_in_turn() {
    let world = World::new();
    let check = |sent: &str, expected: &[u16]| assert_eq!(world.feed(sent.as_bytes()), expected, "{sent:?}");
    let ask = |method: &str, path: &str, more: &str| format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    let all = [
        ask("GET", "/f", ""),
        ask("HEAD", "/f", ""),
        ask("GET", "/none", ""),
        ask("GET", "/f", "Range: bytes=2-3\r\n"),
        ask("OPTIONS", "*", ""),
        ask("PROPFIND", "/", "Depth: 1\r\n"),
        ask("GET", "/f", "Connection: close\r\n"),
        ask("GET", "/f", ""),
    ];
    check(&all.concat(), &[200, 200, 404, 206, 200, 207, 200]);
    // A body that nobody asked for is not the next request.
    let unasked = ask("GET", "/f", &format!("Content-Length: {}\r\n", GET.len()));
    let statuses = world.feed(format!("{unasked}{GET}").as_bytes());
    assert_eq!(statuses, [200]);
    // Nor one that waits for a word which does not come.
    let refused = format!(
        "PUT /new HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n{GET}",
        GET.len()
    );
    check(&refused, &[401]);
}

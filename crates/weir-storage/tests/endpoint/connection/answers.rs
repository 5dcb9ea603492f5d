//! A reader of answers that takes only what is well-formed (RFC 9112).

use super::requests::chunked_length;

/// The requests that were sent.
pub(super) struct Asked {
    /// How many answers there may be.
    pub(super) at_most: usize,
    /// Whether there may be answers that tell of a body and have none.
    pub(super) by_head: bool,
    /// Whether the connection broke, so that the last answer may have broken off.
    pub(super) broke: bool,
}

/// The statuses of the final answers in what a server said; none if it is not well-formed, says more than it was asked, or goes on
/// after it has said that it closes the connection.
///
/// The bytes behind the head of an answer to HEAD look like a body to a reader that does not know the question: both readings are tried.
pub(super) fn statuses(said: &[u8], asked: &Asked) -> Option<Vec<u16>> {
    if said.is_empty() {
        return Some(Vec::new());
    }
    let Some((head, rest)) = split(said) else {
        return asked.broke.then(Vec::new);
    };
    let head = Head::read(head)?;
    if head.status == 100 {
        return statuses(rest, asked);
    }
    let at_most = asked.at_most.checked_sub(1)?;
    let then = |length: usize| {
        let rest = rest.get(length..)?;
        if head.closes && !rest.is_empty() {
            return None;
        }
        let mut statuses = statuses(rest, &Asked { at_most, ..*asked })?;
        statuses.insert(0, head.status);
        Some(statuses)
    };
    let bodyless = matches!(head.status, 204 | 304);
    let without = (bodyless || asked.by_head).then(|| then(0)).flatten();
    if bodyless || without.is_some() {
        return without;
    }
    let length = match head.frame {
        Frame::Length(length) => (length <= rest.len()).then_some(length),
        Frame::Chunked => chunked_length(rest),
        Frame::End => head.closes.then_some(rest.len()),
    };
    match length {
        Some(length) => then(length),
        None => asked.broke.then(|| vec![head.status]),
    }
}

fn split(said: &[u8]) -> Option<(&str, &[u8])> {
    let end = said.windows(4).position(|four| four == b"\r\n\r\n")?;
    // Not UTF-8: no head that can be read.
    Some((std::str::from_utf8(&said[..end]).unwrap_or_default(), &said[end + 4..]))
}

struct Head {
    status: u16,
    closes: bool,
    frame: Frame,
}

enum Frame {
    Length(usize),
    Chunked,
    End,
}

impl Head {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let (version, status) = lines.next()?.split_once(' ')?;
        let (status, _reason) = status.split_once(' ')?;
        let status = status.parse().ok().filter(|status| (100..600).contains(status))?;
        let old = match version {
            "HTTP/1.1" => false,
            "HTTP/1.0" => true,
            _ => return None,
        };
        let mut head = Self {
            status,
            closes: old,
            frame: Frame::End,
        };
        let mut frames = 0;
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) || value.contains(|c: char| c.is_control() && c != '\t') {
                return None;
            }
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "connection" if value == "close" => head.closes = true,
                "connection" if value == "keep-alive" => head.closes = false,
                "content-length" => (head.frame, frames) = (Frame::Length(value.parse().ok()?), frames + 1),
                "transfer-encoding" if value == "chunked" => (head.frame, frames) = (Frame::Chunked, frames + 1),
                "transfer-encoding" => return None,
                _ => {}
            }
        }
        (frames <= 1).then_some(head)
    }
}

/// A reader that takes anything would find nothing.
#[test]
fn malformed_xml_is_found() {
    let check = |said: &str, at_most: usize, by_head: bool, broke: bool, expected: Option<&[u16]>| {
        let asked = Asked {
            at_most,
            by_head,
            broke,
        };
        assert_eq!(statuses(said.as_bytes(), &asked).as_deref(), expected, "{said:?}");
    };
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
    check("", 0, false, false, Some(&[]));
    check(&format!("{ok}ab{ok}cd"), 2, false, false, Some(&[200, 200]));
    check(&format!("{ok}ab{ok}cd"), 1, false, false, None);
    check(&format!("{ok}a"), 1, false, false, None);
    check(&format!("{ok}a"), 1, false, true, Some(&[200]));
    check(&format!("{ok}{ok}cd"), 2, true, false, Some(&[200, 200]));
    check(&format!("{ok}{ok}cd"), 2, false, false, None);
    let chunked = "HTTP/1.1 207 Multi-Status\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    check(chunked, 1, false, false, Some(&[207]));
    check(&chunked[..chunked.len() - 5], 1, false, false, None);
    let closing = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    check(
        &format!("HTTP/1.1 100 Continue\r\n\r\n{ok}ab{closing}"),
        2,
        false,
        false,
        Some(&[200, 400]),
    );
    check(&format!("{closing}{ok}ab"), 2, false, false, None);
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n",
        1,
        false,
        false,
        None,
    );
    check(
        "HTTP/1.1 200 OK\r\nbad header: 1\r\ncontent-length: 0\r\n\r\n",
        1,
        false,
        false,
        None,
    );
    check("nonsense", 1, false, false, None);
}

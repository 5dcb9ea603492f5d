//! A reader of requests that takes only what no two readers take differently (RFC 9112), and gives up at anything else.

/// The beginning of a stream of requests.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// A request of so many bytes.
    Whole(usize),
    /// A request whose head is whole and whose body is not.
    Begun,
    /// Something that readers may differ about, or an incomplete head.
    Unclear,
}

/// How many final answers a stream of requests may have at most.
///
/// From where it is unclear on, there may be one for each thing that could end a request line, and one that says that
/// nothing was understood.
pub(super) fn answers_at_most(mut sent: &[u8]) -> usize {
    let mut answers = 0;
    loop {
        match next(sent) {
            _ if sent.is_empty() => return answers,
            Next::Whole(length) => sent = &sent[length..],
            Next::Begun => return answers + 1,
            Next::Unclear => return answers + 1 + sent.windows(7).filter(|seven| *seven == b"HTTP/1.").count(),
        }
        answers += 1;
    }
}

fn next(sent: &[u8]) -> Next {
    let Some(end) = sent.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Next::Unclear;
    };
    let (Ok(head), body) = (std::str::from_utf8(&sent[..end]), &sent[end + 4..]) else {
        return Next::Unclear;
    };
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let Some(frame) = is_request_line(first).then(|| frame(lines)).flatten() else {
        return Next::Unclear;
    };
    match frame {
        Frame::Length(length) if length <= body.len() => Next::Whole(end + 4 + length),
        Frame::Length(_) => Next::Begun,
        Frame::Chunked => match chunked(body) {
            Chunks::Whole(length) => Next::Whole(end + 4 + length),
            Chunks::Begun => Next::Begun,
            Chunks::Unclear => Next::Unclear,
        },
    }
}

fn is_request_line(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else {
        return false;
    };
    !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_uppercase())
        && target.starts_with('/')
        && target.bytes().all(|byte| byte.is_ascii_graphic())
}

enum Frame {
    Length(usize),
    Chunked,
}

/// How long the body is; none if that is not beyond doubt.
fn frame<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Frame> {
    let mut frame = None;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let text = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        if name.is_empty() || !name.bytes().all(token) || !value.bytes().all(text) {
            return None;
        }
        let found = match name.to_ascii_lowercase().as_str() {
            "content-length" => Frame::Length(number(value.trim(), 10)?),
            "transfer-encoding" if value.trim().eq_ignore_ascii_case("chunked") => Frame::Chunked,
            "transfer-encoding" => return None,
            _ => continue,
        };
        if frame.replace(found).is_some() {
            return None;
        }
    }
    Some(frame.unwrap_or(Frame::Length(0)))
}

enum Chunks {
    Whole(usize),
    Begun,
    Unclear,
}

/// A chunked body without extensions and trailers.
pub(super) fn chunked_length(body: &[u8]) -> Option<usize> {
    match chunked(body) {
        Chunks::Whole(length) => Some(length),
        Chunks::Begun | Chunks::Unclear => None,
    }
}

fn chunked(body: &[u8]) -> Chunks {
    let mut at = 0;
    loop {
        let Some(line) = body[at..].windows(2).position(|two| two == b"\r\n") else {
            return Chunks::Unclear;
        };
        let size = std::str::from_utf8(&body[at..at + line]).ok();
        let Some(size) = size.and_then(|size| number(size, 16)) else {
            return Chunks::Unclear;
        };
        at += line + 2;
        match body.get(at + size..) {
            Some([b'\r', b'\n', ..]) => at += size + 2,
            Some([_, _, ..]) => return Chunks::Unclear,
            _ => return Chunks::Begun,
        }
        if size == 0 {
            return Chunks::Whole(at);
        }
    }
}

/// Digits only, and not many.
fn number(text: &str, radix: u32) -> Option<usize> {
    let few = (1..=7).contains(&text.len()) && text.chars().all(|digit| digit.is_digit(radix));
    few.then(|| usize::from_str_radix(text, radix).ok())?
}

/// Were the count too high, hidden requests could be answered unseen; too low, and good answers were blamed.
#[test]
fn certain_matches_are_counted_and_others_bounded() {
    let check = |sent: &str, expected: usize| assert_eq!(answers_at_most(sent.as_bytes()), expected, "{sent:?}");
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    check("", 0);
    check(get, 1);
    check(&get.repeat(3), 3);
    let hidden = |frame: &str, body: &str| format!("PUT /f HTTP/1.1\r\n{frame}\r\n\r\n{body}");
    check(&hidden("Content-Length: 27", get), 1);
    check(&hidden("Content-Length: 28", get), 1);
    check(&hidden("Content-Length: 0", get), 2);
    check(
        &hidden("Transfer-Encoding: chunked", &format!("1b\r\n{get}\r\n0\r\n\r\n{get}")),
        2,
    );
    check(&hidden("Transfer-Encoding: chunked", &format!("1c\r\n{get}")), 1);
    check(&hidden("Content-Length: 27\r\nTransfer-Encoding: chunked", get), 3);
    check(&hidden("Content-Length : 27", get), 3);
    check("GET / HTTP/1.1\nHost: a\n\n", 2);
    check("nonsense", 1);
}

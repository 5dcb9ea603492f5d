//! Pulls by several streams, and streams that are taken up where they broke.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use parking_lot::Mutex;
use weir_http::range::{self, Requested};
use weir_http::{Body, RunningServer, body};
use weir_storage::marker::Marker;
use weir_units::Algorithm;

use super::lab::{Answer, Lab, digest, noise, pieces};
use super::marker_parser::{MarkerParser, Said};

pub(super) fn markers(answer: &Answer) -> Vec<Marker> {
    let (mut parser, mut said) = (MarkerParser::new(), Vec::new());
    parser.push(&answer.body, &mut said);
    said.into_iter()
        .filter_map(|said| match said {
            Said::Marker(marker) => Some(marker),
            Said::Last(_) => None,
        })
        .collect()
}

/// The last word on each stream, in their order.
fn stripes(answer: &Answer) -> Vec<u64> {
    let all = markers(answer);
    let count = all.last().unwrap().stripes as usize;
    let last = &all[all.len() - count..];
    assert!(
        last.iter()
            .enumerate()
            .all(|(number, marker)| marker.stripe as usize == number)
    );
    last.iter().map(|marker| marker.bytes).collect()
}

/// For every size and number of streams the file is the same, and so are its checksums and the books of both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_streams_make_one_file() {
    let lab = Lab::new();
    let (a, b) = (lab.endpoint("a", |_| {}).await, lab.endpoint("b", |_| {}).await);
    let mib = 1_usize << 20;
    let mut total = 0;
    for (size, streams, expected) in [
        (0, 4, 1),
        (1, 4, 1),
        (mib, 4, 1),
        (mib + 1, 4, 2),
        (4 * mib - 1, 4, 4),
        (4 * mib + 1, 4, 3),
        (20_000_003, 2, 2),
        (20_000_003, 8, 7),
        (40_000_000, 100, 13),
    ] {
        let content = noise(size);
        let (from, to) = (format!("/f{size}"), format!("/g{size}-{streams}"));
        a.put(&from, content.clone()).await;
        let streams = streams.to_string();
        let pulled = b.pull(&to, &a.url(&from), &[("X-Number-Of-Streams", &streams)]).await;
        pulled.copied();
        assert!(pulled.last_word().contains("(verified)"), "{}", pulled.text());
        for algorithm in [Algorithm::Adler32, Algorithm::Crc32c] {
            let sum = digest(algorithm, &content).replace('=', ":");
            let kept = b.ask("HEAD", &to, &[("want-digest", algorithm.as_str())], "").await;
            assert_eq!(kept.header("digest"), digest(algorithm, &content));
            assert!(
                algorithm == Algorithm::Crc32c || pulled.last_word().contains(&sum),
                "{}",
                pulled.text()
            );
        }
        assert!(b.get(&to).await.expect(200).body == content, "{size} by {streams}");
        let stripes = stripes(&pulled);
        assert_eq!(
            (stripes.len(), stripes.iter().sum::<u64>()),
            (expected, size as u64),
            "{size} by {streams}"
        );
        total += size as u64;
    }
    let sent = a.running.counters()["data"].traffic;
    let received = b.running.counters()["data"].traffic;
    assert_eq!((sent.sent_completed, received.received_completed), (total, total));
    assert_eq!((sent.sent_failed, received.received_failed), (0, 0));
    b.until_clean().await;
}

/// The requests to a source, and its answers.
pub(super) struct Source {
    pub(super) content: Bytes,
    pub(super) ranges: Mutex<Vec<Range<u64>>>,
    /// The outcome of the n-th GET of a part.
    pub(super) fate: Box<dyn Fn(usize) -> Fate + Send + Sync>,
    /// The outcome of a GET of the whole.
    pub(super) whole: Fate,
    /// Left out of its answers; `versions of parts`: the tag, of parts alone.
    pub(super) without: &'static [&'static str],
    /// The length that it announces.
    pub(super) algorithm: Algorithm,
    /// How it says that it packs the file.
    pub(super) encoding: Option<&'static str>,
    pub(super) delay: Duration,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Whole,
    /// Breaks after so many bytes.
    Breaks(usize),
    /// Sends so many bytes, and then nothing.
    Stalls(usize),
    /// Says that it cannot now.
    Refused,
    /// Another version of the file.
    Changed,
    /// Ignores the range.
    All,
    /// Ends so many bytes too early, and says so.
    Fewer(usize),
    /// Goes on for so many bytes after its end.
    More(usize),
    /// Goes on for ever.
    Endless,
    /// Sends so many bytes, and then one now and then.
    Trickles(usize),
    /// Other bytes under the same tag.
    Swapped,
    /// Answers at once, and sends its bytes only after this time.
    Late(Duration),
}

impl Source {
    pub(super) fn new(size: usize, fate: impl Fn(usize) -> Fate + Send + Sync + 'static) -> Self {
        Self {
            content: noise(size),
            ranges: Mutex::default(),
            fate: Box::new(fate),
            whole: Fate::Whole,
            without: &[],
            algorithm: Algorithm::Adler32,
            encoding: None,
            delay: Duration::ZERO,
        }
    }

    pub(super) fn serve(self, lab: &Lab) -> (Arc<Self>, RunningServer, String) {
        let this = Arc::new(self);
        let source = this.clone();
        let (server, url) = lab.peer(move |request| {
            let source = source.clone();
            async move {
                tokio::time::sleep(source.delay).await;
                source.answer(&request)
            }
        });
        (this, server, format!("{url}/f"))
    }

    #[expect(clippy::too_many_lines, reason = "a table of fates")]
    fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let size = self.content.len() as u64;
        let mut response = Response::new(body::empty());
        let asked = request
            .headers()
            .get(header::RANGE)
            .map(|range| range.to_str().unwrap());
        let mut ranges = self.ranges.lock();
        let (fate, part) = match asked.map(|text| range::parse(text, size)) {
            Some(Requested::Part(part)) => {
                ranges.push(part.first..part.last + 1);
                (
                    (self.fate)(ranges.len() - 1),
                    part.first as usize..part.last as usize + 1,
                )
            }
            _ => (self.whole, 0..size as usize),
        };
        drop(ranges);
        let tag = if fate == Fate::Changed { "\"new\"" } else { "\"old\"" };
        let headers = response.headers_mut();
        headers.insert(header::ACCEPT_RANGES, "bytes".parse().unwrap());
        headers.insert(header::ETAG, tag.parse().unwrap());
        headers.insert("digest", digest(self.algorithm, &self.content).parse().unwrap());
        if let Some(encoding) = self.encoding {
            headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
        }
        if asked.is_some() && self.without.contains(&"versions of parts") {
            headers.remove(header::ETAG);
        }
        for name in self.without {
            headers.remove(*name);
        }
        let condition = request.headers().get(header::IF_MATCH);
        if condition.is_some_and(|condition| condition != tag) {
            *response.status_mut() = StatusCode::PRECONDITION_FAILED;
            return response;
        }
        if request.method() == http::Method::HEAD {
            headers.insert(header::CONTENT_LENGTH, size.into());
            if self.without.contains(&"head") {
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            }
            return response;
        }
        let part = if asked.is_none() || fate == Fate::All {
            0..size as usize
        } else {
            part
        };
        if asked.is_some() && fate != Fate::All {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let given = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            response
                .headers_mut()
                .insert(header::CONTENT_RANGE, given.parse().unwrap());
        }
        response.headers_mut().insert(header::CONTENT_LENGTH, part.len().into());
        let whole = self.content.slice(part.clone());
        match fate {
            Fate::Refused => {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response.headers_mut().remove(header::CONTENT_LENGTH);
            }
            Fate::Breaks(after) => {
                // Sent bytes arrive before the end does.
                let sent = stream::iter([Ok(whole.slice(..after.min(whole.len())))]);
                let end = stream::once(async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Err("gone".into())
                });
                *response.body_mut() = pieces(sent.chain(end));
            }
            Fate::Stalls(after) => {
                let sent = stream::iter([Ok(whole.slice(..after.min(whole.len())))]);
                *response.body_mut() = pieces(sent.chain(stream::pending()));
            }
            Fate::Fewer(by) => {
                let fewer = whole.slice(..whole.len() - by);
                response
                    .headers_mut()
                    .insert(header::CONTENT_LENGTH, fewer.len().into());
                *response.body_mut() = body::full(fewer);
            }
            Fate::More(by) => {
                response.headers_mut().remove(header::CONTENT_LENGTH);
                // Excess bytes come by themselves, when all that is due has been taken.
                let more = stream::once(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok(noise(by))
                });
                *response.body_mut() = pieces(stream::iter([Ok(whole)]).chain(more));
            }
            Fate::Endless => {
                response.headers_mut().remove(header::CONTENT_LENGTH);
                *response.body_mut() = pieces(stream::repeat_with(|| Ok(noise(100_000))));
            }
            Fate::Trickles(after) => {
                let sent = stream::iter([Ok(whole.slice(..after))]);
                let drops = stream::unfold(after, move |at| {
                    let drop = whole.slice(at..=at);
                    async move {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        Some((Ok(drop), at + 1))
                    }
                });
                *response.body_mut() = pieces(sent.chain(drops));
            }
            Fate::Late(pause) => {
                let late = stream::once(async move {
                    tokio::time::sleep(pause).await;
                    Ok(whole)
                });
                *response.body_mut() = pieces(late);
            }
            Fate::Swapped => *response.body_mut() = body::full(noise(whole.len() + 1).slice(1..)),
            _ => *response.body_mut() = body::full(whole),
        }
        response
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        self.ranges.lock().clone()
    }
}

pub(super) const FOUR: (&str, &str) = ("X-Number-Of-Streams", "4");
pub(super) const ONE: (&str, &str) = ("X-Number-Of-Streams", "1");

/// The time to the first byte would be told of a copy whose source only answered, or forgotten of one with several streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_to_the_first_byte_is_that_of_data() {
    let lab = Lab::new();
    let (a, b) = (lab.endpoint("a", |_| {}).await, lab.endpoint("b", |_| {}).await);
    let first_byte = |answer: &Answer| markers(answer).last().unwrap().first_byte;
    let pause = Duration::from_millis(200);
    for streams in [ONE, FOUR] {
        let late = Source {
            whole: Fate::Late(pause),
            ..Source::new(8 << 20, move |_| Fate::Late(pause))
        };
        let (_source, _server, url) = late.serve(&lab);
        let pulled = b.pull("/late", &url, &[streams]).await;
        pulled.copied();
        assert!(first_byte(&pulled).unwrap() >= pause, "{}", pulled.text());
    }
    let pushed = b.push("/late", &a.url("/pushed"), &[]).await;
    pushed.copied();
    assert!(first_byte(&pushed).is_some(), "{}", pushed.text());
    b.put("/empty", "").await.expect(201);
    let empty = b.push("/empty", &a.url("/empty"), &[]).await;
    empty.copied();
    assert_eq!(first_byte(&empty), None, "an empty file has no byte");
}

/// A stream that breaks goes on where it broke: bytes that have come are not read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_streams_go_on_where_they_broke() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    // Each of the four breaks once, and the first that comes again is refused once.
    let source = Source::new(8 << 20, |number| match number {
        0..4 => Fate::Breaks(700_000 + number),
        4 => Fate::Refused,
        _ => Fate::Whole,
    });
    let (source, _server, url) = source.serve(&lab);
    let pulled = b.pull("/f", &url, &[FOUR]).await;
    pulled.copied();
    assert!(b.get("/f").await.body == source.content);
    let ranges = source.ranges();
    assert_eq!(ranges.len(), 9, "{ranges:?}");
    for (number, part) in ranges[..4].iter().enumerate() {
        let rest = part.start + 700_000 + number as u64..part.end;
        assert!(ranges[4..].contains(&rest), "{rest:?} in {ranges:?}");
    }
    assert_eq!(stripes(&pulled), [2 << 20; 4]);
    let metrics = b.get("/.well-known/weir/metrics").await.text();
    assert!(metrics.contains("weir_storage_streams_resumed_total 4"), "{metrics}");
}

/// The same with one stream; and it gives up where there is no progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_stream_goes_on_too() {
    let lab = Lab::new();
    let b = lab
        .endpoint("b", |config| config.tpc.stall_timeout = Duration::from_secs(2))
        .await;
    let source = Source::new(3_000_000, |_| Fate::Whole);
    let content = source.content.clone();
    let asked = Arc::new(Mutex::new(Vec::<String>::new()));
    let seen = asked.clone();
    let (_peer, peer) = lab.peer(move |request| {
        let range = request
            .headers()
            .get(header::RANGE)
            .map(|range| range.to_str().unwrap().to_owned());
        let number = {
            let mut seen = seen.lock();
            seen.push(range.clone().unwrap_or_default());
            seen.len()
        };
        let content = content.clone();
        async move {
            let first = range
                .as_ref()
                .map_or(0, |range| range[6..].split_once('-').unwrap().0.parse().unwrap());
            let rest = content.slice(first..);
            let mut response = Response::new(body::empty());
            if range.is_some() {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                let given = format!("bytes {first}-{}/{}", content.len() - 1, content.len());
                response
                    .headers_mut()
                    .insert(header::CONTENT_RANGE, given.parse().unwrap());
            }
            response
                .headers_mut()
                .insert(header::ACCEPT_RANGES, "bytes".parse().unwrap());
            response.headers_mut().insert(header::ETAG, "\"one\"".parse().unwrap());
            response.headers_mut().insert(header::CONTENT_LENGTH, rest.len().into());
            // A million bytes at a time: then silence, then a break.
            let some = stream::iter([Ok(rest.slice(..rest.len().min(1_000_000)))]);
            *response.body_mut() = match number {
                _ if request.uri().path() == "/never" => pieces(stream::iter([Err("gone".into())])),
                1 => pieces(some.chain(stream::pending())),
                2 => pieces(some.chain(stream::once(async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Err("gone".into())
                }))),
                _ => body::full(rest),
            };
            response
        }
    });
    b.pull("/f", &format!("{peer}/f"), &[ONE]).await.copied();
    assert!(b.get("/f").await.body == source.content);
    assert_eq!(*asked.lock(), ["", "bytes=1000000-2999999", "bytes=2000000-2999999"]);
    asked.lock().clear();
    let answer = b.pull("/g", &format!("{peer}/never"), &[ONE]).await;
    assert!(answer.last_word().starts_with("failure: "), "{}", answer.text());
    assert!(asked.lock().len() <= 4, "{:?}", asked.lock());
    b.until_clean().await;
    assert_eq!(b.names(), ["f"]);
}

/// Parts of two versions make a file that never was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_meanwhile_fails_the_copy() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let source = Source::new(8 << 20, |number| match number {
        0 => Fate::Breaks(500_000),
        1..4 => Fate::Whole,
        _ => Fate::Changed,
    });
    let (_source, _server, url) = source.serve(&lab);
    b.pull("/f", &url, &[FOUR])
        .await
        .failed(&["protocol (source during transfer)", "changed while it was being read"]);
    b.until_clean().await;
    assert!(b.names().is_empty());
    assert_eq!(b.running.counters()["data"].used, 0);
}

/// A stream that falls silent while the others are done must not end the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_stream_is_taken_up() {
    let lab = Lab::new();
    let b = lab
        .endpoint("b", |config| config.tpc.stall_timeout = Duration::from_secs(3))
        .await;
    let source = Source::new(8 << 20, |number| match number {
        2 => Fate::Stalls(1_000_000),
        _ => Fate::Whole,
    });
    let (source, _server, url) = source.serve(&lab);
    b.pull("/f", &url, &[FOUR]).await.copied();
    assert!(b.get("/f").await.body == source.content);
    assert_eq!(source.ranges().len(), 5);
}

/// Where parts cannot be had, or not be put together, one stream does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_stream_where_there_can_be_no_more() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let plain = |without, fate| Source {
        without,
        ..Source::new(8 << 20, move |_| fate)
    };
    let sources = [
        ("ranges are ignored", plain(&[], Fate::All)),
        ("no HEAD", plain(&["head"], Fate::Whole)),
        ("neither version nor checksum", plain(&["etag", "digest"], Fate::Whole)),
        ("another version for parts", plain(&[], Fate::Changed)),
    ];
    for (what, source) in sources {
        let (source, _server, url) = source.serve(&lab);
        let pulled = b.pull("/f", &url, &[FOUR]).await;
        pulled.copied();
        assert!(b.get("/f").await.body == source.content, "{what}");
        assert_eq!(stripes(&pulled), [8 << 20], "{what}");
    }
    // A checksum that vouches for the whole will do in place of a version.
    let (_source, _server, url) = plain(&["etag"], Fate::Whole).serve(&lab);
    assert_eq!(stripes(&b.pull("/f", &url, &[FOUR]).await), [2 << 20; 4]);
    // md5 of parts says nothing about the whole, and no file is read a second time.
    let md5 = lab
        .endpoint("md5", |config| {
            config.areas[0].checksums = vec![Algorithm::Adler32, Algorithm::Md5];
        })
        .await;
    let (_source, _server, url) = plain(&[], Fate::Whole).serve(&lab);
    let pulled = md5.pull("/f", &url, &[FOUR]).await;
    pulled.copied();
    assert_eq!(stripes(&pulled), [8 << 20]);
}

/// A file that is not the one that the client means is not read first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_than_announced_is_told_before_it_is_read() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let (_source, _server, url) = Source::new(8 << 20, |_| Fate::Whole).serve(&lab);
    for streams in [ONE, FOUR] {
        let answer = b.pull("/f", &url, &[streams, ("digest", "adler32=00000001")]).await;
        answer.failed(&["checksum (source during preparation)", "mismatch", "adler32:00000001"]);
        assert_eq!(stripes(&answer), [0]);
    }
}

/// Where the client does not say, the way decides, and not how late an answer comes: a busy source in the same room would get as many
/// streams as one on the other side of the world. (What a long way gets is in `tests/streams.rs`, where there is one.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_is_no_long_way() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |config| config.tpc.streams_max = 3).await;
    let source = Source {
        delay: Duration::from_millis(100),
        ..Source::new(64 << 20, |_| Fate::Whole)
    };
    let (source, _server, url) = source.serve(&lab);
    let pulled = b.pull("/f", &url, &[]).await;
    pulled.copied();
    assert_eq!(stripes(&pulled).len(), 1);
    assert!(source.ranges().is_empty(), "{:?}", source.ranges());
    assert!(b.get("/f").await.body == source.content);
    assert!(pulled.text().contains(" min_rtt_ms="), "{}", pulled.text());
}

/// Several streams compare and refuse the same as one stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_streams_prove_no_less_than_one() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let md5 = Source {
        algorithm: Algorithm::Md5,
        ..Source::new(8 << 20, |_| Fate::Whole)
    };
    let (source, _server, url) = md5.serve(&lab);
    let required = ("RequireChecksumVerification", "true");
    let pulled = b.pull("/md5", &url, &[FOUR, required]).await;
    pulled.copied();
    assert!(pulled.last_word().contains("(verified)"), "{}", pulled.text());
    assert_eq!(stripes(&pulled).len(), 1);
    assert!(b.get("/md5").await.body == source.content);
    // Parts that do not say of which version they are.
    let nameless = Source {
        without: &["versions of parts"],
        ..Source::new(8 << 20, |_| Fate::Whole)
    };
    let (_source, _server, url) = nameless.serve(&lab);
    let pulled = b.pull("/nameless", &url, &[FOUR]).await;
    pulled.copied();
    assert_eq!(stripes(&pulled).len(), 1);
    let packed = Source {
        encoding: Some("gzip"),
        ..Source::new(8 << 20, |_| Fate::Whole)
    };
    let (_source, _server, url) = packed.serve(&lab);
    for streams in [ONE, FOUR] {
        b.pull("/packed", &url, &[streams]).await.failed(&["another encoding"]);
    }
}

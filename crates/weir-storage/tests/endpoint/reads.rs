//! Reading from a disk that fails: an error or the right bytes, never a body that passes for whole; and no place is lost.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use rustix::io::Errno;
use weir_http::body;
use weir_units::Algorithm;

use super::{
    faulty::{Call, Fault, Faults, FaultyAreas},
    lab::{Endpoint, Lab, digest, noise, until},
    namespace::balanced,
};

const SIZE: usize = 1_200_000;
const ENTRIES: usize = 700;

/// A request that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Get,
    Range,
    Head,
    Checksum,
    List,
    Push,
}

impl Reading {
    async fn ask(self, at: &Endpoint, to: &Endpoint) -> (StatusCode, Option<Bytes>) {
        let begun = match self {
            Self::Get => at.try_begin("GET", "/f", &[], body::empty()).await,
            Self::Range => {
                at.try_begin("GET", "/f", &[("range", "bytes=100000-1099999")], body::empty())
                    .await
            }
            Self::Head => at.try_begin("HEAD", "/f", &[], body::empty()).await,
            Self::Checksum => {
                let answer = at.ask("HEAD", "/f", &[("want-digest", "md5")], "").await;
                return (answer.status, Some(answer.header("digest").to_owned().into()));
            }
            Self::List => at.try_begin("PROPFIND", "/d", &[("depth", "1")], body::empty()).await,
            Self::Push => {
                let answer = at.push("/f", &to.url("/f"), &[]).await;
                let good = answer.status == StatusCode::ACCEPTED && answer.last_word().starts_with("success");
                return (answer.status, good.then(Bytes::new));
            }
        };
        // The connection may break before the head of the answer has left.
        let Ok(begun) = begun else {
            return (StatusCode::INTERNAL_SERVER_ERROR, None);
        };
        let status = begun.status();
        (
            status,
            begun
                .into_body()
                .collect()
                .await
                .ok()
                .map(http_body_util::Collected::to_bytes),
        )
    }

    /// Whether this is the answer of a disk that works.
    fn is_right(self, body: &Bytes) -> bool {
        let content = noise(SIZE);
        match self {
            Self::Get => *body == content,
            Self::Range => *body == content[100_000..1_100_000],
            Self::Head | Self::Push => body.is_empty(),
            Self::Checksum => *body == digest(Algorithm::Md5, &content),
            Self::List => {
                let text = String::from_utf8_lossy(body);
                text.ends_with("</D:multistatus>\n") && text.matches("<D:response>").count() == ENTRIES + 1
            }
        }
    }
}

/// A file cut short, or a listing without its end, would pass for the whole one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_row_is_reported() {
    let lab = Lab::new();
    let faults = Faults::default();
    let to = lab.endpoint("to", |_| {}).await;
    let at = lab
        .endpoint_on("at", FaultyAreas::new(&faults), |config| {
            config.limits.transfers = 1;
            config.limits.copies = 1;
            config.limits.listings = 1;
            config.limits.checksum_readers = 1;
            // A place comes back when its connection has ended, which a busy machine may take its time for.
            config.limits.patience = Duration::from_secs(60);
        })
        .await;
    at.put("/f", noise(SIZE)).await.expect(201);
    std::fs::create_dir(at.root.join("d")).unwrap();
    for number in 0..ENTRIES {
        std::fs::create_dir(at.root.join(format!("d/{number}"))).unwrap();
    }
    for reading in [
        Reading::Get,
        Reading::Range,
        Reading::Head,
        Reading::Checksum,
        Reading::List,
        Reading::Push,
    ] {
        faults.release();
        let (_, body) = reading.ask(&at, &to).await;
        assert!(body.is_some_and(|body| reading.is_right(&body)), "{reading:?}");
        for (call, count) in faults.calls() {
            for number in 0..count {
                // A kept checksum would be told without a look.
                std::fs::write(at.root.join("g"), noise(SIZE)).unwrap();
                std::fs::rename(at.root.join("g"), at.root.join("f")).unwrap();
                faults.arm(call, number, Fault::Error(Errno::IO));
                let (status, body) = reading.ask(&at, &to).await;
                let what = format!("{reading:?} with an error at {call:?} {number}: {status}");
                let good = status.is_success() && body.is_some_and(|body| reading.is_right(&body));
                assert!(good || faults.fired() == 1, "{what}");
                let said = status.is_server_error() || status == StatusCode::ACCEPTED || status.is_success();
                assert!(said, "{what}");
                if good {
                    let harmless = matches!(call, Call::Checksums | Call::KeepChecksums | Call::Space | Call::Read);
                    assert!(faults.fired() == 0 || harmless, "{what}");
                }
                faults.release();
                // The other side of a push that broke may still be busy with its end.
                let mut left = 100;
                loop {
                    let (status, body) = reading.ask(&at, &to).await;
                    if body.is_some_and(|body| reading.is_right(&body)) {
                        break;
                    }
                    left -= 1;
                    assert!(left > 0, "{status} after {what}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    std::fs::remove_file(at.root.join("f")).unwrap();
    let page = || async { at.get("/.well-known/weir/metrics").await.text() };
    let active = page().await;
    let mut active = active
        .lines()
        .filter(|line| line.starts_with("weir_storage_transfers_active{"));
    assert!(active.all(|line| line.ends_with(" 0")));
    until("nothing private", || at.leftovers() == 0).await;
    balanced(&to).await;
}

//! The bytes of a whole connection, into an endpoint as it serves: request lines and heads, frames of bodies, their effects,
//! and the answers. Shared by the fuzz target, the corpus test and the tests of single cases.
//!
//! The clock stands still while anything goes on, and jumps to the next time limit when nothing does: a client that falls silent in
//! the middle costs no time.

mod answers;
mod requests;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Runtime,
};
use weir_storage::{Running, Storage, dav};

use super::lab::Lab;
use answers::Asked;

/// The files of the area when a connection begins, by path.
const FILES: [(&str, &[u8]); 2] = [("d/g", b"in a directory"), ("f", b"0123456789")];
/// A file outside of it, where a link in the area leads.
const SECRET: &[u8] = b"what nobody may read";
/// By far longer than any limit of the endpoint.
const FOR_EVER: Duration = Duration::from_secs(100_000);
/// Placeholders of one input that are replaced: enough to go beyond any limit, and soon done.
const PLACEHOLDERS: usize = 8;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// An endpoint that takes connections one after the other.
pub(crate) struct World {
    token: String,
    running: Running,
    lab: Lab,
    runtime: Runtime,
}

impl World {
    pub(crate) fn new() -> Self {
        count_panics();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let lab = runtime.block_on(async { Lab::new() });
        let area = lab.dir.path().join("area");
        for (path, content) in FILES.into_iter().chain([("../outside/secret", SECRET)]) {
            let path = area.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        link(&area);
        let mut config = lab.config("area", "127.0.4.1:0".parse().unwrap());
        (config.tls, config.access_log) = (None, None);
        config.tpc.allow.clear();
        config.areas[0].anonymous_read = true;
        config.areas[0].quota = Some("1 MB".parse().unwrap());
        let running = runtime.block_on(Storage::start(config)).unwrap();
        let end = SystemTime::now() + Duration::from_secs(48 * 3600);
        let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({"scope": "storage.read:/ storage.modify:/", "exp": end});
        let world = Self {
            token: lab.issuer.mint(&claims),
            running,
            lab,
            runtime,
        };
        // The issuer is asked for its keys by the true clock.
        assert_eq!(
            world
                .feed(b"MKCOL /new/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"),
            [201]
        );
        world.runtime.block_on(async { tokio::time::pause() });
        world
    }

    /// Sends this on one connection, and holds the answers to what must be true of any; gives their statuses.
    ///
    /// `{token}` becomes a token that may do everything, `{here}` the endpoint's host and port, `{huge}` 70,000 letters and `{many}`
    /// 300 header lines; at `{cut}` the sender waits until nothing goes on any more.
    pub(crate) fn feed(&self, data: &[u8]) -> Vec<u16> {
        let pieces = self.pieces(data);
        let sent = pieces.concat();
        if self.leads_out(&sent) {
            return Vec::new();
        }
        let panics = PANICS.load(Ordering::Relaxed);
        let (said, broke) = self.runtime.block_on(self.speak(&pieces));
        assert_eq!(PANICS.load(Ordering::Relaxed), panics, "the endpoint panicked");
        assert!(!contains(&said, SECRET), "a path led out of the area");
        let asked = Asked {
            at_most: requests::answers_at_most(&sent),
            by_head: contains(&sent, b"HEAD "),
            broke,
        };
        let statuses = answers::statuses(&said, &asked);
        let statuses = statuses.unwrap_or_else(|| {
            let (at_most, said) = (asked.at_most, String::from_utf8_lossy(&said));
            panic!("at most {at_most} well-formed answers, not: {said}")
        });
        self.restore();
        statuses
    }

    /// Begins a head and goes on with the same piece, after such a pause each time; gives how many were sent until the connection was
    /// closed, of at most so many.
    pub(crate) fn go_on(&self, head: &str, piece: &[u8], pause: Duration, at_most: usize) -> usize {
        let sending = async {
            let mut stream = TcpStream::connect(self.running.address()).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut sent = 0;
            while sent < at_most && stream.write_all(piece).await.is_ok() {
                tokio::time::sleep(pause).await;
                sent += 1;
            }
            sent
        };
        let sent = self
            .runtime
            .block_on(async { tokio::time::timeout(FOR_EVER, sending).await });
        sent.expect("a connection was held for ever")
    }

    fn pieces(&self, data: &[u8]) -> Vec<Vec<u8>> {
        let here = self.running.address().to_string();
        let (huge, many) = ("h".repeat(70_000), "X-Many: 1\r\n".repeat(300));
        let known = [
            ("{token}", self.token.as_str()),
            ("{here}", &here),
            ("{huge}", &huge),
            ("{many}", &many),
        ];
        let (mut pieces, mut piece, mut rest, mut left) = (Vec::new(), Vec::new(), data, PLACEHOLDERS);
        while let Some((first, behind)) = rest.split_first() {
            let found = known.iter().find(|(name, _)| rest.starts_with(name.as_bytes()));
            if let Some((name, text)) = found.filter(|_| left > 0) {
                piece.extend_from_slice(text.as_bytes());
                (rest, left) = (&rest[name.len()..], left - 1);
            } else if let Some(behind) = rest.strip_prefix(b"{cut}") {
                pieces.push(std::mem::take(&mut piece));
                rest = behind;
            } else {
                piece.push(*first);
                rest = behind;
            }
        }
        pieces.push(piece);
        pieces
    }

    /// Whether it could be the order for a copy from or to somewhere else: nobody else is spoken to here.
    fn leads_out(&self, sent: &[u8]) -> bool {
        let here = format!("://{}/", self.running.address());
        let mut urls = (0..sent.len()).filter(|at| sent[*at..].starts_with(b"://"));
        contains(sent, b"COPY") && urls.any(|at| !sent[at..].starts_with(here.as_bytes()))
    }

    /// Gives what was said until the end, and whether that was no good end.
    async fn speak(&self, pieces: &[Vec<u8>]) -> (Vec<u8>, bool) {
        let mut stream = TcpStream::connect(self.running.address()).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        let mut said = Vec::new();
        let write = async {
            for piece in pieces {
                // The other side may have closed the connection.
                if writer.write_all(piece).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let both = async { tokio::join!(write, reader.read_to_end(&mut said)).1 };
        let ended = tokio::time::timeout(FOR_EVER, both).await;
        let ended = ended.expect("a connection was held for ever");
        (said, ended.is_err())
    }

    /// Brings the area back to what it was, as any client would.
    fn restore(&self) {
        let outside = files(&self.lab.dir.path().join("outside"));
        assert!(
            outside.len() == 1 && outside["secret"] == SECRET,
            "something outside of the area was changed"
        );
        let area = self.lab.dir.path().join("area");
        link(&area);
        let at_first = FILES
            .map(|(path, content)| (path.to_owned(), content.to_owned()))
            .into();
        if files(&area) == at_first {
            return;
        }
        let mut orders = Vec::new();
        let mut order = |method: &str, path: &str, content: &[u8]| {
            orders.push(format!(
                "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{}",
                self.token,
                content.len(),
                String::from_utf8_lossy(content)
            ));
        };
        for entry in fs::read_dir(&area).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name != "link" && name != ".weir-private" {
                let directory = entry.file_type().unwrap().is_dir();
                order("DELETE", &dav::href([name.as_str()], directory), b"");
            }
        }
        FILES
            .iter()
            .for_each(|(path, content)| order("PUT", &format!("/{path}"), content));
        orders.push("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".into());
        let (said, _) = self.runtime.block_on(self.speak(&[orders.concat().into_bytes()]));
        assert!(files(&area) == at_first, "{}", String::from_utf8_lossy(&said));
    }
}

/// A way out of the area, for who follows it.
fn link(area: &Path) {
    let link = area.join("link");
    if fs::symlink_metadata(&link).is_err() {
        std::os::unix::fs::symlink("../outside", link).unwrap();
    }
}

/// All that anybody may see in a directory: files with their content, and directories with none.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_file() {
            files.insert(name, fs::read(entry.path()).unwrap());
        } else if kind.is_dir() && name != ".weir-private" {
            let inside = self::files(&entry.path());
            if inside.is_empty() {
                files.insert(format!("{name}/"), Vec::new());
            }
            files.extend(
                inside
                    .into_iter()
                    .map(|(below, content)| (format!("{name}/{below}"), content)),
            );
        }
    }
    files
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A panic in a task of the endpoint ends that task alone, and would not be noticed.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |information| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(information);
        }));
    });
}

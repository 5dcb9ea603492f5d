//! A way to the database that can be slow, or stand still: as a network between them may be.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;

/// PostgreSQL's name for its socket in a directory.
const SOCKET: &str = ".s.PGSQL.5432";

#[derive(Debug, Default)]
struct State {
    stands_still: AtomicBool,
    delay_ms: AtomicU64,
}

impl State {
    /// Waits until bytes pass.
    fn pass(&self) {
        while self.stands_still.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Passes everything on; its threads end with the test's process.
#[derive(Debug)]
pub struct Channel {
    directory: tempfile::TempDir,
    state: Arc<State>,
}

impl Channel {
    /// A way to the server whose socket is in this directory.
    pub fn to(server: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("weir-way-").tempdir()?;
        let listener = UnixListener::bind(directory.path().join(SOCKET))?;
        let (state, server) = (Arc::new(State::default()), server.join(SOCKET));
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().filter_map(Result::ok) {
                let (state, server) = (shared.clone(), server.clone());
                std::thread::spawn(move || carry(&client, &server, &state));
            }
        });
        Ok(Self { directory, state })
    }

    /// The directory of its end.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    /// From now on nothing passes, without an error: sent bytes arrive after [`Self::go_on`].
    pub fn stand_still(&self) {
        self.state.stands_still.store(true, Ordering::Relaxed);
    }

    /// Held bytes pass, and everything after them.
    pub fn go_on(&self) {
        self.state.stands_still.store(false, Ordering::Relaxed);
    }

    /// From now on each statement takes so much longer.
    pub fn slow_down(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.state.delay_ms.store(millis, Ordering::Relaxed);
    }
}

fn carry(client: &UnixStream, server: &PathBuf, state: &Arc<State>) {
    state.pass();
    let Ok(server) = UnixStream::connect(server) else {
        return;
    };
    let (Ok(from), Ok(to)) = (server.try_clone(), client.try_clone()) else {
        return;
    };
    let shared = state.clone();
    let back = std::thread::spawn(move || pump(&from, &to, &shared, false));
    pump(client, &server, state, true);
    let _ended = back.join();
}

fn pump(mut from: &UnixStream, mut to: &UnixStream, state: &State, asks: bool) {
    let mut buffer = vec![0; 65_536];
    loop {
        let read = from.read(&mut buffer);
        state.pass();
        let Ok(n @ 1..) = read else { break };
        if asks {
            std::thread::sleep(Duration::from_millis(state.delay_ms.load(Ordering::Relaxed)));
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _closed = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

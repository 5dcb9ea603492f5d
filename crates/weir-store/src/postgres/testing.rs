//! A real PostgreSQL server for tests, in a directory of its own, reached through a socket in it; and it ends with the test.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a failed test may panic")]

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use weir_http::TrustRoots;

use super::{Address, Connector, PATIENCE, Purpose, Session};
use crate::seal::Sealer;

/// Makes a database in directory `$1`, serves it, and cleans up when the other end of standard input is closed. Lines
/// `stop` and `start` do that. The rest of the arguments go to the server.
const SCRIPT: &str = r#"
set -e
bin=$1 dir=$2 port=$3; shift 3
"$bin/initdb" -D "$dir/data" -U weir -A trust -E UTF8 --locale=C --no-sync >"$dir/initdb.log" 2>&1
start() {
    "$bin/postgres" -D "$dir/data" -k "$dir" -p "$port" "$@" >>"$dir/server.log" 2>&1 &
    pid=$!
    until "$bin/pg_isready" -q -h "$dir" -p "$port"; do kill -0 $pid; sleep 0.05; done
    echo "up $pid"
}
start "$@"
while read -r order; do
    case $order in
    stop) kill -INT $pid; wait $pid || true; echo down ;;
    kill) kill -KILL $pid; wait $pid || true; sleep 0.3; echo down ;;
    start) start "$@" ;;
    esac
done
kill -CONT $pid 2>/dev/null || true
kill -QUIT $pid 2>/dev/null || true
wait $pid || true
rm -rf "$dir"
"#;

/// False if `PEERS=no` skips tests that need other programs.
pub fn wanted() -> bool {
    std::env::var("PEERS").map_or(true, |peers| peers != "no")
}

/// A server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    directory: PathBuf,
    port: u16,
    /// Of its first process.
    pub pid: String,
}

/// The newest that Debian's packages left.
fn binaries() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists());
    installed
        .max()
        .expect("PostgreSQL is needed: apt-get install postgresql, or set PEERS=no to leave its tests out")
}

impl Server {
    /// Starts one. `settings` are options of `postgres`.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_with(5432, |_| settings.iter().map(|setting| (*setting).to_owned()).collect())
    }

    /// Starts a server whose settings name files that are put into its directory first. The port also names its socket.
    pub fn start_with(port: u16, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short: the path of a socket has 107 characters at most.
        let directory = std::env::temp_dir().join(format!("weir-pg-{}-{n}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let settings = prepare(&directory);
        let mut command = if rustix::process::geteuid().is_root() {
            // The server refuses to run as root.
            let owner = Command::new("chown")
                .args(["-R", "postgres"])
                .arg(&directory)
                .status()
                .unwrap();
            assert!(owner.success(), "the user postgres comes with Debian's package");
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        command
            .args(["-c", SCRIPT, "sh"])
            .arg(binaries())
            .arg(&directory)
            .arg(port.to_string());
        command
            .args(["-c", "listen_addresses="])
            .args(settings)
            .current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self {
            child,
            answers,
            directory,
            port,
            pid: String::new(),
        };
        server.await_up();
        server
    }

    /// For tests that do it no harm: quick, and durable only as long as it runs.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&["-c", "fsync=off", "-c", "max_connections=400"]))
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let log = std::fs::read_to_string(self.directory.join("server.log")).unwrap_or_default();
        assert!(!line.is_empty(), "PostgreSQL did not start: {log}");
        line.trim().to_owned()
    }

    fn await_up(&mut self) {
        let answer = self.answer();
        answer.strip_prefix("up ").unwrap().clone_into(&mut self.pid);
    }

    fn order(&mut self, order: &str) {
        use std::io::Write as _;
        writeln!(self.child.stdin.as_mut().unwrap(), "{order}").unwrap();
    }

    /// Stops it (`stop`), or its first process dies by SIGKILL (`kill`).
    pub fn end(&mut self, how: &str) {
        self.order(how);
        assert_eq!(self.answer(), "down");
    }

    /// After [`Self::end`].
    pub fn start_again(&mut self) {
        self.order("start");
        self.await_up();
    }

    /// Sends a signal to all of its processes.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let children = format!("/proc/{0}/task/{0}/children", self.pid);
        let children = std::fs::read_to_string(children).unwrap();
        for pid in children.split_whitespace().chain([self.pid.as_str()]) {
            let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Where its socket and its database are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The address of one of its databases.
    pub fn address(&self, database: &str) -> Address {
        Address {
            port: self.port,
            ..Address::new(self.directory.to_str().unwrap(), database, "weir")
        }
    }

    /// A new, empty database.
    pub fn database(&self) -> Address {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.session("postgres")
            .run(&format!("CREATE DATABASE {name}"))
            .unwrap();
        self.address(&name)
    }

    /// A session with one of its databases.
    pub fn session(&self, database: &str) -> Session {
        let connector = Connector::new(&self.address(database), &TrustRoots::default()).unwrap();
        let session = Session::open(&connector, Purpose::Batches, PATIENCE).unwrap();
        // The sockets live as long as the test.
        std::mem::forget(connector);
        session
    }
}

/// The sealer of a key file, which is made if it is missing.
pub fn sealer(path: &Path) -> Sealer {
    crate::seal::for_tests(path)
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

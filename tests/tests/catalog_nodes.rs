//! Two catalogues on one PostgreSQL database: one of them works, and the other one goes on when it dies or falls silent.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::Signal;
use weir_tests::{Daemon, Postgres, RunningGrid, free_port, peers, run, wait_for, weir_binary, write_private};

const PATIENCE: Duration = Duration::from_secs(60);

const THREE_SITES: &str = "
name = \"three\"
vo = \"lab\"
[[rse]]
name = \"ALPHA\"
[[rse]]
name = \"BETA\"
[[rse]]
name = \"GAMMA\"
[storage]
durability = \"cache\"
";

/// A grid, a database, and catalogues on it.
struct Scene {
    grid: RunningGrid,
    postgres: Postgres,
}

impl Scene {
    fn lay() -> Self {
        Self {
            grid: RunningGrid::up(THREE_SITES).unwrap(),
            postgres: Postgres::start().unwrap(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.grid.scratch().join(name)
    }

    /// A catalogue of this name, which uses the storages and the transfer service of the grid; and its port.
    fn catalog(&self, name: &str) -> (Daemon, u16) {
        let port = free_port().unwrap();
        let told = &self.grid.description;
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let config = format!(
            "listen = \"127.0.0.1:{port}\"\n[postgres]\nhost = \"{}\"\ndatabase = \"weir\"\nuser = \"weir\"\n[root]\nuser = \"admin\"\n\
             password_file = \"password\"\n[trust]\nfiles = [\"{}\"]\n[tokens]\ntoken_url = \"{}/token\"\nclient_id = \"weir\"\n\
             secret_file = \"{}\"\n[transfers]\nservices = [\"{}\"]\npoll = \"500ms\"\nunmanaged_tokens = true\n[deletion]\ngreedy = true\n",
            self.postgres.socket().display(),
            text(&told["ca"]["file"]),
            text(&told["issuer"]["url"]),
            text(&told["client"]["secret_file"]),
            self.grid.transfer_url(),
        );
        write_private(&self.file("password"), "correct horse\n").unwrap();
        let file = self.file(&format!("{name}.toml"));
        fs::write(&file, config).unwrap();
        let client = format!(
            "[client]\nrucio_host = http://127.0.0.1:{port}\nauth_host = http://127.0.0.1:{port}\nauth_type = userpass\nusername = admin\n\
             password = correct horse\naccount = root\nauth_token_file_path = {}\n",
            self.file(&format!("{name}.token")).display()
        );
        write_private(&self.file(&format!("{name}.cfg")), &client).unwrap();
        let mut weir = Command::new(weir_binary());
        weir.args(["serve", "catalog", "--config"]).arg(&file);
        let mut daemon = Daemon::start(weir, &self.file(&format!("{name}.log"))).unwrap();
        let is_ready = || {
            anyhow::ensure!(daemon.ended()?.is_none(), "the catalogue ended: {}", daemon.said());
            Ok(daemon.said().contains("catalog is ready at").then_some(()))
        };
        wait_for(PATIENCE, is_ready).unwrap();
        (daemon, port)
    }

    /// A step of `rules.py` at the catalogue of this name.
    fn step(&self, name: &str, arguments: &[&str]) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(root.join("../.peers/bin/python"));
        command
            .arg(root.join("rucio/rules.py"))
            .arg(self.grid.dir().join("grid.json"))
            .args(arguments)
            .env("HOME", self.grid.scratch())
            .env("RUCIO_HOME", self.grid.scratch())
            .env("RUCIO_CONFIG", self.file(&format!("{name}.cfg")))
            .env(
                "X509_USER_PROXY",
                self.grid.description["user"]["both"].as_str().unwrap(),
            )
            .env("PYTHONWARNINGS", "ignore")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.grid.scratch());
        let told = run(&mut command).unwrap();
        assert!(told.ok(), "{}\n{}", told.stdout, told.stderr);
        told.stdout.trim().to_owned()
    }

    /// Both catalogues; the first one leads.
    fn both(&self) -> [(Daemon, u16); 2] {
        let first = self.catalog("first");
        let leads = || Ok(first.0.said().contains("this node leads").then_some(()));
        wait_for(PATIENCE, leads).unwrap();
        let second = self.catalog("second");
        self.step("second", &["setup"]);
        [first, second]
    }

    /// Waits until files have begun to arrive.
    fn begun(&self) {
        let begun = || {
            let area = self.grid.area("BETA").join("many");
            Ok(fs::read_dir(area)
                .is_ok_and(|mut files| files.next().is_some())
                .then_some(()))
        };
        wait_for(PATIENCE, begun).unwrap();
    }

    /// Each of the 400 files was copied once, in one attempt.
    fn each_once(&self) {
        let rows = self
            .postgres
            .query("SELECT count(*), max(attempt) FROM request_history WHERE state = 'D'")
            .unwrap();
        assert_eq!(rows.trim(), "400|1");
        let rows = self
            .postgres
            .query("SELECT count(*) FROM request_history WHERE state <> 'D'")
            .unwrap();
        assert_eq!(rows.trim(), "0");
    }
}

fn leads(node: &(Daemon, u16)) -> impl Fn() -> anyhow::Result<Option<()>> + '_ {
    || Ok(node.0.said().contains("this node leads").then_some(()))
}

#[test]
fn the_other_one_goes_on_when_the_leader_is_killed() {
    if !peers() {
        return;
    }
    let scene = Scene::lay();
    let [mut first, mut second] = scene.both();
    let rule = scene.step("first", &["many"]);
    scene.begun();
    first.0.kill().unwrap();
    wait_for(PATIENCE, leads(&second)).unwrap();
    scene.step("second", &["finish", &rule]);
    scene.each_once();
    assert_eq!(second.0.terminate(PATIENCE).unwrap(), Some(0));
}

/// The leader is stopped for longer than its term, and goes on: it changes nothing then.
#[test]
fn a_leader_that_was_frozen_has_nothing_more_to_say() {
    if !peers() {
        return;
    }
    let scene = Scene::lay();
    let [mut first, mut second] = scene.both();
    let rule = scene.step("first", &["many"]);
    scene.begun();
    first.0.signal(Signal::STOP).unwrap();
    wait_for(PATIENCE, leads(&second)).unwrap();
    first.0.signal(Signal::CONT).unwrap();
    let let_go = || Ok(first.0.said().contains("leads no more").then_some(()));
    wait_for(PATIENCE, let_go).unwrap();
    // Its door goes on answering.
    scene.step("first", &["finish", &rule]);
    scene.each_once();
    for node in [&mut first, &mut second] {
        assert_eq!(node.0.terminate(PATIENCE).unwrap(), Some(0));
    }
}

/// The database dies four times while files are on their way. Acknowledged changes are there afterwards, and calls meanwhile are
/// answered 503.
#[test]
fn a_database_that_is_killed_forgets_nothing() {
    if !peers() {
        return;
    }
    let mut scene = Scene::lay();
    let [mut first, mut second] = scene.both();
    let rule = scene.step("first", &["many"]);
    let mut draw = weir_tests::Draw::new(34);
    for round in 0..4 {
        std::thread::sleep(Duration::from_millis(draw.below(700)));
        scene.postgres.kill().unwrap();
        if round == 0 {
            let url = format!("http://127.0.0.1:{}/accounts/root", first.1);
            let token = fs::read_to_string(scene.file("first.token")).unwrap();
            let header = format!("X-Rucio-Auth-Token: {}", token.trim());
            let mut curl = Command::new("curl");
            let told = run(curl.args(["-s", "-i", "-H", &header, &url])).unwrap().stdout;
            assert!(
                told.contains(" 503 ") && told.to_lowercase().contains("retry-after"),
                "{told}"
            );
        }
        scene.postgres.serve().unwrap();
    }
    scene.step("second", &["finish", &rule]);
    scene.each_once();
    for node in [&mut first, &mut second] {
        assert_eq!(node.0.terminate(PATIENCE).unwrap(), Some(0));
    }
}

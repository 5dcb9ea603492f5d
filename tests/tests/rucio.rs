//! A real Rucio drives the grid that `weir grid up` makes: server, client, conveyor and receiver as they come from PyPI, by token and by
//! certificate.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use weir_tests::{Daemon, Postgres, RucioHome, RunningGrid, free_port, peers, run, wait_for, write_private};

/// A Java program on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

const PASSWORD: &str = "broker";

/// Tokens come into play on the loopback address alone, so the broker speaks without TLS, as Rucio's receiver does where it logs in with a
/// password.
const BROKER: &str = r#"<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
        http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="rucio" persistent="false" useJmx="false">
    <plugins><simpleAuthenticationPlugin><users>
      <authenticationUser username="weir" password="broker" groups="users"/>
    </users></simpleAuthenticationPlugin></plugins>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:PORT"/>
    </transportConnectors>
  </broker>
</beans>"#;

const GRID: &str = r#"
name = "rucio"
vo = "def"
[[rse]]
name = "ALPHA"
[[rse]]
name = "BETA"
[[rse]]
name = "GAMMA"
[storage]
durability = "cache"
[broker]
address = "127.0.0.1:PORT"
tls = false
user = "weir"
password_file = "broker.password"
"#;

/// Of the conveyor and the receiver.
const SECTIONS: &str = "loglevel = INFO
[conveyor]
scheme = davs
transfertool = fts3
usercert = USER
[messaging-fts3]
brokers = 127.0.0.1
port = STOMP
use_ssl = False
username = weir
password = broker
destination = /topic/transfer.fts_monitoring_complete
voname = def
[messaging-cache]
port = 61023
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// ActiveMQ on this port, in a folder of its own.
fn broker(folder: &Path, port: u16) -> Daemon {
    fs::create_dir_all(folder).unwrap();
    let text = folder.to_str().unwrap();
    fs::write(folder.join("activemq.xml"), BROKER.replace("PORT", &port.to_string())).unwrap();
    let mut java = Command::new("java");
    java.arg("-Dactivemq.home=/usr/share/activemq")
        .arg(format!("-Dactivemq.base={text}"))
        .arg(format!("-Dactivemq.conf={text}"))
        .arg(format!("-Dactivemq.data={text}/data"))
        .args(["-Xmx256m", "-jar", "/usr/share/activemq/bin/activemq.jar", "start"])
        .arg(format!("xbean:file:{text}/activemq.xml"));
    let mut daemon = Daemon::start(java, &folder.join("log")).unwrap();
    let listens = || {
        anyhow::ensure!(daemon.ended()?.is_none(), "the broker ended: {}", daemon.said());
        Ok(std::net::TcpStream::connect(("127.0.0.1", port)).ok())
    };
    wait_for(PATIENCE, listens).unwrap();
    daemon
}

/// Rucio with what the grid gives it.
fn lay(grid: &RunningGrid, postgres: &Postgres, (rest, stomp): (u16, u16)) -> RucioHome {
    let told = |pointer: &str| grid.description.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    let sections = SECTIONS
        .replace("STOMP", &stomp.to_string())
        .replace("USER", &told("/user/both"));
    let folder = grid.scratch().join("rucio-home");
    let home = RucioHome::lay(folder, postgres.socket(), rest, &sections).unwrap();
    let secret = fs::read_to_string(told("/client/secret_file")).unwrap();
    let issuer = format!("{}/", told("/issuer/url"));
    let secrets =
        json!({ "grid": { "client_id": told("/client/id"), "client_secret": secret.trim(), "issuer": issuer } });
    write_private(&home.folder.join("etc/idpsecrets.json"), &secrets.to_string()).unwrap();
    home.trusting(told("/ca/file").into())
}

/// The exchanges that the catalogue's door is compared with are those of this server: `tests/rucio/exchanges.json`. With `WEIR_RECORD=1` they are
/// written anew.
fn compare_exchanges(rucio: &RucioHome, port: u16) {
    let recorded = rucio.folder.join("exchanges.json");
    let mut record = rucio.command("python");
    record.arg(root().join("tests/rucio/record.py"));
    record.arg(format!("http://127.0.0.1:{port}")).arg(&recorded);
    run(&mut record).unwrap().expect_ok().unwrap();
    let stored = root().join("tests/rucio/exchanges.json");
    let told = fs::read_to_string(&recorded).unwrap();
    if std::env::var("WEIR_RECORD").is_ok_and(|wanted| wanted == "1") {
        fs::write(&stored, &told).unwrap();
    }
    let known = fs::read_to_string(&stored).unwrap();
    let first = known
        .lines()
        .zip(told.lines())
        .enumerate()
        .find(|(_, (known, told))| known != told);
    assert!(
        known == told,
        "WEIR_RECORD=1 writes them anew; the first line that differs: {first:?}"
    );
    let exchanges: Vec<Value> = serde_json::from_str(&told).unwrap();
    assert!(exchanges.len() > 100, "{}", exchanges.len());
}

/// The description of the grid for `lab.py`, with a token for its settings.
fn lab(grid: &RunningGrid, rucio: &RucioHome) -> PathBuf {
    let told = &grid.description;
    let text = |pointer: &str| told.pointer(pointer).unwrap().as_str().unwrap();
    let secret = fs::read_to_string(text("/client/secret_file")).unwrap();
    let answer = run(Command::new("curl")
        .args(["-sS", "--fail-with-body", "--cacert", text("/ca/file")])
        .args(["-u", &format!("{}:{}", text("/client/id"), secret.trim())])
        .args(["-d", "grant_type=client_credentials", "-d", "scope=fts:admin"])
        .args(["-d", &format!("audience={}", text("/transfer/url"))])
        .arg(format!("{}/token", text("/issuer/url"))))
    .unwrap()
    .expect_ok()
    .unwrap();
    let token: Value = serde_json::from_str(&answer.stdout).unwrap();
    let lab = json!({
        "rses": told["rses"], "transfer": told["transfer"]["url"], "ca": told["ca"]["file"],
        "user": told["user"]["both"], "admin": token["access_token"],
    });
    let path = rucio.folder.join("lab.json");
    write_private(&path, &lab.to_string()).unwrap();
    path
}

#[test]
fn a_real_rucio_drives_the_grid_by_token_and_by_certificate() {
    // Rucio would need another transfer service, or another grid than the one that comes up.
    if !peers() {
        return;
    }
    let ports = (free_port().unwrap(), free_port().unwrap());
    let file = GRID.replace("PORT", &ports.1.to_string());
    let grid = RunningGrid::up_with(&file, |folder| write_private(&folder.join("broker.password"), PASSWORD)).unwrap();
    let _broker = broker(&grid.scratch().join("broker"), ports.1);
    let postgres = Postgres::start().unwrap();
    let rucio = lay(&grid, &postgres, ports);
    let server = rucio.server(&["-w", "2"]).unwrap();
    compare_exchanges(&rucio, ports.0);
    // Rucio itself delegates nothing: its operators run this from cron.
    let mut delegate = grid
        .command(root().join(".peers/bin/fts-rest-delegate").to_str().unwrap())
        .unwrap();
    delegate.env_remove("BEARER_TOKEN").args(["-s", &grid.transfer_url()]);
    run(&mut delegate).unwrap().expect_ok().unwrap();

    let lab = lab(&grid, &rucio);
    let told = run(&mut rucio.lab(&["run", lab.to_str().unwrap()])).unwrap();
    let log = || {
        let last = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        };
        format!(
            "{}\n{}\n{}",
            last(&told.stderr),
            last(&grid.log()),
            last(&server.said())
        )
    };
    assert!(
        told.ok() && told.stdout.contains("\"passed\": true"),
        "{}\n{}",
        told.stdout,
        log()
    );
    for held in [
        "a rule on 20 files",
        "a rule deleted half way",
        "a corrupt source and a good one",
    ] {
        assert_eq!(told.stdout.matches(held).count(), 2, "{held}: {}", told.stdout);
    }
}

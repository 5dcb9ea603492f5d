//! Messages about transfers through a real ActiveMQ, received by the library that Rucio receives them with.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Daemon, Services, StorageSettings, free_port, peers, run, wait_for, write_private};

/// A Java program on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The configuration that Rucio's modules need to be imported; its database is never opened.
const RUCIO: &str =
    "[common]\n[database]\ndefault = sqlite:///:memory:\n[policy]\npermission = generic\nschema = generic\n";

const PASSWORD: &str = "a pass:word";

const CONFIGURATION: &str = r#"<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
        http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="test" persistent="false" useJmx="false">
    <sslContext><sslContext keyStore="file:FOLDER/broker.p12" keyStorePassword="changeit" keyStoreType="PKCS12"/></sslContext>
    <plugins><simpleAuthenticationPlugin><users>
      <authenticationUser username="weir" password="PASSWORD" groups="users"/>
    </users></simpleAuthenticationPlugin></plugins>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp+ssl://127.0.0.1:PORT"/>
    </transportConnectors>
  </broker>
</beans>"#;

struct Broker<'a> {
    services: &'a Services,
    port: u16,
    daemon: Daemon,
}

impl<'a> Broker<'a> {
    fn start(services: &'a Services, port: u16, life: u32) -> Self {
        let folder = services.file("broker");
        let text = folder.to_str().unwrap();
        fs::create_dir_all(&folder).unwrap();
        let authority = CertificateAuthority::load(&services.file("authority")).unwrap();
        let identity = authority.issue(&[San::from("127.0.0.1")], "broker").unwrap();
        let (certificate, key) = write_identity(&identity, &folder, "broker").unwrap();
        run(Command::new("openssl")
            .args(["pkcs12", "-export", "-passout", "pass:changeit", "-out"])
            .arg(folder.join("broker.p12"))
            .arg("-in")
            .arg(certificate)
            .arg("-inkey")
            .arg(key))
        .unwrap()
        .expect_ok()
        .unwrap();
        let configuration = CONFIGURATION
            .replace("FOLDER", text)
            .replace("PASSWORD", PASSWORD)
            .replace("PORT", &port.to_string());
        fs::write(folder.join("activemq.xml"), configuration).unwrap();
        let mut java = Command::new("java");
        java.arg("-Dactivemq.home=/usr/share/activemq")
            .arg(format!("-Dactivemq.base={text}"))
            .arg(format!("-Dactivemq.conf={text}"))
            .arg(format!("-Dactivemq.data={text}/data"))
            .args(["-Xmx256m", "-jar", "/usr/share/activemq/bin/activemq.jar", "start"])
            .arg(format!("xbean:file:{text}/activemq.xml"));
        let daemon = Daemon::start(java, &folder.join(format!("{life}.log"))).unwrap();
        Self { services, port, daemon }
    }

    /// A receiver, once its subscriptions stand.
    fn receiver(&mut self, life: u32, destinations: &[&str]) -> Daemon {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers/bin/python");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("events/receive.py");
        let mut tries = 0;
        let ready = wait_for(PATIENCE, || {
            anyhow::ensure!(
                self.daemon.ended()?.is_none(),
                "the broker ended: {}",
                self.daemon.said()
            );
            tries += 1;
            let mut command = Command::new(&python);
            command
                .arg(&program)
                .arg(self.port.to_string())
                .arg(self.services.file("authority/ca.pem"))
                .args(["weir", PASSWORD, "test"])
                .args(destinations)
                .env("RUCIO_HOME", self.services.file("rucio"))
                .env("PYTHONDONTWRITEBYTECODE", "1");
            let log = self.services.file(&format!("receiver-{life}-{tries}.log"));
            let mut receiver = Daemon::start(command, &log)?;
            // The broker may not listen yet: then the receiver ends, and another is started.
            wait_for(PATIENCE, || {
                let ready = receiver.said().contains("ready\n");
                Ok((ready || receiver.ended()?.is_some()).then_some(()))
            })?;
            Ok(receiver.said().contains("ready\n").then_some(receiver))
        });
        ready.unwrap()
    }
}

fn received(receiver: &Daemon) -> Vec<Value> {
    let said = receiver.said();
    said.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn until(receiver: &Daemon, services: &Services, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut last = Vec::new();
    let waited = wait_for(PATIENCE, || {
        last = received(receiver);
        Ok(enough(&last).then_some(()))
    });
    assert!(
        waited.is_ok(),
        "{last:#?}\n{}\n{}",
        receiver.said(),
        services.transfer.said_last()
    );
    last
}

fn completions(seen: &[Value]) -> Vec<&Value> {
    let complete = |message: &&Value| message["headers"]["destination"] == "/topic/transfer.fts_monitoring_complete";
    seen.iter().filter(complete).map(|message| &message["body"]).collect()
}

#[test]
fn a_broker_gets_every_message_also_those_of_the_time_it_was_away() {
    if !peers() {
        return;
    }
    let port = free_port().unwrap();
    let events = format!(
        "[events]\nspool = \"events\"\n[[events.stomp]]\naddress = \"127.0.0.1:{port}\"\nuser = \"weir\"\npassword_file = \"broker.password\"\n\
         state = \"/queue/states\"\n"
    );
    // The service starts before its broker does, and waits for nobody.
    let services = Services::start_with(
        &[StorageSettings::new("alpha"), StorageSettings::new("beta")],
        &events,
        |folder| {
            fs::create_dir_all(folder.join("rucio/etc"))?;
            fs::write(folder.join("rucio/etc/rucio.cfg"), RUCIO)?;
            write_private(&folder.join("broker.password"), &format!("{PASSWORD}\n"))
        },
    )
    .unwrap();
    let (alpha, beta) = (
        services.storage("alpha").url.clone(),
        services.storage("beta").url.clone(),
    );
    services.put(b"content", &format!("{alpha}/f")).unwrap();
    let transfer = |name: &str| {
        let file = json!({ "sources": [format!("{alpha}/f")], "destinations": [format!("{beta}/{name}")],
            "metadata": { "request_id": name } });
        let job =
            json!({ "files": [file], "params": { "job_metadata": { "issuer": "rucio", "multi_sources": false } } });
        let id = services.submit(name, &job).unwrap();
        assert_eq!(services.settled(&id, PATIENCE).unwrap()[0]["file_state"], "FINISHED");
        id
    };
    let destinations = ["/topic/transfer.fts_monitoring_complete", "/queue/states"];

    let first = transfer("one");
    let mut broker = Broker::start(&services, port, 1);
    let receiver = broker.receiver(1, &destinations);
    let second = transfer("two");
    let seen = until(&receiver, &services, |seen| {
        completions(seen).iter().any(|body| body["job_id"] == second.as_str())
    });
    let body = *completions(&seen)
        .iter()
        .find(|body| body["job_id"] == second.as_str())
        .unwrap();
    assert_eq!(
        body["tr_id"].as_str().unwrap().rsplit("__").next(),
        Some(second.as_str())
    );
    assert_eq!(
        (&body["t_final_transfer_state"], &body["job_m_replica"]),
        (&json!("Ok"), &json!(false))
    );
    assert_eq!(
        (&body["vo"], &body["file_metadata"]["request_id"]),
        (&json!("test"), &json!("two"))
    );
    for message in &seen {
        assert_eq!(message["headers"]["vo"], "test", "{message}");
        let is_complete = message["headers"]["destination"] == "/topic/transfer.fts_monitoring_complete";
        assert!(!is_complete || message["taken"] == true, "Rucio passes over {message}");
    }

    drop(receiver);
    broker.daemon.kill().unwrap();
    let third = transfer("three");
    let mut broker = Broker::start(&services, port, 2);
    let receiver = broker.receiver(2, &destinations);
    // States go to a queue here, which keeps them for whoever comes: none of the three jobs' is missing but those that the
    // broker took with it.
    let seen = until(&receiver, &services, |seen| {
        seen.iter()
            .any(|message| message["body"]["job_id"] == third.as_str() && message["body"]["file_state"] == "FINISHED")
    });
    assert!(
        seen.iter().all(|message| message["body"]["job_id"] != first.as_str()),
        "told before the broker died"
    );

    // The password is in no log, and in no file but its own.
    assert!(!services.transfer.said().contains(PASSWORD));
    let spool = fs::read_dir(services.file("events")).unwrap();
    for file in spool.map(Result::unwrap) {
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(
            !text.contains(PASSWORD) && !text.contains("eyJ"),
            "a secret in {:?}",
            file.path()
        );
    }
}

//! Every service tells a service manager and an operator how far it is, and takes changes without a restart.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::net::UnixDatagram,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::process::Signal;
use serde_json::json;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Answer, Services, StorageSettings, run, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// The service manager's end of `sd_notify`.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(socket: &Path) -> Self {
        let socket = UnixDatagram::bind(socket).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn told(&self) -> String {
        let mut message = [0; 4096];
        let length = self.0.recv(&mut message).expect("something is told within a minute");
        String::from_utf8(message[..length].to_vec()).unwrap()
    }
}

#[test]
fn the_service_manager_is_told_how_far_every_service_is() -> Result<()> {
    // systemd would start what comes after a service before that serves, or kill one that reads its files for long.
    let mut services = Services::start(&[StorageSettings::new("alpha")], "")?;
    for name in ["issuer", "alpha", "transfer"] {
        let socket = services.file(&format!("{name}.notify"));
        let manager = Manager::listen(&socket);
        let service = services.service_mut(name);
        let address = socket.to_str().unwrap().to_owned();
        service.environment.push(("NOTIFY_SOCKET", address));
        service.stop(PATIENCE)?;
        service.start()?;
        let ready = format!("READY=1\nSTATUS=serves at {}", service.url);
        assert_eq!(manager.told().trim_end(), ready, "{name}");
        service.signal(Signal::HUP)?;
        let reloading = manager.told();
        assert!(
            reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{name}: {reloading}"
        );
        assert_eq!(manager.told().trim_end(), ready, "{name}");
        assert!(service.said().contains("configuration and files read again"), "{name}");
        service.stop(PATIENCE)?;
        let stopping = manager.told();
        assert!(stopping.starts_with("STOPPING=1"), "{name}: {stopping}");
        services.service_mut(name).start()?;
    }
    Ok(())
}

/// The status and body of a request to the transfer service by a client that trusts this authority.
fn asked(services: &Services, path: &str, authority: &Path) -> Result<Answer> {
    let mut curl = services.curl();
    curl.arg("--cacert").arg(authority);
    curl.arg(format!("{}{path}", services.transfer.url));
    Ok(Answer::of(&run(&mut curl)?))
}

/// Waits until the log of the transfer service says this so many times.
fn heard(services: &Services, text: &str, times: usize) -> Result<()> {
    let said = || (services.transfer.said().matches(text).count() >= times).then_some(());
    wait_for(PATIENCE, || Ok(said()))
}

#[test]
fn a_transfer_service_takes_users_and_certificate_while_copies_go_on() -> Result<()> {
    // A certificate that is renewed every 90 days, or a new administrator, would cost every copy that is under way.
    let slow = StorageSettings::new("alpha").tpc("[sockets]\npacing = \"2 MB\"\n");
    let services = Services::start(&[slow, StorageSettings::new("beta")], "")?;
    let url = |name: &str| format!("{}/f", services.storage(name).url);
    let content: Vec<u8> = (0..16_000_000).map(|at| (at * 31 % 251) as u8).collect();
    services.put(&content, &url("alpha"))?;
    let files = json!([{ "sources": [url("alpha")], "destinations": [url("beta")] }]);
    let job = services.submit("job", &json!({ "files": files, "params": { "retry": -1 } }))?;
    let state = || services.files(&job).map(|files| files[0]["file_state"].clone());
    wait_for(PATIENCE, || Ok((state()? == "ACTIVE").then_some(())))?;

    let first = services.file("authority/ca.pem");
    assert_eq!(asked(&services, "/config/audit", &first)?.status, 403);
    let second = CertificateAuthority::create(&services.file("second"))?;
    let own = San::Ip(Ipv4Addr::new(127, 0, 7, 251).into());
    write_identity(
        &second.issue(&[own], "transfer")?,
        &services.file("identities"),
        "transfer",
    )?;
    let file = services.file("transfer.toml");
    let before = fs::read_to_string(&file)?;
    fs::write(
        &file,
        format!("{before}\n[[admin]]\nsubject = \"tester\"\n[limits]\nlink = 3\n"),
    )?;
    services.transfer.signal(Signal::HUP)?;
    heard(&services, "configuration and files read again", 1)?;
    heard(&services, "limits changes with a restart only", 1)?;
    let audit = asked(&services, "/config/audit", &second.file())?;
    assert_eq!(audit.status, 200, "{audit:?}");
    assert_ne!(
        asked(&services, "/", &first)?.exit,
        Some(0),
        "the old certificate is shown no more"
    );
    let ready = asked(&services, "/.well-known/weir/ready", &second.file())?;
    assert_eq!(
        (ready.status, ready.json()?["status"].as_str()),
        (200, Some("ok")),
        "{ready:?}"
    );

    // A typing error: the log says where, and all stays.
    fs::write(&file, format!("{before}\n[[admin]]\nsubjekt = \"tester\"\n"))?;
    services.transfer.signal(Signal::HUP)?;
    heard(&services, "not taken: all stays as it was", 1)?;
    heard(&services, "admin[0].subjekt", 1)?;
    assert_eq!(asked(&services, "/config/audit", &second.file())?.status, 200);
    let page = asked(&services, "/.well-known/weir/metrics", &second.file())?.body;
    for outcome in ["completed", "failed"] {
        let line = format!("weir_transfer_reloads_total{{what=\"configuration\",outcome=\"{outcome}\"}} 1");
        assert!(page.contains(&line), "{page}");
    }
    assert_eq!(state_after(&services, &job, &second.file())?, "FINISHED");
    assert!(fs::read(services.root("beta").join("f"))? == content);
    Ok(())
}

/// The state of a job's only file once it has ended.
fn state_after(services: &Services, job: &str, authority: &Path) -> Result<String> {
    let begin = Instant::now();
    loop {
        let answer = asked(services, &format!("/jobs/{job}/files"), authority)?.json()?;
        let file = &answer[0];
        let state = file["file_state"].as_str().unwrap_or_default().to_owned();
        if weir_tests::has_ended(file) || begin.elapsed() > PATIENCE {
            return Ok(state);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

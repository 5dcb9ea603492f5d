//! SIGHUP at a storage that is at work: curl's transfers go on, and who comes afterwards meets what is new.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Result;
use rustix::process::Signal;
use weir_auth::ca::{CertificateAuthority, Identity, San, write_identity};
use weir_tests::{Answer, Services, StorageSettings, drafts, run, wait_for};

/// 4 s at the rate of the transfers below.
const SIZE: usize = 16_000_000;
const RATE: &str = "4M";

/// Ada and Bob read, by their certificates.
const RULES: &str = r#"
[[area.rule]]
dn = "/O=Weir/CN=Ada"
may = ["read"]
[[area.rule]]
dn = "/O=Weir/CN=Bob"
may = ["read"]
"#;

struct Lab {
    services: Services,
    authority: CertificateAuthority,
    ada: Identity,
}

impl Lab {
    fn up() -> Result<Self> {
        let alpha = StorageSettings::new("alpha")
            .area("dune", RULES)
            .tpc("[x509]\nauthorities = \"authority/certificates\"\n");
        // Its uploads are slow, for the pull.
        let beta = StorageSettings::new("beta").tpc("[sockets]\npacing = \"4 MB\"\n");
        let services = Services::start(&[alpha, beta], "")?;
        let authority = CertificateAuthority::load(&services.file("authority"))?;
        let folder = services.file("users");
        let mut users = Vec::new();
        for name in ["Ada", "Bob", "Eve"] {
            let identity = authority.issue(&[], name)?;
            write_identity(&identity, &folder, name)?;
            users.push(identity);
        }
        let ada = users.swap_remove(0);
        Ok(Self {
            services,
            authority,
            ada,
        })
    }

    fn alpha(&self, path: &str) -> String {
        format!("{}{path}", self.services.storage("alpha").url)
    }

    /// The status of a GET of `/dune/f` with somebody's certificate.
    fn reads(&self, user: &str, authority: &Path) -> Result<Answer> {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-w", "\n%{http_code}", "--cacert"]).arg(authority);
        curl.args([
            "--cert",
            &format!("users/{user}.pem"),
            "--key",
            &format!("users/{user}.key"),
        ]);
        curl.arg(self.alpha("/dune/f")).current_dir(self.services.file(""));
        Ok(Answer::of(&run(&mut curl)?))
    }

    fn slowly(&self, arguments: &[&str]) -> Result<Child> {
        let mut curl = self.services.curl();
        curl.args(["--limit-rate", RATE]).args(arguments);
        Ok(curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    fn hang_up(&self) -> Result<()> {
        self.services.storage("alpha").signal(Signal::HUP)
    }

    /// Waits until the storage's log says this so many times.
    fn heard(&self, text: &str, times: usize) -> Result<()> {
        let alpha = self.services.storage("alpha");
        let said = || (alpha.said().matches(text).count() >= times).then_some(());
        wait_for(Duration::from_secs(60), || Ok(said()))
    }

    fn metrics(&self, authority: &Path) -> Result<String> {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--cacert"])
            .arg(authority)
            .arg(self.alpha("/.well-known/weir/metrics"));
        Ok(run(&mut curl)?.expect_ok()?.stdout)
    }

    fn change(&self, edit: impl FnOnce(String) -> String) {
        let file = self.services.file("alpha.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, edit(text)).unwrap();
    }
}

/// The output of a slow curl.
fn said(curl: Child) -> String {
    let output = curl.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// Another certificate for the storage from another authority, put in place as renewals do; gives the authority's file.
fn renew(lab: &Lab) -> PathBuf {
    let second = CertificateAuthority::create(&lab.services.file("second")).unwrap();
    let address = Services::storage_address(0);
    let identity = second.issue(&[San::Ip(address.into())], "alpha").unwrap();
    write_identity(&identity, &lab.services.file("identities"), "alpha").unwrap();
    second.file()
}

#[test]
fn transfers_go_on_and_newcomers_meet_what_is_new() -> Result<()> {
    // A renewed certificate would cost a site hours of transfers each night, or a stolen one be good until a restart.
    let lab = Lab::up()?;
    let first = lab.services.file("authority/ca.pem");
    let content: Vec<u8> = (0..SIZE).map(|at| (at * 31 % 251) as u8).collect();
    lab.services.put(&content, &lab.alpha("/f"))?;
    lab.services.put(b"dune\n", &lab.alpha("/dune/f"))?;
    let source = format!("{}/f", lab.services.storage("beta").url);
    lab.services.put(&content, &source)?;
    fs::write(lab.services.file("content"), &content)?;
    for (user, status) in [("Ada", 200), ("Bob", 200), ("Eve", 403)] {
        assert_eq!(lab.reads(user, &first)?.status, status, "{user}");
    }

    let get = lab.slowly(&["-o", "got", &lab.alpha("/f")])?;
    let put = lab.slowly(&["-T", "content", &lab.alpha("/put")])?;
    let token = fs::read_to_string(lab.services.file("header"))?;
    let forwarded = format!("TransferHeader{}", token.trim());
    let named = ["-X", "COPY", "-H", &forwarded, "-H", &format!("Source: {source}")];
    let pull = lab.slowly(&[&named[..], &[&lab.alpha("/pulled")]].concat())?;
    let root = lab.services.root("alpha");
    wait_for(Duration::from_secs(60), || {
        let got = fs::metadata(lab.services.file("got")).map_or(0, |file| file.len());
        let coming = drafts(&root).iter().filter(|(_, size)| *size > 0).count();
        Ok((got > 0 && coming == 2).then_some(()))
    })?;

    let second = renew(&lab);
    let list = lab.authority.revocation_list(&[&lab.ada])?;
    fs::write(lab.services.file("authority/certificates/weir.r0"), list)?;
    lab.change(|text| {
        text.replace(
            "CN=Bob\"",
            "CN=Bob\"\nmay = [\"read\"]\n[[area.rule]]\ndn = \"/O=Weir/CN=Eve\"",
        )
    });
    lab.hang_up()?;
    lab.heard("configuration and files read again", 1)?;
    assert_eq!(drafts(&root).len(), 2, "the transfers are still under way");
    for (user, status) in [("Ada", 401), ("Bob", 200), ("Eve", 200)] {
        let answer = lab.reads(user, &second)?;
        assert_eq!(answer.status, status, "{user}: {answer:?}");
    }
    assert_ne!(
        lab.reads("Bob", &first)?.exit,
        Some(0),
        "the old certificate is shown no more"
    );

    assert!(said(get).ends_with("\n200"));
    assert!(said(put).ends_with("\n201"));
    let copied = said(pull);
    assert!(copied.contains("\nsuccess") && copied.ends_with("\n202"), "{copied}");
    for file in [lab.services.file("got"), root.join("put"), root.join("pulled")] {
        assert!(fs::read(&file)? == content, "{}", file.display());
    }

    // A typing error: the log says where, and all stays.
    lab.change(|text| text.replace("quota =", "quotta ="));
    lab.hang_up()?;
    lab.heard("not taken: all stays as it was", 1)?;
    let said = lab.services.storage("alpha").said();
    let line = fs::read_to_string(lab.services.file("alpha.toml"))?;
    let line = 1 + line.lines().position(|line| line.starts_with("quotta")).unwrap();
    assert!(said.contains(&format!("alpha.toml:{line}: area[0].quotta")), "{said}");
    assert_eq!(lab.reads("Eve", &second)?.status, 200);
    let metrics = lab.metrics(&second)?;
    for outcome in ["completed", "failed"] {
        let line = format!("weir_storage_reloads_total{{what=\"configuration\",outcome=\"{outcome}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
    }
    Ok(())
}

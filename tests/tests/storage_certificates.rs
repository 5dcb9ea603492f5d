//! Other people's clients at a storage endpoint, with a proxy and VOMS attributes in place of a token: gfal2, davix, curl.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use weir_auth::ca::CertificateAuthority;
use weir_tests::{GridSecurity, Run, Services, StorageSettings, peers, run};

/// Members of dune read, its production writes.
const RULES: &str = r#"
[[area.rule]]
vo = "dune"
may = ["read"]
[[area.rule]]
vo = "dune"
role = "production"
may = ["modify"]
"#;

const CERTIFICATES: &str = r#"
[tokens]
key = "token.key"
[x509]
authorities = "grid-security/certificates"
vomsdir = "grid-security/vomsdir"
"#;

struct Lab {
    services: Services,
    authority: CertificateAuthority,
}

impl Lab {
    fn up() -> Result<Self> {
        let security = |folder: &Path| {
            let security = GridSecurity::create(&folder.join("grid-security"))?;
            for (name, subject, serial) in [
                ("ada", "Ada Lovelace", "241"),
                ("bob", "Bob", "242"),
                ("eve", "Eve", "243"),
            ] {
                security.certify(name, &format!("/DC=xy/DC=grid/CN={subject}"), serial)?;
            }
            let member = "/dune/Role=NULL/Capability=NULL";
            let producer = "/dune/Role=production/Capability=NULL";
            security.proxy("ada", "ada.proxy", &[producer, member])?;
            security.proxy("bob", "bob.proxy", &[member])?;
            security.limited_proxy("ada", "limited.proxy", &[producer])?;
            Ok(())
        };
        let storage = |name| StorageSettings::new(name).area("dune", RULES).tpc(CERTIFICATES);
        let services = Services::start_with(&[storage("alpha")], "", security)?;
        let authority = CertificateAuthority::load(&services.file("authority"))?;
        Ok(Self { services, authority })
    }

    fn secured(&self, name: &str) -> PathBuf {
        self.services.file("grid-security").join(name)
    }

    fn url(&self, storage: &str, path: &str) -> String {
        format!("{}{path}", self.services.storage(storage).url)
    }

    fn davs(&self, storage: &str, path: &str) -> String {
        self.url(storage, path).replace("https://", "davs://")
    }

    /// A program that shows a proxy, and has no token.
    fn command(&self, program: &str, proxy: &str) -> Command {
        let mut command = Command::new(program);
        for ambient in ["X509_USER_CERT", "X509_USER_KEY", "BEARER_TOKEN", "BEARER_TOKEN_FILE"] {
            command.env_remove(ambient);
        }
        command
            .current_dir(self.services.file(""))
            .env("HOME", self.services.file(""))
            .env("GFAL_PYTHONBIN", "/usr/bin/python3")
            .env("X509_CERT_DIR", self.authority.directory())
            .env("X509_USER_PROXY", self.secured(proxy));
        command
    }

    fn gfal(&self, program: &str, proxy: &str, arguments: &[&str]) -> Result<Run> {
        let mut command = self.command(program, proxy);
        run(command
            .args(["-D", "HTTP PLUGIN:RETRIEVE_BEARER_TOKEN=false"])
            .args(arguments))
    }

    fn done(&self, program: &str, proxy: &str, arguments: &[&str]) -> Result<String> {
        let run = self.gfal(program, proxy, arguments)?.expect_ok();
        Ok(run
            .with_context(|| format!("{program} {}", arguments.join(" ")))?
            .stdout)
    }
}

/// Users with proxies could not put, look at, get or remove files, or could do what their VO gives them no role for.
#[test]
fn gfal_works_with_a_proxy() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let local = lab.services.file("local");
    fs::write(&local, vec![7; 300_000])?;
    let here = format!("file://{}", local.display());
    let there = lab.davs("alpha", "/dune/a/b/file");
    lab.done("gfal-copy", "ada.proxy", &["-p", "-K", "adler32", &here, &there])?;
    assert_eq!(fs::metadata(lab.services.root("dune").join("a/b/file"))?.len(), 300_000);
    let listed = lab.done("gfal-ls", "bob.proxy", &["-l", &lab.davs("alpha", "/dune/a/b")])?;
    assert!(listed.contains("300000") && listed.contains("file"), "{listed}");
    let sum = lab.done("gfal-sum", "bob.proxy", &[&there, "ADLER32"])?;
    assert_eq!(sum.split_whitespace().last().map(str::len), Some(8), "{sum}");
    let back = format!("file://{}", lab.services.file("back").display());
    lab.done("gfal-copy", "bob.proxy", &[&there, &back])?;
    assert_eq!(fs::read(lab.services.file("back"))?, fs::read(&local)?);

    let refused = lab.gfal("gfal-copy", "bob.proxy", &[&here, &lab.davs("alpha", "/dune/a/other")])?;
    assert!(!refused.ok() && refused.stderr.contains("403"), "{refused:?}");
    let refused = lab.gfal("gfal-rm", "bob.proxy", &[&there])?;
    assert!(!refused.ok(), "{refused:?}");
    lab.done(
        "gfal-rename",
        "ada.proxy",
        &[&there, &lab.davs("alpha", "/dune/a/renamed")],
    )?;
    lab.done("gfal-rm", "ada.proxy", &[&lab.davs("alpha", "/dune/a/renamed")])?;
    lab.done("gfal-rm", "ada.proxy", &["-r", &lab.davs("alpha", "/dune/a")])?;
    Ok(())
}

/// Scripts with curl or davix could not show a certificate, or would be let in with one that says nothing of a VO.
#[test]
fn curl_and_davix_show_certificates() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let local = lab.services.file("local");
    fs::write(&local, "what is to be kept")?;
    let file = local.display().to_string();
    let curl = |certificate: &str, key: &str, arguments: &[&str]| {
        let (certificate, key) = (lab.secured(certificate), lab.secured(key));
        run(Command::new("curl")
            .args(["-sS", "-w", "\n%{http_code}", "--cacert"])
            .arg(lab.authority.file())
            .arg("--cert")
            .arg(certificate)
            .arg("--key")
            .arg(key)
            .args(arguments))
    };
    let url = lab.url("alpha", "/dune/file");
    let put = curl("ada.proxy", "ada.proxy", &["-T", &file, &url])?;
    assert!(put.stdout.ends_with("201"), "{put:?}");
    let got = curl("bob.proxy", "bob.proxy", &[&url])?;
    assert_eq!(got.stdout, "what is to be kept\n200");
    // A certificate alone names no VO, and there is no grid-mapfile.
    let refused = curl("bob.pem", "bob.key", &[&url])?;
    assert!(
        refused.stdout.ends_with("403") && refused.stdout.contains("a rule with"),
        "{refused:?}"
    );

    // A limited proxy moves data, and its holder gets no token, which would be free of the limit.
    let limited = |arguments: &[&str]| curl("limited.proxy", "limited.proxy", arguments);
    let put = limited(&["-T", &file, &lab.url("alpha", "/dune/limited")])?;
    assert!(put.stdout.ends_with("201"), "{put:?}");
    let asking = ["-H", "Content-Type: application/macaroon-request", "-d", "{}", &url];
    let refused = limited(&asking)?;
    assert!(
        refused.stdout.ends_with("403") && refused.stdout.contains("a limited proxy cannot delegate"),
        "{refused:?}"
    );
    let made = curl("ada.proxy", "ada.proxy", &asking)?;
    assert!(made.stdout.ends_with("200"), "{made:?}");

    let davix = |program: &str, arguments: &[&str]| {
        let (proxy, trusted) = (lab.secured("ada.proxy"), lab.authority.directory());
        run(lab
            .command(program, "ada.proxy")
            .arg("--cert")
            .arg(proxy)
            .arg("--capath")
            .arg(trusted)
            .args(arguments))?
        .expect_ok()
    };
    davix("davix-put", &[&file, &lab.url("alpha", "/dune/davix")])?;
    let got = davix("davix-get", &[&lab.url("alpha", "/dune/davix")])?;
    assert_eq!(got.stdout, "what is to be kept");
    let listed = davix("davix-ls", &[&lab.url("alpha", "/dune")])?;
    assert!(listed.stdout.contains("davix"), "{listed:?}");
    Ok(())
}

/// gfal2 could get no token to hand on, in either of the ways in which it asks, or one that does not work.
#[test]
fn gfal_gets_tokens() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let (there, issuer) = (lab.davs("alpha", "/dune/a/file"), lab.url("alpha", ""));
    let local = lab.services.file("local");
    fs::write(&local, "what is to be kept")?;
    let here = format!("file://{}", local.display());
    for asking in [vec!["--write", &there], vec!["--write", "--issuer", &issuer, &there]] {
        let token = run(lab.command("gfal-token", "ada.proxy").args(asking))?
            .expect_ok()?
            .stdout;
        assert_eq!(token.trim().matches('.').count(), 2, "a signed token: {token}");
        let with_token = |program: &str, arguments: &[&str]| {
            let mut command = lab.command(program, "none");
            run(command.env("BEARER_TOKEN", token.trim()).args(arguments))
        };
        with_token("gfal-copy", &["-f", &here, &there])?.expect_ok()?;
        with_token("gfal-stat", &[&there])?.expect_ok()?;
        let elsewhere = with_token("gfal-copy", &[&here, &lab.davs("alpha", "/dune/a/other")])?;
        assert!(!elsewhere.ok(), "{elsewhere:?}");
    }
    // gfal2 does this by default before it copies.
    let mut command = lab.command("gfal-copy", "bob.proxy");
    command.args([
        "-D",
        "HTTP PLUGIN:RETRIEVE_BEARER_TOKEN=true",
        &there,
        "file:///dev/null",
        "-f",
    ]);
    run(&mut command)?.expect_ok()?;
    let mut command = lab.command("gfal-token", "none");
    command
        .env_remove("X509_USER_PROXY")
        .arg("--cert")
        .arg(lab.secured("eve.pem"));
    let refused = run(command.arg("--key").arg(lab.secured("eve.key")).arg(&there))?;
    assert!(!refused.ok(), "{refused:?}");
    let metrics = run(Command::new("curl")
        .args(["-sS", "--cacert"])
        .arg(lab.authority.file())
        .arg(lab.url("alpha", "/.well-known/weir/metrics")))?;
    let made = metrics
        .stdout
        .lines()
        .find(|line| line.contains("POST") && line.contains("200"));
    assert!(made.is_some_and(|line| line.ends_with(" 3")), "{}", metrics.stdout);
    Ok(())
}

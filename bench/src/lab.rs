//! All contenders up at once, with the same files and one issuer of tokens.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Daemon, RunningGrid, Xrootd, XrootdSettings, free_port, wait_for, weir_binary, write_private};

use crate::contender::Contender;

/// One large file and eight smaller ones, as every row wants them.
pub(crate) const LARGE: u64 = 2_000_000_000;
pub(crate) const SMALL: u64 = 256_000_000;
pub(crate) const N_SMALL: usize = 8;

pub(crate) struct Lab {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) ca: PathBuf,
    /// A curl configuration with the token, mode 0600.
    pub(crate) curl: PathBuf,
    /// A local copy of the files, for uploads.
    pub(crate) files: PathBuf,
    pub(crate) token: String,
    _daemons: Vec<Daemon>,
    _xrootd: [Xrootd; 3],
    _grid: RunningGrid,
    _folder: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn up() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-bench-").tempdir_in("/dev/shm")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let authority = CertificateAuthority::create(&folder.path().join("authority"))?;
        // The grid gives tokens; its own endpoint is not measured.
        let grid = RunningGrid::up(&format!(
            "name = \"bench\"\nauthority = \"{}\"\n[[rse]]\nname = \"UNUSED\"\n",
            folder.path().join("authority").display()
        ))?;
        let issuer = grid.description["issuer"]["url"]
            .as_str()
            .context("no issuer")?
            .to_owned();
        let environment = grid.env()?;
        let token = environment
            .iter()
            .find(|(name, _)| name == "BEARER_TOKEN")
            .context("no token")?
            .1
            .clone();
        let curl = folder.path().join("curl.conf");
        write_private(&curl, &format!("header = \"Authorization: Bearer {token}\"\n"))?;
        let ca = authority.file();

        let audiences = grid.audiences();
        let weir_data = folder.path().join("weir-a/data");
        fs::create_dir_all(&weir_data)?;
        make_files(&weir_data)?;
        let mut daemons = Vec::new();
        let mut weir = Contender {
            name: "weir",
            plain: String::new(),
            tls: String::new(),
            second: None,
            pids: Vec::new(),
        };
        let first = Endpoint {
            folder: folder.path(),
            name: "weir-a",
            address: Ipv4Addr::new(127, 0, 3, 1),
            tls: true,
        };
        weir.tls = start_weir(&first, &authority, (&issuer, &audiences), &mut daemons, &mut weir.pids)?;
        let second = Endpoint {
            name: "weir-b",
            address: Ipv4Addr::new(127, 0, 3, 2),
            ..first
        };
        weir.second = Some(start_weir(
            &second,
            &authority,
            (&issuer, &audiences),
            &mut daemons,
            &mut weir.pids,
        )?);
        let plain = Endpoint {
            name: "weir-c",
            address: Ipv4Addr::new(127, 0, 3, 3),
            tls: false,
            ..first
        };
        link_files(&weir_data, &folder.path().join("weir-c/data"))?;
        weir.plain = start_weir(&plain, &authority, (&issuer, &audiences), &mut daemons, &mut weir.pids)?;

        let nginx = start_nginx(folder.path(), &authority, &weir_data, &mut daemons)?;
        let (xrootd, servers) = start_xrootd(folder.path(), &grid, &authority, &issuer, &weir_data)?;
        Ok(Self {
            contenders: vec![weir, nginx, xrootd],
            ca,
            curl,
            files: weir_data,
            token,
            _daemons: daemons,
            _xrootd: servers,
            _grid: grid,
            _folder: folder,
        })
    }
}

fn make_files(data: &Path) -> Result<()> {
    for index in 0..=N_SMALL {
        let (name, size) = if index == 0 {
            ("large".to_owned(), LARGE)
        } else {
            (format!("small{index}"), SMALL)
        };
        // Random once and repeated: no server looks into the bytes, and none of them compresses.
        let status = Command::new("sh")
            .arg("-c")
            .arg("head -c 16000000 /dev/urandom > \"$1.seed\"; i=0; while [ $i -lt $3 ]; do cat \"$1.seed\"; i=$((i+1)); done | head -c $2 > \"$1\"; rm \"$1.seed\"")
            .args(["sh", &data.join(&name).to_string_lossy(), &size.to_string(), &(size / 16_000_000 + 1).to_string()])
            .status()?;
        anyhow::ensure!(status.success(), "could not make {name}");
    }
    Ok(())
}

/// An endpoint locks its area, so the plain one has a directory of its own, with the same files.
fn link_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::hard_link(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Endpoint<'a> {
    folder: &'a Path,
    name: &'a str,
    address: Ipv4Addr,
    tls: bool,
}

/// A Weir endpoint over `folder/name/data`; gives its base URL.
fn start_weir(
    endpoint: &Endpoint<'_>,
    authority: &CertificateAuthority,
    issuer: (&str, &[String]),
    daemons: &mut Vec<Daemon>,
    pids: &mut Vec<u32>,
) -> Result<String> {
    let Endpoint {
        folder,
        name,
        address,
        tls,
    } = *endpoint;
    let home = folder.join(name);
    let port = free_port()?;
    fs::create_dir_all(home.join("data"))?;
    let identity = authority.issue(&[San::Ip(address.into())], name)?;
    let (certificate, key) = write_identity(&identity, &home, "host")?;
    let scheme = if tls { "https" } else { "http" };
    let tls = if tls {
        format!(
            "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
            certificate.display(),
            key.display()
        )
    } else {
        String::new()
    };
    let configuration = format!(
        "listen = \"{address}:{port}\"\nurl = \"{scheme}://{address}:{port}\"\n{tls}\
         [trust]\nfiles = [\"{}\"]\n[[issuer]]\nurl = \"{}\"\naudiences = {:?}\n[tpc]\nallow = [\"127.0.0.0/8\"]\n\
         [[area]]\nname = \"data\"\nprefix = \"/data\"\nroot = \"{}\"\ndurability = \"cache\"\nanonymous_read = {}\n",
        authority.file().display(),
        issuer.0,
        issuer.1,
        home.join("data").display(),
        // Plain downloads go without a token. Nobody writes here without one, so plain uploads bring it: over loopback only.
        scheme == "http",
    );
    let file = home.join(format!("{scheme}.toml"));
    fs::write(&file, configuration)?;
    let mut command = Command::new(weir_binary());
    command
        .args(["serve", "storage", "--config"])
        .arg(&file)
        .args(["--log-level", "warn"]);
    let daemon = Daemon::start(command, &home.join(format!("{scheme}.log")))?;
    await_port(address, port).with_context(|| daemon.said())?;
    pids.push(daemon.pid());
    daemons.push(daemon);
    Ok(format!("{scheme}://{address}:{port}/data"))
}

fn await_port(address: Ipv4Addr, port: u16) -> Result<()> {
    wait_for(Duration::from_secs(20), || {
        Ok(std::net::TcpStream::connect((address, port)).ok())
    })?;
    Ok(())
}

fn start_nginx(
    folder: &Path,
    authority: &CertificateAuthority,
    data: &Path,
    daemons: &mut Vec<Daemon>,
) -> Result<Contender> {
    let home = folder.join("nginx");
    fs::create_dir_all(&home)?;
    let address = Ipv4Addr::new(127, 0, 3, 4);
    let (plain, tls) = (free_port()?, free_port()?);
    let identity = authority.issue(&[San::Ip(address.into())], "nginx")?;
    let (certificate, key) = write_identity(&identity, &home, "host")?;
    link_files(data, &home.join("www/data"))?;
    let root = home.join("www");
    let root = root.display();
    let temporary = home.join("tmp");
    fs::create_dir_all(&temporary)?;
    let at = temporary.display();
    fs::write(
        home.join("nginx.conf"),
        format!(
            "user root;\nworker_processes 2;\npid {}/nginx.pid;\nerror_log {}/error.log;\nevents {{ worker_connections 1024; }}\n\
             http {{\n access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000; client_max_body_size 0;\n\
             dav_methods PUT DELETE; client_body_temp_path {at}; proxy_temp_path {at}; fastcgi_temp_path {at}; uwsgi_temp_path {at}; scgi_temp_path {at};\n\
             server {{ listen {address}:{plain}; root {root}; }}\n\
             server {{ listen {address}:{tls} ssl; root {root}; ssl_certificate {}; ssl_certificate_key {};\n\
             ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; }}\n}}\n",
            home.display(),
            home.display(),
            certificate.display(),
            key.display()
        ),
    )?;
    let mut command = Command::new("nginx");
    command.args(["-g", "daemon off;", "-c"]).arg(home.join("nginx.conf"));
    let daemon = Daemon::start(command, &home.join("log"))?;
    await_port(address, tls).with_context(|| daemon.said())?;
    let pids = vec![daemon.pid()];
    daemons.push(daemon);
    Ok(Contender {
        name: "nginx",
        plain: format!("http://{address}:{plain}/data"),
        tls: format!("https://{address}:{tls}/data"),
        second: None,
        pids,
    })
}

fn start_xrootd(
    folder: &Path,
    grid: &RunningGrid,
    authority: &CertificateAuthority,
    issuer: &str,
    data: &Path,
) -> Result<(Contender, [Xrootd; 3])> {
    let base = issuer.trim_end_matches('/');
    let discovery = grid
        .curl(&[&format!("{base}/.well-known/openid-configuration")])?
        .expect_ok()?
        .stdout;
    let uri = serde_json::from_str::<Value>(&discovery)?["jwks_uri"]
        .as_str()
        .context("no jwks_uri")?
        .to_owned();
    let jwks = grid.curl(&[&uri])?.expect_ok()?.stdout;
    let audiences = grid.audiences();
    let start = |name: &str, last: u8| {
        let settings = XrootdSettings {
            name,
            authority,
            trusted: &[authority.directory()],
            issuer,
            jwks: &jwks,
            audiences: &audiences,
            address: Ipv4Addr::new(127, 0, 3, last),
            port: free_port()?,
            root_port: free_port()?,
        };
        Xrootd::start(folder, &settings)
    };
    // Without TLS it can have no tokens, so its third door is open to everybody, on loopback as all of them.
    let ports = (free_port()?, free_port()?);
    let plain = Xrootd::start_anonymous(folder, "xrootd-c", Ipv4Addr::new(127, 0, 3, 7), ports)?;
    let servers = [start("xrootd-a", 5)?, start("xrootd-b", 6)?, plain];
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let target = servers[0].data.join(entry.file_name());
        fs::copy(entry.path(), &target)?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o644))?;
        fs::hard_link(&target, servers[2].data.join(entry.file_name()))?;
    }
    let contender = Contender {
        name: "xrootd",
        plain: format!("{}/data", servers[2].url),
        tls: format!("{}/data", servers[0].url),
        second: Some(format!("{}/data", servers[1].url)),
        pids: servers.iter().map(Xrootd::pid).collect(),
    };
    Ok((contender, servers))
}

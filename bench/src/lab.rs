//! All contenders up at once, with the same files and one issuer of tokens.

use std::{
    fs::{self, File},
    io::Write as _,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Daemon, Elsewhere, RunningGrid, Xrootd, XrootdSettings, free_port, wait_for, weir_binary};

use crate::{ciphers, contender::Contender, limits::Limits, warm::Warm};

/// One large file and eight smaller ones, as every row wants them.
pub(crate) const LARGE: u64 = 2_000_000_000;
pub(crate) const SMALL: u64 = 256_000_000;
pub(crate) const N_SMALL: usize = 8;

/// Many tiny ones.
pub(crate) const TINY: u64 = 10_000;
pub(crate) const N_TINY: usize = 1000;

/// A directory that takes long to list.
pub(crate) const N_ENTRIES: usize = 100_000;

pub(crate) struct Lab {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) ca: PathBuf,
    pub(crate) token: String,
    pub(crate) limits: Limits,
    /// On a disk, with a folder for each server.
    pub(crate) disk: PathBuf,
    /// Behind Weir's area without checksums.
    pub(crate) bare: PathBuf,
    _daemons: Vec<Daemon>,
    _xrootd: Vec<Xrootd>,
    _grid: RunningGrid,
    _warm: Warm,
    folder: tempfile::TempDir,
}

impl Lab {
    /// `xrootd_root`: the root directory of another system, whose XRootD is measured too.
    #[expect(clippy::too_many_lines, reason = "one server after the other")]
    pub(crate) fn up(limits: Limits, disk: &Path, xrootd_root: Option<&Path>) -> Result<Self> {
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
        let ca = authority.file();

        let audiences = grid.audiences();
        let weir_data = folder.path().join("weir-a/data");
        make_files(&weir_data)?;
        for name in ["weir-a", "weir-b", "xrootd-a", "xrootd-b", "xrootd6-a", "xrootd6-b"] {
            fs::create_dir_all(disk.join(name).join("up"))?;
            fs::set_permissions(disk.join(name), fs::Permissions::from_mode(0o777))?;
        }
        fs::set_permissions(disk, fs::Permissions::from_mode(0o755))?;
        let (mut daemons, mut pids) = (Vec::new(), Vec::new());
        let mut start = |name, last, tls, areas: &[Area<'_>]| {
            let endpoint = Endpoint {
                folder: folder.path(),
                name,
                address: Ipv4Addr::new(127, 0, 3, last),
                tls,
            };
            start_weir(
                &endpoint,
                &authority,
                (&issuer, &audiences),
                areas,
                &mut daemons,
                &mut pids,
            )
        };
        let second_data = folder.path().join("weir-b/data");
        let plain_data = folder.path().join("weir-c/data");
        let bare = folder.path().join("weir-a/bare");
        let on_disk = [disk.join("weir-a"), disk.join("weir-b")];
        fs::create_dir_all(second_data.join("up"))?;
        link_files(&weir_data, &plain_data)?;
        fs::create_dir_all(&bare)?;
        let first_areas = [
            Area("data", &weir_data, "durability = \"cache\"\n"),
            Area("bare", &bare, "durability = \"cache\"\nchecksums = []\n"),
            Area("disk", &on_disk[0], ""),
        ];
        let second_areas = [
            Area("data", &second_data, "durability = \"cache\"\n"),
            Area("disk", &on_disk[1], ""),
        ];
        let plain_areas = [Area(
            "data",
            &plain_data,
            "durability = \"cache\"\nanonymous_read = true\n",
        )];
        let tls = start("weir-a", 1, true, &first_areas)?;
        let second = start("weir-b", 2, true, &second_areas)?;
        // Plain downloads go without a token. Nobody writes here without one, so plain uploads bring it: over loopback only.
        let plain = start("weir-c", 3, false, &plain_areas)?;
        let weir = Contender {
            name: "weir",
            plain: format!("{plain}/data"),
            tls: format!("{tls}/data"),
            second: Some(format!("{second}/data")),
            data: (weir_data.clone(), second_data),
            plain_data,
            pids,
        };

        let nginx = start_nginx(folder.path(), &authority, &weir_data, &mut daemons)?;
        let tokens = Tokens::of(&grid, &issuer)?;
        let (xrootd, mut servers) = start_xrootd(folder.path(), "xrootd", None, &authority, &tokens)?;
        fill_xrootd("xrootd", &servers, &weir_data, disk)?;
        let mut contenders = vec![weir, nginx, xrootd];
        if let Some(root) = xrootd_root {
            let elsewhere = Elsewhere {
                root: fs::canonicalize(root).with_context(|| format!("{}", root.display()))?,
                seen: vec![fs::canonicalize(disk)?],
            };
            let (xrootd6, newer) = start_xrootd(folder.path(), "xrootd6", Some(&elsewhere), &authority, &tokens)?;
            fill_xrootd("xrootd6", &newer, &servers[0].data, disk)?;
            servers.extend(newer);
            contenders.push(xrootd6);
        }
        ciphers::check(&contenders, &ca)?;
        Ok(Self {
            contenders,
            ca,
            token,
            limits,
            disk: disk.to_owned(),
            bare,
            _daemons: daemons,
            _xrootd: servers,
            _grid: grid,
            _warm: Warm::memory()?,
            folder,
        })
    }

    /// Prints every configuration file that the servers read at their start.
    pub(crate) fn show_configurations(&self) -> Result<()> {
        let home = self.folder.path();
        let mut files: Vec<PathBuf> = Vec::new();
        for name in [
            "weir-a/https.toml",
            "weir-b/https.toml",
            "weir-c/http.toml",
            "nginx/nginx.conf",
        ] {
            files.push(home.join(name));
        }
        for who in self.contenders.iter().filter(|who| who.name.starts_with("xrootd")) {
            for end in ["a", "b"] {
                for file in ["xrootd.cfg", "scitokens.cfg", "openssl.cnf"] {
                    files.push(home.join(format!("{}-{end}/conf/{file}", who.name)));
                }
            }
            files.push(home.join(format!("{}-c/conf/xrootd.cfg", who.name)));
        }
        for file in files {
            let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
            println!("## {}\n{text}", file.display());
        }
        Ok(())
    }

    pub(crate) fn weir(&self) -> &Contender {
        &self.contenders[0]
    }

    /// Contenders that speak `WebDAV` whole and copy between two.
    pub(crate) fn grid_servers(&self) -> impl Iterator<Item = &Contender> {
        self.contenders.iter().filter(|who| who.second.is_some())
    }
}

fn make_files(data: &Path) -> Result<()> {
    // Random once and repeated: no server looks into the bytes, and none of them compresses.
    let seed = weir_tests::Draw::new(3).bytes(16_000_000);
    let write = |path: PathBuf, size: u64| -> Result<()> {
        let mut file = File::create(path)?;
        let mut left = usize::try_from(size)?;
        while left > 0 {
            let length = left.min(seed.len());
            file.write_all(&seed[..length])?;
            left -= length;
        }
        Ok(())
    };
    for folder in ["up", "tiny", "entries"] {
        fs::create_dir_all(data.join(folder))?;
    }
    write(data.join("large"), LARGE)?;
    for index in 1..=N_SMALL {
        write(data.join(format!("small{index}")), SMALL)?;
    }
    for index in 0..N_TINY {
        write(data.join(format!("tiny/{index}")), TINY)?;
    }
    for index in 0..N_ENTRIES {
        File::create(data.join(format!("entries/{index}")))?;
    }
    Ok(())
}

/// An endpoint locks its area, so the plain one has a directory of its own, with the same files.
fn link_files(from: &Path, to: &Path) -> Result<()> {
    for folder in ["up", "tiny"] {
        fs::create_dir_all(to.join(folder))?;
    }
    for name in shared() {
        fs::hard_link(from.join(&name), to.join(&name))?;
    }
    Ok(())
}

/// The files that all servers have.
fn shared() -> impl Iterator<Item = String> {
    let small = (1..=N_SMALL).map(|index| format!("small{index}"));
    let tiny = (0..N_TINY).map(|index| format!("tiny/{index}"));
    std::iter::once("large".to_owned()).chain(small).chain(tiny)
}

/// Name, directory, and further lines of an area's table.
struct Area<'a>(&'a str, &'a Path, &'a str);

#[derive(Clone, Copy)]
struct Endpoint<'a> {
    folder: &'a Path,
    name: &'a str,
    address: Ipv4Addr,
    tls: bool,
}

/// A Weir endpoint; gives its URL without a path.
fn start_weir(
    endpoint: &Endpoint<'_>,
    authority: &CertificateAuthority,
    issuer: (&str, &[String]),
    areas: &[Area<'_>],
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
    fs::create_dir_all(&home)?;
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
    let mut configuration = format!(
        "listen = \"{address}:{port}\"\nurl = \"{scheme}://{address}:{port}\"\n{tls}\
         [trust]\nfiles = [\"{}\"]\n[[issuer]]\nurl = \"{}\"\naudiences = {:?}\n[tpc]\nallow = [\"127.0.0.0/8\"]\n",
        authority.file().display(),
        issuer.0,
        issuer.1,
    );
    for Area(name, root, lines) in areas {
        let root = root.display();
        let table = format!(
            "[[area]]\nname = \"{name}\"\nprefix = \"/{name}\"\nroot = \"{root}\"\ncreate_root = true\n{lines}"
        );
        configuration.push_str(&table);
    }
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
    Ok(format!("{scheme}://{address}:{port}"))
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
        data: (home.join("www/data"), PathBuf::new()),
        plain_data: home.join("www/data"),
        pids,
    })
}

/// The issuer of tokens, as a server's configuration names it.
struct Tokens<'a> {
    issuer: &'a str,
    jwks: String,
    audiences: Vec<String>,
}

impl<'a> Tokens<'a> {
    fn of(grid: &RunningGrid, issuer: &'a str) -> Result<Self> {
        let base = issuer.trim_end_matches('/');
        let discovery = grid
            .curl(&[&format!("{base}/.well-known/openid-configuration")])?
            .expect_ok()?
            .stdout;
        let uri = serde_json::from_str::<Value>(&discovery)?["jwks_uri"]
            .as_str()
            .context("no jwks_uri")?
            .to_owned();
        Ok(Self {
            issuer,
            jwks: grid.curl(&[&uri])?.expect_ok()?.stdout,
            audiences: grid.audiences(),
        })
    }
}

/// Three servers: two with TLS, `-a` and `-b`, and `-c` without.
fn start_xrootd(
    folder: &Path,
    kind: &'static str,
    elsewhere: Option<&Elsewhere>,
    authority: &CertificateAuthority,
    tokens: &Tokens<'_>,
) -> Result<(Contender, Vec<Xrootd>)> {
    let address = |last: u8| Ipv4Addr::new(127, 0, 3, if elsewhere.is_some() { last + 3 } else { last });
    let start = |end: &str, last: u8| {
        let settings = XrootdSettings {
            name: &format!("{kind}-{end}"),
            authority,
            trusted: &[authority.directory()],
            issuer: tokens.issuer,
            jwks: &tokens.jwks,
            audiences: &tokens.audiences,
            address: address(last),
            port: free_port()?,
            root_port: free_port()?,
            measured: true,
            elsewhere,
            cluster: None,
        };
        Xrootd::start(folder, &settings)
    };
    // Without TLS it can have no tokens, so its third door is open to everybody, on loopback as all of them.
    let ports = (free_port()?, free_port()?);
    let plain = Xrootd::start_anonymous(folder, &format!("{kind}-c"), address(7), ports, elsewhere)?;
    let servers = vec![start("a", 5)?, start("b", 6)?, plain];
    let contender = Contender {
        name: kind,
        plain: format!("{}/data", servers[2].url),
        tls: format!("{}/data", servers[0].url),
        second: Some(format!("{}/data", servers[1].url)),
        data: (servers[0].data.clone(), servers[1].data.clone()),
        plain_data: servers[2].data.clone(),
        pids: servers.iter().map(Xrootd::pid).collect(),
    };
    Ok((contender, servers))
}

/// Gives three servers of XRootD the same files. XRootD does not run as root, so the directories that it writes into are open to all users.
fn fill_xrootd(kind: &str, servers: &[Xrootd], data: &Path, disk: &Path) -> Result<()> {
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
    for server in servers {
        for folder in ["up", "tiny", "entries"] {
            fs::create_dir_all(server.data.join(folder))?;
            open(&server.data.join(folder))?;
        }
    }
    for name in shared() {
        let target = servers[0].data.join(&name);
        // Weir's belong to root, and are not everybody's to read.
        if kind == "xrootd" {
            fs::copy(data.join(&name), &target)?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o644))?;
        } else {
            fs::hard_link(data.join(&name), &target)?;
        }
        fs::hard_link(&target, servers[2].data.join(&name))?;
    }
    for index in 0..N_ENTRIES {
        File::create(servers[0].data.join(format!("entries/{index}")))?;
    }
    for (server, end) in servers.iter().zip(["a", "b"]) {
        let folder = disk.join(format!("{kind}-{end}"));
        std::os::unix::fs::chown(&folder, Some(owner(&server.data)?), None)?;
        std::os::unix::fs::symlink(&folder, server.data.join("disk"))?;
    }
    Ok(())
}

fn owner(path: &Path) -> Result<u32> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::metadata(path)?.uid())
}

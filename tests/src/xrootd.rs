//! Real XRootD servers (Debian's packages) with HTTP, third-party copy, TLS and token authorisation.
//!
//! XRootD 5.5 has no bind-address option: it listens on every interface of the test machine, on a port of its own.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use weir_auth::ca::{CertificateAuthority, San};

use crate::{Daemon, run, wait_for};

/// The configuration of one server.
#[derive(Debug)]
pub struct XrootdSettings<'a> {
    /// A short name, used for files and logs.
    pub name: &'a str,
    /// The authority that signs its certificate.
    pub authority: &'a CertificateAuthority,
    /// Directories of hashed names with the authorities it trusts when it is the active party.
    pub trusted: &'a [PathBuf],
    /// Issuer URL, exactly as in the tokens' `iss`.
    pub issuer: &'a str,
    /// The issuer's JWKS document; put into the server's key cache, so that it need not trust the issuer's authority.
    pub jwks: &'a str,
    /// Audiences that it takes in tokens, beside its own URL and the one for everybody.
    pub audiences: &'a [String],
    /// The loopback address by which it is known: storage elements are told apart by host, not by port.
    pub address: Ipv4Addr,
    /// Where its HTTP door listens.
    pub port: u16,
    /// Another free port, for the root protocol.
    pub root_port: u16,
    /// Whether it is set up to be measured: no tracing, and TLS with AES-128-GCM alone, as server and as client of copies.
    pub measured: bool,
    /// Where another XRootD is to be run than this system's.
    pub elsewhere: Option<&'a Elsewhere>,
    /// Its place in a cluster, if it is in one. Not with `elsewhere`.
    pub cluster: Option<Cluster>,
}

/// A place in a cluster: a door that redirects, and the nodes that keep the files. Nodes know the door, not the other way round.
#[derive(Debug, Clone, Copy)]
pub enum Cluster {
    /// Redirects every request to a node. Nodes announce themselves at this port of its address.
    Door {
        /// A free port.
        port: u16,
    },
    /// Keeps files; its HTTP door is at the port of the root protocol, which is the one that the door of the cluster names.
    Node {
        /// Address and port where it announces itself.
        door: (Ipv4Addr, u16),
    },
}

/// The root directory of another system, e.g. with a newer release. Only root can run what is in it.
#[derive(Debug, Clone)]
pub struct Elsewhere {
    /// The directory.
    pub root: PathBuf,
    /// Directories of this system that are seen there too, at the same place, beside the server's own.
    pub seen: Vec<PathBuf>,
}

/// A running server.
#[derive(Debug)]
pub struct Xrootd {
    /// Base URL of its HTTP door: `https://address:port`, or `http://` for an anonymous one.
    pub url: String,
    /// The folder behind `/data`.
    pub data: PathBuf,
    daemon: Daemon,
    /// The process that manages the cluster.
    manager: Option<Daemon>,
}

impl Xrootd {
    /// Configures and starts a server in `folder`, and waits until its port answers.
    ///
    /// Paths in token scopes are paths of its URLs: the issuer's base is `/`. `folder` must be reachable for the user
    /// `xrootd` when the test runs as root: XRootD refuses to be root.
    pub fn start(folder: &Path, settings: &XrootdSettings<'_>) -> Result<Self> {
        let home = folder.join(settings.name);
        for part in ["admin", "conf", "certs", "cache/scitokens", "log", "root/data"] {
            fs::create_dir_all(home.join(part))?;
        }
        let identity = settings
            .authority
            .issue(&[San::Ip(settings.address.into())], "xrootd")?;
        fs::write(home.join("conf/host.pem"), &identity.chain_pem)?;
        fs::write(home.join("conf/host.key"), &identity.key_pem)?;
        fs::set_permissions(home.join("conf/host.key"), fs::Permissions::from_mode(0o600))?;
        for directory in settings.trusted {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                fs::copy(entry.path(), home.join("certs").join(entry.file_name()))?;
            }
        }
        fs::write(home.join("conf/scitokens.cfg"), scitokens(settings))?;
        fs::write(home.join("conf/xrootd.cfg"), configuration(&home, settings))?;
        fs::write(home.join("conf/authdb"), "")?;
        fs::write(home.join("conf/openssl.cnf"), ONE_SUITE)?;
        fill_key_cache(&home.join("cache/scitokens/scitokens_cpp.sqllite"), settings)?;
        let url = format!("https://{}:{}", settings.address, settings.port);
        let openssl = settings.measured.then(|| home.join("conf/openssl.cnf"));
        let at = (settings.address, settings.port);
        let mut started = Self::launch(folder, settings.name, (url, at), openssl.as_deref(), settings.elsewhere)?;
        if settings.cluster.is_some() {
            anyhow::ensure!(
                settings.elsewhere.is_none(),
                "a cluster of another system's XRootD is not started"
            );
            let command = program("cmsd", &home, settings.name);
            let log = folder.join(format!("{}-cmsd.log", settings.name));
            started.manager = Some(Daemon::start(command, &log)?);
        }
        Ok(started)
    }

    /// Configures and starts a server without TLS, where everybody may read and write; waits until its port answers.
    ///
    /// The ports are those of HTTP and of the root protocol; `elsewhere` is as in [`XrootdSettings`].
    pub fn start_anonymous(
        folder: &Path,
        name: &str,
        address: Ipv4Addr,
        (port, root_port): (u16, u16),
        elsewhere: Option<&Elsewhere>,
    ) -> Result<Self> {
        let home = folder.join(name);
        for part in ["admin", "conf", "certs", "cache", "root/data"] {
            fs::create_dir_all(home.join(part))?;
        }
        let shown = home.display();
        let text = format!(
            "all.export /data\n\
             all.role server\n\
             all.adminpath {shown}/admin\n\
             all.pidpath {shown}/admin\n\
             all.sitename {name}\n\
             oss.localroot {shown}/root\n\
             xrd.port {root_port}\n\
             xrd.network nodnr\n\
             xrd.protocol XrdHttp:{port} libXrdHttp.so\n\
             http.httpsmode disable\n"
        );
        fs::write(home.join("conf/xrootd.cfg"), text)?;
        let url = format!("http://{address}:{port}");
        Self::launch(folder, name, (url, (address, port)), None, elsewhere)
    }

    /// Starts what is configured in `folder/name`.
    fn launch(
        folder: &Path,
        name: &str,
        (url, at): (String, (Ipv4Addr, u16)),
        openssl: Option<&Path>,
        elsewhere: Option<&Elsewhere>,
    ) -> Result<Self> {
        let home = folder.join(name);
        let root = rustix::process::geteuid().is_root();
        if root {
            let owner = elsewhere.map_or_else(|| Ok("xrootd".to_owned()), Elsewhere::user)?;
            run(Command::new("chown").args(["-R", &owner]).arg(&home))?.expect_ok()?;
        }
        let mut command = match elsewhere {
            Some(elsewhere) => as_configured(elsewhere.command(folder), &home, name),
            None => program("xrootd", &home, name),
        };
        command
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("X509_CERT_DIR", home.join("certs"));
        if let Some(openssl) = openssl {
            command.env("OPENSSL_CONF", openssl);
        }
        let mut daemon = Daemon::start(command, &folder.join(format!("{name}.log")))?;
        wait_for(Duration::from_secs(30), || {
            anyhow::ensure!(daemon.ended()?.is_none(), "it ended");
            Ok(std::net::TcpStream::connect(at).ok())
        })
        .with_context(|| format!("XRootD did not come up:\n{}", daemon.said()))?;
        Ok(Self {
            url,
            data: home.join("root/data"),
            daemon,
            manager: None,
        })
    }

    /// Its log.
    pub fn said(&self) -> String {
        let manager = self.manager.as_ref().map_or_else(String::new, Daemon::said);
        self.daemon.said() + &manager
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }
}

/// One of XRootD's programs with the configuration of this folder.
fn program(name: &str, home: &Path, instance: &str) -> Command {
    as_configured(Command::new(name), home, instance)
}

fn as_configured(mut command: Command, home: &Path, instance: &str) -> Command {
    command
        .arg("-c")
        .arg(home.join("conf/xrootd.cfg"))
        .args(["-n", instance]);
    if rustix::process::geteuid().is_root() {
        command.args(["-R", "xrootd"]);
    }
    command.current_dir(home);
    command
}

impl Elsewhere {
    /// Its XRootD, which sees this folder. Every program of the line becomes the next: the child's process id is the server's.
    fn command(&self, folder: &Path) -> Command {
        let script = "root=$1; shift\n\
            while [ \"$1\" != -- ]; do mkdir -p \"$root$1\" && mount --bind \"$1\" \"$root$1\" || exit; shift; done; shift\n\
            mount -t proc proc \"$root/proc\" && exec chroot \"$root\" /usr/bin/xrootd \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(&self.root);
        command.arg(folder).args(&self.seen).arg("--");
        command
    }

    /// The number of its user `xrootd`.
    fn user(&self) -> Result<String> {
        let file = self.root.join("etc/passwd");
        let users = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let number = users
            .lines()
            .find_map(|line| line.strip_prefix("xrootd:")?.split(':').nth(1));
        Ok(number.context("it has no user xrootd")?.to_owned())
    }

    /// The release that its XRootD reports.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn version(&self) -> Result<String> {
        let said = run(Command::new("chroot").arg(&self.root).args(["/usr/bin/xrootd", "-v"]))?.expect_ok()?;
        Ok([said.stdout, said.stderr].concat().trim().to_owned())
    }
}

/// For OpenSSL: one cipher suite of TLS 1.3. XRootD has no key for it, and libcurl, with which it copies, offers AES-256 first.
const ONE_SUITE: &str = "openssl_conf = modules\n[modules]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\n\
    Ciphersuites = TLS_AES_128_GCM_SHA256\nMinProtocol = TLSv1.2\n";

fn scitokens(settings: &XrootdSettings<'_>) -> String {
    let XrootdSettings {
        issuer, address, port, ..
    } = settings;
    let also = [&[String::new()], settings.audiences].concat().join(", ");
    format!(
        "[Global]\naudience = https://wlcg.cern.ch/jwt/v1/any, https://{address}:{port}, https://{address}{also}\n\
         [Issuer weir]\nissuer = {issuer}\nbase_path = /\n"
    )
}

/// One server over HTTP and TLS with third-party copy, tokens and the checksums that FTS asks for.
fn configuration(home: &Path, settings: &XrootdSettings<'_>) -> String {
    let home = home.display();
    let XrootdSettings {
        name, port, root_port, ..
    } = settings;
    let role = role(settings);
    // A door leaves it to its nodes to judge who may do what.
    let is_door = matches!(settings.cluster, Some(Cluster::Door { .. }));
    let authorize = if is_door { "" } else { "ofs.authorize 1\n" };
    let trace = if settings.measured { "" } else { "scitokens.trace all\n" };
    // Releases since 6.0 refuse copies from such addresses unless told otherwise; 5.5 does not know the word.
    let private = settings.elsewhere.map_or("", |_| "tpc.allow local private\n");
    format!(
        "all.export /data\n\
         {role}\
         all.adminpath {home}/admin\n\
         all.pidpath {home}/admin\n\
         all.sitename {name}\n\
         oss.localroot {home}/root\n\
         xrd.port {root_port} if exec xrootd\n\
         xrd.network nodnr\n\
         if exec xrootd\n\
         xrd.protocol XrdHttp:{port} libXrdHttp.so\n\
         fi\n\
         xrd.tls {home}/conf/host.pem {home}/conf/host.key\n\
         xrd.tlsca certdir {home}/certs\n\
         http.httpsmode auto\n\
         http.exthandler xrdtpc libXrdHttpTPC.so\n\
         {private}\
         http.header2cgi Authorization authz\n\
         http.selfhttps2http no\n\
         {authorize}\
         ofs.authlib ++ libXrdAccSciTokens.so config={home}/conf/scitokens.cfg\n\
         {trace}\
         acc.authdb {home}/conf/authdb\n\
         xrootd.chksum max 2 adler32 crc32 md5\n\
         xrootd.seclib libXrdSec.so\n\
         sec.protocol ztn\n\
         sec.protocol unix\n\
         sec.protbind * only ztn unix\n\
         xrootd.tls capable all\n"
    )
}

/// Its part in a cluster, or that it is alone.
fn role(settings: &XrootdSettings<'_>) -> String {
    match settings.cluster {
        None => "all.role server\n".to_owned(),
        Some(Cluster::Door { port }) => format!(
            "all.role manager\nall.manager {}:{port}\nxrd.port {port} if exec cmsd\ncms.allow host *\n\
             cms.delay startup 1 servers 1 lookup 1\nhttp.desthttps yes\n",
            settings.address
        ),
        Some(Cluster::Node { door: (address, port) }) => {
            format!("all.role server\nall.manager {address}:{port}\nxrd.port any if exec cmsd\n")
        }
    }
}

/// libscitokens reads an issuer's keys from this cache before it asks the network.
fn fill_key_cache(file: &Path, settings: &XrootdSettings<'_>) -> Result<()> {
    let far = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs() + 30 * 86_400;
    let jwks: serde_json::Value = serde_json::from_str(settings.jwks).context("the JWKS is not JSON")?;
    let entry = serde_json::json!({ "jwks": jwks, "next_update": far, "expires": far }).to_string();
    let cache = rusqlite::Connection::open(file)?;
    cache.execute(
        "CREATE TABLE IF NOT EXISTS keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)",
        [],
    )?;
    cache.execute(
        "INSERT OR REPLACE INTO keycache VALUES (?, ?)",
        (settings.issuer, entry),
    )?;
    Ok(())
}

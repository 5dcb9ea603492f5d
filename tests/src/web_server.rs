//! Web servers that speak WebDAV and nothing of the grid (Debian's packages): Apache with mod_dav, nginx with its modules dav and dav_ext.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use weir_auth::ca::{CertificateAuthority, San};

use crate::{Daemon, free_port, run, wait_for};

/// The user of Debian's web servers.
const USER: &str = "www-data";

/// A kind of web server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebServerKind {
    /// Apache with `mod_dav_fs`.
    Apache,
    /// nginx with `dav` and `dav_ext`.
    Nginx,
}

/// A running web server over TLS. Whoever shows its token may do everything.
#[derive(Debug)]
pub struct WebServer {
    /// `https://address:port`.
    pub url: String,
    /// The folder that it serves.
    pub data: PathBuf,
    /// The token that it asks for.
    pub token: String,
    log: PathBuf,
    _daemon: Daemon,
}

impl WebServer {
    /// Configures and starts a server in `folder`, and waits until its port answers. `folder` must be reachable for the servers' user when
    /// the test runs as root.
    pub fn start(
        folder: &Path,
        kind: WebServerKind,
        address: Ipv4Addr,
        authority: &CertificateAuthority,
    ) -> Result<Self> {
        let home = folder.join(format!("{kind:?}"));
        for part in ["data", "tmp"] {
            fs::create_dir_all(home.join(part))?;
        }
        let identity = authority.issue(&[San::Ip(address.into())], "web")?;
        fs::write(home.join("host.pem"), &identity.chain_pem)?;
        fs::write(home.join("host.key"), &identity.key_pem)?;
        fs::set_permissions(home.join("host.key"), fs::Permissions::from_mode(0o600))?;
        let token = format!("token-of-{kind:?}");
        let at = (address, free_port()?);
        let (shown, log) = (home.display().to_string(), home.join("access.log"));
        let (text, mut command) = match kind {
            WebServerKind::Apache => (apache(&shown, at, &token), Command::new("/usr/sbin/apache2")),
            WebServerKind::Nginx => (nginx(&shown, at, &token), Command::new("/usr/sbin/nginx")),
        };
        let configuration = home.join("configuration");
        fs::write(&configuration, text)?;
        match kind {
            WebServerKind::Apache => command.arg("-f").arg(&configuration).arg("-DFOREGROUND"),
            WebServerKind::Nginx => command.arg("-c").arg(&configuration).arg("-p").arg(&home),
        };
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
            let owner = format!("{USER}:");
            run(Command::new("chown").args(["-R", &owner]).arg(&home))?.expect_ok()?;
        }
        let mut daemon = Daemon::start(command, &folder.join(format!("{kind:?}.log")))?;
        wait_for(Duration::from_secs(30), || {
            anyhow::ensure!(daemon.ended()?.is_none(), "it ended");
            Ok(std::net::TcpStream::connect(at).ok())
        })
        .with_context(|| format!("{kind:?} did not come up:\n{}", daemon.said()))?;
        Ok(Self {
            url: format!("https://{}:{}", at.0, at.1),
            data: home.join("data"),
            token,
            log,
            _daemon: daemon,
        })
    }

    /// Its access log: method, path, `Destination`, status.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

fn apache(home: &str, (address, port): (Ipv4Addr, u16), token: &str) -> String {
    let modules = [
        ("mpm_event_module", "mod_mpm_event"),
        ("ssl_module", "mod_ssl"),
        ("dav_module", "mod_dav"),
        ("dav_fs_module", "mod_dav_fs"),
        ("authn_core_module", "mod_authn_core"),
        ("authz_core_module", "mod_authz_core"),
        ("setenvif_module", "mod_setenvif"),
        ("socache_shmcb_module", "mod_socache_shmcb"),
    ];
    let load = |(module, file): &(&str, &str)| format!("LoadModule {module} /usr/lib/apache2/modules/{file}.so\n");
    let modules: String = modules.iter().map(load).collect();
    format!(
        "{modules}ServerRoot {home}\nServerName {address}\nPidFile {home}/pid\nListen {address}:{port}\nUser {USER}\nGroup {USER}\n\
         ErrorLog {home}/error.log\nLogFormat \"%m %U %{{Destination}}i %>s\" short\nCustomLog {home}/access.log short\n\
         DavLockDB {home}/tmp/locks\nSSLEngine on\nSSLCertificateFile {home}/host.pem\nSSLCertificateKeyFile {home}/host.key\n\
         DocumentRoot {home}/data\n<Directory {home}/data>\nDav on\nRequire expr \"%{{HTTP:Authorization}} == 'Bearer {token}'\"\n</Directory>\n"
    )
}

fn nginx(home: &str, (address, port): (Ipv4Addr, u16), token: &str) -> String {
    // A server that is not started by root has no other user to become.
    let user = if rustix::process::geteuid().is_root() {
        format!("user {USER};\n")
    } else {
        String::new()
    };
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {home}/tmp/{kind};\n"))
        .collect();
    format!(
        "load_module /usr/lib/nginx/modules/ngx_http_dav_ext_module.so;\n{user}daemon off;\npid {home}/pid;\nerror_log {home}/error.log;\n\
         events {{}}\nhttp {{\nlog_format short '$request_method $uri $http_destination $status';\naccess_log {home}/access.log short;\n\
         {paths}client_max_body_size 0;\ndav_ext_lock_zone zone=dav:1m;\nserver {{\nlisten {address}:{port} ssl;\n\
         ssl_certificate {home}/host.pem;\nssl_certificate_key {home}/host.key;\nroot {home}/data;\nlocation / {{\n\
         if ($http_authorization != \"Bearer {token}\") {{ return 401; }}\n\
         dav_methods PUT DELETE MKCOL COPY MOVE;\ndav_ext_methods PROPFIND OPTIONS LOCK UNLOCK;\ndav_ext_lock zone=dav;\n\
         create_full_put_path on;\n}}\n}}\n}}\n"
    )
}

//! A Rucio server as it comes from PyPI.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{Daemon, run, wait_for, write_private};

/// A server that imports all of Rucio, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// For server, client and daemons. `loglevel` may come after it.
const CONFIG: &str = "
[client]
rucio_host = http://127.0.0.1:REST
auth_host = http://127.0.0.1:REST
auth_type = userpass
username = lab
password = lab
account = root
auth_token_file_path = FOLDER/token
[database]
default = postgresql+psycopg://weir@/weir?host=SOCKET
pool_size = 16
[alembic]
cfg = FOLDER/etc/alembic.ini
[bootstrap]
userpass_identity = lab
userpass_pwd = lab
userpass_email = lab@example.org
[policy]
permission = generic
schema = generic
[monitor]
enable_metrics = False
[oidc]
idpsecrets = FOLDER/etc/idpsecrets.json
admin_issuer = grid
expected_scope = fts
expected_audience = rucio
[common]
logdir = FOLDER/log
mailtemplatedir = FOLDER/etc
";

const ALEMBIC: &str = "[alembic]\nscript_location = PACKAGE/db/sqla/migrate_repo/\nsqlalchemy.url = \
     postgresql+psycopg://weir@/weir?host=SOCKET\n[loggers]\nkeys = root\n[handlers]\nkeys = console\n[formatters]\nkeys = \
     plain\n[logger_root]\nlevel = WARN\nhandlers = console\n[handler_console]\nclass = StreamHandler\nargs = \
     (sys.stderr,)\nformatter = plain\n[formatter_plain]\nformat = %(message)s\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Rucio's own files, in a folder that is its home; its account `root` has the login lab/lab.
#[derive(Debug)]
pub struct RucioHome {
    /// The folder.
    pub folder: PathBuf,
    port: u16,
    authorities: Option<PathBuf>,
    tls: Option<(PathBuf, PathBuf)>,
}

impl RucioHome {
    /// Writes the configuration for a server on this port of 127.0.0.1, over the PostgreSQL server with this socket. `more` goes on in the section
    /// `common`, and may begin others.
    ///
    /// # Errors
    /// The peers are not installed, or a file cannot be written.
    pub fn lay(folder: PathBuf, socket: &Path, port: u16, more: &str) -> Result<Self> {
        for name in ["etc", "log"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let package = fs::read_dir(root().join(".peers/lib"))?.filter_map(std::result::Result::ok);
        let package = package.map(|python| python.path().join("site-packages/rucio"));
        let package = package
            .filter(|package| package.exists())
            .max()
            .context("no Rucio in .peers")?;
        let fill = |text: &str| {
            text.replace("FOLDER", &folder.display().to_string())
                .replace("SOCKET", &socket.display().to_string())
                .replace("PACKAGE", &package.display().to_string())
                .replace("REST", &port.to_string())
        };
        write_private(&folder.join("etc/rucio.cfg"), &fill(&format!("{CONFIG}{more}")))?;
        fs::write(folder.join("etc/alembic.ini"), fill(ALEMBIC))?;
        fs::write(folder.join("etc/idpsecrets.json"), "{}")?;
        Ok(Self {
            folder,
            port,
            authorities: None,
            tls: None,
        })
    }

    /// Trusts the authorities of this PEM file.
    #[must_use]
    pub fn trusting(self, authorities: PathBuf) -> Self {
        Self {
            authorities: Some(authorities),
            ..self
        }
    }

    /// Speaks TLS with this certificate and key, and lets clients log in with certificates of the authorities that it trusts.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub fn over_tls(self, certificate: PathBuf, key: PathBuf) -> Result<Self> {
        let path = self.folder.join("etc/rucio.cfg");
        let text = fs::read_to_string(&path)?;
        write_private(&path, &text.replace("http://127.0.0.1", "https://127.0.0.1"))?;
        Ok(Self {
            tls: Some((certificate, key)),
            ..self
        })
    }

    /// A program of the peers with Rucio's environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(root().join(".peers/bin").join(program));
        for ambient in ["X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY", "BEARER_TOKEN"] {
            command.env_remove(ambient);
        }
        command
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env("RUCIO_HOME", &self.folder)
            .env("RUCIO_CONFIG", self.folder.join("etc/rucio.cfg"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONWARNINGS", "ignore");
        if let Some(authorities) = &self.authorities {
            command.env("REQUESTS_CA_BUNDLE", authorities);
        }
        command
    }

    /// `tests/rucio/lab.py`.
    pub fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("python");
        command.arg(root().join("tests/rucio/lab.py")).args(arguments);
        command
    }

    /// Makes the tables, and gives the REST server once it answers. `workers` are options of gunicorn.
    ///
    /// # Errors
    /// It ends, or does not answer in time.
    pub fn server(&self, workers: &[&str]) -> Result<Daemon> {
        run(&mut self.lab(&["build"]))?.expect_ok()?;
        let mut gunicorn = self.command("gunicorn");
        gunicorn
            .args(workers)
            .args(["--timeout", "900", "-b", &format!("127.0.0.1:{}", self.port)]);
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-m", "5"]);
        if let (Some((certificate, key)), Some(authorities)) = (&self.tls, &self.authorities) {
            gunicorn
                .args([
                    "--certfile".as_ref(),
                    certificate.as_os_str(),
                    "--keyfile".as_ref(),
                    key.as_os_str(),
                ])
                .args(["--ca-certs".as_ref(), authorities.as_os_str()])
                .args(["--cert-reqs", "1", "--pythonpath"])
                .arg(root().join("tests/rucio"))
                .arg("front:application");
            curl.arg("--cacert")
                .arg(authorities)
                .arg(format!("https://127.0.0.1:{}/ping", self.port));
        } else {
            gunicorn.arg("rucio.web.rest.main:application");
            curl.arg(format!("http://127.0.0.1:{}/ping", self.port));
        }
        let mut server = Daemon::start(gunicorn, &self.folder.join("log/rest"))?;
        wait_for(PATIENCE, || {
            ensure!(server.ended()?.is_none(), "the server ended: {}", server.said());
            let told = run(&mut curl)?;
            Ok(told.stdout.contains("version").then_some(()))
        })?;
        Ok(server)
    }
}

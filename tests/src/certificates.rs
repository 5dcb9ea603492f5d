//! Users' certificates as a grid has them, made by `openssl` and VOMS's own `voms-proxy-fake`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::run;

const CONFIG: &str = "
[req]
distinguished_name = name
prompt = no
[name]
C = XY
O = Grid
CN = Grid CA
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[end_entity]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature,keyEncipherment
extendedKeyUsage = clientAuth,serverAuth
";

/// The VO whose attributes [`GridSecurity::proxy`] puts into proxies.
pub const VO: &str = "dune";

/// An authority of users, a VOMS server's certificate, and the directories that a site keeps of both.
#[derive(Debug, Clone)]
pub struct GridSecurity {
    folder: PathBuf,
}

impl GridSecurity {
    /// Makes them in this folder, which is made too.
    ///
    /// # Errors
    /// If `openssl` fails, or is not there.
    pub fn create(folder: &Path) -> Result<Self> {
        let made = Self {
            folder: folder.to_owned(),
        };
        fs::create_dir_all(made.authorities())?;
        fs::create_dir_all(made.vomsdir().join(VO))?;
        fs::write(folder.join("config"), CONFIG)?;
        made.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "ca.key",
            "-out",
            "certificates/ca.pem",
            "-config",
            "config",
            "-extensions",
            "authority",
            "-days",
            "3",
        ])?;
        made.certify("voms", "/C=XY/O=Grid/CN=voms.example.org", "77")?;
        let names = "/C=XY/O=Grid/CN=voms.example.org\n/C=XY/O=Grid/CN=Grid CA\n";
        fs::write(made.vomsdir().join(VO).join("voms.example.org.lsc"), names)?;
        Ok(made)
    }

    /// The directory of authorities.
    pub fn authorities(&self) -> PathBuf {
        self.folder.join("certificates")
    }

    /// The directory of VOMS servers.
    pub fn vomsdir(&self) -> PathBuf {
        self.folder.join("vomsdir")
    }

    /// Makes `NAME.pem` and `NAME.key`.
    ///
    /// # Errors
    /// If `openssl` fails.
    pub fn certify(&self, name: &str, subject: &str, serial: &str) -> Result<()> {
        let (key, request, certificate) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        self.openssl(&[
            "req", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-out", &request, "-subj", subject,
        ])?;
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "certificates/ca.pem",
            "-CAkey",
            "ca.key",
            "-set_serial",
            serial,
            "-days",
            "2",
            "-extfile",
            "config",
            "-extensions",
            "end_entity",
            "-out",
            &certificate,
        ])?;
        Ok(fs::set_permissions(
            self.folder.join(key),
            fs::Permissions::from_mode(0o600),
        )?)
    }

    /// Makes a proxy file of this user with VOMS attributes, and gives its path.
    ///
    /// # Errors
    /// If `voms-proxy-fake` fails, or is not there.
    pub fn proxy(&self, user: &str, file: &str, fqans: &[&str]) -> Result<PathBuf> {
        self.voms_proxy(user, file, fqans, &[])
    }

    /// The same, limited: the proxy of a job that may move data, and may not start or delegate work.
    ///
    /// # Errors
    /// As [`Self::proxy`].
    pub fn limited_proxy(&self, user: &str, file: &str, fqans: &[&str]) -> Result<PathBuf> {
        self.voms_proxy(user, file, fqans, &["-limited"])
    }

    fn voms_proxy(&self, user: &str, file: &str, fqans: &[&str], more: &[&str]) -> Result<PathBuf> {
        let mut command = Command::new("voms-proxy-fake");
        command.current_dir(&self.folder).env("HOME", &self.folder);
        command.args([
            "-rfc",
            "-certdir",
            "certificates",
            "-hostcert",
            "voms.pem",
            "-hostkey",
            "voms.key",
        ]);
        command.args([
            "-voms",
            VO,
            "-uri",
            "voms.example.org:15000",
            "-hours",
            "12",
            "-out",
            file,
        ]);
        command.args(["-cert", &format!("{user}.pem"), "-key", &format!("{user}.key")]);
        command.args(more);
        for fqan in fqans {
            command.args(["-fqan", fqan]);
        }
        run(&mut command)?.expect_ok()?;
        Ok(self.folder.join(file))
    }

    fn openssl(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("openssl");
        run(command.args(arguments).current_dir(&self.folder))?.expect_ok()?;
        Ok(())
    }
}

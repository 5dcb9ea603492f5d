//! Services as operators run them: an issuer, storages and a transfer service, each a process of its own.

mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};

use crate::{Daemon, Run, free_port, run, wait_for, weir_binary, write_private};

/// How long a service may take to be ready on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of one storage beside the usual one.
#[derive(Debug, Clone)]
pub struct StorageSettings {
    name: String,
    areas: String,
    tpc: String,
    certified: Vec<Ipv4Addr>,
}

impl StorageSettings {
    /// A storage with one area that is its whole name space.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            areas: format!(
                "[[area]]\nname = \"{name}\"\nprefix = \"/\"\nroot = \"{name}\"\ncreate_root = true\nquota = \"4 GB\"\ndurability = \"cache\"\n"
            ),
            tpc: String::new(),
            certified: Vec::new(),
        }
    }

    /// The same, which says yes to nothing that a power cut could undo.
    pub fn durable(name: &str) -> Self {
        let mut settings = Self::new(name);
        settings.areas = settings.areas.replace("\"cache\"", "\"full\"");
        settings
    }

    /// One more area: its prefix is its name, and `lines` are further keys of it.
    #[must_use]
    pub fn area(mut self, name: &str, lines: &str) -> Self {
        let area = format!(
            "[[area]]\nname = \"{name}\"\nprefix = \"/{name}\"\nroot = \"{name}\"\ncreate_root = true\n{lines}\n"
        );
        self.areas.push_str(&area);
        self
    }

    /// Takes tokens for this audience, too.
    #[must_use]
    pub fn audience(mut self, audience: &str) -> Self {
        // The tables begin within `[[issuer]]`.
        self.areas = format!("audiences = [\"{audience}\"]\n{}", self.areas);
        self
    }

    /// Further keys of `[tpc]`. Unless the first of them is `allow`, loopback is allowed.
    #[must_use]
    pub fn tpc(mut self, lines: &str) -> Self {
        self.tpc += lines;
        self
    }

    /// Names these addresses in the certificate in place of the storage's own.
    #[must_use]
    pub fn certified_for(mut self, addresses: &[Ipv4Addr]) -> Self {
        self.certified = addresses.to_vec();
        self
    }
}

/// A service: the same configuration and address at each of its starts.
#[derive(Debug)]
pub struct Service {
    kind: &'static str,
    name: String,
    folder: PathBuf,
    /// As clients write it, without a slash at the end.
    pub url: String,
    /// Variables of its environment, from its next start on.
    pub environment: Vec<(&'static str, String)>,
    daemon: Option<Daemon>,
    starts: u32,
    level: &'static str,
    /// The program that starts it, if it is not started directly.
    within: Vec<String>,
}

impl Service {
    /// Starts it without waiting for anything.
    pub fn spawn(&mut self) -> Result<()> {
        self.starts += 1;
        let mut command = match self.within.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(weir_binary());
                command
            }
            None => Command::new(weir_binary()),
        };
        command
            .args(["serve", self.kind, "--json", "--log-level", self.level, "--config"])
            .arg(self.folder.join(format!("{}.toml", self.name)))
            .env_remove("WEIR_LOG")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        let log = self.folder.join(format!("{}.{}.log", self.name, self.starts));
        self.daemon = Some(Daemon::start(command, &log)?);
        Ok(())
    }

    /// Waits until it says that it is ready.
    pub fn wait_ready(&mut self) -> Result<()> {
        let daemon = self.daemon.as_mut().context("it was not started")?;
        let ready = wait_for(PATIENCE, || {
            anyhow::ensure!(daemon.ended()?.is_none(), "it ended");
            Ok(daemon.said().contains(r#""event":"ready""#).then_some(()))
        });
        ready.with_context(|| format!("{} did not get ready:\n{}", self.name, self.said()))
    }

    /// Starts it and waits until it is ready.
    pub fn start(&mut self) -> Result<()> {
        self.spawn()?;
        self.wait_ready()
    }

    /// Starts it anew below another program, which becomes it.
    pub fn run_within(&mut self, words: &[&str]) -> Result<()> {
        self.within = words.iter().map(|word| (*word).to_owned()).collect();
        self.stop(PATIENCE)?;
        self.start()
    }

    /// Its process id.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.daemon.as_ref().context("it does not run")?.pid())
    }

    /// Connections it holds to this address.
    ///
    /// # Errors
    /// If it does not run.
    pub fn connections_to(&self, address: SocketAddr) -> Result<usize> {
        let IpAddr::V4(ip) = address.ip() else {
            return Ok(0);
        };
        let peer = format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), address.port());
        let table = fs::read_to_string("/proc/net/tcp")?;
        // Columns: number, own address, peer, state (01: established), …, inode (the tenth).
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let there = rows.filter(|row| row.len() > 9 && row[2] == peer && row[3] == "01");
        let sockets = there.map(|row| format!("socket:[{}]", row[9])).collect::<BTreeSet<_>>();
        let own = fs::read_dir(format!("/proc/{}/fd", self.pid()?))?.filter_map(Result::ok);
        let own = own.filter_map(|entry| fs::read_link(entry.path()).ok());
        Ok(own.filter(|link| sockets.contains(&*link.to_string_lossy())).count())
    }

    /// Sends a signal without waiting.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.daemon.as_ref().context("it does not run")?.signal(signal)
    }

    /// SIGKILL; returns when the process is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.daemon.as_mut().context("it does not run")?.kill()
    }

    /// SIGTERM; returns when the process is gone.
    pub fn stop(&mut self, limit: Duration) -> Result<()> {
        self.daemon.as_mut().context("it does not run")?.terminate(limit)?;
        Ok(())
    }

    /// Its output since its last start.
    pub fn said(&self) -> String {
        self.daemon.as_ref().map(Daemon::said).unwrap_or_default()
    }

    /// The end of its output since its last start, for messages of failed tests.
    pub fn said_last(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

/// The answer of a door.
#[derive(Debug, Clone)]
pub struct Answer {
    /// curl's exit code; 0 if there was an answer of any kind.
    pub exit: Option<i32>,
    /// HTTP status; 0 without an answer.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The output of curl.
    pub fn of(run: &Run) -> Self {
        let (body, status) = run.stdout.rsplit_once('\n').unwrap_or(("", &run.stdout));
        Self {
            exit: run.code,
            status: status.parse().unwrap_or(0),
            body: body.to_owned(),
        }
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("no JSON: {self:?}"))
    }
}

/// One process of the transfer service.
#[derive(Debug, Clone, Default)]
pub struct NodeSettings {
    /// Of its files.
    pub name: String,
    /// Keys of its configuration, before all tables.
    pub keys: String,
    /// Tables of its configuration. They begin within `[[issuer]]`: the first lines may be keys of that. `{ISSUER}` stands for
    /// its URL, which nobody knows before it runs.
    pub tables: String,
    /// Whether its log says all that operators ever ask it to say.
    pub talks: bool,
    /// A program that runs it, with its arguments, if there is one.
    pub within: Vec<String>,
}

/// The tables, and that the addresses of tests may be connected to unless they say otherwise.
fn reaching_storages(tables: &str) -> String {
    let allow = "[copy]\nallow = [\"127.0.0.0/8\"]\n";
    match tables.split_once("[copy]\n") {
        Some((_, copy)) if copy.starts_with("allow = ") => tables.to_owned(),
        Some((before, copy)) => format!("{before}{allow}{copy}"),
        None => format!("{tables}\n{allow}"),
    }
}

/// Issuer, storages and transfer service in a folder of their own; all are killed when it goes.
#[derive(Debug)]
pub struct Services {
    /// The transfer service; of several nodes the first.
    pub transfer: Service,
    /// Further nodes.
    pub nodes: Vec<Service>,
    storages: BTreeMap<String, Service>,
    issuer: Service,
    secret: String,
    scratch: tempfile::TempDir,
}

impl Services {
    /// Configures and starts them; `transfer` has further tables of the transfer service's configuration.
    pub fn start(storages: &[StorageSettings], transfer: &str) -> Result<Self> {
        Self::start_with(storages, transfer, |_| Ok(()))
    }

    /// As [`Self::start`], with further files in the folder of all.
    pub fn start_with(
        storages: &[StorageSettings],
        transfer: &str,
        files: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let node = NodeSettings {
            name: "transfer".to_owned(),
            keys: "store = \"transfer.sqlite\"\n".to_owned(),
            tables: transfer.to_owned(),
            ..NodeSettings::default()
        };
        Self::start_nodes(storages, &[node], files)
    }

    /// As [`Self::start_with`], with these nodes of the transfer service, started one after the other.
    pub fn start_nodes(
        storages: &[StorageSettings],
        nodes: &[NodeSettings],
        files: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let folder = scratch.path();
        files(folder)?;
        let authority = CertificateAuthority::create(&folder.join("authority"))?;
        let mut random = [0; 32];
        fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let ground = Ground {
            folder,
            authority: &authority,
        };
        write_private(&folder.join("client.secret"), &secret)?;
        let mut issuer = ground.service("issuer", "issuer", (Ipv4Addr::new(127, 0, 7, 250), &[]), ISSUER)?;
        let trusted = format!(
            "[trust]\nfiles = [\"authority/ca.pem\"]\n[[issuer]]\nurl = \"{}\"\n",
            issuer.url
        );
        issuer.start()?;
        let mut running = BTreeMap::new();
        for (place, settings) in storages.iter().enumerate() {
            let address = Self::storage_address(place);
            let StorageSettings {
                name,
                areas,
                tpc,
                certified,
            } = settings;
            let allow = if tpc.starts_with("allow = ") {
                ""
            } else {
                "allow = [\"127.0.0.0/8\"]\n"
            };
            let tables = format!("{trusted}{areas}[tpc]\n{allow}{tpc}\n");
            let mut storage = ground.service("storage", name, (address, certified), ("", &tables))?;
            storage.start()?;
            running.insert(settings.name.clone(), storage);
        }
        let mut started = Vec::new();
        for (place, node) in nodes.iter().enumerate() {
            let address = Ipv4Addr::new(127, 0, 7, 251 + u8::try_from(place)?);
            let tables = reaching_storages(&node.tables).replace("{ISSUER}", &issuer.url);
            let tables = format!("{trusted}vo = \"test\"\n{tables}\n");
            let mut service = ground.service("transfer", &node.name, (address, &[]), (&node.keys, &tables))?;
            if node.talks {
                service.level = "debug";
            }
            service.within.clone_from(&node.within);
            service.start()?;
            started.push(service);
        }
        let nodes = started.split_off(1);
        let transfer = started.pop().context("a transfer service has a node")?;
        let services = Self {
            transfer,
            nodes,
            storages: running,
            issuer,
            secret,
            scratch,
        };
        let token = services.token("storage.read:/ storage.create:/ storage.modify:/")?;
        write_private(&services.file("header"), &format!("Authorization: Bearer {token}\n"))?;
        Ok(services)
    }

    /// The address of the storage at this place of the list.
    pub fn storage_address(place: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 7, u8::try_from(place + 1).expect("a test has few storages"))
    }

    /// A file in the folder of all.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A storage.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn storage(&self, name: &str) -> &Service {
        self.storages.get(name).expect("the test names one of its storages")
    }

    /// Any of the services by its name, to stop and start it: `issuer`, `transfer`, or a storage.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn service_mut(&mut self, name: &str) -> &mut Service {
        match name {
            "issuer" => &mut self.issuer,
            "transfer" => &mut self.transfer,
            storage => self.storage_mut(storage),
        }
    }

    /// A storage, to kill and start it.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn storage_mut(&mut self, name: &str) -> &mut Service {
        self.storages.get_mut(name).expect("the test names one of its storages")
    }

    /// The folder behind a storage's (or area's) URL.
    pub fn root(&self, name: &str) -> PathBuf {
        self.file(name)
    }

    /// The issuer, as tokens write it.
    pub fn issuer(&self) -> &str {
        &self.issuer.url
    }

    /// Starts the issuer anew with these further tables of its configuration.
    pub fn reconfigure_issuer(&mut self, tables: &str) -> Result<()> {
        self.issuer.stop(PATIENCE)?;
        let file = self.file("issuer.toml");
        let text = fs::read_to_string(&file)?;
        fs::write(&file, format!("{text}{tables}"))?;
        self.issuer.start()?;
        // A service that asked for its keys meanwhile answers 503 until it asks again.
        for service in self.storages.values().chain([&self.transfer]) {
            let knows_keys = || Ok((self.ask(&["-I", &service.url])?.status != 503).then_some(()));
            wait_for(PATIENCE, knows_keys).with_context(|| format!("{} has no keys", service.url))?;
        }
        Ok(())
    }

    /// curl that trusts the authority, says the status in a last line of its own, and has no token.
    pub fn bare_curl(&self) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-w", "\n%{http_code}", "--cacert"])
            .arg(self.file("authority/ca.pem"))
            .current_dir(self.scratch.path());
        curl
    }

    /// curl with the token.
    pub fn curl(&self) -> Command {
        let mut curl = self.bare_curl();
        curl.args(["-H", "@header"]);
        curl
    }

    /// Runs curl with the token.
    pub fn ask(&self, arguments: &[&str]) -> Result<Answer> {
        Ok(Answer::of(&run(self.curl().args(arguments))?))
    }

    fn upload(&self, content: &[u8], url: &str, status: u16) -> Result<()> {
        let file = tempfile::NamedTempFile::new_in(self.scratch.path())?;
        fs::write(file.path(), content)?;
        let name = file.path().to_str().context("the path is no text")?;
        let answer = self.ask(&["-T", name, url])?;
        anyhow::ensure!(answer.status == status, "upload to {url}: {answer:?}");
        Ok(())
    }

    /// Uploads a file.
    pub fn put(&self, content: &[u8], url: &str) -> Result<()> {
        self.upload(content, url, 201)
    }

    /// Uploads a file in the place of another one.
    pub fn replace(&self, content: &[u8], url: &str) -> Result<()> {
        self.upload(content, url, 204)
    }

    /// The curl that submits this job; its answer tells whether it was taken.
    pub fn submission(&self, name: &str, job: &Value) -> Result<Command> {
        self.submission_to(&self.transfer.url, name, job)
    }

    /// As [`Self::submission`], at this node.
    pub fn submission_to(&self, door: &str, name: &str, job: &Value) -> Result<Command> {
        let body = self.file(&format!("{name}.json"));
        fs::write(&body, job.to_string())?;
        let mut curl = self.curl();
        curl.args(["-H", "Content-Type: application/json", "-d"])
            .arg(format!("@{}", body.display()))
            .arg(format!("{door}/jobs"));
        Ok(curl)
    }

    /// Submits a job and gives its id.
    pub fn submit(&self, name: &str, job: &Value) -> Result<String> {
        let answer = Answer::of(&run(&mut self.submission(name, job)?)?);
        let id = answer.json()?["job_id"].as_str().map(str::to_owned);
        id.with_context(|| format!("not taken: {answer:?}"))
    }

    /// The files of a job, all keys.
    pub fn files(&self, job: &str) -> Result<Vec<Value>> {
        let answer = self.ask(&[&format!("{}/jobs/{job}/files", self.transfer.url)])?;
        let files = answer.json()?.as_array().cloned();
        files.with_context(|| format!("no files: {answer:?}"))
    }

    /// Waits until every file of the job has come to its end, and gives them.
    pub fn settled(&self, job: &str, limit: Duration) -> Result<Vec<Value>> {
        let mut last = Vec::new();
        let settled = wait_for(limit, || {
            last = self.files(job)?;
            Ok(last.iter().all(has_ended).then_some(()))
        });
        settled.with_context(|| format!("{last:#?}\n{}", self.transfer.said_last()))?;
        Ok(last)
    }
}

/// Whether a file object of the transfer service is in a state that is for good.
pub fn has_ended(file: &Value) -> bool {
    ["FINISHED", "FAILED", "CANCELED"]
        .iter()
        .any(|state| file["file_state"] == *state)
}

/// Visible files below a storage's folder, drafts apart.
pub fn visible_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(root) else {
        return files;
    };
    for entry in entries.filter_map(Result::ok) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && entry.file_name() == ".weir-private" => {}
            Ok(kind) if kind.is_dir() => files.extend(visible_files(&entry.path())),
            _ => files.push(entry.path()),
        }
    }
    files
}

/// Drafts in a storage's private folder, with their sizes.
pub fn drafts(root: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(root.join(".weir-private")).into_iter().flatten();
    let drafts = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name() != "lock");
    drafts
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())))
        .collect()
}

const ISSUER: (&str, &str) = (
    "key_directory = \"keys\"\n",
    "[[client]]\nid = \"tester\"\nsecret_file = \"client.secret\"\naudiences = [\"*\"]\nexchange = true\n\
    scopes = [\"storage.read:/\", \"storage.create:/\", \"storage.modify:/\"]\n",
);

/// The files that every service of a folder needs.
struct Ground<'a> {
    folder: &'a Path,
    authority: &'a CertificateAuthority,
}

impl Ground<'_> {
    /// Gives a service its address, certificate and configuration.
    fn service(
        &self,
        kind: &'static str,
        name: &str,
        (address, certified): (Ipv4Addr, &[Ipv4Addr]),
        (keys, tables): (&str, &str),
    ) -> Result<Service> {
        let port = free_port()?;
        let url = format!("https://{address}:{port}");
        let own = [address];
        let certified = if certified.is_empty() { &own } else { certified };
        let names: Vec<San> = certified.iter().map(|address| San::Ip((*address).into())).collect();
        let identity = self.authority.issue(&names, name)?;
        write_identity(&identity, &self.folder.join("identities"), name)?;
        let text = format!(
            "listen = \"{address}:{port}\"\nurl = \"{url}\"\n{keys}\
             [tls]\ncertificate = \"identities/{name}.pem\"\nkey = \"identities/{name}.key\"\n{tables}"
        );
        fs::write(self.folder.join(format!("{name}.toml")), text)?;
        Ok(Service {
            kind,
            name: name.to_owned(),
            folder: self.folder.to_owned(),
            url,
            environment: Vec::new(),
            daemon: None,
            starts: 0,
            level: "info",
            within: Vec::new(),
        })
    }
}

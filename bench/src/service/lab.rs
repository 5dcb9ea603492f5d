//! A transfer service, stubs of storages, and clients.

use std::{
    fmt::Write as _,
    net::Ipv4Addr,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use serde_json::Value;
use weir_auth::{
    SigningKey,
    ca::{CertificateAuthority, San, write_identity},
};
use weir_http::{Client, ClientConfig, TrustRoots, body};
use weir_tests::{Daemon, NodeSettings, Postgres, Services, wait_for};

use super::stub::{ADLER32, SIZE};

/// Two of 19,000 connections each are needed for as many copies and the looks beside them.
const STUBS: usize = 2;

/// Largest answer that is read.
const ANSWER_MAX: usize = 256 << 20;

/// Where the service keeps its jobs.
#[derive(Clone, Copy)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

pub(crate) struct ServiceLab {
    pub(crate) services: Services,
    /// `https://address:port` of each stub.
    pub(crate) stubs: Vec<String>,
    pub(crate) stub_pids: Vec<u32>,
    roots: PathBuf,
    bearer: HeaderValue,
    names: AtomicU64,
    _daemons: Vec<Daemon>,
    database: Option<Postgres>,
}

impl ServiceLab {
    /// A service with these tables beside the usual ones, over this store.
    pub(crate) fn up(tables: &str, store: Store) -> Result<Self> {
        match store {
            Store::Sqlite => Self::around(Services::start(&[], tables)?, None),
            Store::Postgres => Self::nodes(tables, &["any"]),
        }
    }

    /// A service of nodes with these roles, over PostgreSQL.
    pub(crate) fn nodes(tables: &str, roles: &[&str]) -> Result<Self> {
        let database = Postgres::durable()?;
        let node = |(place, role): (usize, &&str)| NodeSettings {
            name: format!("node{place}"),
            keys: "key_file = \"transfer.key\"\n".to_owned(),
            tables: format!("{tables}{}", database.table(role)),
            ..NodeSettings::default()
        };
        let nodes: Vec<_> = roles.iter().enumerate().map(node).collect();
        Self::around(Services::start_nodes(&[], &nodes, |_| Ok(()))?, Some(database))
    }

    fn around(services: Services, database: Option<Postgres>) -> Result<Self> {
        let authority = CertificateAuthority::load(&services.file("authority"))?;
        let (mut stubs, mut daemons) = (Vec::new(), Vec::new());
        for place in 0..STUBS {
            let address = Ipv4Addr::new(127, 0, 8, u8::try_from(place + 1)?);
            let port = weir_tests::free_port()?;
            let identity = authority.issue(&[San::Ip(address.into())], "stub")?;
            let name = format!("stub{place}");
            let (certificate, key) = write_identity(&identity, &services.file("identities"), &name)?;
            let mut command = Command::new(std::env::current_exe()?);
            command
                .arg("stub")
                .arg(format!("{address}:{port}"))
                .args([certificate, key]);
            daemons.push(Daemon::start(command, &services.file(&format!("{name}.log")))?);
            wait_for(Duration::from_secs(20), || {
                Ok(std::net::TcpStream::connect((address, port)).ok())
            })?;
            stubs.push(format!("https://{address}:{port}"));
        }
        let token = services.token("storage.read:/ storage.create:/ storage.modify:/")?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))?;
        bearer.set_sensitive(true);
        Ok(Self {
            roots: services.file("authority/ca.pem"),
            stub_pids: daemons.iter().map(Daemon::pid).collect(),
            services,
            stubs,
            bearer,
            names: AtomicU64::new(0),
            _daemons: daemons,
            database,
        })
    }

    /// A client with a pool of its own.
    pub(crate) fn client(&self) -> Result<Caller> {
        let mut config = ClientConfig::new(TrustRoots::file(&self.roots));
        config.response_timeout = Duration::from_secs(120);
        config.idle_per_host = 256;
        Ok(Caller {
            client: Client::new(config)?,
            bearer: self.bearer.clone(),
            service: self.services.transfer.url.clone(),
        })
    }

    /// A job of so many files that were never seen before, from the first stub to the second, each copied for so long.
    pub(crate) fn job(&self, files: u64, copy: Duration) -> Bytes {
        self.job_with("", files, copy, |_| String::new())
    }

    /// As [`Self::job`], copied in no time once they have come from tape.
    pub(crate) fn job_from_tape(&self, files: u64) -> Bytes {
        let params = r#","bring_online":3600,"copy_pin_lifetime":86400"#;
        self.job_with(params, files, Duration::ZERO, |_| String::new())
    }

    /// As [`Self::job`], each file with the next of these tokens for both sides.
    pub(crate) fn job_of_tokens(&self, files: u64, tokens: &Tokens) -> Bytes {
        self.job_with("", files, Duration::ZERO, |number| {
            let token = tokens.of(number);
            format!(r#","source_tokens":["{token}"],"destination_tokens":["{token}"]"#)
        })
    }

    fn job_with(&self, params: &str, files: u64, copy: Duration, keys: impl Fn(u64) -> String) -> Bytes {
        let first = self.names.fetch_add(files, Ordering::Relaxed);
        let mut text = String::with_capacity(512 * usize::try_from(files).unwrap_or(0));
        let _ = write!(text, r#"{{"params":{{"verify_checksum":"both"{params}}},"files":["#);
        for number in first..first + files {
            let comma = if number == first { "" } else { "," };
            let name = format!(
                "data25_13p6TeV/{:02x}/{:02x}/DAOD_PHYS.{number:09}.pool.root.1",
                number % 251,
                number % 241
            );
            let _ = write!(
                text,
                r#"{comma}{{"sources":["{}/src/{name}"],"destinations":["{}/dst/t{}/{name}"],"checksum":"ADLER32:{ADLER32}","filesize":{SIZE},"activity":"Production"{}}}"#,
                self.stubs[0],
                self.stubs[1],
                copy.as_millis(),
                keys(number)
            );
        }
        text.push_str("]}");
        text.into()
    }

    /// Files that jobs were made of so far.
    pub(crate) fn named(&self) -> u64 {
        self.names.load(Ordering::Relaxed)
    }

    /// The requests that a stub has seen.
    pub(crate) async fn seen(&self, caller: &Caller, stub: usize) -> Result<Value> {
        let request = Request::get(format!("{}/stats", self.stubs[stub])).body(body::empty())?;
        let (status, text) = caller.exchange(request).await?;
        ensure!(status == StatusCode::OK, "stub: {status}");
        Ok(serde_json::from_slice(&text)?)
    }

    /// Seconds of processor that the database has used; none without one.
    pub(crate) fn database_cpu(&self) -> f64 {
        let processes = self.database.iter().flat_map(Postgres::processes);
        // A process that ended meanwhile is not counted.
        processes
            .filter_map(|pid| cpu(pid.as_raw_nonzero().get().unsigned_abs()).ok())
            .sum()
    }

    pub(crate) fn service_pid(&self) -> Result<u32> {
        self.services.transfer.pid()
    }
}

/// Tokens as users bring them, of an issuer that nobody can ask: none of them needs it.
pub(crate) struct Tokens(Vec<String>);

impl Tokens {
    /// `iss` of them all.
    pub(crate) const ISSUER: &'static str = "https://127.0.0.1:1";

    /// So many different ones.
    pub(crate) fn new(distinct: u64) -> Result<Self> {
        let key = SigningKey::generate()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let token = |number: u64| {
            let claims = serde_json::json!({
                "wlcg.ver": "1.0", "iss": Self::ISSUER, "sub": "5f0b6a52-9b1c-4d5e-8f1a-2b3c4d5e6f70",
                "aud": "https://storage.example.org:8443", "iat": now, "nbf": now, "exp": now + 7 * 86_400,
                "jti": format!("{number:032}"), "client_id": "production",
                "scope": "storage.read:/atlas/rucio/data25_13p6TeV storage.modify:/atlas/rucio/data25_13p6TeV"
            });
            Ok(key.sign(&claims)?.expose().to_owned())
        };
        (0..distinct).map(token).collect::<Result<_>>().map(Self)
    }

    fn of(&self, number: u64) -> &str {
        &self.0[usize::try_from(number).unwrap_or(0) % self.0.len()]
    }
}

/// A client of the service.
#[derive(Clone)]
pub(crate) struct Caller {
    client: Client,
    bearer: HeaderValue,
    service: String,
}

impl Caller {
    /// The same, at another door.
    pub(crate) fn at(mut self, door: &str) -> Self {
        door.clone_into(&mut self.service);
        self
    }

    async fn exchange(&self, mut request: Request<weir_http::Body>) -> Result<(StatusCode, Bytes)> {
        request.headers_mut().insert(header::AUTHORIZATION, self.bearer.clone());
        let response = self.client.send(request).await?;
        let status = response.status();
        let text = body::read_limited(response.into_body(), ANSWER_MAX, Duration::from_secs(60)).await?;
        Ok((status, text))
    }

    /// Submits a job; gives its id.
    pub(crate) async fn submit(&self, job: Bytes) -> Result<String> {
        let request = Request::post(format!("{}/jobs", self.service))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body::full(job))?;
        let (status, text) = self.exchange(request).await?;
        let answer: Value = serde_json::from_slice(&text)?;
        ensure!(status == StatusCode::OK, "submission: {status} {answer}");
        Ok(answer["job_id"].as_str().context("no job_id")?.to_owned())
    }

    /// Tells the service something.
    pub(crate) async fn post(&self, path: &str, what: &Value) -> Result<()> {
        let request = Request::post(format!("{}{path}", self.service))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body::full(what.to_string()))?;
        let (status, text) = self.exchange(request).await?;
        ensure!(
            status.is_success(),
            "{path}: {status} {}",
            String::from_utf8_lossy(&text)
        );
        Ok(())
    }

    /// Whether anything new may start.
    pub(crate) async fn drain(&self, drain: bool) -> Result<()> {
        let host = self.service.trim_start_matches("https://");
        self.post(
            "/config/drain",
            &serde_json::json!({ "hostname": host, "drain": drain }),
        )
        .await
    }

    /// Asks the service for something; gives the answer as it came.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes> {
        let request = Request::get(format!("{}{path}", self.service)).body(body::empty())?;
        let (status, text) = self.exchange(request).await?;
        ensure!(status == StatusCode::OK, "{status}");
        Ok(text)
    }
}

/// Seconds of processor that a process has used (proc(5), fields 14 and 15, in hundredths).
pub(crate) fn cpu(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(')').context("no such process")?.1.split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    Ok(ticks / 100.0)
}

/// A figure in MiB of `/proc/PID/status`, such as `VmHWM`, and the number of open descriptors.
pub(crate) fn memory(pid: u32, figure: &str) -> Result<(f64, usize)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    let kib: f64 = line.context("no such figure")?.trim().trim_end_matches(" kB").parse()?;
    Ok((kib / 1024.0, std::fs::read_dir(format!("/proc/{pid}/fd"))?.count()))
}

/// Runs `ask` again and again until it gives something; asks each `pause`.
pub(crate) async fn until<T, F: Future<Output = Result<Option<T>>>>(
    limit: Duration,
    pause: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = ask().await? {
            return Ok(found);
        }
        ensure!(Instant::now() < end, "not within {} s", limit.as_secs());
        tokio::time::sleep(pause).await;
    }
}

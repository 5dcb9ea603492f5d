//! A catalogue's REST door, from the client's side: Rucio's, with a login by user name and password.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::Value;
use weir_auth::Secret;
use weir_http::{Client, ClientConfig, TrustRoots, body};

use crate::cli::CatalogArguments;
use crate::failure::{Exit, Failure};

/// The largest answer that is read.
const ANSWER_MAX: usize = 256 << 20;

/// Time for one exchange.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session at a catalogue.
pub(crate) struct CatalogClient {
    url: String,
    client: Client,
    account: String,
    token: Secret,
}

/// The settings of Rucio's client, section `client`.
type Settings = BTreeMap<String, String>;

impl CatalogClient {
    /// Logs in as the arguments, the environment and the configuration of Rucio's client say.
    pub(crate) async fn open(arguments: &CatalogArguments) -> Result<Self, Failure> {
        let settings = match &arguments.rucio_config {
            Some(path) => settings(path)?,
            None => Settings::new(),
        };
        let setting = |key: &str| settings.get(key).cloned();
        let needed = |what: &str, value: Option<String>, option: &str| {
            let error = || anyhow!("no {what} is named");
            let remedy = format!("name one with {option}, or a configuration of Rucio's client with RUCIO_CONFIG");
            value.ok_or_else(|| Failure::bad_input(error()).with_remedy(remedy))
        };
        let url = needed(
            "catalogue",
            arguments.catalog.clone().or_else(|| setting("rucio_host")),
            "--catalog",
        )?;
        let account = needed(
            "account",
            arguments.account.clone().or_else(|| setting("account")),
            "--account",
        )?;
        let user = needed("user", arguments.user.clone().or_else(|| setting("username")), "--user")?;
        let password = match &arguments.password_file {
            Some(path) => Some(Secret::read(path).with_context(|| format!("could not read {}", path.display()))?),
            None => setting("password").map(Secret::new),
        };
        let missing =
            || Failure::bad_input(anyhow!("no password is named")).with_remedy("name its file with --password-file");
        let password = password.ok_or_else(missing)?;
        let roots = match (&arguments.access.ca, setting("ca_cert")) {
            (None, Some(file)) => TrustRoots::file(file),
            _ => crate::trust::roots(&arguments.access)?,
        };
        let client = Client::new(ClientConfig::new(roots)).context("could not use the certificate authorities")?;
        let url = url.trim_end_matches('/').to_owned();
        let token = login(&client, &url, (&account, &user), &password).await?;
        Ok(Self {
            url,
            client,
            account,
            token,
        })
    }

    /// The account of the session.
    pub(crate) fn account(&self) -> &str {
        &self.account
    }

    /// One exchange that must work; its text.
    pub(crate) async fn text(&self, method: &str, path: &str, content: Option<&Value>) -> Result<String, Failure> {
        let failed = |what: &str| format!("{what} the catalogue {}", self.url);
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("X-Rucio-Auth-Token", self.token.expose())
            .body(content.map_or_else(body::empty, |content| body::full(content.to_string())))
            .with_context(|| format!("{} is no URL", self.url))
            .map_err(Failure::bad_input)?;
        let response = self.client.send_within(request, PATIENCE).await;
        let response = response.with_context(|| failed("could not reach"))?;
        let status = response.status().as_u16();
        let bytes = body::read_limited(response.into_body(), ANSWER_MAX, PATIENCE).await;
        let bytes = bytes.with_context(|| failed("could not read the answer of"))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if (200..300).contains(&status) {
            return Ok(text);
        }
        let told = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let message = weir_auth::peer_text(told["ExceptionMessage"].as_str().unwrap_or(&text));
        Err(refused(status, anyhow!("{} answered {status}: {message}", self.url)))
    }

    /// The same, as JSON.
    pub(crate) async fn json(&self, method: &str, path: &str, content: Option<&Value>) -> Result<Value, Failure> {
        let text = self.text(method, path, content).await?;
        let read =
            serde_json::from_str(&text).with_context(|| format!("could not understand the catalogue {}", self.url));
        Ok(read?)
    }

    /// The same, as rows: one JSON object in each line.
    pub(crate) async fn rows(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let text = self.text("GET", path, None).await?;
        let rows = text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<Vec<Value>, _>>();
        Ok(rows.with_context(|| format!("could not understand the catalogue {}", self.url))?)
    }
}

fn refused(status: u16, error: anyhow::Error) -> Failure {
    match status {
        401 => Failure::could_not_run(error)
            .with_remedy("see that account, user and password are right, and that the account may do this"),
        400 | 404 | 409 | 413 => Failure::bad_input(error),
        429 | 503 => Failure::could_not_run(error).with_remedy("try again later"),
        _ => Failure::could_not_run(error),
    }
}

async fn login(
    client: &Client,
    url: &str,
    (account, user): (&str, &str),
    password: &Secret,
) -> Result<Secret, Failure> {
    let request = http::Request::builder()
        .uri(format!("{url}/auth/userpass"))
        .header("X-Rucio-Account", account)
        .header("X-Rucio-Username", user)
        .header("X-Rucio-Password", password.expose())
        .body(body::empty());
    let request = request.context("the URL, the account, the user or the password has a strange character");
    let request = request.map_err(Failure::bad_input)?;
    let response = client.send_within(request, PATIENCE).await;
    let response = response.with_context(|| format!("could not reach the catalogue {url}"))?;
    let token = response
        .headers()
        .get("x-rucio-auth-token")
        .and_then(|token| token.to_str().ok());
    if let Some(token) = token {
        return Ok(Secret::new(token));
    }
    let status = response.status().as_u16();
    let error = anyhow!("{url} refused the login of {user} for the account {account}: {status}");
    Err(refused(status, error))
}

/// Reads a configuration as Python's `configparser` writes it.
fn settings(path: &Path) -> Result<Settings, Failure> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read {}", path.display()))
        .map_err(|error| {
            Failure::bad_input(error).with_remedy("see RUCIO_CONFIG, or name the catalogue with --catalog")
        })?;
    Ok(client_section(&text))
}

fn client_section(text: &str) -> Settings {
    let mut section = "";
    let mut settings = Settings::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if section == "client"
            && let Some((key, value)) = line.split_once(['=', ':'])
        {
            settings.insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    settings
}

/// `scope:name`, split.
pub(crate) fn did(text: &str) -> Result<(&str, &str), Failure> {
    let no_did = || Failure::bad_input(anyhow!("{text:?} is no DID")).with_remedy("write scope:name");
    text.split_once(':')
        .filter(|(scope, name)| !scope.is_empty() && !name.is_empty())
        .ok_or_else(no_did)
}

/// The exit of a command about rules: failure if any of them fails.
pub(crate) fn verdict(good: bool) -> Exit {
    if good { Exit::Done } else { Exit::VerdictFail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_rucios_client_is_read() {
        let text = "# a remark\n[common]\naccount = nobody\n[client]\nrucio_host = https://c:8447\nPassword: a=b:c\n\n[x]\naccount=y\n";
        let settings = client_section(text);
        assert_eq!(settings.get("rucio_host").map(String::as_str), Some("https://c:8447"));
        assert_eq!(settings.get("password").map(String::as_str), Some("a=b:c"));
        assert_eq!(settings.get("account"), None);
    }
}

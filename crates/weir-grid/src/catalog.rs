//! Tells the grid's catalogue of its RSEs, through its door, as an administrator would: at each start, so that RSEs come and go with the grid file.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use weir_auth::Secret;
use weir_http::{Client, body};
use weir_model::{Grid, Rse, RseKind};

use crate::GridError;
use crate::description::{CatalogDescription, GridDescription, KindDescription, RseDescription};

/// Longest wait for an answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// The largest answer that is read.
const ANSWER_MAX: usize = 16 << 20;

/// Calls at the same time: the catalogue makes them durable together.
const CALLS: usize = 32;

/// The account of the administrator.
pub(crate) const ROOT: &str = "root";

/// The attribute of RSEs that come from the grid file: its name.
const MARK: &str = "grid";

/// The class of Rucio's client that speaks WebDAV. It knows `https`, and no `davs`.
const IMPLEMENTATION: &str = "rucio.rse.protocols.webdav.Default";

/// A session of the account `root`.
struct Session<'a> {
    url: &'a str,
    client: &'a Client,
    token: String,
}

/// Adds the RSEs with their protocols and distances, and a scope with the VO's name.
pub(crate) async fn describe(
    grid: &Grid,
    description: &GridDescription,
    catalog: &CatalogDescription,
    client: &Client,
) -> Result<(), GridError> {
    let session = Session::open(catalog, client).await?;
    let pairs = grid.rses.iter().zip(&description.rses).collect::<Vec<_>>();
    let rses = pairs.iter().map(|(rse, shown)| session.add_rse(grid, rse, shown));
    at_once(rses).await?;
    let links = pairs
        .iter()
        .flat_map(|(from, _)| grid.rses.iter().map(move |to| (&from.name, &to.name)));
    let links = links.filter(|(from, to)| from != to).map(|(from, to)| {
        let path = format!("/rses/{from}/distances/{to}");
        session.add(Method::POST, path, json!({ "distance": 1 }))
    });
    at_once(links).await?;
    session.leave_out(grid).await?;
    session.add_identities(description).await?;
    // A VO's name may be none that a scope has; then people add scopes of their own.
    if grid.vo.to_string().parse::<weir_model::catalog::Scope>().is_ok() {
        let path = format!("/accounts/{ROOT}/scopes/{}", grid.vo);
        session.add(Method::POST, path, Value::Null).await?;
    }
    Ok(())
}

async fn at_once(calls: impl Iterator<Item = impl Future<Output = Result<(), GridError>>>) -> Result<(), GridError> {
    stream::iter(calls).buffer_unordered(CALLS).try_collect().await
}

impl<'a> Session<'a> {
    async fn open(catalog: &'a CatalogDescription, client: &'a Client) -> Result<Self, GridError> {
        let password = Secret::read(&catalog.password_file).map_err(|source| GridError::Access {
            path: catalog.password_file.clone(),
            source,
        })?;
        let request = Request::builder()
            .uri(format!("{}/auth/userpass", catalog.url))
            .header("X-Rucio-Account", ROOT)
            .header("X-Rucio-Username", &catalog.user)
            .header("X-Rucio-Password", password.expose())
            .body(body::empty());
        let request = request.map_err(|error| failed(error.into()))?;
        let response = client
            .send_within(request, PATIENCE)
            .await
            .map_err(|error| failed(error.into()))?;
        let token = response
            .headers()
            .get("x-rucio-auth-token")
            .and_then(|value| value.to_str().ok());
        let token = token.ok_or_else(|| failed(format!("the login was answered {}", response.status()).into()))?;
        Ok(Self {
            url: &catalog.url,
            client,
            token: token.to_owned(),
        })
    }

    /// One call, with its status and answer.
    async fn ask(&self, method: Method, path: &str, content: &Value) -> Result<(StatusCode, Vec<u8>), GridError> {
        let content = if content.is_null() {
            String::new()
        } else {
            content.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("X-Rucio-Auth-Token", &self.token)
            .body(body::full(content));
        let request = request.map_err(|error| failed(error.into()))?;
        let response = self
            .client
            .send_within(request, PATIENCE)
            .await
            .map_err(|error| failed(error.into()))?;
        let status = response.status();
        let answer = body::read_limited(response.into_body(), ANSWER_MAX, PATIENCE).await;
        let answer = answer.map_err(|error| failed(error.into()))?;
        Ok((status, answer.to_vec()))
    }

    /// A call that must be done, or have been done before.
    async fn add(&self, method: Method, path: String, content: Value) -> Result<(), GridError> {
        let (status, answer) = self.ask(method, &path, &content).await?;
        if status.is_success() || status == StatusCode::CONFLICT {
            return Ok(());
        }
        let said = weir_auth::peer_line(&answer);
        Err(failed(format!("{path} was answered {status}: {said}").into()))
    }

    /// The grid's user, by certificate, and its client, by tokens, may use the account `root`.
    async fn add_identities(&self, description: &GridDescription) -> Result<(), GridError> {
        let client = format!("SUB={}, ISS={}", description.client.id, description.issuer.url);
        let user = description.user.as_ref().map(|user| (user.dn.clone(), "X509"));
        for (identity, kind) in user.into_iter().chain([(client, "OIDC")]) {
            let identity = json!({ "identity": identity, "authtype": kind, "email": "", "default": true });
            self.add(Method::POST, format!("/accounts/{ROOT}/identities"), identity)
                .await?;
        }
        Ok(())
    }

    async fn add_rse(&self, grid: &Grid, rse: &Rse, shown: &RseDescription) -> Result<(), GridError> {
        let name = &rse.name;
        self.add(
            Method::POST,
            format!("/rses/{name}"),
            json!({ "deterministic": true, "rse_type": "DISK" }),
        )
        .await?;
        let is_writable = !matches!(rse.kind, RseKind::Embedded { read_only: true, .. });
        let availability = json!({
            "availability_read": true, "availability_write": is_writable, "availability_delete": is_writable,
        });
        self.add(Method::PUT, format!("/rses/{name}"), availability).await?;
        let tier = grid
            .sites
            .iter()
            .find(|site| site.name == rse.site)
            .map_or(0, |site| site.tier);
        let mut attributes = vec![
            (MARK, grid.name.to_string()),
            ("site", rse.site.to_string()),
            ("tier", tier.to_string()),
        ];
        if shown.kind == KindDescription::External {
            attributes.push(("audience", shown.audience.clone()));
        }
        if let RseKind::External {
            base_path: Some(base), ..
        } = &rse.kind
        {
            attributes.push(("oidc_base_path", format!("{base}/")));
        }
        for (key, value) in attributes {
            self.add(
                Method::POST,
                format!("/rses/{name}/attr/{key}"),
                json!({ "value": value }),
            )
            .await?;
        }
        self.set_protocol(name.as_str(), shown).await
    }

    /// The protocol at the RSE's present URL; another one from an earlier start goes.
    async fn set_protocol(&self, name: &str, shown: &RseDescription) -> Result<(), GridError> {
        let uri = shown.url.parse::<http::Uri>().map_err(|error| failed(error.into()))?;
        let scheme = uri.scheme_str().unwrap_or("https");
        let port = uri.port_u16().unwrap_or(443);
        let protocol = json!({
            "hostname": uri.host(), "port": port, "prefix": format!("{}/", uri.path().trim_end_matches('/')), "impl": IMPLEMENTATION,
            "domains": {
                "lan": { "read": 1, "write": 1, "delete": 1 },
                "wan": { "read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1 },
            },
        });
        let (_, known) = self.ask(Method::GET, &format!("/rses/{name}"), &Value::Null).await?;
        let known = serde_json::from_slice::<Value>(&known).unwrap_or_default();
        let keys = ["hostname", "port", "prefix", "impl"];
        let is_same = |one: &Value| one["scheme"] == scheme && keys.iter().all(|key| one[key] == protocol[key]);
        let all = known["protocols"].as_array().map(Vec::as_slice).unwrap_or_default();
        if all.iter().any(is_same) {
            return Ok(());
        }
        let path = format!("/rses/{name}/protocols/{scheme}");
        if all.iter().any(|one| one["scheme"] == scheme) {
            self.add(Method::DELETE, path.clone(), Value::Null).await?;
        }
        self.add(Method::POST, path, protocol).await
    }

    /// RSEs that left the grid file are not used any more; their replicas stay known.
    async fn leave_out(&self, grid: &Grid) -> Result<(), GridError> {
        let (status, answer) = self
            .ask(
                Method::GET,
                &format!("/rses/?expression={MARK}={}", grid.name),
                &Value::Null,
            )
            .await?;
        if !status.is_success() {
            return Ok(());
        }
        let present = grid.rses.iter().map(|rse| rse.name.as_str()).collect::<BTreeSet<_>>();
        for line in answer.split(|byte| *byte == b'\n') {
            let row = serde_json::from_slice::<Value>(line).unwrap_or_default();
            let Some(name) = row["rse"].as_str().filter(|name| !present.contains(name)) else {
                continue;
            };
            let availability =
                json!({ "availability_read": false, "availability_write": false, "availability_delete": false });
            self.add(Method::PUT, format!("/rses/{name}"), availability).await?;
        }
        Ok(())
    }
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> GridError {
    GridError::Start {
        door: "the catalogue".to_owned(),
        source,
    }
}

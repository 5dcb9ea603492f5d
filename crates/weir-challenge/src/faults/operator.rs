//! Tells the transfer service the limits that faults set, as its operator would.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use weir_auth::Secret;
use weir_grid::{EmbeddedGrid, TransferAccess, TransferCredential};
use weir_http::body;
use weir_model::Link;
use weir_plan::fault::{Amount, Course, Fault, FaultKind, FaultPlace, Level, Service, level_at};
use weir_plan::{Plan, Workload};

use crate::output::folder::RunFolder;

/// Time in which a transfer service decides, if it does so only so often.
const DECISION: Duration = Duration::from_millis(500);
/// Longest wait for an answer of the transfer service.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest answer that is read.
const ANSWER_MAX: usize = 1 << 20;
/// The path of the service's drain.
const DRAIN: &str = "/config/drain";
/// Scopes of a token that may set limits.
const SCOPES: &str = "fts fts:admin";

/// A client of the transfer service with the rights to set its limits.
pub(super) struct Operator {
    transfer: TransferAccess,
    /// Whether the transfer service is the grid's own; another one is not told anything.
    is_own: bool,
    /// `scheme://host` of each RSE, by which the transfer service knows it.
    hosts: BTreeMap<String, String>,
    /// The links of the plan.
    links: Vec<Link>,
    /// Limits that the service has been told, by fault: the path that takes each away.
    told: BTreeMap<String, Vec<String>>,
    /// The last answer to a fault's request that was no success.
    refused: BTreeMap<String, String>,
    /// The fault for which the service starts nothing now.
    drained: Option<String>,
    folder: Arc<RunFolder>,
}

impl Operator {
    pub(super) fn new(plan: &Plan, grid: &EmbeddedGrid, folder: &Arc<RunFolder>) -> Self {
        Self {
            transfer: grid.transfer().clone(),
            is_own: plan.grid.transfer_service.is_none(),
            hosts: hosts(grid),
            links: plan.workloads.iter().flat_map(Workload::links).cloned().collect(),
            told: BTreeMap::new(),
            refused: BTreeMap::new(),
            drained: None,
            folder: folder.clone(),
        }
    }

    /// Whether the transfer service lets limits be set.
    pub(super) fn is_obeyed(&self) -> bool {
        self.is_own
    }

    /// Why the service did not take what a fault asked of it, if it did not.
    pub(super) fn refusal(&self, fault: &str) -> Option<&str> {
        self.refused.get(fault).map(String::as_str)
    }

    /// Sets the limit of a fault at its level, or takes it away.
    pub(super) async fn tell(&mut self, fault: &Fault, level: Level) {
        let (FaultKind::Slots, Amount::Limit(limit)) = (fault.kind, fault.amount) else {
            return;
        };
        for undo in self.told.remove(&fault.name).unwrap_or_default() {
            self.ask(&fault.name, Method::DELETE, &undo, None).await;
        }
        if level <= 0.0 {
            return;
        }
        let limit = (f64::from(limit) / level).round() as u32;
        for (path, body, undo) in self.limits(&fault.place, limit) {
            self.ask(&fault.name, Method::POST, path, Some(body)).await;
            self.told.entry(fault.name.clone()).or_default().push(undo);
        }
    }

    /// Lets the service start nothing more, or go on: while it is down, and between two decisions where these are late.
    ///
    /// Without a moment the run is over.
    pub(super) async fn drain(&mut self, faults: &[(Fault, Course)], now: Option<Duration>) {
        let is_due =
            |(fault, course): &&(Fault, Course)| self.is_own && now.is_some_and(|now| is_drained(fault, course, now));
        let which = faults.iter().find(is_due).map(|(fault, _)| fault.name.clone());
        let was = std::mem::replace(&mut self.drained, which.clone());
        let (Some(fault), true) = (which.clone().or(was.clone()), which.is_some() != was.is_some()) else {
            return;
        };
        match self.exchange(Method::GET, "/config", None).await {
            Ok(hosts) => {
                let body = json!({ "hostname": hosts[0]["hostname"], "drain": which.is_some() });
                self.ask(&fault, Method::POST, DRAIN, Some(body)).await;
            }
            Err(error) => self.keep(&fault, error),
        }
    }

    fn keep(&mut self, fault: &str, error: String) {
        self.folder.log(&format!(
            "the fault {fault} could not be told to the transfer service: {error}"
        ));
        self.refused.insert(fault.to_owned(), error);
    }

    async fn ask(&mut self, fault: &str, method: Method, path: &str, body: Option<Value>) {
        if let Err(error) = self.exchange(method, path, body).await {
            self.keep(fault, error);
        }
    }

    /// The requests that set a limit at a place: path, body, and the path that takes it away.
    fn limits(&self, place: &FaultPlace, limit: u32) -> Vec<(&'static str, Value, String)> {
        match place {
            FaultPlace::Link(pattern) => {
                let links: BTreeSet<&Link> = self.links.iter().filter(|link| pattern.fits(link)).collect();
                let of = |link: &Link| {
                    let name = format!("fault-{}-{}", link.source, link.destination);
                    let host = |rse: &weir_model::RseName| self.hosts.get(rse.as_str()).cloned().unwrap_or_default();
                    let body = json!({
                        "symbolicname": name,
                        "source": host(&link.source),
                        "destination": host(&link.destination),
                        "max_active": limit,
                    });
                    ("/config/links", body, format!("/config/links/{name}"))
                };
                links.into_iter().map(of).collect()
            }
            FaultPlace::Rse(pattern, way) => {
                let hosts = self.hosts.iter().filter(|(name, _)| pattern.fits(name));
                let of = |(_, host): (&String, &String)| {
                    let mut info = serde_json::Map::new();
                    for (key, is_meant) in [
                        ("inbound_max_active", way.is_in()),
                        ("outbound_max_active", way.is_out()),
                    ] {
                        if is_meant {
                            info.insert(key.to_owned(), json!(limit));
                        }
                    }
                    let encoded: String =
                        percent_encoding::utf8_percent_encode(host, percent_encoding::NON_ALPHANUMERIC).to_string();
                    (
                        "/config/se",
                        json!({ host: { "se_info": info } }),
                        format!("/config/se?se={encoded}"),
                    )
                };
                hosts.map(of).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn exchange(&self, method: Method, path: &str, content: Option<Value>) -> Result<Value, String> {
        let token = self.token().await?;
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.transfer.url));
        request = request.header(http::header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let body = content.map_or_else(body::empty, |content| body::full(content.to_string()));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let answer = self.transfer.client.send_within(request, PATIENCE).await;
        let answer = answer.map_err(|error| weir_auth::error_chain(&error))?;
        if !answer.status().is_success() {
            return Err(format!("it answered {}", answer.status()));
        }
        let content = body::read_limited(answer.into_body(), ANSWER_MAX, PATIENCE)
            .await
            .map_err(|error| error.to_string())?;
        Ok(serde_json::from_slice(&content).unwrap_or_default())
    }

    async fn token(&self) -> Result<Option<Secret>, String> {
        match &self.transfer.credential {
            TransferCredential::Token { tokens, audience } => {
                let token = tokens.token(SCOPES, audience).await;
                token.map(Some).map_err(|error| weir_auth::error_chain(&error))
            }
            TransferCredential::Certificate(_) => Ok(None),
        }
    }
}

fn hosts(grid: &EmbeddedGrid) -> BTreeMap<String, String> {
    let host = |url: &str| {
        let origin = weir_grid::origin(url);
        let end = origin
            .rfind(':')
            .filter(|at| *at > origin.find("://").map_or(0, |scheme| scheme + 2));
        end.map_or(origin, |at| &origin[..at]).to_owned()
    };
    grid.description()
        .rses
        .iter()
        .map(|rse| (rse.name.clone(), host(&rse.url)))
        .collect()
}

/// Whether a fault lets the transfer service start nothing at a moment.
fn is_drained(fault: &Fault, course: &Course, now: Duration) -> bool {
    if level_at(course, now) <= 0.0 {
        return false;
    }
    match (fault.kind, fault.amount, &fault.place) {
        (FaultKind::Outage, _, FaultPlace::Service(Service::Transfer)) => true,
        (FaultKind::LateDecisions, Amount::Delay(delay), _) => {
            let since = now.saturating_sub(fault.at).as_nanos() % delay.as_nanos().max(1);
            since + DECISION.as_nanos() < delay.as_nanos()
        }
        _ => false,
    }
}

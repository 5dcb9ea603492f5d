//! What a node shows of itself and the others. Each figure is defined in `docs/metrics.md`.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use serde_json::{Value, json};
use weir_store::{
    blocking,
    postgres::{Peer, TERM},
};

use super::Membership;
use crate::store::StoreError;

/// Living nodes with the operations they carry out for the scheduler, and who that is.
struct Nodes {
    peers: Vec<Peer>,
    leases: BTreeMap<uuid::Uuid, i64>,
    scheduler: Option<String>,
}

async fn look(membership: &Arc<Membership>) -> Result<Nodes, StoreError> {
    let store = membership.store.clone();
    blocking(move || {
        Ok(Nodes {
            peers: store.members.peers()?,
            leases: store.leases()?.into_iter().collect(),
            scheduler: store.members.scheduler()?,
        })
    })
    .await
}

impl Nodes {
    fn schedules(&self, peer: &Peer) -> bool {
        self.scheduler.as_deref() == Some(peer.name.as_str())
    }

    fn leases(&self, peer: &Peer) -> i64 {
        self.leases.get(&peer.node.id).copied().unwrap_or_default()
    }
}

/// `HOST PID` of a name that says more.
fn short(name: &str) -> String {
    name.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Two nodes may have one name: containers often have one host name, and PID 1. Not one URL, unless an alias stands for all: then the id
/// tells them apart, which is another one after each start.
fn label(peer: &Peer) -> String {
    let (name, url, id) = (short(&peer.name), &peer.node.url, peer.node.id.simple());
    format!("{{node=\"{name}\",url=\"{url}\",id=\"{id}\"}}")
}

/// For Prometheus. Empty if the database does not answer.
pub(crate) async fn figures(membership: &Arc<Membership>, schedules: bool) -> String {
    let mut text = String::new();
    let mut figure = |name: &str, help: &str, lines: Vec<(String, i64)>| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in lines {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    figure(
        "weir_transfer_scheduler",
        "1 if this node is the scheduler",
        vec![(String::new(), i64::from(schedules))],
    );
    let Ok(nodes) = look(membership).await else { return text };
    let mut roles = BTreeMap::<&str, i64>::new();
    for peer in &nodes.peers {
        *roles.entry(peer.node.role.as_str()).or_default() += 1;
    }
    let roles = roles.iter().map(|(role, n)| (format!("{{role=\"{role}\"}}"), *n));
    figure("weir_transfer_nodes", "Nodes that live, by role", roles.collect());
    let leases = nodes.peers.iter().filter(|peer| peer.node.slots > 0);
    let leases = leases.map(|peer| (label(peer), nodes.leases(peer)));
    figure(
        "weir_transfer_leases",
        "Operations that nodes carry out for a scheduler elsewhere",
        leases.collect(),
    );
    text
}

/// For people and programs.
pub(crate) async fn list(membership: &Arc<Membership>) -> Result<Value, StoreError> {
    let nodes = look(membership).await?;
    let own = membership.node().id;
    let node = |peer: &Peer| {
        json!({
            "node": short(&peer.name),
            "url": peer.node.url,
            "role": peer.node.role,
            "scheduler": nodes.schedules(peer),
            "epoch": peer.node.epoch,
            "leases": nodes.leases(peer),
            "slots": peer.node.slots,
            "given": membership.is_given(peer.node.id),
            "this": peer.node.id == own,
        })
    };
    Ok(json!({
        "term_seconds": TERM.as_secs(),
        "nodes": nodes.peers.iter().map(node).collect::<Vec<_>>(),
    }))
}

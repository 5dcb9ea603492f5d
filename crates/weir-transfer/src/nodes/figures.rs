//! Metrics of a node and of the other nodes. Each is defined in `docs/metrics-transfer.md`.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use weir_service::metrics::{Kind, Page};
use weir_store::{
    blocking,
    postgres::{Peer, TERM},
};

use super::Membership;
use crate::store::StoreError;

/// Living nodes with the operations that they run for the scheduler, and the scheduler's node.
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

/// For the service's page. Of the other nodes nothing, if the database does not answer.
pub async fn show(page: &mut Page, membership: &Arc<Membership>, schedules: bool) {
    let help = "1 if this node is the scheduler";
    page.single("weir_transfer_scheduler", Kind::Gauge, help, u32::from(schedules));
    let Ok(nodes) = look(membership).await else { return };
    let mut roles = BTreeMap::<&str, u64>::new();
    for peer in &nodes.peers {
        *roles.entry(peer.node.role.as_str()).or_default() += 1;
    }
    page.family("weir_transfer_nodes", Kind::Gauge, "Nodes that live, by role");
    for (role, count) in roles {
        page.sample(&[("role", role)], count);
    }
    let help = "Operations that nodes carry out for a scheduler elsewhere";
    page.family("weir_transfer_leases", Kind::Gauge, help);
    for peer in nodes.peers.iter().filter(|peer| peer.node.slots > 0) {
        // Two nodes may have one name: containers often have one host name, and PID 1. Not one URL, unless an alias stands for all: then
        // the id tells them apart, which is another one after each start.
        let (name, id) = (short(&peer.name), peer.node.id.simple().to_string());
        let labels = [("node", name.as_str()), ("url", &peer.node.url), ("id", &id)];
        page.sample(&labels, nodes.leases(peer));
    }
}

/// For people and programs.
pub async fn list(membership: &Arc<Membership>) -> Result<Value, StoreError> {
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

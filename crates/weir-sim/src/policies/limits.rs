//! Differences between the limits of the imitation of FTS and those given to Weir.

use crate::scene::{LinkScene, Scene, Storage};
use crate::sim_plan::SimPlan;

/// Says where they differ, one text each; nothing where none does.
pub(crate) fn imitation_limits(plan: &SimPlan, scene: &Scene) -> Vec<String> {
    let fts = &plan.sim.fts;
    let mut texts = Vec::new();
    let is_lower = |link: &&LinkScene| plan.sim.link(&link.link).max_active.unwrap_or(fts.link_max) < link.max_active;
    let (n_links, all) = (scene.links.iter().filter(is_lower).count(), scene.links.len());
    if n_links > 0 {
        texts.push(format!("at most {} on {n_links} of {all} links", fts.link_max));
    }
    let own: [fn(&Storage) -> Option<u32>; 2] = [|se| se.model.max_active_in, |se| se.model.max_active_out];
    for (direction, name) in ["into", "out of"].into_iter().enumerate() {
        let is_other = |storage: &&Storage| {
            let told = storage.max_active[direction];
            own[direction](storage).unwrap_or(told.min(fts.se_max)) != told
        };
        let (n_other, all) = (scene.storages.iter().filter(is_other).count(), scene.storages.len());
        if n_other > 0 {
            texts.push(format!(
                "at most {} {name} {n_other} of {all} storage elements",
                fts.se_max
            ));
        }
    }
    let told: u64 = scene.links.iter().map(|link| u64::from(link.max_active)).sum();
    if u64::from(fts.url_copy_max) < told {
        texts.push(format!("at most {} in all", fts.url_copy_max));
    }
    texts
}

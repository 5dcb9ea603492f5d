//! The split of a new configuration: keys that apply while the endpoint serves, and keys that need a restart.

use crate::config::{AreaConfig, Sockets, StorageConfig};

/// The configuration to serve from now on, and a sentence for each key of the new one that needs a restart.
pub(super) fn settle(now: &StorageConfig, new: StorageConfig) -> (StorageConfig, Vec<String>) {
    let mut waiting = Vec::new();
    let mut config = new;
    if config.listen != now.listen {
        waiting.push(wait("listen", &format!("it goes on to be {}", now.listen)));
        config.listen = now.listen;
    }
    if config.url != now.url {
        waiting.push(wait("url", "clients and tokens know the endpoint by the one of before"));
        config.url.clone_from(&now.url);
    }
    if config.tls.is_some() != now.tls.is_some() {
        waiting.push(wait("tls", "whether connections are encrypted stays as it is"));
        config.tls.clone_from(&now.tls);
        config.x509.clone_from(&now.x509);
        config.tokens.clone_from(&now.tokens);
    }
    for key in left_out(&now.sockets, &config.sockets) {
        waiting.push(wait(
            &format!("sockets.{key}"),
            "the former value stays in force, now that the key is left out",
        ));
    }
    if config.limits.memory != now.limits.memory {
        waiting.push(wait("limits.memory", "transfers in hand count on what there is"));
        config.limits.memory = now.limits.memory;
    }
    if config.limits.checksum_readers != now.limits.checksum_readers {
        waiting.push(wait("limits.checksum_readers", "each has its memory from the start"));
        config.limits.checksum_readers = now.limits.checksum_readers;
    }
    config.areas = areas(&now.areas, &config.areas, &mut waiting);
    (config, waiting)
}

/// The areas that are served, each as its new table says, as far as that goes.
fn areas(now: &[AreaConfig], new: &[AreaConfig], waiting: &mut Vec<String>) -> Vec<AreaConfig> {
    for added in new
        .iter()
        .filter(|area| now.iter().all(|known| known.name != area.name))
    {
        waiting.push(wait("area", &format!("area {} is not served yet", added.name)));
    }
    let settled = now.iter().map(|known| {
        let Some(new) = new.iter().find(|area| area.name == known.name) else {
            waiting.push(wait("area", &format!("area {} is still served", known.name)));
            return known.clone();
        };
        if new.prefix != known.prefix {
            let text = format!("all of area {} stays as it was, at {}", known.name, known.prefix);
            waiting.push(wait("area.prefix", &text));
            return known.clone();
        }
        if new.root != known.root {
            let text = format!("area {} stays in {}", known.name, known.root.display());
            waiting.push(wait("area.root", &text));
        }
        AreaConfig {
            root: known.root.clone(),
            create_root: known.create_root,
            mount: known.mount.clone(),
            ..new.clone()
        }
    });
    settled.collect()
}

/// The former settings that are left out now: the kernel does not reveal its defaults.
fn left_out(now: &Sockets, new: &Sockets) -> Vec<&'static str> {
    let keys = [
        ("congestion", now.congestion.is_some() && new.congestion.is_none()),
        ("pacing", now.pacing.is_some() && new.pacing.is_none()),
        (
            "receive_buffer",
            now.receive_buffer.is_some() && new.receive_buffer.is_none(),
        ),
        ("send_buffer", now.send_buffer.is_some() && new.send_buffer.is_none()),
    ];
    keys.into_iter().filter(|(_, gone)| *gone).map(|(key, _)| key).collect()
}

fn wait(key: &str, what: &str) -> String {
    format!("{key} changes with a restart only: {what}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use weir_units::Bytes;

    use super::*;

    fn config() -> StorageConfig {
        let area = |name: &str| AreaConfig::new(name, format!("/{name}").parse().unwrap(), format!("/data/{name}"));
        StorageConfig::new("127.0.0.1:0".parse().unwrap(), vec![area("a"), area("b")])
    }

    /// A file would be looked for in a directory that is not open, or an operator would trust a setting that is not in
    /// force.
    #[test]
    fn a_key_that_needs_a_restart_stays_and_is_named() {
        let now = config();
        let mut new = config();
        new.listen = "127.0.0.1:1".parse().unwrap();
        new.url = Some("https://elsewhere".to_owned());
        new.areas[0].root = "/other".into();
        new.areas[0].quota = Some(Bytes(5));
        new.areas[1].name = "c".to_owned();
        new.limits.copies = 7;
        new.limits.memory = Bytes(1 << 30);
        let (settled, waiting) = settle(&now, new);
        let keys: Vec<_> = waiting.iter().map(|text| text.split(' ').next().unwrap()).collect();
        assert_eq!(
            keys,
            ["listen", "url", "limits.memory", "area", "area.root", "area"],
            "{waiting:?}"
        );
        assert_eq!(settled.listen, now.listen);
        assert_eq!(settled.url, None);
        let shown: Vec<_> = settled
            .areas
            .iter()
            .map(|area| (area.name.as_str(), area.root.to_str().unwrap()))
            .collect();
        assert_eq!(shown, [("a", "/data/a"), ("b", "/data/b")]);
        assert_eq!(settled.areas[0].quota, Some(Bytes(5)), "the rest of the table counts");
        assert_eq!(settled.limits.copies, 7);
    }

    /// Nothing would be heard of settings that the kernel keeps.
    #[test]
    fn settings_of_sockets_that_are_left_out_are_named() {
        let (mut now, new) = (config(), config());
        now.sockets.pacing = Some(Bytes(1));
        let (_, waiting) = settle(&now, new);
        assert!(
            waiting.len() == 1 && waiting[0].starts_with("sockets.pacing "),
            "{waiting:?}"
        );
        assert_eq!(settle(&config(), config()).1, Vec::<String>::new());
    }
}

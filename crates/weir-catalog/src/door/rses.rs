//! RSEs.

use std::collections::{BTreeMap, HashMap};

use aws_lc_rs::rand;
use axum::extract::{Path, Query};
use serde_json::{Map, Value, json};
use weir_database::Session;
use weir_model::{RseName, catalog::RseType};
use weir_rules::ids::RseId;
use weir_service::time;
use weir_store::StoreError;

use super::{
    State,
    accounts::{as_bool, as_text},
    answer::{Answer, Failure, created, date, done, json_answer, lines},
    body::{Object, missing},
    caller::Caller,
};
use crate::{
    permissions::Operation,
    refusal::{Class, Refusal},
    rses::{
        self, Described, Rse, Traits, attributes, distances,
        protocols::{self, Endpoint, Priorities, Protocol},
        space::{self, SpaceUsage},
    },
};

/// Properties of a new RSE that become attributes.
const ABOUT: [&str; 8] = [
    "city",
    "region_code",
    "country_name",
    "continent",
    "time_zone",
    "ISP",
    "ASN",
    "qos_class",
];

pub(super) fn name(text: &str) -> Result<RseName, Failure> {
    let invalid = |error| Refusal::new(Class::InvalidObject, format!("Problem validating rse: {error}")).into();
    text.parse::<RseName>().map_err(invalid)
}

/// Reads with an RSE.
async fn read<T: Send + 'static>(
    door: &State,
    rse: &str,
    work: impl Fn(&mut dyn Session, &Rse) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Failure> {
    let rse = name(rse)?;
    let read = move |session: &mut dyn Session| {
        let found = rses::get(session, &rse)?;
        work(session, &found)
    };
    Ok(door.database.read(read).await?)
}

/// Changes an RSE, as an administrator.
async fn write(
    door: &State,
    caller: Caller,
    rse: &str,
    work: impl Fn(&mut dyn Session, &Rse) -> Result<(), StoreError> + Send + 'static,
) -> Result<(), Failure> {
    let rse = name(rse)?;
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeRses, None)?;
        let found = rses::get(session, &rse)?;
        work(session, &found)
    };
    Ok(door.database.write(write).await?)
}

fn protocol(one: &Protocol) -> Value {
    let priorities = one.priorities;
    let off = |priority: Option<u32>| priority.unwrap_or_default();
    let extended = one
        .extended
        .as_deref()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({
        "scheme": one.endpoint.scheme, "hostname": one.endpoint.hostname, "port": one.endpoint.port, "prefix": one.prefix,
        "impl": one.implementation, "extended_attributes": extended,
        "domains": {
            "lan": { "read": off(priorities.lan_read), "write": off(priorities.lan_write), "delete": off(priorities.lan_delete) },
            "wan": {
                "read": off(priorities.wan_read), "write": off(priorities.wan_write), "delete": off(priorities.wan_delete),
                "third_party_copy_read": off(priorities.tpc_read), "third_party_copy_write": off(priorities.tpc_write),
            },
        },
    })
}

/// An RSE with its protocols, as clients read it before they transfer.
fn shown(rse: &Rse, attributes: &BTreeMap<String, String>, protocols: &[Protocol]) -> Value {
    let traits = &rse.traits;
    let attribute = |key: &str| attributes.get(key).map(|value| as_bool(value));
    json!({
        "id": rse.uid, "rse": rse.name, "rse_type": traits.kind, "deterministic": traits.deterministic, "volatile": traits.volatile,
        "staging_area": traits.staging_area, "availability_read": traits.can_read, "availability_write": traits.can_write,
        "availability_delete": traits.can_delete, "credentials": null, "domain": ["lan", "wan"],
        "lfn2pfn_algorithm": attribute("lfn2pfn_algorithm").unwrap_or(json!("hash")),
        "verify_checksum": attribute("verify_checksum").unwrap_or(json!(true)),
        "sign_url": attribute("sign_url"), "qos_class": attribute("qos_class"),
        "protocols": protocols.iter().map(protocol).collect::<Vec<_>>(),
    })
}

fn whole(session: &mut dyn Session, rse: &Rse) -> Result<Value, StoreError> {
    let (attributes, protocols) = (attributes::of(session, rse.id)?, protocols::of(session, rse.id)?);
    Ok(shown(rse, &attributes, &protocols))
}

/// `GET /rses/{rse}`.
pub(crate) async fn get(door: State, _: Caller, Path(rse): Path<String>) -> Answer {
    let mut found = read(&door, &rse, whole).await?;
    let flag = |key: &str, bit: u8| if found[key] == json!(true) { bit } else { 0 };
    let availability = flag("availability_read", 4) | flag("availability_write", 2) | flag("availability_delete", 1);
    found["availability"] = json!(availability);
    Ok(json_answer(&found))
}

/// `GET /rses/{rse}/protocols/{scheme}`: the RSE with its protocols, whatever the scheme, as Rucio answers.
pub(crate) async fn get_of_scheme(door: State, _: Caller, Path((rse, _)): Path<(String, String)>) -> Answer {
    Ok(json_answer(&read(&door, &rse, whole).await?))
}

/// `GET /rses/`.
pub(crate) async fn list(door: State, _: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let expression = query.get("expression").cloned();
    let with_expression = expression.is_some();
    let read = move |session: &mut dyn Session| match &expression {
        Some(expression) => rses::matching(session, expression),
        None => rses::list(session),
    };
    let found = door.database.read(read).await?;
    let row = |one: &Described| {
        if with_expression {
            return json!({ "rse": one.rse.name });
        }
        let mut row = shown(&one.rse, &one.attributes, &[]);
        row["created_at"] = json!(date(one.rse.created));
        row["updated_at"] = json!(date(one.rse.updated));
        row
    };
    Ok(lines(found.iter().map(row)))
}

/// The properties of an RSE in a body; `traits` gives the others.
fn told(body: &Object, mut traits: Traits) -> Result<Traits, Failure> {
    if let Some(text) = body.text("rse_type")? {
        let kind = text.parse::<RseType>();
        traits.kind = kind.map_err(|error| Failure::value(error.to_string()))?;
    }
    for (key, flag) in [
        ("deterministic", &mut traits.deterministic),
        ("volatile", &mut traits.volatile),
        ("staging_area", &mut traits.staging_area),
        ("availability_read", &mut traits.can_read),
        ("availability_write", &mut traits.can_write),
        ("availability_delete", &mut traits.can_delete),
    ] {
        if let Some(value) = body.flag(key)? {
            *flag = value;
        }
    }
    Ok(traits)
}

/// `POST /rses/{rse}`.
pub(crate) async fn add(door: State, caller: Caller, Path(rse): Path<String>, body: Object) -> Answer {
    let (rse, now) = (name(&rse)?, time::now());
    let traits = told(&body, Traits::default())?;
    let mut about = Vec::new();
    for key in ABOUT {
        if let Some(value) = body.value(key) {
            about.push((key, as_text(Some(value))?));
        }
    }
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeRses, None)?;
        let id = rses::add(session, (&rse, &uid()?), &traits, now)?;
        about
            .iter()
            .try_for_each(|(key, value)| attributes::set(session, id, key, value))
    };
    door.database.write(write).await?;
    Ok(created())
}

/// A random number of 32 hexadecimal digits.
pub(crate) fn uid() -> Result<String, StoreError> {
    let mut random = [0_u8; 16];
    rand::fill(&mut random).map_err(|_| StoreError::Broken("the system gives no random bytes".into()))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// `PUT /rses/{rse}`.
pub(crate) async fn change(door: State, caller: Caller, Path(rse): Path<String>, body: Object) -> Answer {
    let now = time::now();
    let new_name = body.text("name")?.map(name).transpose()?;
    // Wrong values are refused before the RSE is looked for.
    told(&body, Traits::default())?;
    write(&door, caller, &rse, move |session, found| {
        let traits = told(&body, found.traits.clone()).unwrap_or_else(|_| found.traits.clone());
        let name = new_name.as_ref().unwrap_or(&found.name);
        rses::change(session, found.id, (name, &traits), now)
    })
    .await?;
    Ok(created())
}

/// `DELETE /rses/{rse}`.
pub(crate) async fn delete(door: State, caller: Caller, Path(rse): Path<String>) -> Answer {
    let now = time::now();
    write(&door, caller, &rse, move |session, found| {
        rses::delete(session, found.id, now)
    })
    .await?;
    Ok(done())
}

/// `GET /rses/{rse}/attr/`.
pub(crate) async fn attributes(door: State, _: Caller, Path(rse): Path<String>) -> Answer {
    let found = read(&door, &rse, |session, found| attributes::of(session, found.id)).await?;
    let shown = found.iter().map(|(key, value)| (key.clone(), as_bool(value)));
    let own = [(rse, Value::Bool(true))];
    Ok(json_answer(&shown.chain(own).collect::<Map<_, _>>()))
}

/// `POST /rses/{rse}/attr/{key}`.
pub(crate) async fn set_attribute(
    door: State,
    caller: Caller,
    Path((rse, key)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let value = as_text(body.value("value"))?;
    write(&door, caller, &rse, move |session, found| {
        attributes::set(session, found.id, &key, &value)
    })
    .await?;
    Ok(created())
}

/// `DELETE /rses/{rse}/attr/{key}`.
pub(crate) async fn remove_attribute(door: State, caller: Caller, Path((rse, key)): Path<(String, String)>) -> Answer {
    write(&door, caller, &rse, move |session, found| {
        attributes::remove(session, found.id, &key)
    })
    .await?;
    Ok(done())
}

/// `GET /rses/{rse}/protocols`.
pub(crate) async fn protocols(door: State, _: Caller, Path(rse): Path<String>) -> Answer {
    let found = read(&door, &rse, |session, found| protocols::of(session, found.id)).await?;
    Ok(json_answer(&found.iter().map(protocol).collect::<Vec<_>>()))
}

fn port(number: i64) -> Result<u16, Failure> {
    u16::try_from(number).map_err(|_| Failure::value(format!("{number} is no port")))
}

/// A protocol from a body; the endpoint may be in the path instead.
fn read_protocol(body: &Object, scheme: &str, at: Option<(&str, u16)>) -> Result<Protocol, Failure> {
    let (hostname, number) = if let Some((host, port)) = at {
        (host.to_owned(), port)
    } else {
        let number = body.number("port")?.unwrap_or_default();
        (body.needed("hostname")?.to_owned(), port(number)?)
    };
    let domains = body.object("domains")?;
    let (lan, wan) = (domains.object("lan")?, domains.object("wan")?);
    let priority = |domain: &Object, key: &str| {
        // 0 is off.
        let number = domain.number(key)?.filter(|number| *number > 0);
        number
            .map(|number| u32::try_from(number).map_err(|_| Failure::value(format!("{number} is no priority"))))
            .transpose()
    };
    Ok(Protocol {
        endpoint: Endpoint {
            scheme: scheme.to_owned(),
            hostname,
            port: number,
        },
        prefix: body.text("prefix")?.unwrap_or_default().to_owned(),
        implementation: body.text("impl")?.unwrap_or_default().to_owned(),
        extended: body.value("extended_attributes").map(Value::to_string),
        priorities: Priorities {
            lan_read: priority(&lan, "read")?,
            lan_write: priority(&lan, "write")?,
            lan_delete: priority(&lan, "delete")?,
            wan_read: priority(&wan, "read")?,
            wan_write: priority(&wan, "write")?,
            wan_delete: priority(&wan, "delete")?,
            tpc_read: priority(&wan, "third_party_copy_read")?,
            tpc_write: priority(&wan, "third_party_copy_write")?,
        },
    })
}

/// `POST /rses/{rse}/protocols/{scheme}`.
pub(crate) async fn add_protocol(
    door: State,
    caller: Caller,
    Path((rse, scheme)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let new = read_protocol(&body, &scheme, None)?;
    write(&door, caller, &rse, move |session, found| {
        protocols::add(session, found.id, &new)
    })
    .await?;
    Ok(created())
}

/// `PUT /rses/{rse}/protocols/{scheme}/{host}/{port}`. Keys that the body lacks keep their values.
pub(crate) async fn change_protocol(
    door: State,
    caller: Caller,
    Path((rse, scheme, host, number)): Path<(String, String, String, u16)>,
    body: Object,
) -> Answer {
    let told = read_protocol(&body, &scheme, Some((&host, number)))?;
    write(&door, caller, &rse, move |session, found| {
        let known = protocols::of(session, found.id)?;
        let known = known.into_iter().find(|one| one.endpoint == told.endpoint);
        let missing = || Refusal::new(Class::RseProtocolNotSupported, "The RSE has no such protocol");
        let mut changed = known.ok_or_else(missing)?;
        if body.value("prefix").is_some() {
            changed.prefix.clone_from(&told.prefix);
        }
        if body.value("impl").is_some() {
            changed.implementation.clone_from(&told.implementation);
        }
        if body.value("extended_attributes").is_some() {
            changed.extended.clone_from(&told.extended);
        }
        if body.value("domains").is_some() {
            changed.priorities = told.priorities;
        }
        protocols::change(session, found.id, &changed)
    })
    .await?;
    Ok(done())
}

/// `DELETE /rses/{rse}/protocols/{scheme}[/{host}[/{port}]]`.
pub(crate) async fn remove_protocols(door: State, caller: Caller, Path(path): Path<HashMap<String, String>>) -> Answer {
    let part = |key: &str| path.get(key).cloned();
    let (rse, scheme, host) = (
        part("rse").unwrap_or_default(),
        part("scheme").unwrap_or_default(),
        part("host"),
    );
    let number = match part("port") {
        None => None,
        Some(text) => Some(port(
            text.parse().map_err(|_| Failure::value(format!("{text} is no port")))?,
        )?),
    };
    write(&door, caller, &rse, move |session, found| {
        protocols::remove(session, found.id, &scheme, (host.as_deref(), number))
    })
    .await?;
    Ok(done())
}

/// `GET /rses/{rse}/limits`.
pub(crate) async fn limits(door: State, _: Caller, Path(rse): Path<String>) -> Answer {
    let found = read(&door, &rse, |session, found| space::limits(session, found.id)).await?;
    Ok(json_answer(&found.into_iter().collect::<BTreeMap<_, _>>()))
}

/// `PUT /rses/{rse}/limits`.
pub(crate) async fn set_limit(door: State, caller: Caller, Path(rse): Path<String>, body: Object) -> Answer {
    let limit = body.needed("name")?.to_owned();
    let value = body.number("value")?.ok_or_else(|| missing("value"))?;
    write(&door, caller, &rse, move |session, found| {
        space::set_limit(session, found.id, &limit, value)
    })
    .await?;
    Ok(done())
}

/// `DELETE /rses/{rse}/limits`.
pub(crate) async fn remove_limit(door: State, caller: Caller, Path(rse): Path<String>, body: Object) -> Answer {
    let limit = body.needed("name")?.to_owned();
    write(&door, caller, &rse, move |session, found| {
        space::remove_limit(session, found.id, &limit)
    })
    .await?;
    Ok(done())
}

/// `GET /rses/{rse}/usage`.
pub(crate) async fn usage(
    door: State,
    _: Caller,
    Path(rse): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let source = query.get("source").cloned();
    let found = read(&door, &rse, |session, found| {
        Ok((found.uid.clone(), space::usage(session, found.id)?))
    });
    let (uid, reports) = found.await?;
    let wanted = reports
        .iter()
        .filter(|one| source.as_ref().is_none_or(|source| *source == one.source));
    let row = |one: &SpaceUsage| {
        let total = one.free.map(|free| free + one.used);
        json!({
            "rse": rse, "rse_id": uid, "source": one.source, "used": one.used, "free": one.free, "total": total, "files": one.files,
            "updated_at": date(one.updated),
        })
    };
    Ok(lines(wanted.map(row)))
}

/// `PUT /rses/{rse}/usage`.
pub(crate) async fn set_usage(door: State, caller: Caller, Path(rse): Path<String>, body: Object) -> Answer {
    let size = |key: &str| {
        let number = body.number(key)?;
        let negative = |_| Failure::value(format!("'{key}' is negative"));
        number.map(|number| u64::try_from(number).map_err(negative)).transpose()
    };
    let usage = SpaceUsage {
        source: body.needed("source")?.to_owned(),
        used: size("used")?.ok_or_else(|| missing("used"))?,
        free: size("free")?,
        files: size("files")?,
        updated: time::now(),
    };
    write(&door, caller, &rse, move |session, found| {
        space::set_usage(session, found.id, &usage)
    })
    .await?;
    Ok(done())
}

/// The numbers of two RSEs.
fn both(session: &mut dyn Session, source: &Rse, destination: &RseName) -> Result<(RseId, Rse), StoreError> {
    Ok((source.id, rses::get(session, destination)?))
}

/// `GET /rses/{rse}/distances/{destination}`.
pub(crate) async fn distances(door: State, _: Caller, Path((rse, destination)): Path<(String, String)>) -> Answer {
    let destination = name(&destination)?;
    let found = read(&door, &rse, move |session, source| {
        let (from, to) = both(session, source, &destination)?;
        let distance = distances::get(session, from, to.id)?;
        let row = |distance: u32| {
            json!({
                "src_rse": source.name, "src_rse_id": source.uid, "dest_rse": to.name, "dest_rse_id": to.uid, "distance": distance,
                "ranking": distance, "created_at": date(source.created), "updated_at": date(source.updated),
            })
        };
        Ok(distance.map(row).into_iter().collect::<Vec<_>>())
    });
    Ok(json_answer(&found.await?))
}

/// `POST` and `PUT /rses/{rse}/distances/{destination}`.
pub(crate) async fn set_distance(
    door: State,
    caller: Caller,
    method: http::Method,
    Path((rse, destination)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let (destination, both_ways) = (name(&destination)?, body.flag("bidirectional")?.unwrap_or_default());
    let distance = body.number("distance")?.or(body.number("ranking")?).unwrap_or_default();
    let distance = u32::try_from(distance).map_err(|_| Failure::value(format!("{distance} is no distance")))?;
    write(&door, caller, &rse, move |session, source| {
        let (from, to) = both(session, source, &destination)?;
        distances::set(session, from, to.id, distance)?;
        if both_ways {
            distances::set(session, to.id, from, distance)?;
        }
        Ok(())
    })
    .await?;
    Ok(if method == http::Method::POST {
        created()
    } else {
        done()
    })
}

/// `DELETE /rses/{rse}/distances/{destination}`.
pub(crate) async fn remove_distance(
    door: State,
    caller: Caller,
    Path((rse, destination)): Path<(String, String)>,
) -> Answer {
    let destination = name(&destination)?;
    write(&door, caller, &rse, move |session, source| {
        let (from, to) = both(session, source, &destination)?;
        distances::remove(session, from, to.id)
    })
    .await?;
    Ok(done())
}

//! JSON schemas of the answers, by name.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{
    Affected, AuditEntry, Delegation, ErrorAnswer, File, Group, Health, Host, HostActivity, Job, Link, LinkState,
    LinkWaits, ListedFile, NotForced, Queue, Retry, ServiceDocument, Share, Stat, Submission, Submitted, TransferState,
    WhoAmI,
};

/// Where a description in OpenAPI keeps its schemas.
const PLACE: &str = "/components/schemas";

/// All schemas: those of the types, and those of lists of them.
pub fn schemas() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = PLACE.into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut all = Map::new();
    macro_rules! add {
        ($($name:literal: $type:ty,)*) => {
            $(all.insert($name.to_owned(), generator.subschema_for::<$type>().to_value());)*
        };
    }
    add! {
        "Any": Value,
        "Object": Map<String, Value>,
        "Array": Vec<Value>,
        "Boolean": bool,
        "Integer": i64,
        "Strings": Vec<String>,
        "Error": ErrorAnswer,
        "ServiceDocument": ServiceDocument,
        "WhoAmI": WhoAmI,
        "Delegation": Delegation,
        "Submitted": Submitted,
        "Jobs": Vec<Job>,
        "Files": Vec<File>,
        "Retries": Vec<Retry>,
        "Affected": Affected,
        "WhyLink": LinkState,
        "WhyWaits": Vec<LinkWaits>,
        "WhyFile": TransferState,
        "WhyFiles": Vec<TransferState>,
        "HostActivity": HostActivity,
        "Hosts": Vec<Host>,
        "AuditEntries": Vec<AuditEntry>,
        "Link": Link,
        "Links": Vec<Link>,
        "Shares": Vec<Share>,
        "Group": Group,
        "Groups": Vec<Group>,
        "Listing": std::collections::BTreeMap<String, ListedFile>,
        "Stat": Stat,
        "NotForced": Vec<NotForced>,
        "Health": Health,
        "Queues": Vec<Queue>,
        "Submission": Submission,
    }
    all.insert(
        "JobOrJobs".to_owned(),
        json!({ "oneOf": [reference("Job"), reference("Jobs")] }),
    );
    for (name, schema) in generator.take_definitions(true) {
        all.insert(name, schema);
    }
    all
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#{PLACE}/{name}") })
}

/// The schema of a submission alone, with all parts inside.
pub fn submission() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<Submission>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(name)) = object.get("$ref") {
                    found.push(name.clone());
                }
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let all = schemas();
        let mut found = Vec::new();
        references(&Value::Object(all.clone()), &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let name = reference.trim_start_matches("#/components/schemas/");
            assert!(
                all.get(name).is_some_and(|schema| schema["$ref"] != reference),
                "{reference}"
            );
        }
    }

    #[test]
    fn keys_of_a_job_may_be_left_out_and_those_of_a_link_may_not() {
        let all = schemas();
        assert!(all["Job"].get("required").is_none() && all["File"].get("required").is_none());
        let link = all["Link"]["required"].as_array().map_or(0, Vec::len);
        assert_eq!(link, 10, "{:?}", all["Link"]);
    }
}

//! Filters of searches, as Rucio's clients write them: a list of which one has to match, each with keys that all have to.
//!
//! A key may end in an operator: `length.gte`. Texts may have the wildcard `*`. Nothing of a filter becomes SQL: rows are compared here.

mod literal;

use serde_json::{Map, Value};
use weir_model::catalog::DidType;

/// Conditions of one search, at most.
const CONDITIONS_MAX: usize = 64;

/// A filter. Without conditions everything matches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// One of these has to match.
    any: Vec<Vec<Condition>>,
    /// The types that it is about, if it says so: the key `type`.
    pub kinds: Option<Kinds>,
}

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    key: String,
    operator: Operator,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The types of DIDs that a search is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// Datasets and containers.
    Collections,
    /// One type.
    Only(DidType),
    /// Every type.
    All,
}

impl std::str::FromStr for Kinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "all" => Ok(Self::All),
            "collection" => Ok(Self::Collections),
            "dataset" => Ok(Self::Only(DidType::Dataset)),
            "container" => Ok(Self::Only(DidType::Container)),
            "file" => Ok(Self::Only(DidType::File)),
            _ => Err(format!(
                "{text:?} is no type of DID; there is all, collection, dataset, container, file"
            )),
        }
    }
}

impl Kinds {
    /// Whether this type is among them.
    pub fn has(self, kind: DidType) -> bool {
        match self {
            Self::All => true,
            Self::Collections => kind != DidType::File,
            Self::Only(only) => kind == only,
        }
    }
}

impl Filter {
    /// Reads a filter: a list of dictionaries, or one, as Python or JSON writes them.
    ///
    /// # Errors
    /// A sentence that names the error.
    pub fn read(text: &str) -> Result<Self, String> {
        let groups = match literal::read(text)? {
            Value::Array(groups) => groups,
            one => vec![one],
        };
        let mut kinds = None;
        let group = |group: &Value| match group {
            Value::Object(keys) => {
                let mut keys = keys.clone();
                if let Some(kind) = keys.remove("type") {
                    kinds = Some(kind.as_str().unwrap_or_default().parse()?);
                }
                conditions(&keys)
            }
            _ => Err("a filter is a dictionary of keys and values".to_owned()),
        };
        let any = groups.iter().map(group).collect::<Result<Vec<_>, _>>()?;
        let filter = Self { any, kinds };
        filter.check()?;
        Ok(filter)
    }

    /// Adds conditions that all have to match: keys and texts of a query, as older clients write filters.
    ///
    /// # Errors
    /// A sentence that names the error.
    pub fn and(&mut self, keys: &Map<String, Value>) -> Result<(), String> {
        let conditions = conditions(keys)?;
        if conditions.is_empty() {
            return Ok(());
        }
        if self.any.is_empty() {
            self.any.push(Vec::new());
        }
        for all in &mut self.any {
            all.extend(conditions.iter().cloned());
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let n_conditions = self.any.iter().map(Vec::len).sum::<usize>();
        if n_conditions > CONDITIONS_MAX || self.any.len() > CONDITIONS_MAX {
            return Err(format!("a filter has at most {CONDITIONS_MAX} conditions"));
        }
        Ok(())
    }

    /// Whether keys and values match.
    pub fn matches(&self, row: &Map<String, Value>) -> bool {
        self.any.is_empty() || self.any.iter().any(|all| all.iter().all(|one| one.matches(row)))
    }

    /// The beginning that all names share that match.
    pub fn prefix(&self) -> String {
        let of_group = |all: &Vec<Condition>| {
            let name = all
                .iter()
                .find(|one| one.key == "name" && one.operator == Operator::Equal);
            let pattern = name.and_then(|one| one.value.as_str()).unwrap_or_default();
            pattern.split('*').next().unwrap_or_default().to_owned()
        };
        let mut prefixes = self.any.iter().map(of_group);
        let first = prefixes.next().unwrap_or_default();
        prefixes.fold(first, |shared, next| {
            let same = shared.chars().zip(next.chars()).take_while(|(a, b)| a == b);
            same.map(|(a, _)| a).collect()
        })
    }
}

fn conditions(keys: &Map<String, Value>) -> Result<Vec<Condition>, String> {
    let condition = |(key, value): (&String, &Value)| {
        let (key, operator) = match key.as_str() {
            "created_after" => ("created_at", Operator::GreaterOrEqual),
            "created_before" => ("created_at", Operator::LessOrEqual),
            key => match key.split_once('.') {
                None => (key, Operator::Equal),
                Some((key, operator)) => (key, self::operator(operator)?),
            },
        };
        if !value.is_string() && !value.is_number() && !value.is_boolean() && !value.is_null() {
            return Err(format!("the value of {key} is neither text nor number"));
        }
        let is_pattern = value.as_str().is_some_and(|text| text.contains('*'));
        if is_pattern && !matches!(operator, Operator::Equal | Operator::NotEqual) {
            return Err("wildcards stand with equality only".to_owned());
        }
        Ok(Condition {
            key: key.to_owned(),
            operator,
            value: value.clone(),
        })
    };
    keys.iter().map(condition).collect()
}

fn operator(text: &str) -> Result<Operator, String> {
    Ok(match text {
        "" | "eq" => Operator::Equal,
        "ne" => Operator::NotEqual,
        "lt" => Operator::Less,
        "lte" => Operator::LessOrEqual,
        "gt" => Operator::Greater,
        "gte" => Operator::GreaterOrEqual,
        _ => return Err(format!("{text:?} is no operator; there is ne, lt, lte, gt, gte")),
    })
}

impl Condition {
    fn matches(&self, row: &Map<String, Value>) -> bool {
        let found = row.get(&self.key).unwrap_or(&Value::Null);
        match self.operator {
            Operator::Equal => self.equals(found),
            Operator::NotEqual => !self.equals(found),
            _ => {
                let Some(order) = order(found, &self.value) else {
                    return false;
                };
                match self.operator {
                    Operator::Less => order.is_lt(),
                    Operator::LessOrEqual => order.is_le(),
                    Operator::Greater => order.is_gt(),
                    _ => order.is_ge(),
                }
            }
        }
    }

    fn equals(&self, found: &Value) -> bool {
        match (found, &self.value) {
            (Value::String(found), Value::String(pattern)) => is_like(found, pattern),
            // The command line writes every value as text.
            (Value::Bool(found), Value::String(text)) => text.eq_ignore_ascii_case(&found.to_string()),
            (_, Value::String(text)) if text == "*" => true,
            (Value::Null, wanted) => wanted.is_null(),
            _ => order(found, &self.value).is_some_and(std::cmp::Ordering::is_eq) || *found == self.value,
        }
    }
}

/// Whether a text is as the pattern says, in which `*` stands for any text.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The order of two values: numbers by size, also where one is a text; texts, and so times, by their characters.
fn order(one: &Value, other: &Value) -> Option<std::cmp::Ordering> {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.partial_cmp(&other),
        _ => Some(one.as_str()?.cmp(other.as_str()?)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use serde_json::json;

    use super::*;

    fn matches(filter: &str, row: &Value) -> bool {
        Filter::read(filter).unwrap().matches(row.as_object().unwrap())
    }

    #[test]
    fn filters_match_as_rucios_do() {
        let row = json!({ "name": "data18.raw", "project": "data18", "run_number": 7, "length": null, "hidden": false,
            "created_at": "2026-11-26T05:00:00" });
        for yes in [
            "[]",
            "[{}]",
            "[{'name': 'data*'}]",
            "[{'name': '*18*w'}]",
            "{'name': 'data18.raw'}",
            "[{'name': 'x'}, {'project': 'data18', 'run_number': '7'}]",
            "[{'run_number.gte': 7, 'run_number.lt': '8'}]",
            "[{'project.ne': 'mc*'}]",
            "[{'created_after': '2026-11-01T00:00:00'}]",
            "[{'hidden': 'False'}]",
            "[{'length': None}]",
        ] {
            assert!(matches(yes, &row), "{yes}");
        }
        for no in [
            "[{'name': 'data'}]",
            "[{'name': 'data18.raw*x'}]",
            "[{'name': 'DATA*'}]",
            "[{'project': 'data18', 'run_number.gt': 7}]",
            "[{'length.gt': 1}]",
            "[{'created_before': '2026-11-01T00:00:00'}]",
            "[{'nothing': 'x'}]",
            "[{'name': \"' OR 1=1 --\"}]",
        ] {
            assert!(!matches(no, &row), "{no}");
        }
    }

    #[test]
    fn an_invalid_filter_is_refused() {
        for bad in ["[1]", "[{'a.like': 1}]", "[{'a': [1]}]", "[{'a.gt': 'x*'}]", "x"] {
            assert!(Filter::read(bad).is_err(), "{bad}");
        }
        let many = format!("[{}]", "{'a': 1},".repeat(CONDITIONS_MAX + 1));
        assert!(Filter::read(&many).unwrap_err().contains("at most"));
    }

    #[test]
    fn keys_of_a_query_are_conditions_too() {
        let mut filter = Filter::read("[{'project': 'a'}, {'project': 'b'}]").unwrap();
        filter
            .and(json!({ "name": "x*", "run_number.gt": "6" }).as_object().unwrap())
            .unwrap();
        let matches = |row: &Value| filter.matches(row.as_object().unwrap());
        assert!(matches(&json!({ "project": "b", "name": "xy", "run_number": 7 })));
        assert!(!matches(&json!({ "project": "b", "name": "xy", "run_number": 6 })));
        assert!(!matches(&json!({ "project": "c", "name": "xy", "run_number": 7 })));
        let mut none = Filter::default();
        none.and(&Map::new()).unwrap();
        assert!(none.matches(&Map::new()));
        none.and(json!({ "name": "x" }).as_object().unwrap()).unwrap();
        assert_eq!((none.matches(&Map::new()), none.prefix().as_str()), (false, "x"));
        assert!(none.and(json!({ "name.like": "x" }).as_object().unwrap()).is_err());
    }

    #[test]
    fn a_filter_may_name_the_type() {
        let filter = Filter::read("[{'type': 'all', 'name': '*'}]").unwrap();
        assert_eq!(filter.kinds, Some(Kinds::All));
        assert!(filter.matches(json!({ "name": "x" }).as_object().unwrap()));
        assert!(Filter::read("[{'type': 'none'}]").is_err());
    }

    #[test]
    fn names_share_a_prefix() {
        let prefix = |text: &str| Filter::read(text).unwrap().prefix();
        assert_eq!(prefix("[{'name': 'data*x'}]"), "data");
        assert_eq!(prefix("[{'name': 'data1'}, {'name': 'dat*'}]"), "dat");
        assert_eq!(prefix("[{'name': 'data1'}, {'project': 'x'}]"), "");
        assert_eq!(prefix("[]"), "");
    }
}

//! From a fault to the table that reads back to it.

use serde::Serialize;
use toml::{Table, Value};
use weir_units::duration;

use super::place::{FaultPlace, Way};
use super::shape::Shape;
use super::spec::{Amount, Fault};

/// Writes a fault as a table of a challenge file.
pub(crate) fn write(fault: &Fault) -> Table {
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| {
        table.insert(key.to_owned(), value);
    };
    let time = |time| Value::from(duration::format(time));
    put("kind", fault.kind.as_str().into());
    put("name", fault.name.as_str().into());
    put(fault.place.key(), fault.place.name().into());
    if let FaultPlace::Rse(_, way) | FaultPlace::Site(_, way) = fault.place
        && way != Way::Both
    {
        put("way", way.as_str().into());
    }
    put("at", time(fault.at));
    if let Some(length) = fault.length {
        put("for", time(length));
    }
    match fault.amount {
        Amount::Whole => {}
        Amount::Rate(rate) => put("rate", rate.to_string().into()),
        Amount::Delay(delay) => put("delay", time(delay)),
        Amount::Share(share) => put("share", share.into()),
        Amount::Limit(limit) => put("limit", limit.into()),
        Amount::Size(size) => put("size", size.to_string().into()),
        Amount::Factor(factor) => put("factor", factor.into()),
    }
    match fault.shape {
        Shape::Step => {}
        Shape::Ramp(rise) => {
            put("shape", "ramp".into());
            put("rise", time(rise));
        }
        Shape::Periodic(period, on) => {
            put("shape", "periodic".into());
            put("period", time(period));
            put("on", on.into());
        }
        Shape::Flapping(period) => {
            put("shape", "flapping".into());
            put("period", time(period));
        }
    }
    let details = &fault.details;
    let texts = [
        ("error", details.error.clone()),
        ("mode", details.mode.map(|mode| mode.as_str().to_owned())),
        ("above", details.above.map(|size| size.to_string())),
        ("to", details.to.clone()),
        ("rate", details.rate.map(|rate| rate.to_string())),
        ("delay", details.delay.map(duration::format)),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            put(key, text.into());
        }
    }
    if let Some(server) = details.server {
        put("server", server.into());
    }
    table
}

/// A fault is written as the table of the challenge file that describes it.
impl Serialize for Fault {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self).serialize(serializer)
    }
}

//! The keys of `[[fault]]`.

use weir_model::file::{Key, Table};

pub(crate) const FAULT: Table = Table {
    title: "[[fault]]",
    keys: &[
        Key::new(
            "kind",
            "kind",
            "required",
            "What breaks: one of the [kinds](fault-kinds.md).",
        ),
        Key::new(
            "name",
            "name",
            "the kind",
            "Its name in the report; no two faults share one.",
        ),
        Key::new("at", "duration", "`0 s`", "When it begins, from the start of the run."),
        Key::new("for", "duration", "to the end", "How long it lasts."),
        Key::new(
            "rse",
            "RSE or pattern",
            "one place",
            "The storage elements at which it acts.",
        ),
        Key::new(
            "site",
            "site or pattern",
            "one place",
            "The sites at whose connections it acts.",
        ),
        Key::new(
            "link",
            "`\"A->B\"`, patterns",
            "one place",
            "The links on which it acts.",
        ),
        Key::new(
            "segment",
            "name",
            "one place",
            "The segment or group of `[sim]` on which it acts; only simulated.",
        ),
        Key::new(
            "service",
            "`transfer`, `issuer` or `catalog`",
            "one place",
            "The service on which it acts.",
        ),
        Key::new(
            "workload",
            "workload or pattern",
            "one place",
            "The workloads on which it acts.",
        ),
        Key::new(
            "way",
            "`in`, `out` or `both`",
            "`both`",
            "The direction, as seen from the storage element or the site.",
        ),
        Key::new("rate", "rate", "by kind", "The rate that is left, or that others take."),
        Key::new("delay", "duration", "by kind", "The time that is added."),
        Key::new(
            "share",
            "number",
            "by kind",
            "The share of cases, above 0 and at most 1.",
        ),
        Key::new("limit", "number", "by kind", "The number that is allowed."),
        Key::new("size", "size", "by kind", "The size that is left."),
        Key::new("factor", "number", "by kind", "What there was is multiplied by this."),
        Key::new(
            "error",
            "error class",
            "by kind",
            "The class of the errors: a key of `failures`.",
        ),
        Key::new(
            "mode",
            "`pull`, `push` or `streamed`",
            "any",
            "Only copies in this mode fail.",
        ),
        Key::new("above", "size", "any", "Only files above this size fail."),
        Key::new("server", "number", "by kind", "The server, from 1."),
        Key::new(
            "to",
            "name",
            "by kind",
            "The segment that traffic takes instead of its own.",
        ),
        Key::new(
            "shape",
            "`step`, `ramp`, `periodic` or `flapping`",
            "`step`",
            "How it comes and goes.",
        ),
        Key::new(
            "rise",
            "duration",
            "all its time",
            "For a ramp: the time in which it rises.",
        ),
        Key::new(
            "period",
            "duration",
            "required",
            "For `periodic` and `flapping`: the time from one begin to the next; with `flapping` the mean of drawn ones.",
        ),
        Key::new(
            "on",
            "number",
            "0.5",
            "For `periodic`: the share of each period in which it is on.",
        ),
    ],
};

//! Every key of the tables about the simulated world.

use weir_model::file::{Key, Table};

pub(crate) const SIM: Table = Table {
    title: "[sim]",
    keys: &[
        Key::new(
            "start",
            "moment",
            "none",
            "When the run begins in the world's own calendar, in UTC: `\"2024-02-12T00:00:00Z\"`; without it times are told from T+0.",
        ),
        Key::new(
            "assumed",
            "list of texts",
            "none",
            "Parameters of this world that were not measured and that a result depends on, in words: every comparison prints them.",
        ),
        Key::new(
            "tick",
            "duration",
            "`0 s`",
            "Changes within this time are taken together; `0 s` takes each at its own moment. Large grids need it: 1 s at 1,000 links.",
        ),
        Key::new(
            "targets",
            "list of workloads",
            "all",
            "Workloads whose asked rates the policy `weir-targets` knows.",
        ),
        Key::new(
            "injection_interval",
            "duration",
            "a quarter of the cycle",
            "How often due files are injected, those of a link all at once, each link at its own phase: a coarse one makes the comb of 15 minutes that data challenges know.",
        ),
        Key::new(
            "marker_interval",
            "duration",
            "`0 s`",
            "How often one transfer of each link reports how far it is; `0 s` for never: then a scheduler learns from ends alone.",
        ),
        Key::new(
            "startup",
            "duration",
            "`500 ms`",
            "Time that each attempt takes before bytes move, beside its round trips.",
        ),
        Key::new("handshakes", "number", "4", "Round trips before bytes move."),
        Key::new(
            "finalization",
            "duration",
            "`500 ms`",
            "Time for closing, size and checksum after the last byte.",
        ),
        Key::new(
            "rtt_exponent",
            "number",
            "0.5",
            "Streams share a bottleneck by 1 ÷ RTT to this power: 1 for Reno, 0.3 to 0.5 for CUBIC, 0 for equal shares.",
        ),
        Key::new(
            "stall_timeout",
            "duration",
            "`3 m`",
            "After this time without a byte an attempt fails.",
        ),
        Key::new(
            "streamed_rate",
            "rate",
            "unlimited",
            "What all streamed copies together get at most: their bytes go through the transfer service's own host.",
        ),
        Key::new(
            "fixed_active",
            "number",
            "20",
            "Transfers per link of the policy `fixed`.",
        ),
        Key::new("store", "`[sim.store]`", "as below", "The transfer service's store."),
        Key::new(
            "tokens",
            "`[sim.tokens]`",
            "none",
            "The token service; without it tokens cost nothing, unless the grid file has tokens per file and a slow issuer.",
        ),
        Key::new(
            "signals",
            "`[sim.signals]`",
            "all, exactly",
            "What the services tell of the waits of transfers.",
        ),
        Key::new("fts", "`[sim.fts]`", "as below", "The imitation of FTS."),
        Key::new(
            "catalog",
            "`weir` or `rucio`",
            "`weir`",
            "The catalogue that keeps the rules: Weir's, or a model of Rucio's daemons. `--catalog` overrides it.",
        ),
        Key::new("rucio", "`[sim.rucio]`", "as below", "The model of Rucio's daemons."),
        Key::new(
            "activity",
            "list of `[[sim.activity]]`",
            "none",
            "Urgency and shares of activities, the same for every policy.",
        ),
        Key::new(
            "segment",
            "list of `[[sim.segment]]`",
            "none",
            "Pieces of the network that links share.",
        ),
        Key::new(
            "group",
            "list of `[[sim.group]]`",
            "none",
            "What several storage elements share.",
        ),
        Key::new("site", "list of `[[sim.site]]`", "none", "The sites' connections."),
        Key::new("rse", "list of `[[sim.rse]]`", "none", "The storage elements."),
        Key::new("link", "list of `[[sim.link]]`", "none", "The links."),
    ],
};

pub(crate) const STORE: Table = Table {
    title: "[sim.store]",
    keys: &[
        Key::new(
            "latency",
            "duration",
            "`5 ms`",
            "Time for one commit; records that arrive meanwhile go into the next.",
        ),
        Key::new(
            "freezes",
            "list of tables",
            "none",
            "Times in which nothing is committed.",
        ),
    ],
};

pub(crate) const INTERVAL: Table = Table {
    title: "freezes = [{ … }], outages = [{ … }]",
    keys: &[
        Key::new("at", "duration", "required", "Its begin, from the start of the run."),
        Key::new("length", "duration", "required", "Its length."),
    ],
};

pub(crate) const TOKENS: Table = Table {
    title: "[sim.tokens]",
    keys: &[
        Key::new("rate", "number", "required", "Tokens per second, in all."),
        Key::new("latency", "duration", "`50 ms`", "Time for one token without queue."),
        Key::new(
            "per_attempt",
            "number",
            "2",
            "Tokens that each attempt needs: one for either end.",
        ),
    ],
};

pub(crate) const ACTIVITY: Table = Table {
    title: "[[sim.activity]]",
    keys: &[
        Key::new("activity", "text", "required", "The activity, as a workload names it."),
        Key::new("priority", "number", "3", "From 1 to 5, the most urgent."),
        Key::new("share", "number", "1", "Its share beside other activities."),
    ],
};

pub(crate) const SEGMENT: Table = Table {
    title: "[[sim.segment]]",
    keys: &[
        Key::new("name", "name", "required", "Its name; links name it under `via`."),
        Key::new(
            "capacity",
            "rate",
            "required",
            "Its capacity, in the direction of the links that use it.",
        ),
        Key::new(
            "background",
            "rate",
            "`0 b/s`",
            "Traffic on it that is not ours, on average.",
        ),
        Key::new(
            "background_variation",
            "number",
            "0",
            "How far that traffic moves about its average, from 0 to 1; drawn anew every ten minutes.",
        ),
        Key::new("changes", "list of tables", "none", "Later capacities."),
    ],
};

pub(crate) const CHANGE: Table = Table {
    title: "changes = [{ … }]",
    keys: &[
        Key::new("at", "duration", "required", "When, from the start of the run."),
        Key::new("capacity", "rate", "required", "Its capacity from then on."),
    ],
};

pub(crate) const SITE: Table = Table {
    title: "[[sim.site]]",
    keys: &[
        Key::new(
            "site",
            "site or pattern",
            "required",
            "Which: `*` in a name stands for any text.",
        ),
        Key::new("in", "rate", "unlimited", "Largest inward rate."),
        Key::new("out", "rate", "unlimited", "Largest outward rate."),
        Key::new(
            "background_in",
            "rate",
            "`0 b/s`",
            "Traffic into it that is not ours, on average.",
        ),
        Key::new(
            "background_out",
            "rate",
            "`0 b/s`",
            "Traffic out of it that is not ours, on average.",
        ),
        Key::new(
            "background_variation",
            "number",
            "0",
            "How far that traffic moves about its average, from 0 to 1; drawn anew every ten minutes.",
        ),
        Key::new(
            "spread",
            "number",
            "0",
            "Multiplies the rates by a factor drawn per site, from 1 ÷ (1 + spread) to 1 + spread.",
        ),
    ],
};

pub(crate) const RSE: Table = Table {
    title: "[[sim.rse]]",
    keys: &[
        Key::new(
            "rse",
            "RSE or pattern",
            "required",
            "Which: `*` in a name stands for any text.",
        ),
        Key::new("read", "rate", "unlimited", "Largest read rate."),
        Key::new("write", "rate", "unlimited", "Largest write rate."),
        Key::new(
            "disk",
            "rate",
            "unlimited",
            "Largest rate of reads and writes together.",
        ),
        Key::new(
            "mixing_loss",
            "number",
            "0",
            "Share of `disk` that is lost when there are as many reads as writes.",
        ),
        Key::new(
            "read_curve",
            "list of tables",
            "none",
            "What reads get in all, by their number: straight lines between the points, level before the first and after the last, at most `read`.",
        ),
        Key::new("write_curve", "list of tables", "none", "The same for writes."),
        Key::new(
            "servers",
            "list of tables",
            "none",
            "Servers through which all bytes pass, each with its own rate and slots.",
        ),
        Key::new(
            "imbalance",
            "number",
            "0",
            "How transfers are spread over the servers: 0 each to the least busy one, 1 at random, between them that share at random.",
        ),
        Key::new("stream_rate", "rate", "unlimited", "What one transfer gets at most."),
        Key::new(
            "readback",
            "true or false",
            "false",
            "Whether each file is read back for its checksum before the transfer ends.",
        ),
        Key::new(
            "read_connections",
            "number",
            "unlimited",
            "Concurrent reads; more wait.",
        ),
        Key::new(
            "write_connections",
            "number",
            "unlimited",
            "Concurrent writes; more wait.",
        ),
        Key::new(
            "overwrite",
            "number",
            "0",
            "Share of transfers into it that find an old file, which is deleted first.",
        ),
        Key::new(
            "delete_time",
            "duration",
            "`100 ms`",
            "Time of one deletion when nothing else happens.",
        ),
        Key::new(
            "delete_load",
            "number",
            "unlimited",
            "Writes at once that double the time of a deletion, twice as many make it three times as long, and so on.",
        ),
        Key::new(
            "failures",
            "table",
            "none",
            "Share of attempts that fail here, by error class: `{ timeout = 0.01 }`.",
        ),
        Key::new("outages", "list of tables", "none", "Times in which no byte moves."),
        Key::new(
            "max_active_in",
            "number",
            "the grid's",
            "Transfers into it at once; every policy keeps it.",
        ),
        Key::new(
            "max_active_out",
            "number",
            "the grid's",
            "Transfers out of it at once; every policy keeps it.",
        ),
        Key::new(
            "max_rate_in",
            "rate",
            "none",
            "Rate into it; policies that know bandwidth limits keep it.",
        ),
        Key::new(
            "max_rate_out",
            "rate",
            "none",
            "Rate out of it; policies that know bandwidth limits keep it.",
        ),
        Key::new(
            "spread",
            "number",
            "0",
            "Multiplies the rates by a factor drawn per RSE, from 1 ÷ (1 + spread) to 1 + spread.",
        ),
    ],
};

pub(crate) const POINT: Table = Table {
    title: "read_curve = [{ … }], write_curve = [{ … }]",
    keys: &[
        Key::new("active", "number", "required", "Transfers at once."),
        Key::new("rate", "rate", "required", "Their total rate."),
    ],
};

pub(crate) const SERVERS: Table = Table {
    title: "servers = [{ … }]",
    keys: &[
        Key::new("count", "number", "1", "How many of this kind."),
        Key::new("rate", "rate", "required", "What each carries, in and out together."),
        Key::new(
            "slots",
            "number",
            "unlimited",
            "Concurrent transfers of each; more wait.",
        ),
    ],
};

pub(crate) const LINK: Table = Table {
    title: "[[sim.link]]",
    keys: &[
        Key::new(
            "link",
            "`\"A->B\"`, patterns",
            "required",
            "Which: `*` in either name stands for any text.",
        ),
        Key::new("capacity", "rate", "unlimited", "Its own capacity."),
        Key::new("rtt", "duration", "`20 ms`", "Its round-trip time."),
        Key::new("via", "list of names", "none", "Segments that it uses."),
        Key::new(
            "window",
            "size",
            "`16 MiB`",
            "Window of one TCP stream: a stream gets at most window ÷ RTT.",
        ),
        Key::new(
            "streams",
            "number",
            "1",
            "TCP streams of one transfer; HTTP copies have one.",
        ),
        Key::new(
            "stream_rate",
            "rate",
            "unlimited",
            "Largest rate of one transfer, whatever the window.",
        ),
        Key::new(
            "failures",
            "table",
            "none",
            "Share of attempts that fail here, by error class: `{ timeout = 0.01 }`.",
        ),
        Key::new("stalls", "number", "0", "Share of attempts in which bytes stop moving."),
        Key::new(
            "max_active",
            "number",
            "the grid's",
            "Transfers over it at once; every policy keeps it.",
        ),
        Key::new(
            "spread",
            "number",
            "0",
            "Multiplies rates and the round-trip time by a factor drawn per link, from 1 ÷ (1 + spread) to 1 + spread.",
        ),
    ],
};

pub(crate) const FTS: Table = Table {
    title: "[sim.fts]",
    keys: &[
        Key::new(
            "link_min",
            "number",
            "2",
            "Least transfers per link that the optimizer decides.",
        ),
        Key::new(
            "link_max",
            "number",
            "130",
            "Most transfers per link that the optimizer decides.",
        ),
        Key::new(
            "se_max",
            "number",
            "200",
            "Transfers into, and out of, a storage element without a limit of its own.",
        ),
        Key::new(
            "mode",
            "number",
            "2",
            "Optimizer mode: 1 conservative, 2 normal, 3 aggressive.",
        ),
        Key::new(
            "scheduler_interval",
            "duration",
            "`2 s`",
            "Pause between two cycles of the scheduler.",
        ),
        Key::new(
            "scheduler_per_link",
            "duration",
            "`0 s`",
            "Time that a cycle of the scheduler takes for each link on which something waits.",
        ),
        Key::new(
            "optimizer_interval",
            "duration",
            "`60 s`",
            "Pause between two cycles of the optimizer.",
        ),
        Key::new(
            "optimizer_cycle",
            "duration",
            "`0 s`",
            "Time that a cycle of the optimizer takes with nothing queued.",
        ),
        Key::new(
            "optimizer_cycle_per_queued",
            "duration",
            "`0 s`",
            "Time that each queued transfer adds to it.",
        ),
        Key::new(
            "restart_interval",
            "duration",
            "`0 s`",
            "How often the server is restarted, which ends a cycle of the optimizer wherever it is; `0 s` for never.",
        ),
        Key::new(
            "url_copy_max",
            "number",
            "4000",
            "Transfers that run at once in the whole instance: 400 per node.",
        ),
        Key::new(
            "retry_delay",
            "duration",
            "`2 m`",
            "Pause before an attempt is made again.",
        ),
    ],
};

pub(crate) const FAILURES: Table = Table {
    title: "failures = { … }",
    keys: &[
        Key::new(
            "not-found",
            "number",
            "0",
            "Share of attempts that end so; these are not tried again.",
        ),
        Key::new(
            "permission",
            "number",
            "0",
            "Share of attempts that end so; these are not tried again.",
        ),
        Key::new("token", "number", "0", "Share of attempts that end so."),
        Key::new("tls", "number", "0", "Share of attempts that end so."),
        Key::new(
            "network",
            "number",
            "0",
            "Share of attempts that end so, somewhere on the way.",
        ),
        Key::new(
            "timeout",
            "number",
            "0",
            "Share of attempts that end so, somewhere on the way.",
        ),
        Key::new(
            "checksum",
            "number",
            "0",
            "Share of attempts that end so, after all bytes.",
        ),
        Key::new("no-space", "number", "0", "Share of attempts that end so."),
        Key::new(
            "overload",
            "number",
            "0",
            "Share of attempts that end so, before bytes move.",
        ),
        Key::new(
            "protocol",
            "number",
            "0",
            "Share of attempts that end so, before bytes move.",
        ),
    ],
};

//! Every key of the grid file, as the parser accepts it and the handbook lists it.

use crate::file::{Key, Table};

/// Every table of the grid file, in the order of the handbook.
pub const GRID_TABLES: &[&Table] = &[
    &GRID,
    &SITE,
    &RSE,
    &TOKEN_ISSUER,
    &ISSUER,
    &STORAGE,
    &TRANSFER,
    &CATALOG,
    &BROKER,
];

/// The grid file itself, or `[grid]` in a challenge.
pub const GRID: Table = Table {
    title: "The grid",
    keys: &[
        Key::new("name", "name", "required", "The grid's name."),
        Key::new("vo", "name", "`weir`", "The VO whose data moves."),
        Key::new(
            "authority",
            "path",
            "one of the grid's own",
            "The folder of the certificate authority that signs the grid's certificates; made if it is not there. Give one \
             where storage that runs elsewhere must trust the grid beforehand.",
        ),
        Key::new(
            "reach",
            "list of networks",
            "none",
            "Private networks, such as `\"10.9.0.0/16\"`, to which the grid's storages and its transfer service may connect beside the addresses \
             of its RSEs. A storage that another grid's challenge uses needs the networks of that grid here.",
        ),
        Key::new("site", "list of `[[site]]`", "one site per RSE", "The sites."),
        Key::new(
            "rse",
            "list of `[[rse]]`",
            "required",
            "The storage elements, at least one.",
        ),
        Key::new(
            "issuer",
            "`[issuer]`",
            "on the loopback address",
            "Where the grid's own issuer answers, or which other issuer gives the grid's tokens.",
        ),
        Key::new(
            "storage",
            "`[storage]`",
            "as below",
            "What holds for every embedded RSE that does not say otherwise.",
        ),
        Key::new(
            "transfer",
            "`[transfer]`",
            "as below",
            "Limits of the transfer service, or which other transfer service moves the files.",
        ),
        Key::new(
            "catalog",
            "`[catalog]`",
            "none",
            "The catalogue: where there is this table, challenges make rules instead of submitting transfers.",
        ),
        Key::new(
            "broker",
            "`[broker]`",
            "nobody",
            "A STOMP broker that receives messages about transfers, such as the one that Rucio's receiver listens to.",
        ),
    ],
};

pub(super) const SITE: Table = Table {
    title: "[[site]]",
    keys: &[
        Key::new("name", "name", "required", "The site's name; no two sites share one."),
        Key::new("tier", "number", "2", "The tier, from 0 to 3."),
    ],
};

pub(super) const RSE: Table = Table {
    title: "[[rse]]",
    keys: &[
        Key::new("name", "name", "required", "The RSE's name; no two RSEs share one."),
        Key::new(
            "site",
            "name",
            "the RSE's name",
            "The site that runs it: one of the `[[site]]` tables, or, when left out, a site of the RSE's own name.",
        ),
        Key::new(
            "quota",
            "size",
            "`[storage]`",
            "Embedded: most bytes that it holds, sources included.",
        ),
        Key::new(
            "durability",
            "`full` or `cache`",
            "`[storage]`",
            "Embedded: as in `[storage]`.",
        ),
        Key::new(
            "checksums",
            "list of algorithms",
            "`[storage]`",
            "Embedded: as in `[storage]`.",
        ),
        Key::new("bandwidth", "rate", "`[storage]`", "Embedded: as in `[storage]`."),
        Key::new(
            "read_only",
            "true or false",
            "false",
            "Embedded: refuses to write; only a source then.",
        ),
        Key::new("listen", "`address` or `address:port`", LISTEN_DEFAULT, LISTEN),
        Key::new("host", "name or address", HOST_DEFAULT, HOST),
        Key::new(
            "url",
            "URL",
            "none",
            "Makes the RSE external: the `https://` folder of a WebDAV storage under which the grid keeps its files.",
        ),
        Key::new(
            "ca",
            "path",
            "the system's",
            "External: the certificates that vouch for it, in PEM.",
        ),
        Key::new(
            "token_file",
            "path",
            "none",
            "External: a file that holds the token; read anew when needed.",
        ),
        Key::new(
            "base_path",
            "path",
            "that of `url`",
            "External: the path at which the scopes of tokens begin there, if `url` lies below it: `base_path` of an issuer in SciTokens and XRootD, \
             `oidc_base_path` in Rucio, the prefix of an area of Weir's.",
        ),
        Key::new(
            "redirect_hosts",
            "list of hosts",
            "none",
            "External: the storage's own nodes, if it redirects copies to them: `node1.example.org`, or `*.example.org`. The tokens of both sides \
             of a copy go there too, encrypted. Name no domain in which others may have hosts.",
        ),
        Key::new(
            "token_issuer",
            "`[rse.token_issuer]`",
            "none",
            "External: where to ask for tokens. Without this and `token_file` the grid's own issuer gives them, and the \
             storage must trust it.",
        ),
    ],
};

pub(super) const TOKEN_ISSUER: Table = Table {
    title: "[rse.token_issuer]",
    keys: &[
        Key::new(
            "token_url",
            "URL",
            "required",
            "The issuer's token endpoint, `https://`.",
        ),
        Key::new(
            "client_id",
            "text",
            "required",
            "The client that asks, by client credentials.",
        ),
        Key::new(
            "secret_file",
            "path",
            "required",
            "The file that holds the client's secret.",
        ),
        Key::new(
            "ca",
            "path",
            "the system's",
            "The certificates that vouch for the issuer, in PEM.",
        ),
    ],
};

/// Texts for the keys of addresses, shared by all tables that have these keys.
const LISTEN_DEFAULT: &str = "a loopback address; all with `host`";
const LISTEN: &str = "Embedded: the address on which it listens, all of the machine's with `0.0.0.0` or `[::]`; without a port the system \
     chooses one at the first start, and it stays.";
const HOST_DEFAULT: &str = "the address of `listen`";
const HOST: &str =
    "Embedded: the name or address by which other hosts reach it. It is in its URL and in its certificate.";

pub(super) const ISSUER: Table = Table {
    title: "[issuer]",
    keys: &[
        Key::new(
            "listen",
            "`address` or `address:port`",
            LISTEN_DEFAULT,
            "The address on which the grid's own issuer listens, as for an RSE.",
        ),
        Key::new(
            "host",
            "name or address",
            HOST_DEFAULT,
            "The name or address by which storage elsewhere reaches it, to verify the tokens that it gives.",
        ),
        Key::new(
            "token_lifetime",
            "duration",
            "`1 h`",
            "How long the tokens of the grid's own issuer live, from 10 s to 1 d.",
        ),
        Key::new(
            "answer_delay",
            "duration",
            "`0 s`",
            "How long the grid's own issuer holds back the answer to each request for a token, up to 60 s: a slow issuer.",
        ),
        Key::new(
            "url",
            "URL",
            "none",
            "Another issuer in place of the grid's own: what its tokens name as `iss`. Every storage of the grid, and the transfer service, must \
             trust it. Its discovery document names the token endpoint.",
        ),
        Key::new(
            "client_id",
            "text",
            "required with `url`",
            "The client that asks the other issuer, by client credentials.",
        ),
        Key::new(
            "secret_file",
            "path",
            "required with `url`",
            "The file that holds the client's secret.",
        ),
        Key::new(
            "ca",
            "path",
            "the system's",
            "The certificates that vouch for the other issuer, in PEM.",
        ),
    ],
};

pub(super) const STORAGE: Table = Table {
    title: "[storage]",
    keys: &[
        Key::new(
            "quota",
            "size",
            "`10 GB`",
            "Most bytes that an RSE holds, sources included.",
        ),
        Key::new(
            "durability",
            "`full` or `cache`",
            "`full`",
            "What must have happened before a file counts as stored: `full` puts it on the disk (fsync), `cache` leaves \
             it in the system's cache, where a power cut may lose it.",
        ),
        Key::new(
            "checksums",
            "list of algorithms",
            "`[\"adler32\", \"crc32c\"]`",
            "Checksums taken on the way in: `adler32`, `crc32c`, `md5`, `sha256`.",
        ),
        Key::new(
            "bandwidth",
            "rate",
            "no limit",
            "Most that all transfers of an RSE together read and write in a second, such as `\"400 Mb/s\"`. A simulation of the grid keeps it too.",
        ),
    ],
};

pub(super) const TRANSFER: Table = Table {
    title: "[transfer]",
    keys: &[
        Key::new(
            "url",
            "URL",
            "none",
            "Another transfer service in place of the grid's own: one of Weir's, or an FTS3. The limits below are then not set there; they tell \
             plans and simulations which ones it has.",
        ),
        Key::new(
            "ca",
            "path",
            "the system's",
            "With `url`: the certificates that vouch for it, in PEM.",
        ),
        Key::new(
            "audience",
            "text",
            "`url`",
            "With `url`: the audience of the tokens for it.",
        ),
        Key::new(
            "token_file",
            "path",
            "none",
            "With `url`: a file that holds the token for it; read anew when needed. Without it the grid's issuer gives one with the scope `fts`.",
        ),
        Key::new(
            "certificate",
            "path",
            "none",
            "With `url`: a certificate that it is shown in place of a token, in PEM; a proxy too. It is delegated to the service, which then reads \
             and writes in its name.",
        ),
        Key::new(
            "key",
            "path",
            "`certificate`",
            "With `url`: the private key of the certificate, in PEM.",
        ),
        Key::new(
            "tokens",
            "`shared` or `per-file`",
            "`shared`",
            "Without `url`: the tokens with which challenges submit transfers. With `per-file` each file has its own for its path alone, and the grid's own \
             service exchanges those that live less than 5 minutes before it uses them.",
        ),
        Key::new(
            "max_active_per_rse_in",
            "number",
            "100",
            "Most transfers at once into one RSE.",
        ),
        Key::new(
            "max_active_per_rse_out",
            "number",
            "100",
            "Most transfers at once out of one RSE.",
        ),
        Key::new(
            "max_active_per_link",
            "number",
            "20",
            "Most transfers at once on one link.",
        ),
        Key::new("retries", "number", "2", "Attempts after the first, from 0 to 100."),
        Key::new("retry_delay", "duration", "`1 s`", "Pause before the first of them."),
    ],
};

pub(super) const CATALOG: Table = Table {
    title: "[catalog]",
    keys: &[
        Key::new(
            "poll",
            "duration",
            "`1 s`",
            "How often the grid's own catalogue asks the transfer service for the state of its jobs, from 10 ms to 1 h.",
        ),
        Key::new(
            "url",
            "URL",
            "none",
            "Another catalogue in place of the grid's own: a Rucio server, or one of Weir's. It knows the RSEs by the names of this file.",
        ),
        Key::new(
            "auth_url",
            "URL",
            "`url`",
            "With `url`: where logins are made, if that is another server.",
        ),
        Key::new(
            "ca",
            "path",
            "the system's",
            "With `url`: the certificates that vouch for it, in PEM.",
        ),
        Key::new(
            "account",
            "text",
            "required with `url`",
            "With `url`: the account that owns the rules.",
        ),
        Key::new(
            "scope",
            "text",
            "`weir-challenge`",
            "With `url`: the scope of all that challenges add. It is made if it is missing and the account may make scopes.",
        ),
        Key::new(
            "user",
            "text",
            "none",
            "With `url`: the user name to log in with, beside `password_file`.",
        ),
        Key::new(
            "password_file",
            "path",
            "none",
            "With `url`: a file that holds the password.",
        ),
        Key::new(
            "certificate",
            "path",
            "none",
            "With `url`: the certificate to log in with, in PEM; a proxy too.",
        ),
        Key::new(
            "key",
            "path",
            "`certificate`",
            "With `url`: the private key of the certificate, in PEM.",
        ),
        Key::new(
            "audience",
            "text",
            "`url`",
            "With `url` and neither password nor certificate: the audience of the token that it is shown.",
        ),
        Key::new(
            "token_scope",
            "text",
            "`fts`",
            "With `url`: the scope of that token. A Rucio server asks for the one of its setting `expected_scope`.",
        ),
        Key::new(
            "token_file",
            "path",
            "none",
            "With `url`: a file that holds that token; read anew when needed. Without it the grid's issuer gives one.",
        ),
    ],
};

pub(super) const BROKER: Table = Table {
    title: "[broker]",
    keys: &[
        Key::new("address", "`host:port`", "required", "Where the broker speaks STOMP."),
        Key::new(
            "tls",
            "true or false",
            "true",
            "Whether TLS is spoken. Without it only a broker on a loopback address may be given a password.",
        ),
        Key::new("user", "text", "none", "The user to log in as."),
        Key::new("password_file", "path", "none", "The file that holds the password."),
        Key::new(
            "ca",
            "path",
            "the grid's own",
            "The certificates that vouch for the broker, in PEM.",
        ),
    ],
};

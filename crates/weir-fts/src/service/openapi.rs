//! `GET /openapi.json`: the requests and answers of this door, as OpenAPI 3.1.
//!
//! One table names every operation; the tests hold it against the router, and answers against its schemas.

use std::sync::LazyLock;

use axum::response::Response;
use serde_json::{Map, Value, json};

use weir_fts_api::schemas;

use crate::messages::answer::ok;

/// Every operation of the door, in the order of the handbook. A row has method, path with the names of query
/// parameters, accepted callers, status and schema of the answer (`-`: no JSON), and its description. Callers are
/// `user` with a token or a certificate, and `holder` with a certificate.
const OPERATIONS: &str = "
get    / anybody 200 ServiceDocument Versions and links
get    /whoami user 200 WhoAmI Who the caller is
get    /whoami/certificate holder 200 - The caller's certificate, PEM
get    /api-docs/schema/submit anybody 200 Object JSON schema of a submission
get    /openapi.json anybody 200 Object This description
get    /delegation holder 200 - A page for people
get    /delegation/{id} user 200 Delegation What is delegated, and until when
delete /delegation/{id} holder 204 - Forget it
get    /delegation/{id}/request holder 200 - A request to sign a proxy for, PEM
put    /delegation/{id}/credential holder 201 - The proxy and its chain, PEM
post   /delegation/{id}/credential holder 201 - The same
post   /delegation/{id}/voms holder 203 - Fetch VOMS attributes for the delegated proxy
post   /jobs user 200 Submitted Submit a job
put    /jobs user 200 Submitted Submit a job
get    /jobs?user_dn,vo_name,dlg_id,state_in,source_se,dest_se,limit,time_window,fields user 200 Jobs List jobs
get    /jobs/{ids}?files user 200 JobOrJobs One job, or several separated by commas
post   /jobs/{ids} user 200 JobOrJobs Change the priority
delete /jobs/{ids} user 200 JobOrJobs Cancel jobs
delete /jobs/vo/{vo} admin 200 Affected Cancel everything of a VO
delete /jobs/all admin 200 Affected Cancel everything
get    /jobs/{id}/files user 200 Files All files of a job
delete /jobs/{id}/files/{files} user 200 Any Cancel files
get    /jobs/{id}/files/{file}/retries user 200 Retries Attempts that were followed by another
get    /jobs/{id}/dm user 200 Array Deletions: none
get    /jobs/{id}/{field} user 200 Any One value of a job
get    /files?vo_name,state_in,source_se,dest_se,dest_surl,limit,time_window user 200 Files Files over all jobs
get    /archive?user_dn,vo_name,dlg_id,state_in,source_se,dest_se,limit,time_window,fields user 200 Jobs Jobs that have ended
get    /archive/{id} user 200 Job A job that has ended
get    /archive/{id}/{field} user 200 Any One value of it
get    /why/link?source_se,dest_se user 200 WhyLink What holds a link back
get    /why/waits user 200 WhyWaits What transfers waited for, by link
get    /why/jobs/{id} user 200 WhyFiles What holds a job's files back
get    /why/files/{id} user 200 WhyFile What holds a file back
get    /optimizer user 200 Boolean Whether the optimiser decides
get    /optimizer/evolution?source_se,dest_se user 200 Array What links may run, as it changed
get    /optimizer/current?source_se,dest_se user 200 Array What links may run now
post   /optimizer/current admin 200 Object Fix a link's number of transfers
get    /status/hosts user 200 Object What hosts do
get    /status/{host} user 200 HostActivity What one host does
get    /autocomplete/{what}?term user 200 Strings Names that contain a term
get    /config admin 200 Hosts The hosts
get    /config/audit admin 200 AuditEntries Who changed what
get    /config/authorize admin 200 Array Administrators
post   /config/drain admin 200 Any Start nothing any more
get    /config/links admin 200 Links Links
post   /config/links admin 201 Link Set a link
get    /config/links/{name} admin 200 Link One link
delete /config/links/{name} admin 204 - Forget a link
get    /config/se?se admin 200 Object Storage elements
post   /config/se admin 200 Array Set storage elements
delete /config/se?se admin 204 - Forget a storage element
get    /config/global admin 200 Object What holds for jobs that do not say
post   /config/global admin 200 Object Set it
delete /config/global?vo_name admin 204 - Forget it
get    /config/shares admin 200 Shares Shares of VOs
post   /config/shares admin 200 Integer Set a VO's share
delete /config/shares?source,destination,vo admin 204 - Forget it
get    /config/activity_shares admin 200 Object Shares of activities
post   /config/activity_shares admin 200 Object Set a VO's
get    /config/activity_shares/{vo} admin 200 Object One VO's
delete /config/activity_shares/{vo} admin 204 - Forget a VO's
get    /config/weir/groups admin 200 Groups What storage elements share
post   /config/weir/groups admin 201 Group Set a group
get    /config/weir/groups/{name} admin 200 Group One group
delete /config/weir/groups/{name} admin 204 - Forget a group
get    /config/cloud_storage admin 200 Array Cloud storages: none
post   /config/cloud_storage admin 405 Error Not done by this service
post   /admin/force-start admin 200 NotForced Start files past all limits
get    /dm/list?surl user 200 Listing What is in a directory of a storage
get    /dm/stat?surl user 200 Stat What is known of a path at a storage
post   /dm/mkdir user 200 Integer Make a directory at a storage
post   /dm/unlink user 200 Integer Remove a file at a storage
post   /dm/rmdir user 200 Integer Remove an empty directory at a storage
post   /dm/rename user 200 Integer Rename a file or a directory at a storage
get    /ban/se admin 200 Array Banned storage elements
post   /ban/se admin 200 Strings Ban one
delete /ban/se?storage,vo_name admin 204 - End a ban
get    /ban/dn admin 200 Array Banned users
post   /ban/dn admin 200 Strings Ban one
delete /ban/dn?user_dn admin 204 - End a ban
get    /.well-known/weir/health anybody 200 Health Whether all is well
get    /.well-known/weir/ready anybody 200 Any Whether requests are worth sending to this node
get    /.well-known/weir/metrics admin 200 - OpenMetrics text; without a token from this host
get    /.well-known/weir/nodes user 200 Any Who serves the same queue; 404 where that is one process
get    /.well-known/weir/queue user 200 Queues How much waits, and how much may
";

/// One line of the table.
struct Operation {
    method: &'static str,
    path: &'static str,
    query: &'static str,
    who: &'static str,
    status: &'static str,
    schema: &'static str,
    summary: &'static str,
}

impl Operation {
    fn read(line: &'static str) -> Option<Self> {
        let (method, rest) = line.split_once(' ')?;
        let mut words = rest.trim_start().splitn(5, ' ');
        let path = words.next()?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Some(Self {
            method,
            path,
            query,
            who: words.next()?,
            status: words.next()?,
            schema: words.next()?,
            summary: words.next()?,
        })
    }
}

static DESCRIPTION: LazyLock<Value> = LazyLock::new(description);

fn description() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS.lines().filter_map(Operation::read) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = shown(&operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir transfer service",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "FTS3's REST interface, and what Weir adds. Doubled slashes in paths are one."
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
                "certificate": { "type": "mutualTLS" }
            }
        }
    })
}

fn content(schema: &str) -> Value {
    json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } })
}

fn shown(operation: &Operation) -> Value {
    let mut shown = json!({ "summary": operation.summary, "responses": responses(operation) });
    let in_path = operation.path.split(['{', '}']).skip(1).step_by(2);
    let in_path =
        in_path.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = operation.query.split(',').filter(|name| !name.is_empty());
    let in_query = in_query.map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
    let parameters = in_path.chain(in_query).collect::<Vec<_>>();
    if !parameters.is_empty() {
        shown["parameters"] = json!(parameters);
    }
    if operation.path.ends_with("/credential") {
        let pem = json!({ "application/x-pem-file": { "schema": { "type": "string" } } });
        shown["requestBody"] = json!({ "required": true, "content": pem });
    } else if matches!(operation.method, "post" | "put") {
        let schema = if operation.path == "/jobs" { "Submission" } else { "Any" };
        shown["requestBody"] = json!({ "required": true, "content": content(schema) });
    }
    match operation.who {
        "anybody" => {}
        "holder" => shown["security"] = json!([{ "certificate": [] }]),
        _ => shown["security"] = json!([{ "token": [] }, { "certificate": [] }]),
    }
    if operation.who == "admin" {
        shown["description"] = json!("For administrators.");
    }
    shown
}

fn responses(operation: &Operation) -> Value {
    let mut answer = json!({ "description": "Done" });
    if operation.schema != "-" {
        answer["content"] = content(operation.schema);
    }
    let error = json!({ "description": "Not done; the message says why", "content": content("Error") });
    let mut responses = json!({ operation.status: answer, "default": error });
    if operation.schema == "JobOrJobs" {
        responses["207"] = json!({ "description": "Some are missing, or another's", "content": content("Jobs") });
    }
    responses
}

/// `GET /openapi.json`.
pub(crate) async fn openapi() -> Response {
    ok(&*DESCRIPTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation would silently be missing.
    #[test]
    fn every_line_of_the_table_is_read() {
        for line in OPERATIONS.lines().filter(|line| !line.is_empty()) {
            let read = Operation::read(line);
            let fits = read.is_some_and(|read| {
                ["get", "put", "post", "delete"].contains(&read.method)
                    && read.path.starts_with('/')
                    && ["anybody", "user", "holder", "admin"].contains(&read.who)
                    && read.status.parse::<u16>().is_ok()
                    && (read.schema == "-" || schemas().contains_key(read.schema))
            });
            assert!(fits, "{line}");
        }
    }
}

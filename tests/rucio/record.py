"""Records exchanges with a Rucio server, or asks another server the same.

usage: record.py URL OUT.json

Each step is a request as Rucio's own client sends it. Ids, tokens and times are replaced by words in what is written, so that two recordings
of one server are the same. The server has an account `root` with the identity lab/lab, and has not been recorded from before.
"""
import json
import re
import sys

import requests

VOLATILE = [
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d (UTC|GMT)\b"), "<time>"),
    (re.compile(r"datetime\.datetime\([^)]*\)"), "<datetime>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?\b"), "<iso time>"),
]
FILES = [{"scope": "rec", "name": name, "bytes": 1000 + n, "adler32": "0a1b2c3%x" % n} for n, name in enumerate(["f1", "f2", "dir/f3"])]
PROTOCOL = {
    "hostname": "rec.example", "scheme": "davs", "port": 8443, "prefix": "/data", "impl": "rucio.rse.protocols.webdav.Default",
    "extended_attributes": None,
    "domains": {"lan": {"read": 1, "write": 1, "delete": 1},
                "wan": {"read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 2}},
}
RULE = {
    "dids": [{"scope": "rec", "name": "d1"}], "copies": 1, "rse_expression": "REC-B", "weight": None, "lifetime": 86400, "grouping": "DATASET",
    "account": "root", "locked": False, "source_replica_expression": None, "activity": None, "notify": "N", "purge_replicas": False,
    "ignore_availability": False, "comment": "recorded", "ask_approval": False, "asynchronous": False, "delay_injection": None,
    "priority": 3, "meta": None,
}
SEARCH = "type=collection&long=False&recursive=False&filters=%5B%7B%27name%27%3A%20%27d*%27%7D%5D"
LISTING = {
    "dids": [{"scope": "rec", "name": "d1"}], "all_states": False, "ignore_availability": True, "resolve_archives": True,
    "resolve_parents": False, "updated_after": None, "domain": None, "sort": None, "nrandom": None,
}


def userpass(password="lab", account="root"):
    return {"X-Rucio-Account": account, "X-Rucio-Username": "lab", "X-Rucio-Password": password, "X-Rucio-AppID": "unknown"}


# Name, method, path, body (JSON, or None), further headers.
STEPS = [
    ("ping", "GET", "/ping", None, {}),
    ("userpass", "GET", "/auth/userpass", None, userpass()),
    ("userpass, wrong password", "GET", "/auth/userpass", None, userpass("wrong")),
    ("userpass, unknown account", "GET", "/auth/userpass", None, userpass(account="nobody")),
    ("validate", "GET", "/auth/validate", None, {}),
    ("validate, no token", "GET", "/auth/validate", None, {"X-Rucio-Auth-Token": "no-such-token"}),
    ("no token", "GET", "/accounts/root", None, {"X-Rucio-Auth-Token": None}),
    ("account", "GET", "/accounts/root", None, {}),
    ("whoami", "GET", "/accounts/whoami", None, {}),
    ("add account", "POST", "/accounts/rec", {"type": "USER", "email": "rec@example.org"}, {}),
    ("add account again", "POST", "/accounts/rec", {"type": "USER", "email": None}, {}),
    ("add account, bad type", "POST", "/accounts/rec2", {"type": "ROBOT", "email": None}, {}),
    ("add account, bad name", "POST", "/accounts/Rec%20Two", {"type": "USER", "email": None}, {}),
    ("get account", "GET", "/accounts/rec", None, {}),
    ("get account, unknown", "GET", "/accounts/nobody", None, {}),
    ("change account", "PUT", "/accounts/rec", {"email": "new@example.org"}, {}),
    ("add attribute of account", "POST", "/accounts/rec/attr/country", {"key": "country", "value": "uk"}, {}),
    ("add attribute of account again", "POST", "/accounts/rec/attr/country", {"key": "country", "value": "uk"}, {}),
    ("attributes of account", "GET", "/accounts/rec/attr/", None, {}),
    ("remove attribute of account", "DELETE", "/accounts/rec/attr/country", None, {}),
    ("add identity", "POST", "/accounts/rec/identities",
     {"identity": "CN=Rec", "authtype": "X509", "email": "rec@example.org", "password": None, "default": False}, {}),
    ("add identity again", "POST", "/accounts/rec/identities",
     {"identity": "CN=Rec", "authtype": "X509", "email": "rec@example.org", "password": None, "default": False}, {}),
    ("identities", "GET", "/accounts/rec/identities", None, {}),
    ("remove identity", "DELETE", "/accounts/rec/identities", {"identity": "CN=Rec", "authtype": "X509"}, {}),
    ("add scope", "POST", "/accounts/{account}/scopes/rec", None, {}),
    ("add scope again", "POST", "/accounts/{account}/scopes/rec", None, {}),
    ("add scope, unknown account", "POST", "/accounts/nobody/scopes/rec2", None, {}),
    ("scopes of account, none", "GET", "/accounts/rec/scopes/", None, {}),
    ("add RSE", "POST", "/rses/REC-A", {"deterministic": True, "volatile": False, "rse_type": "DISK", "city": "Didcot"}, {}),
    ("add second RSE", "POST", "/rses/REC-B", {"deterministic": True, "volatile": False}, {}),
    ("add RSE again", "POST", "/rses/REC-A", {}, {}),
    ("get RSE", "GET", "/rses/REC-A", None, {}),
    ("get RSE, unknown", "GET", "/rses/REC-X", None, {}),
    ("change RSE", "PUT", "/rses/REC-A", {"availability_delete": False}, {}),
    ("add attribute of RSE", "POST", "/rses/REC-A/attr/tier", {"value": "1"}, {}),
    ("add second attribute of RSE", "POST", "/rses/REC-B/attr/tier", {"value": "2"}, {}),
    ("attributes of RSE", "GET", "/rses/REC-A/attr/", None, {}),
    ("add protocol", "POST", "/rses/REC-A/protocols/davs", PROTOCOL, {}),
    ("add protocol again", "POST", "/rses/REC-A/protocols/davs", PROTOCOL, {}),
    ("add protocol of second RSE", "POST", "/rses/REC-B/protocols/davs", {**PROTOCOL, "hostname": "rec-b.example"}, {}),
    ("protocols", "GET", "/rses/REC-A/protocols", None, {}),
    ("protocols, unknown scheme", "GET", "/rses/REC-A/protocols/root", None, {}),
    ("get RSE with protocol", "GET", "/rses/REC-A", None, {}),
    ("set limit of RSE", "PUT", "/rses/REC-A/limits", {"name": "MinFreeSpace", "value": 1000}, {}),
    ("limits of RSE", "GET", "/rses/REC-A/limits", None, {}),
    ("set usage of RSE", "PUT", "/rses/REC-A/usage", {"source": "storage", "used": 10, "free": 20, "files": None}, {}),
    ("usage of RSE", "GET", "/rses/REC-A/usage?source=storage", None, {}),
    ("add distance", "POST", "/rses/REC-A/distances/REC-B", {"distance": 1}, {}),
    ("distances", "GET", "/rses/REC-A/distances/REC-B", None, {}),
    ("change distance", "PUT", "/rses/REC-A/distances/REC-B", {"distance": 2}, {}),
    ("RSEs of an expression", "GET", "/rses/?expression=tier%3D1%7CREC-B", None, {}),
    ("RSEs of a bad expression", "GET", "/rses/?expression=tier%3D1%7C%7CX", None, {}),
    ("RSEs of an empty expression", "GET", "/rses/?expression=NOWHERE", None, {}),
    ("paths of files", "GET", "/rses/REC-A/lfns2pfns?lfn=rec%3Af1&scheme=davs&operation=write", None, {}),
    ("set account limit", "POST", "/accounts/{account}/limits/local/REC-B", {"bytes": 1000000}, {}),
    ("account limits", "GET", "/accounts/rec/limits/local", None, {}),
    ("add dataset", "POST", "/dids/rec/d1", {"type": "DATASET"}, {}),
    ("add dataset again", "POST", "/dids/rec/d1", {"type": "DATASET"}, {}),
    ("add dataset, unknown scope", "POST", "/dids/nowhere/d1", {"type": "DATASET"}, {}),
    ("add container", "POST", "/dids/rec/c1", {"type": "CONTAINER"}, {}),
    ("get dataset", "GET", "/dids/rec/d1", None, {}),
    ("get DID, unknown", "GET", "/dids/rec/none", None, {}),
    ("add replicas", "POST", "/replicas", {"rse": "REC-A", "files": FILES, "ignore_availability": True}, {}),
    ("add replicas again", "POST", "/replicas", {"rse": "REC-A", "files": FILES[:1], "ignore_availability": True}, {}),
    ("attach files", "POST", "/dids/rec/d1/dids", {"dids": [{"scope": "rec", "name": one["name"]} for one in FILES]}, {}),
    ("attach a file again", "POST", "/dids/rec/d1/dids", {"dids": [{"scope": "rec", "name": "f1"}]}, {}),
    ("attach a file that is not there", "POST", "/dids/rec/d1/dids", {"dids": [{"scope": "rec", "name": "none"}]}, {}),
    ("attach a dataset", "POST", "/dids/rec/c1/dids", {"dids": [{"scope": "rec", "name": "d1"}]}, {}),
    ("content", "GET", "/dids/rec/d1/dids", None, {}),
    ("files", "GET", "/dids/rec/c1/files", None, {}),
    ("a file whose name has a slash", "GET", "/dids/rec/dir%2Ff3", None, {}),
    ("parents", "GET", "/dids/rec/f1/parents", None, {}),
    ("search", "GET", "/dids/rec/dids/search?" + SEARCH, None, {}),
    ("set metadata", "POST", "/dids/rec/d1/meta/project", {"value": "weir", "recursive": False}, {}),
    ("metadata of a file", "GET", "/dids/rec/f1/meta?plugin=DID_COLUMN", None, {}),
    ("dataset with its size", "GET", "/dids/rec/d1?dynamic_depth=FILE", None, {}),
    ("list replicas", "POST", "/replicas/list", LISTING, {}),
    ("list replicas as metalink", "POST", "/replicas/list", {**LISTING, "dids": [{"scope": "rec", "name": "f1"}]},
     {"Accept": "application/metalink4+xml"}),
    ("list replicas, unknown", "POST", "/replicas/list", {**LISTING, "dids": [{"scope": "rec", "name": "none"}]}, {}),
    ("add rule", "POST", "/rules/", RULE, {}),
    ("add rule again", "POST", "/rules/", RULE, {}),
    ("add rule, bad expression", "POST", "/rules/", {**RULE, "rse_expression": "NOWHERE"}, {}),
    ("add rule, too many copies", "POST", "/rules/", {**RULE, "copies": 2}, {}),
    ("add rule, unknown DID", "POST", "/rules/", {**RULE, "dids": [{"scope": "rec", "name": "none"}]}, {}),
    ("get rule", "GET", "/rules/{rule}", None, {}),
    ("get rule, unknown", "GET", "/rules/00000000000000000000000000000000", None, {}),
    ("locks of rule", "GET", "/rules/{rule}/locks", None, {}),
    ("rules of dataset", "GET", "/dids/rec/d1/rules", None, {}),
    ("analysis of rule", "GET", "/rules/{rule}/analysis", None, {}),
    ("request", "GET", "/requests/rec/f1/REC-B", None, {}),
    ("locks of dataset", "GET", "/locks/rec/d1?did_type=dataset", None, {}),
    ("usage of account", "GET", "/accounts/{account}/usage/local/REC-B", None, {}),
    ("change rule", "PUT", "/rules/{rule}", {"options": {"lifetime": 3600, "priority": 4}}, {}),
    ("change rule, unknown option", "PUT", "/rules/{rule}", {"options": {"colour": "red"}}, {}),
    ("delete rule", "DELETE", "/rules/{rule}", {"purge_replicas": None}, {}),
    ("close dataset", "PUT", "/dids/rec/d1/status", {"open": False}, {}),
    ("close dataset again", "PUT", "/dids/rec/d1/status", {"open": False}, {}),
    ("attach to a closed dataset", "POST", "/dids/rec/d1/dids", {"dids": [{"scope": "rec", "name": "f1"}]}, {}),
    ("detach from a closed dataset", "DELETE", "/dids/rec/d1/dids", {"dids": [{"scope": "rec", "name": "f1"}]}, {}),
    ("delete account", "DELETE", "/accounts/rec", None, {}),
    ("get deleted account", "GET", "/accounts/rec", None, {}),
]


def steady(value):
    if isinstance(value, str):
        for pattern, word in VOLATILE:
            value = pattern.sub(word, value)
        return value
    if isinstance(value, list):
        return [steady(one) for one in value]
    if isinstance(value, dict):
        return {steady(key): steady(one) for key, one in value.items()}
    return value


def body_of(answer):
    """JSON and lines of JSON as what they are, everything else as text. Lines come in any order: a server reads them from sets."""
    kind, text = answer.headers.get("Content-Type", ""), answer.text
    if kind == "application/x-json-stream":
        return sorted(steady([json.loads(line) for line in text.splitlines()]), key=json.dumps)
    try:
        return steady(json.loads(text))
    except ValueError:
        return steady(text)


def main(url, out):
    asked, exchanges = requests.Session(), []
    known = {"token": None, "rule": None, "account": "root"}
    for name, method, path, body, more in STEPS:
        headers = {"X-Rucio-VO": "def", "X-Rucio-Account": "root", "X-Rucio-Auth-Token": known["token"], "X-Rucio-Script": "record", **more}
        headers = {key: value for key, value in headers.items() if value is not None}
        data = None if body is None else json.dumps(body)
        answer = asked.request(method, url + path.format(**known), headers=headers, data=data, allow_redirects=False, timeout=60)
        if name == "userpass":
            known["token"] = answer.headers["X-Rucio-Auth-Token"]
        if name == "add rule":
            known["rule"] = answer.json()[0]
        shown = {key: answer.headers[key] for key in sorted(answer.headers)
                 if key.lower() == "content-type" or key.lower().startswith(("x-rucio", "exception"))}
        exchanges.append({
            "name": name, "method": method, "path": path, "headers": more, "body": body,
            "answer": {"status": answer.status_code, "headers": {
                key: "<token>" if key == "X-Rucio-Auth-Token" else steady(value) for key, value in shown.items()}, "body": body_of(answer)},
        })
    with open(out, "w") as file:
        json.dump(exchanges, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

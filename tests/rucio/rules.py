"""Moves data through a grid with Rucio's own client: uploads, rules, downloads, expiry.

usage: rules.py GRID.JSON STEP

RUCIO_CONFIG names the configuration, X509_USER_PROXY a certificate that the storages take. Fails at the first answer that differs from what it
expects.
"""
import hashlib
import json
import os
import sys
import time
import zlib
from urllib.parse import urlsplit

import requests
from rucio.client import Client
from rucio.client.downloadclient import DownloadClient
from rucio.client.uploadclient import UploadClient
from rucio.common import exception

PATIENCE = 120


def wait(what, done):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        seen = done()
        if seen:
            return seen
        time.sleep(0.2)
    raise AssertionError("waited in vain: " + what)


class Grid:
    def __init__(self, path):
        with open(path) as file:
            told = json.load(file)
        self.told = told
        self.rses = {rse["name"]: rse for rse in told["rses"]}
        self.ca = told["ca"]["file"]
        self.client = Client()

    def files(self, rse, scope):
        """The files of a scope that are on the RSE's disk."""
        found = []
        for folder, _, names in os.walk(os.path.join(self.rses[rse]["area"], scope)):
            found += [os.path.join(folder, name) for name in names]
        return found

    def state(self, rule):
        told = self.client.get_replication_rule(rule)
        assert told["state"] != "STUCK", told
        return told["state"]

    def path(self, scope, name):
        sum = hashlib.md5(("%s:%s" % (scope, name)).encode()).hexdigest()
        return "/%s/%s/%s/%s" % (scope, sum[:2], sum[2:4], name)

    def seed(self, rse, scope, name, content):
        """Puts a file to where the RSE's paths lead, as a data acquisition system does."""
        url = self.rses[rse]["url"] + self.path(scope, name)
        cert = os.environ["X509_USER_PROXY"]
        for at in range(1, 4):
            folder = "/".join(self.path(scope, name).split("/")[: at + 1])
            requests.request("MKCOL", self.rses[rse]["url"] + folder, cert=cert, verify=self.ca, timeout=60)
        requests.put(url, data=content, cert=cert, verify=self.ca, timeout=60).raise_for_status()
        adler = "%08x" % (zlib.adler32(content) & 0xFFFFFFFF)
        return {"scope": scope, "name": name, "bytes": len(content), "adler32": adler}


def daily(grid):
    """Upload, replicate, download, look, delete."""
    client, scope = grid.client, "lab"
    os.makedirs("up", exist_ok=True)
    contents = {}
    for name in ("one", "two", "three"):
        contents[name] = os.urandom(50_000)
        with open("up/" + name, "wb") as file:
            file.write(contents[name])
    items = [{"path": "up/" + name, "rse": "ALPHA", "did_scope": scope} for name in contents]
    assert UploadClient(client).upload(items) == 0
    states = {row["name"]: row["states"]["ALPHA"] for row in client.list_replicas([{"scope": scope, "name": name} for name in contents])}
    assert states == {name: "AVAILABLE" for name in contents}, states

    client.add_dataset(scope, "set")
    client.attach_dids(scope, "set", [{"scope": scope, "name": name} for name in contents])
    [rule] = client.add_replication_rule([{"scope": scope, "name": "set"}], 2, "BETA|GAMMA")
    wait("the rule is OK", lambda: grid.state(rule) == "OK")
    locks = {(row["name"], row["rse"]) for row in client.list_replica_locks(rule)}
    assert locks == {(name, rse) for name in contents for rse in ("BETA", "GAMMA")}, locks
    locks = {(row["rse"], row["rule_id"], row["state"], row["length"]) for row in client.get_dataset_locks(scope, "set")}
    assert locks == {(rse, rule, "OK", 3) for rse in ("BETA", "GAMMA")}, locks
    assert [row["name"] for row in client.get_dataset_locks_by_rse("BETA")] == ["set"]
    bulk = client.get_locks_for_dids([{"scope": scope, "name": "set", "type": "dataset"}, {"scope": scope, "name": "none"}])
    assert len(list(bulk)) == 2

    held = {row["rse"]: (row["available_length"], row["length"], row["state"]) for row in client.list_dataset_replicas(scope, "set")}
    assert held == {rse: (3, 3, "AVAILABLE") for rse in grid.rses}, held

    # A file that comes later is followed.
    contents["four"] = os.urandom(10_000)
    file = grid.seed("ALPHA", scope, "four", contents["four"])
    client.add_replicas("ALPHA", [file])
    client.attach_dids(scope, "set", [{"scope": scope, "name": "four"}])
    wait("the rule has all files", lambda: grid.client.get_replication_rule(rule)["locks_ok_cnt"] == 8)

    told = DownloadClient(client).download_dids([{"did": "lab:set", "base_dir": "down", "rse": "GAMMA"}])
    assert {one["clientState"] for one in told} == {"DONE"}, told
    for name, content in contents.items():
        with open("down/set/" + name, "rb") as file:
            assert file.read() == content, name

    # Metadata and searches.
    client.set_metadata(scope, "set", "project", "weir")
    assert client.get_metadata(scope, "set")["project"] == "weir"
    assert list(client.list_dids(scope, [{"name": "s*", "project": "weir"}])) == ["set"]
    assert sorted(client.list_dids(scope, {"name": "t*"}, did_type="file")) == ["three", "two"]
    assert list(client.list_dids(scope, [{"name": "' OR 1=1 --"}])) == []

    # Nothing can give this file.
    client.add_dataset(scope, "empty")
    client.add_replicas("ALPHA", [{"scope": scope, "name": "lost", "bytes": 5, "adler32": "00000001"}])
    [stuck] = client.add_replication_rule([{"scope": scope, "name": "lost"}], 1, "BETA")
    wait("the rule is stuck", lambda: client.get_replication_rule(stuck)["state"] == "STUCK")
    assert client.get_replication_rule(stuck)["error"], "a reason"
    told = client.examine_replication_rule(stuck)
    assert "lost" in str(told["transfers"]), told
    client.delete_replication_rule(stuck)

    client.update_replication_rule(rule, {"lifetime": 1})
    wait("the rule is gone", lambda: gone(client, rule))
    wait("the files are gone", lambda: not grid.files("BETA", scope) and not grid.files("GAMMA", scope))
    assert len(grid.files("ALPHA", scope)) == 4, grid.files("ALPHA", scope)


def gone(client, rule):
    try:
        client.get_replication_rule(rule)
    except exception.RuleNotFound:
        return True


def many(grid):
    """A rule on 200 files over three RSEs ends OK; then it expires, and its files are gone."""
    client, scope = grid.client, "many"
    client.add_scope("root", scope)
    files = [grid.seed("ALPHA", scope, "f%03d" % n, os.urandom(2_000)) for n in range(200)]
    client.add_replicas("ALPHA", files)
    client.add_dataset(scope, "all")
    client.attach_dids(scope, "all", [{"scope": scope, "name": file["name"]} for file in files])
    [rule] = client.add_replication_rule([{"scope": scope, "name": "all"}], 3, "ALPHA|BETA|GAMMA", lifetime=600)
    print(rule, flush=True)


def finish(grid, rule):
    client, scope = grid.client, "many"
    wait("the rule is OK", lambda: grid.state(rule) == "OK")
    told = client.get_replication_rule(rule)
    assert (told["locks_ok_cnt"], told["locks_stuck_cnt"]) == (600, 0), told
    for rse in grid.rses:
        files = grid.files(rse, scope)
        assert len(files) == 200 and {os.path.getsize(file) for file in files} == {2_000}, rse
    client.update_replication_rule(rule, {"lifetime": 0})
    wait("the rule is gone", lambda: gone(client, rule))
    for rse in grid.rses:
        wait("the files are gone at " + rse, lambda: not grid.files(rse, scope))
    wait("the replicas are gone", lambda: not any(row["rses"] for row in client.list_replicas([{"scope": scope, "name": "all"}])))


def mixed(grid):
    """Copies at RSEs that run XRootD, and back from there."""
    client, scope = grid.client, "mix"
    client.add_scope("root", scope)
    files = [grid.seed("ALPHA", scope, "f%d" % n, os.urandom(40_000)) for n in range(10)]
    client.add_replicas("ALPHA", files)
    client.add_dataset(scope, "set")
    client.attach_dids(scope, "set", [{"scope": scope, "name": file["name"]} for file in files])
    [there] = client.add_replication_rule([{"scope": scope, "name": "set"}], 2, "XA|XB")
    wait("the copies at XRootD", lambda: grid.state(there) == "OK")
    [back] = client.add_replication_rule([{"scope": scope, "name": "set"}], 1, "BETA", source_replica_expression="XA|XB")
    wait("the copies from XRootD", lambda: grid.state(back) == "OK")
    assert len(grid.files("BETA", scope)) == 10
    request = client.list_request_history_by_did("f0", "BETA", scope)
    assert request["source_rse"] in ("XA", "XB") and request["state"] == "DONE", request
    client.update_replication_rule(there, {"lifetime": 0})
    wait("the rule is gone", lambda: gone(client, there))
    left = lambda: {rse for row in client.list_replicas([{"scope": scope, "name": "set"}], all_states=True) for rse in row["rses"]}
    wait("the copies at XRootD are gone", lambda: left() == {"ALPHA", "BETA"})


def logins(grid):
    """The certificate of the grid's user, and a token of its issuer, are logins too."""
    user, url = grid.told["user"], grid.told["catalog"]["url"]
    token = os.path.join(os.getcwd(), "x509.token")
    os.environ["RUCIO_CLIENT_TOKEN"] = token
    creds = {"client_cert": user["certificate"], "client_key": user["key"]}
    client = Client(auth_type="x509", creds=creds, account="root", ca_cert=grid.ca, rucio_host=url, auth_host=url)
    client.auth_token_file_path = token
    me = client.whoami()
    assert me["account"] == "root", me
    told = requests.get(url + "/auth/x509", cert=(user["certificate"], user["key"]), verify=grid.ca, timeout=60)
    assert told.status_code == 200 and told.headers["X-Rucio-Auth-Account"] == "root", (told.status_code, told.text)
    told = requests.get(url + "/auth/x509", verify=grid.ca, timeout=60)
    assert told.status_code == 401, (told.status_code, told.text)

    with open(grid.told["client"]["secret_file"]) as file:
        secret = file.read().strip()
    def token_for(audience):
        wish = {"grant_type": "client_credentials", "audience": audience, "scope": "storage.read:/"}
        login = (grid.told["client"]["id"], secret)
        told = requests.post(grid.told["issuer"]["url"] + "/token", data=wish, auth=login, verify=grid.ca, timeout=60)
        return told.json()["access_token"]
    def whoami(token):
        return requests.get(url + "/accounts/root", headers={"X-Rucio-Auth-Token": token}, verify=grid.ca, timeout=60)
    told = whoami(token_for(url))
    assert told.status_code == 200 and told.json()["account"] == "root", (told.status_code, told.text)
    elsewhere = whoami(token_for("https://elsewhere.example.org"))
    assert elsewhere.status_code == 401 and elsewhere.json()["ExceptionClass"] == "CannotAuthenticate", elsewhere.text
    forged = token_for(url)[:-8] + "AAAAAAAA"
    assert whoami(forged).status_code == 401


def setup(grid):
    """Tells a catalogue of the RSEs of the grid."""
    client = grid.client
    for name, rse in grid.rses.items():
        client.add_rse(name)
        told = urlsplit(rse["url"])
        client.add_protocol(name, {
            "hostname": told.hostname, "scheme": "https", "port": told.port, "prefix": "/", "impl": "rucio.rse.protocols.webdav.Default",
            "domains": {"lan": {"read": 1, "write": 1, "delete": 1},
                        "wan": {"read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1}},
        })
    for one in grid.rses:
        for other in grid.rses:
            if one != other:
                client.add_distance(one, other, {"distance": 1})


def seed(grid, n):
    """A dataset `lab:twenty` of so many files at ALPHA."""
    client, scope = grid.client, "lab"
    files = [grid.seed("ALPHA", scope, "t%03d" % at, os.urandom(2_000)) for at in range(int(n))]
    client.add_replicas("ALPHA", files)
    client.add_dataset(scope, "twenty")
    client.attach_dids(scope, "twenty", [{"scope": scope, "name": file["name"]} for file in files])


def lost(grid):
    """A file that is registered at ALPHA, and not there."""
    grid.client.add_replicas("ALPHA", [{"scope": "lab", "name": "lost", "bytes": 5, "adler32": "00000001"}])


if __name__ == "__main__":
    _, path, step, *rest = sys.argv
    {"daily": daily, "many": many, "finish": finish, "mixed": mixed, "logins": logins, "setup": setup, "seed": seed, "lost": lost}[step](Grid(path), *rest)

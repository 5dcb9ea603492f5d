"""Drives a catalogue with the classes of Rucio's own client, and fails at the first answer that differs from what it expects.

RUCIO_CONFIG names the configuration: the account `root` with a user name and a password.
"""
import os
import sys
import time

from rucio.client import Client
from rucio.common import exception
from rucio.common.config import config_get


def refused(kind, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except kind:
        return
    raise AssertionError("%s was not raised by %s%s" % (kind.__name__, call.__name__, arguments))


def accounts(client):
    assert client.ping()["version"], client.ping()
    me = client.whoami()
    assert (me["account"], me["status"], me["account_type"]) == ("root", "ACTIVE", "SERVICE"), me
    assert client.add_account("alice", "USER", "alice@example.org")
    refused(exception.Duplicate, client.add_account, "alice", "USER", "")
    refused(exception.AccountNotFound, client.get_account, "nobody")
    refused(exception.InvalidObject, client.add_account, "Al Ice", "USER", "")
    assert client.add_identity("alice", "alice", "USERPASS", "alice@example.org", password="a secret")
    assert client.add_account_attribute("alice", "country", "uk")
    assert [row for row in client.list_account_attributes("alice")], "attributes"
    assert {row["account"] for row in client.list_accounts()} == {"root", "alice"}
    assert [row["identity"] for row in client.list_identities("alice")] == ["alice"]
    client.update_account("alice", "email", "new@example.org")
    assert client.get_account("alice")["email"] == "new@example.org"
    assert client.add_scope("alice", "user.alice")
    assert client.list_scopes_for_account("alice") == ["user.alice"]
    assert client.list_scopes() == ["user.alice"], client.list_scopes()
    assert client.list_scope_owners() == [{"scope": "user.alice", "account": "alice"}]


def rses(client):
    for name, tier in (("CERN", 0), ("RAL", "1")):
        assert client.add_rse(name, deterministic=True, rse_type="DISK", city="Geneva")
        assert client.add_rse_attribute(name, "tier", tier)
    refused(exception.Duplicate, client.add_rse, "RAL")
    refused(exception.RSENotFound, client.get_rse, "NOWHERE")
    protocol = {
        "hostname": "se.example", "scheme": "davs", "port": 443, "prefix": "/data", "impl": "rucio.rse.protocols.webdav.Default",
        "domains": {"lan": {"read": 1, "write": 1, "delete": 1},
                    "wan": {"read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1}},
    }
    assert client.add_protocol("RAL", dict(protocol))
    refused(exception.Duplicate, client.add_protocol, "RAL", dict(protocol))
    told = client.get_rse("RAL")
    assert (told["rse"], told["rse_type"], len(told["protocols"])) == ("RAL", "DISK", 1), told
    assert [row["rse"] for row in client.list_rses("tier=0|RAL")] == ["CERN", "RAL"]
    assert {row["rse"] for row in client.list_rses()} == {"CERN", "RAL"}
    refused(exception.InvalidRSEExpression, lambda: list(client.list_rses("tier=0||")))
    assert client.list_rse_attributes("RAL")["tier"] == "1"
    assert client.delete_rse_attribute("RAL", "tier")
    assert client.update_rse("RAL", {"availability_write": False})
    assert client.get_rse("RAL")["availability_write"] is False
    assert client.set_rse_limits("RAL", "MinFreeSpace", 10**12)
    assert client.get_rse_limits("RAL")["MinFreeSpace"] == 10**12
    assert client.set_rse_usage("RAL", "storage", 10, 20)
    assert next(client.get_rse_usage("RAL"))["total"] == 30
    assert client.add_distance("CERN", "RAL", {"distance": 3})
    assert client.get_distance("CERN", "RAL")[0]["distance"] == 3
    assert client.set_local_account_limit("alice", "RAL", 10**9)
    assert client.get_local_account_limit("alice", "RAL") == {"RAL": 10**9}
    assert [row["bytes_limit"] for row in client.get_local_account_usage("alice", "RAL")] == [10**9]
    assert client.delete_rse("CERN")
    refused(exception.RSENotFound, client.get_rse, "CERN")


def data(client):
    assert client.add_rse("DISK") and client.add_scope("root", "mc")
    client.add_protocol("DISK", {
        "hostname": "disk.example", "scheme": "davs", "port": 443, "prefix": "/data", "impl": "rucio.rse.protocols.webdav.Default",
        "domains": {"lan": {"read": 1, "write": 1, "delete": 1}, "wan": {"read": 1, "write": 1, "delete": 1}},
    })
    names = ["f%d" % n for n in range(2500)] + ["dir/with'quotes'+plus", "𝔘ber"]
    files = [{"scope": "mc", "name": name, "bytes": 10, "adler32": "0a1b2c3d"} for name in names]
    assert client.add_replicas("DISK", files)
    changed = [{**files[0], "bytes": 11}]
    refused(exception.FileConsistencyMismatch, client.add_replicas, "DISK", changed)
    dids = [{"scope": "mc", "name": name} for name in names]
    assert client.add_dataset("mc", "data", lifetime=86400) and client.add_container("mc", "all")
    refused(exception.DataIdentifierAlreadyExists, client.add_dataset, "mc", "data")
    refused(exception.ScopeNotFound, client.add_dataset, "nowhere", "data")
    assert client.attach_dids("mc", "data", dids) and client.attach_dids("mc", "all", [{"scope": "mc", "name": "data"}])
    refused(exception.FileAlreadyExists, client.attach_dids, "mc", "data", dids[:1])
    refused(exception.UnsupportedOperation, client.attach_dids, "mc", "all", [{"scope": "mc", "name": "all"}])
    # More than one page of the server.
    assert {row["name"] for row in client.list_files("mc", "all")} == set(names)
    assert {row["name"] for row in client.list_content("mc", "data")} == set(names)
    assert client.get_did("mc", "data", dynamic_depth="FILE")["bytes"] == 10 * len(names)
    assert client.get_did("mc", names[-2])["type"] == "FILE"
    assert [row["name"] for row in client.list_parent_dids("mc", names[-1])] == ["data"]
    refused(exception.DataIdentifierNotFound, client.get_did, "mc", "none")
    found = {row["name"]: row for row in client.list_replicas([{"scope": "mc", "name": "data"}])}
    assert set(found) == set(names)
    url, = client.lfns2pfns("DISK", ["mc:f0"]).values()
    assert found["f0"]["rses"] == {"DISK": [url]} and found["f0"]["states"] == {"DISK": "AVAILABLE"}, found["f0"]
    assert list(client.list_replicas([{"scope": "mc", "name": "f0"}], schemes=["root"]))[0]["pfns"] == {}
    link = client.list_replicas([{"scope": "mc", "name": "f0"}], metalink=True)
    assert url in link and "0a1b2c3d" in link, link
    assert client.detach_dids("mc", "data", dids[:1]) and len(list(client.list_files("mc", "data"))) == len(names) - 1
    refused(exception.RSEOperationNotSupported, client.delete_rse, "DISK")
    assert client.close("mc", "data")
    refused(exception.UnsupportedOperation, client.close, "mc", "data")
    refused(exception.UnsupportedOperation, client.attach_dids, "mc", "data", dids[:1])


def rules(client):
    client.add_rse("TARGET")
    client.add_rse("FULL")
    for name in ("TARGET", "FULL"):
        client.add_rse_attribute(name, "target", True)
    client.set_rse_usage("FULL", "storage", 10, 10)
    dids = [{"scope": "mc", "name": "data"}]
    rule, = client.add_replication_rule(dids, 1, "target\\FULL", lifetime=3600, comment="mine", grouping="ALL")
    told = client.get_replication_rule(rule)
    n_files = len(list(client.list_files("mc", "data")))
    # The locks of a large rule are made part by part.
    deadline = time.monotonic() + 30
    while told["locks_replicating_cnt"] < n_files and time.monotonic() < deadline:
        assert told["state"] == "INJECT", told
        time.sleep(0.1)
        told = client.get_replication_rule(rule)
    assert (told["state"], told["locks_replicating_cnt"], told["comments"]) == ("REPLICATING", n_files, "mine"), told
    assert {row["state"] for row in client.list_replica_locks(rule)} == {"REPLICATING"}
    assert [row["id"] for row in client.list_did_rules("mc", "data")] == [rule]
    assert [row["id"] for row in client.list_replication_rules({"account": "root"})] == [rule]
    assert next(client.get_local_account_usage("root", "TARGET"))["files"] == n_files
    add = client.add_replication_rule
    refused(exception.DuplicateRule, add, dids, 1, "target\\FULL", lifetime=3600)
    refused(exception.InsufficientTargetRSEs, add, dids, 2, "TARGET")
    refused(exception.InsufficientTargetRSEs, add, dids, 1, "FULL")
    refused(exception.InvalidRSEExpression, add, dids, 1, "target||")
    refused(exception.DataIdentifierNotFound, add, [{"scope": "mc", "name": "none"}], 1, "TARGET")
    client.update_replication_rule(rule, {"comment": "changed", "priority": 5, "locked": True})
    assert client.get_replication_rule(rule)["comments"] == "changed"
    refused(exception.UnsupportedOperation, client.delete_replication_rule, rule)
    client.update_replication_rule(rule, {"locked": False})
    assert client.delete_replication_rule(rule)
    assert client.get_replication_rule(rule)["expires_at"] is not None
    # At once: the evaluator releases it.
    client.update_replication_rule(rule, {"lifetime": 0})
    deadline = time.monotonic() + 30
    while any(client.list_did_rules("mc", "data")):
        assert time.monotonic() < deadline, client.get_replication_rule(rule)
        time.sleep(0.2)
    refused(exception.RuleNotFound, client.get_replication_rule, rule)
    assert not list(client.get_local_account_usage("root", "TARGET"))[0]["files"]


def forget_token():
    """The client keeps one token in a file, whatever the account."""
    os.remove(config_get("client", "auth_token_file_path"))


def as_alice():
    """Another account, with fewer rights."""
    forget_token()
    client = Client(account="alice", auth_type="userpass", creds={"username": "alice", "password": "a secret"})
    assert client.whoami()["account"] == "alice"
    refused(exception.AccessDenied, client.add_account, "bob", "USER", "")
    refused(exception.AccessDenied, client.add_rse, "MINE")
    refused(exception.AccessDenied, client.add_identity, "root", "eve", "USERPASS", "", password="another secret")
    refused(exception.AccessDenied, client.add_dataset, "mc", "hers")
    assert client.add_dataset("user.alice", "mine")
    assert client.add_scope("alice", "user.alice.more")
    forget_token()
    refused(exception.CannotAuthenticate, Client, account="root", auth_type="userpass",
            creds={"username": "alice", "password": "a secret"})


if __name__ == "__main__":
    root = Client()
    accounts(root)
    rses(root)
    data(root)
    rules(root)
    as_alice()
    print("passed")
    sys.exit(0)

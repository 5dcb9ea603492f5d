"""Drives a grid with a real Rucio: its client asks its server for rules, and its daemons, each for one pass at a time, carry them out.

usage: lab.py build | lab.py run LAB.json | lab.py operate LAB.json

RUCIO_CONFIG names the configuration. LAB.json says where the grid is: `rses` (name, url, area), `transfer`, `ca`, `user` (a PEM file
with certificate and key) and `admin` (a bearer token for the transfer service's settings). Prints a line of JSON for each thing that
was seen to hold; ends with 1 and a traceback at the first that does not. `operate` adds the grid's RSEs under their own names, and then runs all
daemons that a rule needs, from the submission to the deletion, until it is stopped.
"""
import json
import os
import random
import sys
import threading
import time
import zlib
from urllib.parse import urlsplit

import requests

FILES = 20
SIZE = 300_000
PATIENCE = 120
SCOPE = "lab"


def build():
    from rucio.db.sqla.util import build_database, create_base_vo, create_root_account

    build_database()
    create_base_vo()
    create_root_account()


def wait(what, done, pause=0.5):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        seen = done()
        if seen:
            return seen
        time.sleep(pause)
    raise AssertionError("waited in vain: " + what)


def say(mode, what, **more):
    print(json.dumps({"mode": mode, "held": what, **more}), flush=True)


class Grid:
    """The grid as its user sees it, with the certificate, and as its administrator does."""

    def __init__(self, path):
        with open(path) as file:
            self.lab = json.load(file)
        self.rses = {rse["name"]: rse for rse in self.lab["rses"]}
        self.transfer = self.lab["transfer"]

    def ask(self, method, url, **more):
        answer = requests.request(method, url, cert=self.lab["user"], verify=self.lab["ca"], timeout=60, **more)
        answer.raise_for_status()
        return answer

    def put(self, rse, path, content):
        self.ask("PUT", self.rses[rse]["url"] + path, data=content)

    def read(self, rse, path):
        with open(self.rses[rse]["area"] + path, "rb") as file:
            return file.read()

    def limit(self, source, destination, slots, rate=None):
        """How many transfers of a link may run, under each scheme that its URLs may have, and at which rate; None: as before."""
        hosts = [urlsplit(self.rses[name]["url"]).hostname for name in (source, destination)]
        link = {"symbolicname": "lab", "source": hosts[0], "destination": hosts[1], "max_active": slots, "weir": {"rate": rate}}
        headers = {"Authorization": "Bearer " + self.lab["admin"]}
        if slots is None:
            answer = requests.delete(self.transfer + "/config/links/lab", headers=headers, verify=self.lab["ca"], timeout=60)
        else:
            answer = requests.post(self.transfer + "/config/links", json=link, headers=headers, verify=self.lab["ca"], timeout=60)
        answer.raise_for_status()

    def jobs(self, ids):
        keys = "file_state,dest_surl,source_surl,transfer_type,reason"
        seen = [self.ask("GET", "%s/jobs/%s?files=%s" % (self.transfer, id_, keys)).json() for id_ in sorted(ids)]
        assert all(job["http_status"] == "200 Ok" for job in seen), seen
        return seen


class Rucio:
    """The client, and the conveyor in this process: what its commands run with --run-once, without a start for each."""

    def __init__(self, grid):
        from rucio.client import Client

        self.grid = grid
        self.client = Client()

    def set_up(self, mode):
        """RSEs of a mode: the grid's own under names and folders of the mode."""
        client, kinds = self.client, ["read", "write", "delete"]
        for name, rse in self.grid.rses.items():
            here, url = self.rse(mode, name), urlsplit(rse["url"])
            client.add_rse(here, rse_type="DISK", deterministic=True, volatile=False)
            lan = {kind: 1 for kind in kinds}
            client.add_protocol(here, {
                "hostname": url.hostname, "port": url.port, "scheme": "davs", "prefix": "/%s/" % mode.lower(),
                "impl": "rucio.rse.protocols.webdav.Default", "extended_attributes": None,
                "domains": {"lan": lan, "wan": {**lan, "third_party_copy_read": 1, "third_party_copy_write": 1}},
            })
            attributes = {"fts": self.grid.transfer, "verify_checksum": True, "oidc_support": mode == "TOKEN"}
            for key, value in attributes.items():
                client.add_rse_attribute(here, key, value)
            client.set_local_account_limit("root", here, -1)
            client.set_rse_usage(here, "storage", 10**9, 10**15)
        for source, distance in (("ALPHA", 1), ("GAMMA", 2)):
            client.add_distance(self.rse(mode, source), self.rse(mode, "BETA"), {"distance": distance})

    def add_rses(self):
        """The grid's own RSEs, as the grid file has them."""
        client = self.client
        for name, rse in self.grid.rses.items():
            url = urlsplit(rse["url"])
            client.add_rse(name, rse_type="DISK", deterministic=True, volatile=False)
            copies = {"read": 1, "write": 1, "third_party_copy_read": 1, "third_party_copy_write": 1}
            # Tokens are for davs alone, and the reaper's WebDAV speaks https alone.
            for scheme, domains in (("davs", {"wan": copies}), ("https", {"wan": {"delete": 1}, "lan": {"delete": 1}})):
                client.add_protocol(name, {
                    "hostname": url.hostname, "port": url.port, "scheme": scheme, "prefix": url.path.rstrip("/") + "/",
                    "impl": "rucio.rse.protocols.webdav.Default", "extended_attributes": None, "domains": domains,
                })
            attributes = {"fts": self.grid.transfer, "verify_checksum": True, "oidc_support": True}
            for key, value in attributes.items():
                client.add_rse_attribute(name, key, value)
            client.set_local_account_limit("root", name, -1)
            client.set_rse_usage(name, "storage", 10**9, 10**15)
        for source in self.grid.rses:
            for destination in self.grid.rses:
                if source != destination:
                    client.add_distance(source, destination, {"distance": 1})

    @staticmethod
    def rse(mode, name):
        return "%s_%s" % (name, mode)

    def path(self, mode, rse, name):
        pfns = self.client.lfns2pfns(self.rse(mode, rse), ["%s:%s" % (SCOPE, name)], operation="write")
        return urlsplit(next(iter(pfns.values()))).path

    def upload(self, mode, rse, contents):
        """Puts files to a storage and registers them there."""
        files = []
        for name, content in contents.items():
            self.grid.put(rse, self.path(mode, rse, name), content)
            sum_ = "%08x" % (zlib.adler32(content) & 0xFFFFFFFF)
            files.append({"scope": SCOPE, "name": name, "bytes": len(content), "adler32": sum_})
        self.client.add_replicas(self.rse(mode, rse), files)

    def rule(self, mode, dataset, names):
        self.client.add_dataset(SCOPE, dataset)
        self.client.attach_dids(SCOPE, dataset, [{"scope": SCOPE, "name": name} for name in names])
        return self.client.add_replication_rule(
            [{"scope": SCOPE, "name": dataset}], copies=1, rse_expression=self.rse(mode, "BETA"), lifetime=86400)[0]

    @staticmethod
    def submit():
        from rucio.daemons.conveyor.common import get_conveyor_rses
        from rucio.daemons.conveyor.submitter import submitter

        submitter(once=True, rses=get_conveyor_rses(), partition_wait_time=0, bulk=1000, group_bulk=5, group_policy="rule", sleep_time=0)

    @staticmethod
    def poll():
        from rucio.daemons.conveyor.poller import poller

        poller(once=True, partition_wait_time=0, older_than=0, fts_bulk=100, sleep_time=0)

    @staticmethod
    def finish():
        from rucio.daemons.conveyor.finisher import finisher
        from rucio.daemons.judge.evaluator import re_evaluator

        finisher(once=True, partition_wait_time=0, sleep_time=0, bulk=1000)
        re_evaluator(once=True, sleep_time=0)

    def clean(self, rule):
        """Deletes a rule now: the client's own deletion is due in an hour."""
        from rucio.daemons.judge.cleaner import rule_cleaner

        self.client.update_replication_rule(rule, {"lifetime": 0})
        time.sleep(1.1)
        rule_cleaner(once=True, sleep_time=0)

    @staticmethod
    def requests():
        """State and job of each request of the present, by file."""
        from rucio.db.sqla import models
        from rucio.db.sqla.session import get_session

        return {row.name: (row.state.name, row.external_id) for row in get_session()().query(models.Request).all()}

    def submit_held(self):
        """Submits while nothing starts: Rucio's receiver drops messages about a job whose id its submitter has not noted yet."""
        self.grid.limit("ALPHA", "BETA", 0)
        try:
            self.submit()
        finally:
            self.grid.limit("ALPHA", "BETA", None)

    def until_ok(self, rule, round_):
        def ok():
            round_()
            self.finish()
            state = self.client.get_replication_rule(rule)
            assert state["state"] != "STUCK", state
            return state["state"] == "OK" and state

        return wait("rule %s is OK; requests %s" % (rule, self.requests()), ok)


class Receiver:
    """`rucio-conveyor-receiver`, as long as it is entered."""

    def __enter__(self):
        from rucio.daemons.conveyor import receiver

        self.module = receiver
        receiver.GRACEFUL_STOP.clear()
        self.thread = threading.Thread(target=receiver.receiver, kwargs={"id_": "0"}, daemon=True)
        self.thread.start()
        time.sleep(3)
        return self

    def __exit__(self, *_):
        self.module.GRACEFUL_STOP.set()
        self.thread.join(30)


def contents(tag, count, size):
    """Files that no two have a block in common."""
    return {"%s.%d" % (tag, n): random.Random("%s.%d" % (tag, n)).randbytes(size) for n in range(count)}


def check_arrived(rucio, mode, files):
    for name, content in files.items():
        assert rucio.grid.read("BETA", rucio.path(mode, "BETA", name)) == content, "%s differs" % name


def check_how(rucio, mode, ids):
    """The jobs were submitted and moved as the mode says."""
    auth, way = {"TOKEN": ("oauth2", "pull"), "CERTIFICATE": ("certificate", "streamed")}[mode]
    for job in rucio.grid.jobs(ids):
        assert job["job_metadata"]["auth_method"] == auth, job
        moved = {file["transfer_type"] for file in job["files"] if file["file_state"] == "FINISHED"}
        assert moved <= {way}, job


def rule_on_files(rucio, mode, round_):
    files = contents("many-%s" % mode, FILES, SIZE)
    rucio.upload(mode, "ALPHA", files)
    rule = rucio.rule(mode, "many-%s" % mode, files)
    rucio.submit_held()
    ids = {job for name, (_, job) in rucio.requests().items() if name in files}
    assert None not in ids, rucio.requests()
    state = rucio.until_ok(rule, round_)
    assert state["locks_ok_cnt"] == FILES, state
    check_arrived(rucio, mode, files)
    check_how(rucio, mode, ids)
    say(mode, "a rule on %d files" % FILES, jobs=len(ids))


def rule_deleted_half_way(rucio, mode):
    files = contents("deleted-%s" % mode, FILES, 1_000_000)
    rucio.upload(mode, "ALPHA", files)
    rule = rucio.rule(mode, "deleted-%s" % mode, files)
    # A file in a second: on the busiest machine the limit of zero comes long before the last.
    rucio.grid.limit("ALPHA", "BETA", 1, "8 Mb/s")
    try:
        rucio.submit()
        ids = {job for name, (_, job) in rucio.requests().items() if name in files}
        states = lambda: [file["file_state"] for job in rucio.grid.jobs(ids) for file in job["files"]]
        wait("some files arrived", lambda: states().count("FINISHED") >= 3, 0.1)
        rucio.grid.limit("ALPHA", "BETA", 0)
        rucio.clean(rule)
        wait("all ended: %s" % states(), lambda: set(states()) <= {"FINISHED", "CANCELED"})
    finally:
        rucio.grid.limit("ALPHA", "BETA", None)
    seen = states()
    assert seen.count("FINISHED") >= 3 and seen.count("CANCELED") >= 3, seen
    assert not set(rucio.requests()) & set(files), rucio.requests()
    say(mode, "a rule deleted half way", finished=seen.count("FINISHED"), cancelled=seen.count("CANCELED"))


def corrupt_source(rucio, mode, round_):
    (name, content), = contents("corrupt-%s" % mode, 1, SIZE).items()
    for rse in ("ALPHA", "GAMMA"):
        rucio.upload(mode, rse, {name: content})
    # ALPHA is nearer, and its disk has changed a byte.
    rucio.grid.put("ALPHA", rucio.path(mode, "ALPHA", name), content[:-1] + bytes([content[-1] ^ 1]))
    rule = rucio.rule(mode, "corrupt-%s" % mode, [name])
    rucio.submit_held()
    ids = {rucio.requests()[name][1]}
    rucio.until_ok(rule, round_)
    check_arrived(rucio, mode, {name: content})
    job, = rucio.grid.jobs(ids)
    hosts = {urlsplit(file["source_surl"]).hostname: file for file in job["files"]}
    first, second = (hosts[urlsplit(rucio.grid.rses[rse]["url"]).hostname] for rse in ("ALPHA", "GAMMA"))
    assert (first["file_state"], second["file_state"]) == ("FAILED", "FINISHED"), job
    assert "CHECKSUM MISMATCH" in first["reason"], first
    say(mode, "a corrupt source and a good one", reason=first["reason"])


def run(path):
    from rucio.common.logging import setup_logging

    setup_logging(process_name="lab")
    rucio = Rucio(Grid(path))
    rucio.client.add_scope("root", SCOPE)
    for mode in ("TOKEN", "CERTIFICATE"):
        rucio.set_up(mode)
    # By token, nobody polls: completion is heard from the broker. By certificate, nobody listens.
    with Receiver():
        rule_on_files(rucio, "TOKEN", lambda: None)
        rule_deleted_half_way(rucio, "TOKEN")
        corrupt_source(rucio, "TOKEN", lambda: None)
    for scenario in (rule_on_files, corrupt_source):
        scenario(rucio, "CERTIFICATE", rucio.poll)
    rule_deleted_half_way(rucio, "CERTIFICATE")
    print(json.dumps({"passed": True}), flush=True)


def operate(path):
    """What the operators of a Rucio do: RSEs, identities of users, and daemons."""
    from rucio.common.logging import setup_logging
    from rucio.daemons.judge.cleaner import rule_cleaner
    from rucio.daemons.reaper.reaper import REGION, reaper

    setup_logging(process_name="lab")
    rucio = Rucio(Grid(path))
    os.environ["X509_USER_PROXY"] = rucio.grid.lab["user"]
    rucio.add_rses()
    for identity, kind in rucio.grid.lab["identities"]:
        rucio.client.add_identity("root", identity, kind, "lab@example.org")
    print(json.dumps({"ready": True}), flush=True)
    names = list(rucio.grid.rses)
    while True:
        rucio.submit()
        rucio.poll()
        rucio.finish()
        rule_cleaner(once=True, sleep_time=0)
        # A reaper that found little at an RSE leaves it alone for two minutes.
        REGION.invalidate()
        reaper(rses=names, include_rses=None, exclude_rses=None, once=True, sleep_time=60, delay_seconds=600, chunk_size=500)
        time.sleep(0.5)


if __name__ == "__main__":
    {"build": build, "run": run, "operate": operate}[sys.argv[1]](*sys.argv[2:])
    # Daemons leave threads behind.
    sys.stdout.flush()
    os._exit(0)

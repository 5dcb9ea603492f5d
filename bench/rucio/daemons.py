"""Measures how long Rucio's daemons take for a file: from the rule to its deletion, each daemon in one thread, beside a stub of a transfer service.

usage: daemons.py FILES

RUCIO_CONFIG names the configuration. Prints one line of JSON: milliseconds for a file, by step. The stub is a process of its own that answers at once, so
that what is measured is Rucio and its database.
"""
import http.server
import json
import multiprocessing
import os
import sys
import time
import uuid

GROUP = 50
SCOPE = "bench"
JOBS = {}


class Stub(http.server.BaseHTTPRequestHandler):
    """Takes jobs, and says of their files that they have come."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        id_ = str(uuid.uuid4())
        JOBS[id_] = [file["metadata"] for file in job["files"]]
        self.say({"job_id": id_})

    def do_GET(self):
        ids = self.path.split("?")[0].rsplit("/", 1)[1].split(",")
        moment = "2026-11-28T10:00:00"
        times = {key: moment for key in ("start_time", "finish_time", "staging_start", "staging_finished")}
        files = lambda id_: [
            {"file_state": "FINISHED", "file_metadata": file, "source_surl": "davs://s.example.org/x", "dest_surl": "davs://a.example.org/x", "reason": "", **times}
            for file in JOBS[id_]
        ]
        self.say([
            {"job_id": id_, "http_status": "200 Ok", "job_state": "FINISHED", "job_type": "N", "job_metadata": {"issuer": "rucio", "multi_sources": False}, "files": files(id_)}
            for id_ in ids
        ])

    def do_DELETE(self):
        self.say({"job_state": "CANCELED"})


def stub(pipe):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    pipe.send(server.server_port)
    server.serve_forever()


def set_up(service):
    from rucio.client import Client

    client = Client()
    client.add_scope("root", SCOPE)
    for rse in ("S", "A"):
        client.add_rse(rse, rse_type="DISK", deterministic=True, volatile=False)
        ways = {"read": 1, "write": 1, "delete": 1}
        client.add_protocol(rse, {
            "hostname": rse.lower() + ".example.org", "port": 443, "scheme": "davs", "prefix": "/data/", "impl": "rucio.rse.protocols.webdav.Default",
            "extended_attributes": None,
            "domains": {"lan": ways, "wan": {**ways, "third_party_copy_read": 1, "third_party_copy_write": 1}},
        })
        client.add_rse_attribute(rse, "fts", service)
        client.set_local_account_limit("root", rse, -1)
    client.add_distance("S", "A", {"distance": 1})
    return client


def dataset(client, name, n_files):
    files = [{"scope": SCOPE, "name": "%s.%06d" % (name, n), "bytes": 1_000_000, "adler32": "0cc737eb"} for n in range(n_files)]
    client.add_dataset(SCOPE, name)
    for at in range(0, n_files, 1000):
        client.add_replicas("S", files[at:at + 1000])
        names = [{"scope": SCOPE, "name": file["name"]} for file in files[at:at + 1000]]
        client.attach_dids(SCOPE, name, names)


def add_rule(name):
    """In process, as a load injector with the server's rights does it."""
    from rucio.common.types import InternalAccount, InternalScope
    from rucio.core.rule import add_rule as add

    return add(
        dids=[{"scope": InternalScope(SCOPE), "name": name}], account=InternalAccount("root"), copies=1, rse_expression="A", grouping="DATASET",
        weight=None, lifetime=86400, locked=False, subscription_id=None, source_replica_expression="S", activity="Data Challenge", purge_replicas=True)[0]


def submit():
    from rucio.daemons.conveyor.common import get_conveyor_rses
    from rucio.daemons.conveyor.submitter import submitter

    submitter(once=True, rses=get_conveyor_rses(), partition_wait_time=0, bulk=1_000_000, group_bulk=GROUP, group_policy="rule", sleep_time=0)


def poll():
    from rucio.daemons.conveyor.poller import poller

    poller(once=True, partition_wait_time=0, older_than=0, fts_bulk=100, db_bulk=1_000_000, sleep_time=0)


def finish():
    from rucio.daemons.conveyor.finisher import finisher

    finisher(once=True, partition_wait_time=0, sleep_time=0, bulk=100, db_bulk=1_000_000)


def delete(rule):
    """What the cleaner does for a rule that has ended."""
    from rucio.core.rule import delete_rule

    delete_rule(rule_id=rule, nowait=True)


def forget(n_files):
    """What the reaper does with the database for its files, in chunks of 100."""
    from rucio.core.replica import delete_replicas, list_and_mark_unlocked_replicas
    from rucio.core.rse import get_rse_id

    rse = get_rse_id("A")
    for _ in range(0, n_files, 100):
        marked = list_and_mark_unlocked_replicas(limit=100, bytes_=None, rse_id=rse, delay_seconds=600, only_delete_obsolete=True)
        delete_replicas(rse_id=rse, files=[{"scope": file["scope"], "name": file["name"]} for file in marked])


def main(n_files):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=stub, args=(theirs,), daemon=True)
    process.start()
    client = set_up("http://127.0.0.1:%d" % ours.recv())
    times, rules = {}, {}

    def timed(step, what, *arguments):
        begun = time.monotonic()
        result = what(*arguments)
        times[step] = (time.monotonic() - begun) / n_files * 1e3
        return result

    def states(state):
        from rucio.db.sqla import models
        from rucio.db.sqla.session import get_session

        rows = get_session()().query(models.Request).all()
        assert len(rows) == n_files and {row.state for row in rows} == {state}, (len(rows), {(row.state, row.err_msg) for row in rows})

    from rucio.db.sqla.constants import RequestState

    for name in ("warm", "whole", "queued", "submitted"):
        dataset(client, name, n_files)
    for name in ("warm", "whole"):
        rules[name] = timed("add_rule", add_rule, name)
        timed("submitter", submit)
        states(RequestState.SUBMITTED)
        timed("poller", poll)
        states(RequestState.DONE)
        timed("finisher", finish)
        assert client.get_replication_rule(rules[name])["locks_ok_cnt"] == n_files
    timed("cleaner, files there", delete, rules["whole"])
    rules["queued"] = add_rule("queued")
    timed("cleaner, files queued", delete, rules["queued"])
    rules["submitted"] = add_rule("submitted")
    submit()
    timed("cleaner, files submitted", delete, rules["submitted"])
    timed("reaper, database alone", forget, n_files)
    print(json.dumps(times), flush=True)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    finally:
        for child in multiprocessing.active_children():
            child.terminate()
    # Daemons leave threads behind.
    os._exit(0)

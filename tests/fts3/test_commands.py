"""The real fts3 client's command line, as operators and scripts use it: with a token, and with a VOMS proxy; and its Python
bindings with a proxy.

tests/fts3_commands.rs brings up the services and runs this file; all it says of them is in the environment and in the
folder it is started in. Storages with tokens are Weir's; those with proxies are a stub in here, which takes only clients
with a certificate and puts down whose it was.
"""

import datetime
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import uuid
import zlib

import fts3.rest.client.easy as fts3
from fts3.rest.client import ClientError, MethodNotAllowed, NotFound, Unauthorized

ENDPOINT = os.environ["FTS_ENDPOINT"]
ALPHA, BETA = os.environ["ALPHA"], os.environ["BETA"]
TOKEN = open("access.token").read().strip()
ADA, BOB, ROOT = ("grid-security/%s.proxy" % name for name in ("ada", "bob", "root"))
CONTENT = b"what is to be moved"
# On a loaded machine.
PATIENCE = 60


class Storage(http.server.BaseHTTPRequestHandler):
    """Files in memory, for clients with a certificate."""

    protocol_version = "HTTP/1.1"
    files, peers, held = {}, set(), threading.Event()

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self):
        subject = self.connection.getpeercert()["subject"]
        names = [value for rdn in subject for key, value in rdn if key == "commonName"]
        Storage.peers.add((self.command, names[0], len(names)))

    def do_HEAD(self):
        self.note()
        content = Storage.files.get(self.path)
        if content is None:
            return self.answer(404)
        digest = "adler32=%08x" % zlib.adler32(content)
        self.answer(200, Content_Length=str(len(content)), Digest=digest)

    def do_GET(self):
        self.note()
        content = Storage.files.get(self.path)
        if content is None:
            return self.answer(404)
        if self.path.startswith("/slow"):
            Storage.held.wait(PATIENCE)
            # Whoever asked has left by now.
            self.close_connection = True
            return
        self.answer(200, content)

    def do_PUT(self):
        self.note()
        Storage.files[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(201)

    def do_DELETE(self):
        self.note()
        self.answer(204 if Storage.files.pop(self.path, None) is not None else 404)


def storage():
    """Starts the stub, and gives its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("stub/stub.pem", "stub/stub.key")
    context.load_verify_locations("grid-security/certificates/ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= 0x40  # X509_V_FLAG_ALLOW_PROXY_CERTS
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Storage)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "https://127.0.0.1:%d" % server.server_port


STUB = storage()


def command(name, *arguments, proxy=None, status=0, plain=False):
    """Runs a command with a token, or with this proxy; what it said."""
    script = os.path.join(os.path.dirname(sys.executable), "fts-rest-" + name)
    who = [] if plain else ["--fts-access-token", TOKEN]
    environment = dict(os.environ)
    if proxy:
        who = []
        environment["X509_USER_PROXY"] = os.path.abspath(proxy)
    line = [sys.executable, script, "-s", ENDPOINT] + who + list(arguments)
    ran = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    told = ran.stdout + ran.stderr
    assert ran.returncode == status, "%s: %d\n%s" % (name, ran.returncode, told)
    return told


def job_id(told):
    return re.search(r"Job id: ([0-9a-f-]{36})", told).group(1)


class Commands:
    """What holds for both ways in."""

    proxy, dn, vo = None, None, None

    def run_command(self, name, *arguments, **options):
        return command(name, *arguments, proxy=self.proxy, **options)

    def source(self, name="file"):
        raise NotImplementedError

    def destination(self):
        raise NotImplementedError

    def tokens(self):
        return []

    def submit(self, *options, source="file"):
        """A job of one file."""
        ends = [self.source(source), "%s/%s" % (self.destination(), uuid.uuid4())]
        return job_id(self.run_command("transfer-submit", *self.tokens(), *options, *ends))

    def status(self, job):
        # Logging goes to standard error, or not, as the client likes it; JSON begins with a brace.
        told = self.run_command("transfer-status", "-j", job)
        return json.loads(told[told.index("{") :])

    def until(self, job, states=("FINISHED", "FAILED", "CANCELED", "FINISHEDDIRTY")):
        deadline = time.monotonic() + PATIENCE
        while True:
            status = self.status(job)
            if status["job_state"] in states:
                return status
            self.assertLess(time.monotonic(), deadline, status)
            time.sleep(0.2)

    def check_whoami(self):
        """Nobody could find out who they are here."""
        told = self.run_command("whoami")
        self.assertIn("User DN: " + self.dn, told)
        self.assertIn("VO: " + self.vo, told)
        self.assertRegex(told, "Delegation id: [0-9a-f]{16}\n")
        told = self.run_command("whoami", "-j")
        self.assertEqual(json.loads(told[told.index("{") :])["vos"], [self.vo])

    def check_submit_and_status(self):
        """What a script submits would not arrive, or not be told of."""
        job = self.submit("--job-metadata", '{"campaign": 1}', "--priority", "4", "--retry", "2", "-K")
        status = self.until(job)
        self.assertEqual(status["job_state"], "FINISHED", status["files"])
        self.assertEqual((status["user_dn"], status["priority"], status["retry"]), (self.dn, 4, 2))
        self.assertEqual(status["job_metadata"]["campaign"], 1)
        self.assertEqual(status["files"][0]["file_state"], "FINISHED")
        told = self.run_command("transfer-status", job)
        self.assertIn("Status: FINISHED\nClient DN: %s\n" % self.dn, told)
        self.assertIn("Not found", self.run_command("transfer-status", str(uuid.uuid4()), status=1))
        # Waits for the end itself.
        ends = [self.source(), "%s/%s" % (self.destination(), uuid.uuid4())]
        told = self.run_command("transfer-submit", *self.tokens(), "-b", "-i", "1", *ends)
        self.assertIn("Job finished with state FINISHED", told)
        # Says what it would send, and sends nothing.
        told = self.run_command("transfer-submit", *self.tokens(), "--dry-run", *ends)
        self.assertEqual(json.loads(told[told.index("{") :])["files"][0]["sources"], [ends[0]])

    def check_bulk(self, **more):
        """Many files at once are how experiments use the command."""
        name = "bulk-%s.json" % uuid.uuid4()
        entry = lambda n: dict(
            sources=[self.source()], destinations=["%s/%s-%d" % (self.destination(), name, n)], metadata={"n": n}, **more
        )
        with open(name, "w") as file:
            json.dump({"Files": [entry(n) for n in range(5)], "params": {"job_metadata": "label"}}, file)
        job = job_id(self.run_command("transfer-submit", "-f", name))
        status = self.until(job)
        self.assertEqual(status["job_state"], "FINISHED", status["files"])
        self.assertEqual([file["file_metadata"] for file in status["files"]], [{"n": n} for n in range(5)])

    def check_list_and_cancel(self):
        """A job that was taken back would go on, and one that runs would not be seen."""
        Storage.held.clear()
        job = self.submit(source="slow")
        try:
            self.until(job, ["ACTIVE"])
            self.assertIn("Request ID: " + job, self.run_command("transfer-list"))
            self.assertIn(job, self.run_command("transfer-list", "-j", "-o", self.vo, "-u", self.dn))
            self.assertNotIn(job, self.run_command("transfer-list", "-o", "another"))
            element = self.source("slow").rsplit(":", 1)[0]
            self.assertIn(job, self.run_command("transfer-list", "--source", element))
            self.assertNotIn(job, self.run_command("transfer-list", "--source", "https://elsewhere.example.org"))
            # 1: transfers are active.
            self.assertRegex(self.run_command("server-status", "--is-active", status=1), "active: [1-9]")
            number = self.status(job)["files"][0]["file_id"]
            self.assertIn("CANCELED", self.run_command("transfer-cancel", "%s:%d" % (job, number)))
            self.assertIn("CANCELED", self.run_command("transfer-cancel", job))
            self.assertEqual(self.until(job)["job_state"], "CANCELED")
        finally:
            Storage.held.set()
        self.assertIn("staging: 0", self.run_command("server-status"))
        self.run_command("server-status", "-H", "nobody.example.org")

    def check_deletion_jobs_are_told_as_fts_does(self):
        """A client would wait for what is never done."""
        told = self.run_command("delete-submit", self.destination() + "/x", status=1)
        self.assertIn("Deletion jobs are no longer supported by FTS", told)

    def check_ban(self, proxy):
        """An operator could not keep work away from a storage that is down."""
        banned = "https://down-%s.example.org" % self.vo
        told = command("ban", "--storage", banned, proxy=proxy)
        self.assertIn("No jobs affected", told)
        refused = self.run_command(
            "transfer-submit", *self.tokens(), self.source(), banned + "/f", status=1
        )
        self.assertIn("banned", refused)
        command("ban", "--storage", banned, "--unban", proxy=proxy)
        waiting = ["--status", "wait", "--allow-submit", "--timeout", "3600"]
        command("ban", "--storage", banned, *waiting, proxy=proxy)
        job = job_id(self.run_command("transfer-submit", *self.tokens(), self.source(), banned + "/f"))
        self.assertNotIn(self.status(job)["job_state"], ["ACTIVE", "FAILED"])
        told = command("ban", "--storage", banned, proxy=proxy)
        self.assertIn(job, told)
        self.assertEqual(self.until(job)["job_state"], "CANCELED")
        command("ban", "--storage", banned, "--unban", proxy=proxy)


class WithToken(Commands, unittest.TestCase):
    dn, vo = "tester", "test"

    def source(self, name="file"):
        # No storage of Weir is slow: this one never answers the transfer service, which has no certificate for it.
        return "%s/%s" % (ALPHA if name == "file" else SLOW, name)

    def destination(self):
        return BETA

    def tokens(self):
        return ["--src-access-token", TOKEN, "--dst-access-token", TOKEN]

    def test_whoami(self):
        self.check_whoami()

    def test_delegate(self):
        """Scripts delegate before anything else, whatever their credential."""
        self.assertRegex(self.run_command("delegate", "-v"), "Delegation id: [0-9a-f]{16}")

    def test_submit_and_status(self):
        self.check_submit_and_status()

    def test_bulk(self):
        self.check_bulk(source_tokens=[TOKEN], destination_tokens=[TOKEN])

    def test_list_and_cancel(self):
        self.check_list_and_cancel()

    def test_delete(self):
        self.check_deletion_jobs_are_told_as_fts_does()

    def test_ban(self):
        self.check_ban(None)

    def test_ban_of_a_user(self):
        """Somebody's jobs could not be stopped; or an operator could shut the door behind himself."""
        self.assertIn("No jobs affected", command("ban", "--user", "/DC=xy/DC=grid/CN=Bob"))
        self.assertIn("banned", command("whoami", proxy=BOB, status=1))
        command("ban", "--user", "/DC=xy/DC=grid/CN=Bob", "--unban")
        command("whoami", proxy=BOB)
        self.assertIn("409", command("ban", "--user", "tester", status=1))

    def test_the_old_option_for_tokens(self):
        """`--access-token` is one token for all three."""
        ends = [self.source(), "%s/%s" % (BETA, uuid.uuid4())]
        told = command("transfer-submit", "--access-token", TOKEN, *ends, plain=True)
        script_status = command("transfer-status", "-j", job_id(told))
        self.assertIn('"job_id"', script_status)
        self.assertEqual(self.until(job_id(told))["job_state"], "FINISHED")

    def test_nobody(self):
        """Somebody without any credential would be let in, or see a traceback."""
        told = command("whoami", plain=True, status=1)
        self.assertRegex(told, "Unauthorized: the request carries n")
        self.assertNotIn("Traceback", told)


class WithCertificate(Commands, unittest.TestCase):
    proxy, dn, vo = ADA, "/DC=xy/DC=grid/CN=Ada Lovelace", "dune"

    def setUp(self):
        Storage.files.update({"/file": CONTENT, "/slow": CONTENT})

    def source(self, name="file"):
        return "%s/%s" % (STUB, name)

    def destination(self):
        return STUB + "/ada"

    def test_whoami(self):
        self.check_whoami()
        told = self.run_command("whoami", "-j")
        me = json.loads(told[told.index("{") :])
        self.assertEqual(me["voms_cred"], ["/dune/Role=NULL/Capability=NULL", "/dune/prod/Role=pilot/Capability=NULL"])
        self.assertEqual((me["roles"], me["method"]), (["pilot"], "certificate"))

    def test_delegate(self):
        """Jobs would have nothing to move files with."""
        first = self.run_command("delegate")
        identity = re.search("Delegation id: ([0-9a-f]{16})", first).group(1)
        self.assertIn(identity, self.run_command("delegate", "-f", "-H", "4"))
        context = fts3.Context(ENDPOINT, ucert=ADA, ukey=ADA)
        told = json.loads(context.get("/delegation/" + identity))
        self.assertIn("/dune/prod/Role=pilot/Capability=NULL", told["voms_attrs"])

    def test_submit_and_status(self):
        self.check_submit_and_status()
        # Ada's own name and that of the proxies: hers, and the one that she signed for the service.
        self.assertEqual({(name, names) for method, name, names in Storage.peers}, {("Ada Lovelace", 3)})
        self.assertLessEqual({"HEAD", "GET", "PUT"}, {method for method, _, _ in Storage.peers})

    def test_bulk(self):
        self.check_bulk()

    def test_list_and_cancel(self):
        self.check_list_and_cancel()

    def test_delete(self):
        self.check_deletion_jobs_are_told_as_fts_does()

    def test_ban(self):
        self.check_ban(ROOT)
        self.assertIn("dministrators", command("ban", "--storage", "https://x", proxy=BOB, status=1))

    def test_others(self):
        """Nobody of the VO could look after a job of somebody who is away."""
        Storage.held.clear()
        job = self.submit(source="slow")
        try:
            self.until(job, ["ACTIVE"])
            self.assertIn("Status: ", command("transfer-status", job, proxy=ROOT))
            self.assertIn("Status: ", command("transfer-status", job, proxy=BOB))
            self.assertIn(job, command("transfer-list", "-j", proxy=BOB))
            self.assertIn("CANCELED", command("transfer-cancel", job, proxy=BOB))
            self.assertEqual(self.until(job)["job_state"], "CANCELED")
        finally:
            Storage.held.set()

    def test_bindings(self):
        """Experiments' own tools use the bindings, with a proxy as with a token."""
        context = fts3.Context(ENDPOINT, ucert=ADA, ukey=ADA)
        self.assertEqual(context.access_method, "X509")
        me = fts3.whoami(context)
        self.assertEqual((me["user_dn"], me["vos"]), (self.dn, ["dune"]))
        self.assertEqual(fts3.delegate(context, lifetime=datetime.timedelta(hours=6), force=True), me["delegation_id"])
        transfer = fts3.new_transfer(STUB + "/file", "%s/ada/%s" % (STUB, uuid.uuid4()), filesize=len(CONTENT), metadata="m")
        job = fts3.submit(context, fts3.new_job([transfer], metadata={"m": 1}, retry=-1))
        status = self.until(job)
        self.assertEqual(status["job_state"], "FINISHED", status["files"])
        self.assertEqual(status["job_metadata"], {"m": 1, "auth_method": "certificate"})
        self.assertEqual(status["files"][0]["file_metadata"], {"label": "m"})
        self.assertEqual(fts3.get_job_status(context, job)["vo_name"], "dune")
        other = fts3.submit(context, fts3.new_job([transfer], overwrite=True))
        self.assertEqual([one["job_id"] for one in fts3.get_jobs_statuses(context, [job, other])], [job, other])
        self.assertEqual(fts3.cancel(context, job)["job_state"], "FINISHED")
        self.assertIsInstance(fts3.list_jobs(context), list)
        with self.assertRaises(NotFound):
            fts3.get_job_status(context, str(uuid.uuid4()))
        with self.assertRaises(MethodNotAllowed):
            fts3.submit(context, fts3.new_delete_job([STUB + "/file"]))
        with self.assertRaises(Unauthorized):
            fts3.ban_se(context, "https://x.example.org")
        root = fts3.Context(ENDPOINT, ucert=ROOT, ukey=ROOT)
        self.assertEqual(fts3.ban_se(root, "https://x.example.org"), [])
        fts3.unban_se(root, "https://x.example.org")
        self.assertEqual(fts3.ban_dn(root, "/DC=xy/DC=grid/CN=Nobody"), [])
        fts3.unban_dn(root, "/DC=xy/DC=grid/CN=Nobody")
        with self.assertRaisesRegex(ClientError, "409"):
            fts3.ban_dn(root, "/DC=xy/DC=grid/CN=Root")


def silent():
    """Takes connections and says nothing: what is read from there stays active until somebody stops it."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    kept = []

    def accept():
        while True:
            kept.append(listener.accept())

    threading.Thread(target=accept, daemon=True).start()
    return "https://127.0.0.1:%d" % listener.getsockname()[1]


SLOW = silent()

if __name__ == "__main__":
    unittest.main(verbosity=2)

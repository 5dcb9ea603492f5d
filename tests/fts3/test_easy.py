"""The real fts3 client's Python bindings, driven as an experiment's own tools drive them.

tests/fts3_bindings.rs brings up the grid and runs this file; all it says of the grid is in the environment. Sources below
SLOW hand out a part of a file and then nothing, so that a transfer from there stays active until somebody stops it.
"""

import json
import os
import time
import unittest
import uuid

import fts3.rest.client.easy as fts3
import requests
from fts3.rest.client import (
    BadEndpoint,
    ClientError,
    MethodNotAllowed,
    NotFound,
    Unauthorized,
)

ENDPOINT = os.environ["FTS_ENDPOINT"]
ALPHA, BETA = os.environ["WEIR_RSE_ALPHA"], os.environ["WEIR_RSE_BETA"]
SLOW = os.environ["SLOW"]
SIZE, ADLER32 = int(os.environ["SIZE"]), os.environ["ADLER32"]
ISSUED = open(os.environ["BEARER_TOKEN_FILE"]).read().strip()
END = ["FINISHED", "FINISHEDDIRTY", "FAILED", "CANCELED"]
# On a loaded machine; the grid itself gives up a copy that stands still after 60 s.
PATIENCE = 45


def element(url):
    """A storage element as FTS tells them apart: scheme and host, no port."""
    return url.rsplit(":", 1)[0]


def head(url):
    """The storage's own answer, so that the transfer service is not its only witness."""
    trusted = os.environ["REQUESTS_CA_BUNDLE"]
    return requests.head(url, headers={"Authorization": "Bearer " + ISSUED}, verify=trusted, timeout=30)


class Bindings(unittest.TestCase):
    def setUp(self):
        self.context = fts3.Context(ENDPOINT, fts_access_token=ISSUED)
        # No test meets another one's files.
        self.folder = "%s/%s" % (BETA, self.id().rsplit(".", 1)[1])

    def transfer(self, name, source=ALPHA, **options):
        tokens = dict(source_token=ISSUED, destination_token=ISSUED)
        return fts3.new_transfer(source + "/file", "%s/%s" % (self.folder, name), **tokens, **options)

    def submit(self, *transfers, **options):
        job = fts3.new_job(list(transfers), unmanaged_tokens=True, **options)
        return fts3.submit(self.context, job)

    def until(self, job, states):
        """The job with its files, once it is in one of these states."""
        deadline = time.monotonic() + PATIENCE
        while True:
            status = fts3.get_job_status(self.context, job, list_files=True)
            if status["job_state"] in states:
                return status
            self.assertLess(time.monotonic(), deadline, "still %s: %s" % (status["job_state"], status["files"]))
            time.sleep(0.1)

    def running(self, name="running", **options):
        """The id of a job that runs until it is stopped."""
        job = self.submit(self.transfer(name, source=SLOW), **options)
        self.addCleanup(fts3.cancel, self.context, job)
        self.until(job, ["ACTIVE"])
        return job

    def test_context_and_whoami(self):
        """Tools could not tell who they are, nor what they speak to."""
        self.assertEqual(self.context.access_method, "oauth2")
        self.assertEqual(self.context.get_endpoint_info()["url"], ENDPOINT)
        self.assertEqual(self.context.get_endpoint_info()["api"]["major"], 3)
        me = fts3.whoami(self.context)
        self.assertEqual((me["vos"], me["method"]), (["test"], "oauth2"))
        self.assertTrue(me["user_dn"] and me["delegation_id"])
        # With a token there is nothing to delegate, and no call for it.
        self.assertEqual(fts3.delegate(self.context), "")

    def test_a_job_and_its_files(self):
        """A job that went well would look like something else."""
        job = self.submit(
            self.transfer("one", checksum="ADLER32:" + ADLER32, filesize=SIZE, activity="bulk", scitag=100),
            self.transfer("two", checksum=None, metadata={"dataset": 7}),
            verify_checksum="both",
            metadata={"campaign": "spring"},
            priority=4,
            retry=2,
        )
        self.assertEqual(str(uuid.UUID(job)), job)
        status = self.until(job, END)
        self.assertEqual(status["job_state"], "FINISHED")
        self.assertEqual((status["job_id"], status["vo_name"]), (job, "test"))
        # FTS3 adds how the user came in.
        self.assertEqual(status["job_metadata"], {"campaign": "spring", "auth_method": "oauth2"})
        self.assertEqual(status["priority"], 4)
        self.assertEqual((status["source_se"], status["dest_se"]), (element(ALPHA), element(BETA)))
        self.assertEqual(status["user_dn"], fts3.whoami(self.context)["user_dn"])
        self.assertRegex(status["submit_time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
        self.assertEqual(status["dm"], [])
        one, two = sorted(status["files"], key=lambda file: file["file_index"])
        for name, file in ("one", one), ("two", two):
            self.assertEqual(file["file_state"], "FINISHED", file["reason"])
            self.assertEqual(file["source_surl"], ALPHA + "/file")
            self.assertEqual(file["dest_surl"], "%s/%s" % (self.folder, name))
            self.assertEqual(file["filesize"], SIZE)
            self.assertEqual(int(head(file["dest_surl"]).headers["Content-Length"]), SIZE)
        self.assertEqual((one["checksum"], one["activity"], one["scitag"]), ("ADLER32:" + ADLER32, "bulk", 100))
        self.assertEqual((two["file_metadata"], two["activity"]), ({"dataset": 7}, "default"))
        # Without files, there are none.
        self.assertNotIn("files", fts3.get_job_status(self.context, job))

    def test_many_jobs_at_once(self):
        """Rucio polls in bulk; a row that is missing or another job's would be a lost transfer there."""
        jobs = [self.submit(self.transfer(str(number), metadata=number)) for number in range(3)]
        for job in jobs:
            self.assertEqual(self.until(job, END)["job_state"], "FINISHED")
        plain = fts3.get_jobs_statuses(self.context, jobs)
        self.assertEqual({job["job_id"]: job["job_state"] for job in plain}, dict.fromkeys(jobs, "FINISHED"))
        asked = {"file_state", "dest_surl", "finish_time", "start_time", "reason", "source_surl", "file_metadata"}
        for status in fts3.get_jobs_statuses(self.context, jobs, list_files=True):
            (file,) = status["files"]
            self.assertEqual(set(file), asked)
            number = jobs.index(status["job_id"])
            self.assertEqual(file["dest_surl"], "%s/%d" % (self.folder, number))
            self.assertEqual(file["file_state"], "FINISHED")
            self.assertLessEqual(file["start_time"], file["finish_time"])

    def test_lists_hold_what_runs(self):
        """An operator would look at the wrong jobs, or at none."""
        done = self.submit(self.transfer("done"))
        self.until(done, END)
        running = self.running()
        delegation = fts3.whoami(self.context)["delegation_id"]

        def listed(**filters):
            return {job["job_id"]: job["job_state"] for job in fts3.list_jobs(self.context, **filters)}

        self.assertEqual(listed().get(running), "ACTIVE")
        self.assertNotIn(done, listed())
        self.assertEqual(listed(delegation_id=delegation, state_in=["ACTIVE"]).get(running), "ACTIVE")
        self.assertNotIn(running, listed(delegation_id=delegation, state_in=["SUBMITTED"]))
        # As with FTS3, finished jobs are listed only within a time window, which the bindings cannot name.
        self.assertEqual(listed(delegation_id=delegation, state_in=["FINISHED"]), {})
        self.assertIn(running, listed(vo="test", source_se=element(ALPHA), dest_se=element(BETA)))
        self.assertEqual(listed(vo="another"), {})
        self.assertEqual(listed(source_se=element(BETA)), {})

    def test_a_running_job_is_cancelled(self):
        """Bytes would go on flowing after the client was told that they do not."""
        job = self.running()
        answer = fts3.cancel(self.context, job)
        self.assertEqual((answer["job_id"], answer["job_state"]), (job, "CANCELED"))
        status = fts3.get_job_status(self.context, job, list_files=True)
        self.assertEqual((status["job_state"], status["files"][0]["file_state"]), ("CANCELED", "CANCELED"))
        self.assertEqual(head(self.folder + "/running").status_code, 404)
        # What is over stays as it is, and the client is told what that was.
        self.assertEqual(fts3.cancel(self.context, job)["job_state"], "CANCELED")

    def test_one_file_of_a_job_is_cancelled(self):
        """Its neighbours would be taken back with it."""
        job = self.submit(self.transfer("good"), self.transfer("slow", source=SLOW))
        deadline = time.monotonic() + PATIENCE
        states = {}
        while states != {"good": "FINISHED", "slow": "ACTIVE"}:
            self.assertLess(time.monotonic(), deadline, states)
            time.sleep(0.1)
            files = fts3.get_job_status(self.context, job, list_files=True)["files"]
            states = {file["dest_surl"].rsplit("/", 1)[1]: file["file_state"] for file in files}
        ids = {file["dest_surl"].rsplit("/", 1)[1]: file["file_id"] for file in files}
        self.assertEqual(fts3.cancel(self.context, job, file_ids=[ids["slow"]]), "CANCELED")
        self.assertEqual(self.until(job, END)["job_state"], "CANCELED")
        both = fts3.cancel(self.context, job, file_ids=[ids["good"], ids["slow"]])
        self.assertEqual(both, ["FINISHED", "CANCELED"])
        self.assertEqual(int(head(self.folder + "/good").headers["Content-Length"]), SIZE)
        self.assertEqual(head(self.folder + "/slow").status_code, 404)

    def test_hops_go_one_after_the_other(self):
        """A file that can only come by way of a third place would not come, or the place before the last would be overwritten."""
        there = self.folder.replace(BETA, ALPHA) + "/there"
        tokens = dict(source_token=ISSUED, destination_token=ISSUED)
        hops = [self.transfer("way"), fts3.new_transfer(self.folder + "/way", there, **tokens)]
        job = self.submit(*hops, multihop=True, verify_checksum="both")
        status = self.until(job, END)
        self.assertEqual((status["job_state"], status["job_type"]), ("FINISHED", "H"))
        self.assertEqual([file["file_state"] for file in status["files"]], ["FINISHED", "FINISHED"])
        self.assertEqual([file["file_index"] for file in status["files"]], [0, 1])
        self.assertEqual(int(head(there).headers["Content-Length"]), SIZE)
        # The second time both places are taken: only the one on the way may be replaced.
        again = self.submit(*hops, multihop=True, overwrite_hop=True)
        status = self.until(again, END)
        self.assertEqual((status["job_state"], status["overwrite_flag"]), ("FAILED", "M"))
        self.assertEqual([file["file_state"] for file in status["files"]], ["FINISHED", "FAILED"])
        self.assertIn("Destination file exists and overwrite is not enabled", status["files"][1]["reason"])
        # A hop that fails: what comes after it is never used, and one file alone cannot be taken back.
        broken = fts3.new_transfer(ALPHA + "/nothing", self.folder + "/nothing", **tokens)
        after = fts3.new_transfer(self.folder + "/nothing", there + "2", **tokens)
        job = self.submit(broken, after, multihop=True)
        status = self.until(job, END)
        self.assertEqual(status["job_state"], "FAILED")
        self.assertEqual([file["file_state"] for file in status["files"]], ["FAILED", "NOT_USED"])
        with self.assertRaisesRegex(ClientError, "must be cancelled at once"):
            fts3.cancel(self.context, job, file_ids=[status["files"][1]["file_id"]])

    def test_another_source_takes_over(self):
        """Rucio names all replicas of a file, and looks for the one that was used; the others must stay NOT_USED."""
        transfer = self.transfer("file", selection_strategy="orderly")
        # The client's own way to add a source has never worked.
        transfer["sources"] = [ALPHA + "/nothing", ALPHA + "/file", ALPHA + "/never"]
        transfer["source_tokens"] = [ISSUED] * 3
        job = self.submit(transfer, metadata={"multi_sources": True}, verify_checksum="both")
        status = self.until(job, END)
        self.assertEqual((status["job_state"], status["job_type"]), ("FINISHED", "R"))
        self.assertEqual(status["job_metadata"]["multi_sources"], True)
        self.assertEqual([file["file_state"] for file in status["files"]], ["FAILED", "FINISHED", "NOT_USED"])
        self.assertEqual({file["file_index"] for file in status["files"]}, {0})
        self.assertEqual(int(head(self.folder + "/file").headers["Content-Length"]), SIZE)
        with self.assertRaisesRegex(ClientError, "Multiple replica jobs must only have one unique file"):
            self.submit(transfer, transfer)

    def test_what_is_at_a_taken_destination_is_told(self):
        """Rucio would take a file that has arrived by another way for lost, and fetch it again for ever."""
        first = self.submit(self.transfer("file"))
        self.assertEqual(self.until(first, END)["job_state"], "FINISHED")
        second = self.submit(self.transfer("file", metadata={"request_id": "r"}), dst_file_report=True)
        (file,) = self.until(second, END)["files"]
        self.assertEqual(file["file_state"], "FAILED")
        found = file["file_metadata"]["dst_file"]
        self.assertEqual((found["file_size"], found["checksum_type"], found["checksum_value"]), (SIZE, "ADLER32", ADLER32))
        self.assertEqual(file["file_metadata"]["request_id"], "r")

    def test_unknown_jobs_are_not_found(self):
        """A tool would wait for ever for a job that does not exist."""
        unknown = str(uuid.uuid4())
        with self.assertRaises(NotFound) as caught:
            fts3.get_job_status(self.context, unknown)
        self.assertEqual(caught.exception.resource, unknown)
        with self.assertRaises(NotFound):
            fts3.cancel(self.context, unknown)
        with self.assertRaises(NotFound):
            fts3.get_jobs_statuses(self.context, [unknown])
        known = self.submit(self.transfer("known"))
        with self.assertRaises(ClientError) as caught:
            fts3.get_jobs_statuses(self.context, [known, unknown])
        self.assertIn(unknown, str(caught.exception))
        self.assertIn("does not belong", fts3.cancel(self.context, known, file_ids=["none"]))

    def test_refusals_are_the_clients_own_exceptions(self):
        """A tool would see a traceback of something else, and retry what never works."""
        with self.assertRaisesRegex(ClientError, "'overwrite-hop' requires multihop job submission"):
            self.submit(self.transfer("hop"), overwrite_hop=True)
        with self.assertRaisesRegex(ClientError, "Bad request: "):
            self.submit(fts3.new_transfer("no url", self.folder + "/file"))
        with self.assertRaises(MethodNotAllowed):
            fts3.submit(self.context, fts3.new_delete_job([ALPHA + "/file"]))
        stranger = fts3.Context(ENDPOINT, fts_access_token=ISSUED[:-4] + "AAAA")
        with self.assertRaises(Unauthorized):
            fts3.whoami(stranger)
        with self.assertRaises(BadEndpoint):
            fts3.Context(SLOW.replace("https", "http"), fts_access_token=ISSUED)

    def test_namespaces(self):
        """What has no function of its own in the bindings goes through their context, with its exceptions."""

        def change(call, **body):
            return json.loads(self.context.post_json("/dm/" + call, json.dumps(body)))

        self.assertEqual(change("mkdir", surl=self.folder), 0)
        job = self.submit(self.transfer("f"))
        self.assertEqual(self.until(job, END)["job_state"], "FINISHED")
        listed = json.loads(self.context.get("/dm/list", {"surl": self.folder}))
        self.assertEqual([(name, told["size"]) for name, told in listed.items()], [("f", SIZE)])
        with self.assertRaisesRegex(ClientError, "409"):
            change("rmdir", surl=self.folder)
        change("rename", old=self.folder + "/f", new=self.folder + "/g")
        told = json.loads(self.context.get("/dm/stat", {"surl": self.folder + "/g"}))
        self.assertEqual(told["size"], SIZE)
        with self.assertRaises(NotFound):
            self.context.get("/dm/stat", {"surl": self.folder + "/f"})
        change("unlink", surl=self.folder + "/g")
        change("rmdir", surl=self.folder)
        self.assertEqual(head(self.folder).status_code, 404)

    def test_submitting_again(self):
        """A lost answer would make a second transfer, or a second try would not be made."""
        first = self.submit(self.transfer("again"))
        self.assertEqual(self.until(first, END)["job_state"], "FINISHED")
        second = self.submit(self.transfer("again"))
        self.assertNotEqual(second, first)
        status = self.until(second, END)
        self.assertEqual(status["job_state"], "FAILED")
        self.assertIn("overwrite is not enabled", status["files"][0]["reason"])
        third = self.submit(self.transfer("again"), overwrite=True)
        self.assertEqual(self.until(third, END)["job_state"], "FINISHED")

        once = dict(id_generator=fts3.JobIdGenerator.deterministic, sid=str(uuid.uuid4()))
        job = self.submit(self.transfer("once"), **once)
        # FTS3 answers 409 here, after which a client whose first answer was lost must ask whether the job is its own.
        self.assertEqual(self.submit(self.transfer("once"), **once), job)
        self.assertEqual(self.until(job, END)["job_state"], "FINISHED")

        # What was cancelled can be asked for again.
        running = self.running("later")
        fts3.cancel(self.context, running)
        again = self.submit(self.transfer("later"))
        self.assertEqual(self.until(again, END)["job_state"], "FINISHED")


if __name__ == "__main__":
    unittest.main(verbosity=2)

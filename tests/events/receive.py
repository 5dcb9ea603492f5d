"""Subscribes to a broker and hands every message to Rucio's own receiver, then prints it: a line of JSON each, with whether the
receiver took it for news of one of its requests. A message that the receiver cannot read ends the program.

usage: receive.py PORT CA USER PASSWORD VO DESTINATION...; "ready" is printed once the subscriptions stand. RUCIO_HOME has etc/rucio.cfg.
"""
import json
import os
import sys
import threading
import traceback

import stomp
from rucio.daemons.conveyor.receiver import Receiver

port, authority, user, password, vo, *destinations = sys.argv[1:]
ended = threading.Event()


class Printing(Receiver):
    """Rucio's receiver up to the place where it would write to its database."""

    def on_message(self, frame):
        self.update = None
        try:
            super().on_message(frame)
        except Exception:
            traceback.print_exc()
            os._exit(1)
        body = json.loads(frame.body)
        print(json.dumps({"headers": frame.headers, "body": body, "taken": self.update == body}), flush=True)

    def _perform_request_update(self, msg, **_):
        self.update = msg

    def on_disconnected(self):
        ended.set()


connection = stomp.Connection12([("127.0.0.1", int(port))])
connection.set_ssl([("127.0.0.1", int(port))], ca_certs=authority)
connection.set_listener("receiver", Printing(broker="test", id_="test", total_threads=1, transfer_stats_manager=None, voname=vo))
connection.connect(user, password, wait=True)
for number, destination in enumerate(destinations):
    connection.subscribe(destination=destination, id=number, ack="auto", headers={"receipt": f"sub-{number}"})
print("ready", flush=True)
ended.wait()

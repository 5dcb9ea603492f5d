"""Subscribes to a broker as Rucio's receiver does, with the same library, and prints what comes: a line of JSON each.

usage: receive.py PORT CA USER PASSWORD DESTINATION...; "ready" is printed once the subscriptions stand.
"""
import json
import sys
import threading

import stomp

port, authority, user, password, *destinations = sys.argv[1:]
ended = threading.Event()


class Receiver(stomp.ConnectionListener):
    def on_message(self, frame):
        try:
            body = json.loads(frame.body)
        except ValueError:
            body = json.loads(frame.body[:-1])  # as Rucio reads it: FTS3 ends messages with EOT
        print(json.dumps({"headers": frame.headers, "body": body, "eot": frame.body.endswith("\x04")}), flush=True)

    def on_disconnected(self):
        ended.set()


connection = stomp.Connection12([("127.0.0.1", int(port))])
connection.set_ssl([("127.0.0.1", int(port))], ca_certs=authority)
connection.set_listener("receiver", Receiver())
connection.connect(user, password, wait=True)
for number, destination in enumerate(destinations):
    connection.subscribe(destination=destination, id=number, ack="auto", headers={"receipt": f"sub-{number}"})
print("ready", flush=True)
ended.wait()

"""A tape in front of folders of files: HTTPS with GET and HEAD, and the WLCG Tape REST API, version 1.

serve.py ADDRESS PORT CERTIFICATE KEY FOLDER SEED

/NAME/... is a file of FOLDER/NAME/... . It is on tape, and can be read only while somebody has it pinned: from a moment after it was
asked for until that request gives it back. GET /stats tells of all requests, and of reads that came too early or too late.
"""

import json
import os
import random
import ssl
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADDRESS, PORT, CERTIFICATE, KEY, FOLDER, SEED = sys.argv[1:]
LOCK = threading.Lock()
DRAW = random.Random(int(SEED))
# By request: by path, when it comes online; none: it is not pinned any more.
REQUESTS = {}
STATS = {"polls": 0, "read_offline": []}


def file_of(path):
    return os.path.join(FOLDER, path.lstrip("/"))


def is_online(path):
    now = time.monotonic()
    return any(pins.get(path) is not None and pins[path] <= now for pins in REQUESTS.values())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if "Content-Length" not in dict(headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def tell(self, status, value):
        self.answer(status, json.dumps(value).encode(), [("Content-Type", "application/json")])

    def do_HEAD(self):
        try:
            content = open(file_of(self.path), "rb").read()
        except OSError:
            return self.answer(404)
        digest = "adler32=%08x" % zlib.adler32(content)
        self.answer(200, headers=[("Content-Length", str(len(content))), ("Digest", digest)])

    def do_GET(self):
        if self.path == "/stats":
            with LOCK:
                held = {name: [p for p, at in pins.items() if at is not None] for name, pins in REQUESTS.items()}
                return self.tell(200, {**STATS, "held": held})
        if self.path == "/.well-known/wlcg-tape-rest-api":
            endpoint = {"uri": f"https://{ADDRESS}:{PORT}/api/v1", "version": "v1"}
            return self.tell(200, {"sitename": "lab", "endpoints": [endpoint]})
        if self.path.startswith("/api/v1/stage/"):
            with LOCK:
                return self.tell(*self.status(self.path.rstrip("/").rsplit("/", 1)[1]))
        with LOCK:
            online = is_online(self.path)
            if not online:
                STATS["read_offline"].append(self.path)
        if not online:
            return self.answer(503, b"on tape")
        self.answer(200, open(file_of(self.path), "rb").read())

    def status(self, name):
        STATS["polls"] += 1
        if name not in REQUESTS:
            return 404, {"title": "no such request"}
        files = []
        for path, at in REQUESTS[name].items():
            if not os.path.exists(file_of(path)):
                files.append({"path": path, "error": "no such file or directory"})
            else:
                files.append({"path": path, "onDisk": at is not None and at <= time.monotonic()})
        return 200, {"id": name, "files": files}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = self.path.strip("/").split("/")
        with LOCK:
            status, value = self.change(parts[2:], body)
        self.tell(status, value)

    def change(self, parts, body):
        if parts == ["stage"]:
            name = f"request-{len(REQUESTS)}"
            delay = lambda: time.monotonic() + DRAW.uniform(0.0, 2.0)
            REQUESTS[name] = {file["path"]: delay() for file in body["files"]}
            return 201, {"requestId": name}
        name = parts[1]
        if name not in REQUESTS:
            return 404, {"title": "no such request"}
        pins = REQUESTS[name]
        if any(path not in pins for path in body["paths"]):
            return 400, {"title": "a path is not part of the request"}
        for path in body["paths"]:
            pins[path] = None
        return 200, {}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def get_request(self):
        client, address = self.socket.accept()
        return CONTEXT.wrap_socket(client, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, *_):
        # Clients go, and are killed.
        pass


CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CONTEXT.load_cert_chain(CERTIFICATE, KEY)
server = Server((ADDRESS, int(PORT)), Handler)
print("ready", flush=True)
server.serve_forever()

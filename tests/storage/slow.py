"""Stands before a storage and takes its time over deletions; prints a line for each.

usage: slow.py ADDRESS PORT CERTIFICATE KEY AUTHORITY URL SECONDS
"""

import http.client
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ADDRESS, PORT, CERTIFICATE, KEY, AUTHORITY, URL, SECONDS = sys.argv[1:]
STORAGE = urlsplit(URL)
TRUST = ssl.create_default_context(cafile=AUTHORITY)


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "DELETE":
            print("DELETE", self.path, flush=True)
            time.sleep(float(SECONDS))
        storage = http.client.HTTPSConnection(STORAGE.hostname, STORAGE.port, context=TRUST, timeout=120)
        left_out = ("host", "connection", "expect", "content-length")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
        storage.request(self.command, self.path, body, headers)
        answer = storage.getresponse()
        is_short = self.command == "HEAD" or answer.getheader("Content-Length") is not None
        content = answer.read()
        storage.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" and is_short else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_COPY = do_MKCOL = do_PROPFIND = do_DELETE = do_OPTIONS = do_MOVE = forward

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer((ADDRESS, int(PORT)), Door)
server.daemon_threads = True
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
# The handshake happens when a connection's own thread first reads.
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print("ready", flush=True)
server.serve_forever()

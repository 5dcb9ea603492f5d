"""Stands before a transfer service of Weir's and answers as an FTS3 does: without the fields that are Weir's own.

usage: plain.py ADDRESS PORT CERTIFICATE KEY AUTHORITY URL
"""

import http.client
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ADDRESS, PORT, CERTIFICATE, KEY, AUTHORITY, URL = sys.argv[1:]
SERVICE = urlsplit(URL)
TRUST = ssl.create_default_context(cafile=AUTHORITY)


def plain(value):
    """The same without Weir's fields."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != "weir"}
    return value


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        service = http.client.HTTPSConnection(SERVICE.hostname, SERVICE.port, context=TRUST, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        service.request(self.command, self.path, body, headers)
        answer = service.getresponse()
        content = answer.read()
        service.close()
        if content and "json" in (answer.getheader("Content-Type") or ""):
            content = json.dumps(plain(json.loads(content))).encode()
        self.send_response(answer.status)
        for name in ("Content-Type", "Retry-After"):
            if answer.getheader(name):
                self.send_header(name, answer.getheader(name))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = do_OPTIONS = forward

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer((ADDRESS, int(PORT)), Door)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
# The handshake happens when a connection's own thread first reads.
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print("ready", flush=True)
server.serve_forever()

"""A storage over TLS that answers every call but OPTIONS with words that harm terminals, logs and spreadsheets.

usage: words.py ADDRESS PORT CERTIFICATE KEY
"""

import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADDRESS, PORT, CERTIFICATE, KEY = sys.argv[1:]
# Colours, a new title of the window, the bell, text that runs the other way, and a page's script; then a formula.
WORDS = "\x1b[31mRED \x1b]0;title\x07 \u202eesrever </script><img src=x onerror=alert(1)> \x9b1m \r\n=cmd|' /C calc'!A0"


class Storage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        body = WORDS.encode()
        self.send_response(500, "Oops")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_OPTIONS(self):
        self.send_response(200)
        self.send_header("DAV", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self):
        # No file is there: so copies are ordered.
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_DELETE = do_COPY = do_MKCOL = do_PROPFIND = answer

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer((ADDRESS, int(PORT)), Storage)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()

"""Rucio's REST application behind a server that tells it whose certificate a client shows, as mod_ssl of Apache does."""
from rucio.web.rest.main import application as rucio

NAMES = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "domainComponent": "DC", "countryName": "C"}


def application(environ, start_response):
    shown = environ["gunicorn.socket"].getpeercert()
    if shown:
        parts = [(NAMES.get(kind, kind), value) for name in shown["subject"] for kind, value in name]
        environ["SSL_CLIENT_S_DN"] = "".join("/%s=%s" % part for part in parts)
    return rucio(environ, start_response)

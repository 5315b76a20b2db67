"""Sends what Python's urllib would send over TLS over plain HTTP, so that a proxy on this machine can answer it.

TCLake's command line knows no other scheme for the catalog. The host, the headers and the body stay as they are.
"""

import urllib.request

_urlopen = urllib.request.urlopen


def urlopen(request, *args, **kwargs):
    if isinstance(request, urllib.request.Request) and request.type == "https":
        request.full_url = "http" + request.full_url.removeprefix("https")
    return _urlopen(request, *args, **kwargs)


urllib.request.urlopen = urlopen

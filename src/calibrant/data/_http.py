"""Requests by HTTP, and by nothing else."""

from http.client import HTTPMessage, HTTPResponse
from typing import IO
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from calibrant.data._part_file import DownloadError

__all__ = ["is_http", "open_http"]


class _Redirects(HTTPRedirectHandler):
    """Follow the server to another address, but to no other kind of server."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> Request | None:
        if not is_http(newurl):
            raise DownloadError(
                f"{req.full_url} could not be downloaded: the server sends us on to "
                f"{newurl}, which is neither http:// nor https://."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def is_http(address: str) -> bool:
    """Whether an address begins with ``http://`` or ``https://`` and names a server."""
    try:
        parts = urlsplit(address)
        # Asked for, since a port that is no number is an error.
        known = parts.scheme in {"http", "https"} and parts.port != 0
        return known and bool(parts.hostname)
    except (ValueError, AttributeError):
        return False


def open_http(request: Request, *, timeout: float) -> HTTPResponse:
    """Send a request and return the answer, whose body is still to be read."""
    response: HTTPResponse = build_opener(_Redirects).open(request, timeout=timeout)
    return response

"""What a user points at: a file, the standard input, or an address of http; bounded, without redirects."""

from __future__ import annotations

import sys
from base64 import b64encode
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from chunkcalc.errors import ChunkcalcError

MOST = 64 * 2**20  # bytes of a page
PATIENCE = 10  # seconds
SCHEMES = ("http", "https")


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *given: object) -> None:
        """No page is looked for elsewhere than where the user said."""


def is_address(name: str) -> bool:
    """Whether a name is an address and no file."""
    return "://" in name


def shown(name: str) -> str:
    """A name for people: an address without credentials and query."""
    if not is_address(name):
        return "standard input" if name == "-" else name
    parts = urlsplit(name)
    host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def text_of(name: str) -> str:
    """The text of a file, of the standard input, or at an address.

    Parameters
    ----------
    name : as the user gave it

    Raises
    ------
    ChunkcalcError : it cannot be read, is too large, or is no text
    """
    data = _fetched(name) if is_address(name) else _read(name)
    if len(data) > MOST:
        raise ChunkcalcError(f"is larger than {MOST >> 20} MiB", shown(name), "give a metrics page or a log")
    return data.decode("utf-8", errors="replace")


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(MOST + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(MOST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such name"
        raise ChunkcalcError(f"cannot be read ({reason})", name, "give a file, - or an http address") from None


def _bare(name: str) -> str:
    parts = urlsplit(name)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _credentials(name: str) -> dict[str, str]:
    """The header that takes the place of credentials in an address."""
    said = urlsplit(name).netloc.rpartition("@")[0]
    return {"Authorization": f"Basic {b64encode(unquote(said).encode()).decode()}"} if said else {}


def _fetched(name: str) -> bytes:
    try:
        if urlsplit(name).scheme not in SCHEMES:
            raise ChunkcalcError("is no address of http or https", shown(name), "give http://HOST:PORT/metrics")
        request = Request(_bare(name), headers={"User-Agent": "chunkcalc", **_credentials(name)})
        with build_opener(_NoRedirect).open(request, timeout=PATIENCE) as page:
            return bytes(page.read(MOST + 1))
    except HTTPError as error:
        hint = "give the address itself: none is followed" if 300 <= error.code < 400 else "is it the page at /metrics?"
        raise ChunkcalcError(f"answers {error.code}", shown(name), hint) from None
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ChunkcalcError(f"cannot be reached ({reason!s:.60})", shown(name), "is the server up?") from None

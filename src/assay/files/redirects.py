"""An opener of URLs that follows no redirect: a request and its credentials go where the user sent
them, and nowhere else.
"""

from __future__ import annotations

import urllib.request
from typing import Any


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def staying_opener() -> urllib.request.OpenerDirector:
    """Opens URLs; a redirect raises HTTPError with its status."""
    return urllib.request.build_opener(_NoRedirect)

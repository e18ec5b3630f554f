"""The page /words of the server."""

from fastapi import APIRouter, Request

from assay.server.auth import READ, Principal
from assay.server.pages.layout import PageRoute, page
from assay.server.served import Served
from assay.views.blocks import Paragraph

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/words")
def show_words(request: Request, principal: Principal = READ):
    """A page of the plugin."""
    return page(request, "Words", Paragraph(f"Words of {principal.project}."), nav="/words")


SERVED = Served(pages=(router,), menu={"/words": "Words"})

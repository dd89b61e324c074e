"""Wire types around objects: the metadata of an object and of a list of objects."""

from typing import Annotated

from pydantic import Field

from api.wire import Reply

REMAINING_COUNT_MAX = 10_000
"""Items after a page are counted up to this number: counting on would cost more than the page."""


class ListMetadata(Reply):
    """About one page of a list."""

    resource_version: str
    """Version of the store the page was read at; a watch may start from it."""
    continue_: Annotated[str | None, Field(alias="continue")] = None
    """Give it back as `continue` to get the next page; absent on the last one."""
    remaining_item_count: int = 0
    """Items after this page; 10,000 stands for 10,000 or more."""


class ObjectMetadata(Reply):
    """About one object."""

    name: str
    uid: str
    project: str
    labels: dict[str, str] = Field(default_factory=dict)
    resource_version: str
    """Version of this object; compare it for equality only."""
    create_time: str
    created_by: str = ""

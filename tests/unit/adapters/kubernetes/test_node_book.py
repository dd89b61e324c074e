"""What is told of nodes that have given trouble more than once."""

from scheduler.adapters.kubernetes.cache import Change
from scheduler.adapters.kubernetes.nodes import NodeBook, NodeRules
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import Instant

N0 = NodeName("n0")


class Book:
    """A book of one node, and its clock in seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.book = NodeBook(
            NodeRules(), now=lambda: self.now_s, instant=lambda: Instant(int(self.now_s))
        )
        self.book.on_nodes([Change(before=None, after={"metadata": {"name": "n0", "uid": "u"}})])

    def told(self) -> Exclusion | None:
        """Why the node is left alone."""
        _, (node,) = self.book.view()
        return node.exclusion


def test_new_trouble_is_told_though_older_trouble_would_last_longer() -> None:
    book = Book()
    book.book.exclude(N0, "SuspectNode", for_s=1800.0)
    assert book.told() is not None
    book.now_s = 60.0
    book.book.exclude(N0, "AdmissionRejected", for_s=300.0)
    told = book.told()
    assert told is not None
    # An admin may have ended the older one: only what began after that counts then.
    assert (told.reason, told.since) == ("AdmissionRejected", 60)

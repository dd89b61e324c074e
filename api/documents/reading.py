"""From the bytes of a body to a Document, by media type."""

from api.documents.document import BYTES_MAX, Document, MalformedError
from api.documents.json_text import read_json
from api.documents.yaml_text import read_yaml

JSON_TYPES = frozenset({"application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})


def read_document(body: bytes, *, is_yaml: bool) -> Document:
    """The document in `body`. Raises MalformedError."""
    assert len(body) <= BYTES_MAX
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError("MalformedBody", f"is not UTF-8 at byte {error.start}") from error
    if not text.strip():
        raise MalformedError("MalformedBody", "is empty")
    return read_yaml(text) if is_yaml else read_json(text)

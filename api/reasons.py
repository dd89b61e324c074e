"""Every reason code a client can meet: what it means and what helps.

docs/reference/errors.md is made from these tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass

TYPE_PREFIX = "/errors/"
"""A problem's `type` is this and its reason: an address on the server itself that explains it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What a problem body's `reason` means."""

    code: str
    status: int
    title: str
    meaning: str
    remedy: str


_REASONS = (
    Reason(
        "MalformedRequest",
        400,
        "Not a request of HTTP/1.1",
        "The request line, a header or the framing of the body breaks the rules of HTTP.",
        "Use a client library; bodies need a Content-Length or chunks.",
    ),
    Reason(
        "MalformedBody",
        400,
        "The body can not be read",
        "The body is empty, not UTF-8, or not JSON or YAML.",
        "Check the place that is named.",
    ),
    Reason(
        "TooDeep",
        400,
        "The body is nested too deeply",
        "JSON and YAML bodies may be nested 32 levels deep.",
        "A job file needs 6.",
    ),
    Reason(
        "TooManyValues",
        400,
        "The body has too many values",
        "JSON and YAML bodies may hold 10,000 values.",
        "Split the file, or move long lists into the image.",
    ),
    Reason(
        "AliasNotAllowed",
        400,
        "YAML anchors are not read",
        "Anchors, aliases and merge keys can make a small file huge, so none is read.",
        "Write the value out where it is used.",
    ),
    Reason(
        "TagNotAllowed",
        400,
        "YAML tags are not read",
        "No `!tag` is read.",
        "Put the value in quotes to make it text.",
    ),
    Reason(
        "DuplicateKey",
        400,
        "A key stands twice",
        "One object has the same key twice, so one of its values would be lost.",
        "Remove one of the two.",
    ),
    Reason(
        "MultipleDocuments",
        400,
        "More than one document",
        "A request carries one job file.",
        "Send one request for each document; `dally apply -f` does.",
    ),
    Reason(
        "InvalidNumber",
        400,
        "Not a number we can keep",
        "NaN, Infinity, and numbers of more than 19 digits are refused.",
        "Write a finite number, or put it in quotes to make it text.",
    ),
    Reason(
        "InvalidSelector",
        400,
        "The selector can not be read",
        "Selectors are `key=value` pairs joined by commas, over labels or a few fields.",
        "Compare with the examples in docs/reference/api.md.",
    ),
    Reason(
        "InvalidContinue",
        400,
        "The continue token does not fit",
        "It was changed, or comes from a list with other filters.",
        "Repeat the list from its first page.",
    ),
    Reason(
        "InvalidParameter",
        400,
        "A parameter of the request is wrong",
        "A query parameter, path part or header is unknown, missing or out of its range.",
        "The entry names the parameter.",
    ),
    Reason(
        "Unauthenticated",
        401,
        "Who is calling?",
        "The request has no bearer token, or one that is unknown, expired or revoked.",
        "Pass --token or set DALLY_TOKEN; `dallyd admin token` makes a new one.",
    ),
    Reason(
        "Forbidden",
        403,
        "Not allowed",
        "The token is known and may not do this.",
        "Ask an admin for a token with that right.",
    ),
    Reason(
        "NotFound",
        404,
        "Not found",
        "There is no such object, or the token may not see it.",
        "`dally get` shows what can be seen: `dally get jobs -A`, `dally get nodes`, ...",
    ),
    Reason(
        "NoSuchRoute",
        404,
        "No such path",
        "The server has nothing under this path.",
        "docs/reference/api.md lists the paths; `dally version` shows both versions.",
    ),
    Reason(
        "MethodNotAllowed",
        405,
        "The path does not take this method",
        "The header Allow lists those it takes.",
        "docs/reference/api.md lists paths and methods.",
    ),
    Reason(
        "NotAcceptable",
        406,
        "No such form of answer",
        "A stream is sent as text/event-stream, application/x-ndjson or text/plain.",
        "Ask for one of these in the header Accept.",
    ),
    Reason(
        "AlreadyExists",
        409,
        "The name is taken",
        "A job of that name exists in the project and is not deleted.",
        "Choose another name, or delete the old job.",
    ),
    Reason(
        "Conflict",
        409,
        "Changed in between",
        "The object has changed since it was read, again and again.",
        "Read it again and repeat.",
    ),
    Reason(
        "InvalidTransition",
        409,
        "Not in this phase",
        "What was asked is not possible in the job's present phase.",
        "`dally describe job` shows the phase.",
    ),
    Reason(
        "JobIsLive",
        409,
        "The job has not ended",
        "Only a job that has ended can be deleted.",
        "Cancel it first, or pass ?cancel=true (`dally delete --cancel`).",
    ),
    Reason(
        "FieldIsImmutable",
        409,
        "A job can not be changed",
        "The job exists with another spec; the entries name the fields that differ.",
        "Delete the job first, or submit under another name.",
    ),
    Reason(
        "Gone",
        410,
        "The history is no longer kept",
        "The changes since that version have been forgotten.",
        "List again and watch from the version of the list.",
    ),
    Reason(
        "PreconditionFailed",
        412,
        "Not the version you know",
        "The object's version is not the one in If-Match.",
        "Read it again and repeat.",
    ),
    Reason(
        "BodyTooSlow",
        408,
        "The body took too long",
        "A body must be whole within 30 seconds.",
        "Send it again; if the way is slow, in a smaller file.",
    ),
    Reason(
        "BodyTooLarge",
        413,
        "The body is too large",
        "A body may have 1 MiB.",
        "Put data and scripts into the image or a volume.",
    ),
    Reason(
        "UnsupportedMediaType",
        415,
        "Not a media type we read",
        "Bodies are application/json; job files also application/yaml.",
        "Set the header Content-Type.",
    ),
    Reason(
        "InvalidSpec",
        422,
        "The body breaks rules",
        "Every broken rule is an entry with its place.",
        "Mend all entries; docs/reference/job-file.md explains every field.",
    ),
    Reason(
        "NeverFits",
        422,
        "The cluster can never hold the gang",
        "Even the empty cluster has no room for the whole gang within its topology limits.",
        "Ask for fewer workers or GPUs, or a wider topology.required.",
    ),
    Reason(
        "IdempotencyKeyReused",
        422,
        "The idempotency key belongs to another request",
        "The key was used before with another body or path.",
        "Use a new key for a new request.",
    ),
    Reason(
        "NotSupportedYet",
        422,
        "Not supported yet",
        "The feature is known and has not landed; the entry says which version will have it.",
        "Leave the field out.",
    ),
    Reason(
        "TooManyRequests",
        429,
        "Too many requests",
        "The token has used up its share for now.",
        "Repeat after the time in Retry-After.",
    ),
    Reason(
        "TooManyStreams",
        429,
        "Too many open streams",
        "The token, or all together, have too many watches and followed logs open.",
        "Close some, or repeat after the time in Retry-After.",
    ),
    Reason(
        "WatchTooSlow",
        429,
        "The client takes too little",
        "More has happened than the client has read, so the watch was ended.",
        "Watch again from the last version.",
    ),
    Reason(
        "InternalError",
        500,
        "A bug of ours",
        "The server failed; its log has more under the request id.",
        "Report it with the request id.",
    ),
    Reason(
        "BrokenPlan",
        500,
        "A bug of ours",
        "A decision broke one of its promises and was not carried out.",
        "Report it with the request id.",
    ),
    Reason(
        "WrongSchema",
        503,
        "The database has another schema than the server works with",
        "A migration has not run, or a newer version has migrated the database.",
        "Run `dallyd migrate`, or use the version that has migrated it.",
    ),
    Reason(
        "UnreadableRow",
        500,
        "The stored object can not be read",
        "Its row is broken, or was written by a newer version. It is kept.",
        "`dallyd check` lists such rows.",
    ),
    Reason(
        "StaleEpoch",
        503,
        "The leader has changed",
        "Another server leads now; nothing was written.",
        "Repeat after the time in Retry-After.",
    ),
    Reason(
        "AlreadyServing",
        503,
        "Another server is serving",
        "Another process holds the data folder or the leadership.",
        "Use that server, or stop it first.",
    ),
    Reason(
        "StoreUnavailable",
        503,
        "The database does not answer",
        "Nothing was written.",
        "Repeat after the time in Retry-After; `/readyz?verbose` shows what fails.",
    ),
    Reason(
        "ClusterUnavailable",
        503,
        "The cluster does not answer",
        "What runs goes on.",
        "Repeat after the time in Retry-After; `/readyz?verbose` shows what fails.",
    ),
    Reason(
        "ForecastBusy",
        503,
        "Another plan is being worked out",
        "Plans are worked out beside the service, one at a time, so that it is not slowed down.",
        "Repeat after the time in Retry-After.",
    ),
    Reason(
        "ForecastStopped",
        503,
        "The server is stopping",
        "It gave the plan up, or does not begin one any more.",
        "Repeat after the time in Retry-After, when a server is there again.",
    ),
    Reason(
        "ForecastTooLarge",
        504,
        "The plan was given up",
        "It took more time or memory than a plan may: many jobs are live, or some run for long.",
        "Take `dallyd admin snapshot` and run `dally-sim from-live` on another machine.",
    ),
    Reason(
        "ForecastUnavailable",
        503,
        "No plans here",
        "This server can not work out plans.",
        "Take `dallyd admin snapshot` and run `dally-sim from-live`.",
    ),
    Reason(
        "NotReady",
        503,
        "Not ready",
        "A readiness check fails; `/readyz?verbose` names it.",
        "Wait, or look into the server's log.",
    ),
    Reason(
        "LogsUnavailable",
        503,
        "No logs here",
        "This server has no access to the output of workers.",
        "Ask the server that runs the scheduler.",
    ),
    Reason(
        "StreamsUnavailable",
        503,
        "The server is shutting down",
        "No new stream is opened.",
        "Repeat after the time in Retry-After.",
    ),
)

REASONS: Mapping[str, Reason] = {reason.code: reason for reason in _REASONS}

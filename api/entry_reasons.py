"""Every reason code of one entry in a problem's `errors`: what it means and what helps.

docs/reference/errors.md is made from this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EntryReason:
    """What the `reason` of one entry in `errors` means."""

    code: str
    meaning: str
    remedy: str


_ENTRY_REASONS = (
    EntryReason(
        "MissingField",
        "A required field is not given.",
        "Add it.",
    ),
    EntryReason(
        "UnknownField",
        "There is no such field; the nearest valid name is given.",
        "Correct the name.",
    ),
    EntryReason(
        "WrongType",
        "The value has another type than the field.",
        "The entry says which is wanted.",
    ),
    EntryReason(
        "InvalidValue",
        "The value is not one the field takes.",
        "The entry says what is wanted.",
    ),
    EntryReason(
        "UnknownValue",
        "The field takes one of a few words, and not this one.",
        "The nearest is given.",
    ),
    EntryReason(
        "OutOfRange",
        "A number, length or size is outside its bounds.",
        "The entry names the bound.",
    ),
    EntryReason(
        "InvalidName",
        "A name has characters it may not have, or is too long.",
        "The entry says what such a name looks like.",
    ),
    EntryReason(
        "InvalidLabel",
        "Labels follow the rules of Kubernetes labels.",
        "The entry says which rule is broken.",
    ),
    EntryReason(
        "InvalidQuantity",
        "An amount with its unit can not be read.",
        "Write 500m or 32 cores, 256Gi or 64GB, 90s or 1h30m.",
    ),
    EntryReason(
        "InvalidCharacter",
        "A control character or half a surrogate pair stands in a text.",
        "Remove it.",
    ),
    EntryReason(
        "ReservedName",
        "The service sets this name itself.",
        "Use another name.",
    ),
    EntryReason(
        "DuplicateName",
        "Two roles, volumes, variables or paths of one job have the same name.",
        "Rename one, or leave it out.",
    ),
    EntryReason(
        "MaskedValue",
        "The value is the mask that the server shows instead of a secret.",
        "Write the real value.",
    ),
    EntryReason(
        "ProjectMismatch",
        "The file names another project than the request.",
        "Correct one of the two.",
    ),
    EntryReason(
        "UnknownProject",
        "There is no such project.",
        "`dally get projects` lists them.",
    ),
    EntryReason(
        "UnknownQueue",
        "There is no such queue.",
        "The nearest is given; `dally get queues` lists them.",
    ),
    EntryReason(
        "QueueNotAllowed",
        "The queue exists and the project may not use it.",
        "`dally get projects` lists the queues of each project.",
    ),
    EntryReason(
        "UnknownPriority",
        "There is no such priority class.",
        "The nearest is given.",
    ),
    EntryReason(
        "UnknownPool",
        "No node belongs to the pool.",
        "`dally get nodes -o wide` lists the pools.",
    ),
    EntryReason(
        "UnknownLevel",
        "The topology has no such level.",
        "`dally get topology` lists the levels.",
    ),
    EntryReason(
        "UnknownModel",
        "The project knows no model profile of that name.",
        "The nearest is given; `dally get profiles` lists them, and a profile of your own can be"
        " applied from a file.",
    ),
    EntryReason(
        "UnknownRole",
        "The job has no such role.",
        "The nearest is given.",
    ),
    EntryReason(
        "NeedsKubernetes",
        "The field is about pods, and this server runs workers as processes of its machine.",
        "Leave the field out.",
    ),
    EntryReason(
        "UnknownPodProfile",
        "No admin has made a pod profile of that name.",
        "The nearest that the project may use is given.",
    ),
    EntryReason(
        "UnknownSharedMount",
        "No admin has made a shared mount of that name.",
        "The nearest that the project may use is given.",
    ),
    EntryReason(
        "NotAllowed",
        "It exists or may exist, and the project may not use it.",
        "An admin allows it in the key of dallyd.yaml that the entry names.",
    ),
    EntryReason(
        "CheckpointNotKept",
        "What is written to the checkpoint's path would be gone with the pod.",
        "Mount a claim or a shared mount at the path or above it, or leave the path out.",
    ),
    EntryReason(
        "TooLarge",
        "The gang's description is larger than Kubernetes or Linux can hold.",
        "Use fewer and larger workers, or move long texts into the image or a ConfigMap.",
    ),
    EntryReason(
        "NotSupportedYet",
        "The field's feature is known and has not landed; the entry says when it comes.",
        "Leave the field out.",
    ),
    EntryReason(
        "FieldIsImmutable",
        "The field differs from that of the existing job.",
        "Delete the job first, or submit under another name.",
    ),
)

ENTRY_REASONS: Mapping[str, EntryReason] = {reason.code: reason for reason in _ENTRY_REASONS}

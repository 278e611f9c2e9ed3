"""The plans of runs as lines of an export's facts: each plan once, with the sessions that carry it out."""

from __future__ import annotations

from lastgood.codec.canonical import Fields, dumps, loads
from lastgood.codec.workplan import checked_plan, decode_plan, encode_plan
from lastgood.errors import Invalid
from lastgood.model.exchange import KeptPlan
from lastgood.names import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.workplan import WorkPlan


def plan_line(kept: KeptPlan) -> bytes:
    """Return the line of a plan."""
    return dumps(
        {
            "fact": "plan",
            "sessions": list(kept.sessions),
            "workspace_key": kept.workspace_key,
            "plan": loads(encode_plan(kept.plan), what="a work plan"),
        }
    )


def read_plan(fields: Fields) -> KeptPlan:
    """Return the plan of a line; `Damaged` unless a run could have begun with it."""
    fields.sub("plan")
    plan = decode_plan(dumps(fields.object_or_empty("plan")))
    sessions = fields.texts("sessions")
    if not sessions or len(set(sessions)) != len(sessions):
        raise fields.wrong("sessions", "a list of sessions")
    if not is_sound(plan):
        raise fields.wrong("plan", "a plan that a run could carry out")
    return KeptPlan(sessions=sessions, workspace_key=fields.text("workspace_key"), plan=plan)


def is_sound(plan: WorkPlan) -> bool:
    """Tell whether a plan is one that a file or a program could have given to a run, in its order."""
    source = plan.source
    try:
        path = b"/" if source is None else to_bytes(source)
        return path.startswith(b"/") and b"\0" not in path and checked_plan(plan) == plan
    except (Invalid, UnicodeEncodeError):  # the latter for a path that no file can have
        return False

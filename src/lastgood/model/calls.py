"""What callers hand over to be called; no command loads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Never

from lastgood.model.operation import Event, RestorePlan
from lastgood.model.run import RecoverReport, RunEvent


class _NotInJson:
    """Says to Pydantic that no JSON can stand for it: whoever writes a tool's arguments leaves it out."""

    def __get_pydantic_json_schema__(self, _schema: object, _handler: object) -> Never:
        from pydantic_core import PydanticOmit

        raise PydanticOmit


Observer = Annotated[Callable[[Event], None], _NotInJson()]
RunObserver = Annotated[Callable[[RunEvent], None], _NotInJson()]
Consent = Annotated[Callable[[RecoverReport], None], _NotInJson()]
PlanConsent = Annotated[Callable[[RestorePlan], None], _NotInJson()]
OutputReader = Annotated[Callable[[bytes], object], _NotInJson()]

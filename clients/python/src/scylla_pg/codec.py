"""JSON for specs and results, and the way back by a handler's annotations."""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID


def encode(value: Any) -> str:
    """The JSON text of a value. ValueError for what PostgreSQL's jsonb cannot hold."""
    text = json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":"))
    if "\\u" in text:
        _check_text(json.loads(text))
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(cast("set[Any]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)  # pydantic
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _check_text(value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("text contains a NUL character, which jsonb cannot hold")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(
                "text contains half of a surrogate pair, which jsonb cannot hold"
            ) from None
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            _check_text(item)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            _check_text(key)
            _check_text(item)


def clean(text: str) -> str:
    """A text that jsonb can hold, whatever an exception says."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def decode(value: Any, hint: Any) -> Any:
    """A value read from JSON, as the annotation wants it. Unknown annotations leave it as it is."""
    if value is None or hint is Any:
        return value
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return decode(value, kinds[0]) if len(kinds) == 1 else value
    if origin in (list, set, frozenset) and isinstance(value, list):
        made: Any = cast(Any, origin)(decode(item, inner[0]) for item in cast("list[Any]", value))
        return made
    if origin is tuple and isinstance(value, list):
        items = cast("list[Any]", value)
        kinds = [inner[0]] * len(items) if len(inner) == 2 and inner[1] is ... else list(inner)
        if len(kinds) != len(items):
            raise ValueError(f"{len(items)} elements where {len(kinds)} are needed")
        return tuple(decode(item, kind) for item, kind in zip(items, kinds, strict=True))
    if origin in (dict, Mapping) and isinstance(value, dict) and len(inner) == 2:
        return {key: decode(item, inner[1]) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(hint, type):
        return _of_type(value, hint)
    return cast(Any, value)


def _iso(text: str) -> str:
    """A time as Python 3.10 reads it too: without Z, and with 3 or 6 digits of a second."""
    text = re.sub(r"Z$", "+00:00", text)
    return re.sub(r"\.(\d{1,6})\d*", lambda digits: f".{digits[1]:0<6}", text)


def _of_type(value: Any, hint: type[Any]) -> Any:
    if hint in (datetime, date, time) and isinstance(value, str):
        return hint.fromisoformat(_iso(value))
    if hint is timedelta:
        return timedelta(seconds=value)
    if hint in (UUID, Decimal):
        return hint(str(value))
    if issubclass(hint, Enum):
        return hint(value)
    validate = getattr(hint, "model_validate", None)  # pydantic
    if callable(validate):
        return validate(value)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = get_type_hints(hint)
        members = cast("dict[str, Any]", value)
        return hint(**{name: decode(item, hints.get(name, Any)) for name, item in members.items()})
    return value

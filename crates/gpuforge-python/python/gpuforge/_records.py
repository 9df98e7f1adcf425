"""Records: JSON documents as objects with attributes, ``.to_dict()`` and a readable ``repr``; unknown is ``None``."""

from __future__ import annotations

import json
from typing import Any, Iterator, TypeVar

Self = TypeVar("Self", bound="Record")


class Record:
    """Immutable record over a JSON object. A subclass annotates the stable attributes."""

    __slots__ = ("_data",)

    def __init__(self, data: dict[str, Any]) -> None:
        object.__setattr__(self, "_data", data)

    @classmethod
    def read(cls: type[Self], text: str) -> Self:
        """From JSON."""
        return cls(json.loads(text))

    #: Record types of nested attributes.
    _KINDS: dict[str, type[Record]] = {}
    #: Attributes shown by ``repr``, if not all.
    _SHOWN: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return _wrapped(self._data[name], self._KINDS.get(name, Record))
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be set")

    def to_dict(self) -> dict[str, Any]:
        """Deep copy as plain dicts and lists."""
        import copy

        return copy.deepcopy(self._data)

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._data})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data,)

    def __repr__(self) -> str:
        names = self._SHOWN or tuple(self._data)
        shown = ", ".join(f"{name}={_short(self._data.get(name))}" for name in names if name in self._data)
        return f"{type(self).__name__}({shown})"


def _wrapped(value: Any, kind: type[Record]) -> Any:
    if isinstance(value, dict):
        return kind(value)
    if isinstance(value, list):
        return [_wrapped(item, kind) for item in value]
    return value


def _short(value: Any) -> str:
    """One-line representation."""
    if isinstance(value, list) and len(value) > 4:
        return f"[{len(value)} items]"
    if isinstance(value, dict):
        name = value.get("name") or value.get("id") or value.get("title")
        return f"<{name}>" if name else f"{{{len(value)} items}}"
    if isinstance(value, list):
        return f"[{', '.join(_short(item) for item in value)}]"
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."

"""Profiler: spans of your code and of the runtime in one trace.

>>> import gpuforge
>>> from gpuforge import profiler
>>> profiler.enable()
>>> with gpuforge.profile("load"):
...     pass
>>> [row.name for row in profiler.summary() if row.name == "load"]
['load']
>>> profiler.disable()
>>> profiler.reset()
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any, Callable, TypeVar, overload

from gpuforge import _gpuforge
from gpuforge._records import Record

Function = TypeVar("Function", bound=Callable[..., Any])


class Row(Record):
    """Statistics of a span name; times in nanoseconds."""

    name: str
    count: int
    total_ns: int
    _SHOWN = ("name", "count", "total_ns", "p50_ns", "p95_ns")


class profile:
    """``with gpuforge.profile("name"):`` records a span; the first one enables recording.

    ``category`` is ``"cpu"``, ``"gpu"``, ``"transfer"``, ``"wait"`` or ``"overhead"``. ``bytes`` may be set inside.
    """

    def __init__(self, name: str, category: str = "cpu") -> None:
        self.name, self.category = name, category
        self.bytes: int | None = None
        self._depth = 0

    def __enter__(self) -> profile:
        _begin()
        self._depth = _gpuforge.span_enter(self.name, self.category)
        return self

    def __exit__(self, *_: object) -> None:
        _gpuforge.span_exit(self._depth, self.bytes)


@overload
def profiled(function: Function) -> Function: ...
@overload
def profiled(*, name: str | None = None, category: str = "cpu") -> Callable[[Function], Function]: ...
def profiled(function: Any = None, *, name: str | None = None, category: str = "cpu") -> Any:
    """``@gpuforge.profiled`` records a span per call, named after the function unless ``name`` is given."""
    if function is None:
        return functools.partial(profiled, name=name, category=category)
    called = name or f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def measured(*args: Any, **kwargs: Any) -> Any:
        with profile(called, category):
            return function(*args, **kwargs)

    return measured


#: Whether the user called enable() or disable(): then a span does not enable recording.
_explicit = False


def _begin() -> None:
    if not _explicit and not _gpuforge.profiler_is_enabled():
        _gpuforge.profiler_enable(True)


def enable() -> None:
    """Enables recording."""
    global _explicit
    _explicit = True
    _gpuforge.profiler_enable(True)


def disable() -> None:
    """Disables recording."""
    global _explicit
    _explicit = True
    _gpuforge.profiler_enable(False)


def reset() -> None:
    """Clears the recorded spans."""
    _gpuforge.profiler_reset()


def summary() -> list[Row]:
    """Statistics per span name: count, total, mean, percentiles."""
    return [Row(row) for row in json.loads(_gpuforge.profiler_summary())]


def bottlenecks(n: int = 5) -> list[Record]:
    """Span names with the largest self time."""
    return [Record(row) for row in json.loads(_gpuforge.profiler_bottlenecks(n))]


def export_json(path: str | os.PathLike[str] | None = None) -> str | None:
    """The whole trace as JSON: returned, or written to a file. The extension ``.trace.json`` selects the Perfetto format."""
    if path is None:
        return _gpuforge.profiler_json()
    _gpuforge.profiler_write(os.fspath(path))
    return None


def report(path: str | os.PathLike[str], title: str = "gpuforge") -> None:
    """Writes a self-contained HTML report."""
    text = _gpuforge.profiler_html(title)
    temporary = f"{os.fspath(path)}.part"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)

"""TA-Lib's streaming handles: a function opened on history and updated one bar at a time.

>>> import numpy as np
>>> from gpuforge.talib import stream
>>> sma = stream.SMA(np.array([1.0, 2.0, 3.0]), timeperiod=2)
>>> sma.value, sma.peek(9.0), sma.update(5.0), sma.value
(2.5, 6.0, 4.0, 4.0)

Opening with fewer bars than the lookback raises ``InsufficientHistory``. A non-finite bar raises and leaves the handle
unchanged. Values are always exact, whatever ``talib.get_precision()`` says.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, NamedTuple

from gpuforge._gpuforge import TalibStream
from gpuforge.talib import _functions
from gpuforge.talib._functions import POSITIONS


class OutRange(NamedTuple):
    """Bars with a value: the first, and how many."""

    begidx: int
    nbelement: int


class Stream:
    """A handle; ``stream.RSI`` and the others are subclasses."""

    _name = ""
    _handle: TalibStream

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "precision" in kwargs:
            raise TypeError(f"stream.{self._name} has no argument 'precision': streams are always exact")
        given = inspect.signature(getattr(_functions, self._name)).bind(*args, **kwargs)
        given.apply_defaults()
        self._handle = TalibStream(POSITIONS[self._name], *(_array(value) for value in given.args))
        self.update, self.peek = self._handle.update, self._handle.peek

    @classmethod
    def open_and_fill(cls, *args: Any, **kwargs: Any) -> tuple[Stream, Any]:
        """Opens a handle, and returns it with the values over the history."""
        return cls(*args, **kwargs), getattr(_functions, cls._name)(*args, **kwargs, precision="exact")

    @property
    def value(self) -> Any:
        """The value of the last bar; a tuple for several outputs."""
        return self._handle.value

    @property
    def out_range(self) -> OutRange:
        """Which bars have a value."""
        return OutRange(*self._handle.out_range)

    def advance(self) -> None:
        """Counts a bar without data."""
        self._handle.advance()

    def copy(self) -> Stream:
        """A copy with the same state."""
        same = type(self).__new__(type(self))
        same._handle = self._handle.copy()
        same.update, same.peek = same._handle.update, same._handle.peek
        return same

    def __copy__(self) -> Stream:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Stream:
        return self.copy()

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {self._name}_Stream: its state does not cross a process boundary")


def _array(value: Any) -> Any:
    """Unwraps Series to arrays; passes numbers through."""
    import numpy as np

    if isinstance(value, (np.ndarray, int, float, np.number)):
        return value
    series = (getattr(sys.modules.get(name), "Series", None) for name in ("pandas", "polars"))
    if any(kind is not None and isinstance(value, kind) for kind in series):
        return value.to_numpy().astype(float)
    raise TypeError(f"input must be a numpy array or a pandas or polars Series, not {type(value).__name__}")


def __getattr__(name: str) -> type[Stream]:
    if name not in POSITIONS:
        raise AttributeError(f"module 'gpuforge.talib.stream' has no attribute {name!r}")
    doc = getattr(_functions, name).__doc__
    kind = globals()[name] = type(name, (Stream,), {"_name": name, "__doc__": doc, "__module__": __name__})
    return kind


def __dir__() -> list[str]:
    return ["OutRange", "Stream", *POSITIONS]


__all__ = ["OutRange", "Stream", *POSITIONS]

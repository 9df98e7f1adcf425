"""TA-Lib's abstract interface: function objects with metadata, called with dicts and data frames.

>>> import numpy as np
>>> from gpuforge.talib import abstract
>>> abstract.SMA({"close": np.array([1.0, 2.0, 3.0])}, timeperiod=2)
array([nan, 1.5, 2.5])
>>> abstract.Function("macd").output_names
['macd', 'macdsignal', 'macdhist']
"""

from __future__ import annotations

import json
import sys
import threading
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Union

from gpuforge import _gpuforge
from gpuforge.talib import _functions
from gpuforge.talib._functions import POSITIONS
from gpuforge.talib._ma_type import MA_Type

if TYPE_CHECKING:
    from gpuforge.talib._functions import Precision

#: Default columns of generic inputs.
_DEFAULT_COLUMNS = {"real": "close", "real0": "high", "real1": "low", "periods": "periods"}
#: Names of generic inputs in the abstract interface.
_ABSTRACT_NAMES = {"real": "price", "real0": "price0", "real1": "price1", "periods": "periods"}

Names = Union[str, "list[str]"]


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(_gpuforge.talib_functions())}


def _inputs(row: dict[str, Any]) -> OrderedDict[str, Names]:
    """Inputs grouped as in TA-Lib: prices together, any other array by itself."""
    found: OrderedDict[str, Names] = OrderedDict()
    prices = [name for name in row["inputs"] if name not in _ABSTRACT_NAMES]
    for name in row["inputs"]:
        if name in _ABSTRACT_NAMES:
            found[_ABSTRACT_NAMES[name]] = _DEFAULT_COLUMNS[name]
        elif "prices" not in found:
            found["prices"] = prices
    return found


class _State:
    """Thread-local settings of a function."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.inputs = _inputs(row)
        self.given: dict[str, Any] = {}
        self.arrays: Any = {}
        self.precision: Precision | None = None
        self.results: list[Any] | None = None


class Function:
    """A function by its name, in any case; arrays and parameters may be set now, later, or per call."""

    def __init__(self, function_name: str, *args: Any, **kwargs: Any) -> None:
        name = str(function_name).upper()
        if name not in POSITIONS:
            raise Exception(f"{name} not supported by TA-LIB.")
        self._name, self._row = name, _table()[name]
        self._params = {param["name"]: param for param in self._row["params"]}
        self._local = threading.local()
        self.set_function_args(*args, **kwargs)

    @property
    def _state(self) -> _State:
        state: _State | None = getattr(self._local, "state", None)
        if state is None:
            state = self._local.state = _State(self._row)
        return state

    @property
    def info(self) -> dict[str, Any]:
        """Metadata as a dict."""
        row = self._row
        return {
            "name": self._name,
            "group": row["group"],
            "display_name": row["display_name"],
            "function_flags": list(row["flags"]) or None,
            "input_names": self.input_names,
            "parameters": self.parameters,
            "output_flags": self.output_flags,
            "output_names": self.output_names,
        }

    @property
    def function_flags(self) -> list[str] | None:
        """Function flags."""
        return list(self._row["flags"]) or None

    @property
    def output_flags(self) -> OrderedDict[str, list[str]]:
        """Plot flags of each output."""
        return OrderedDict((output["name"], list(output["flags"])) for output in self._row["outputs"])

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return [output["name"] for output in self._row["outputs"]]

    def get_input_names(self) -> OrderedDict[str, Names]:
        """Input columns."""
        return OrderedDict(
            (name, list(series) if isinstance(series, list) else series)
            for name, series in self._state.inputs.items()
        )

    def set_input_names(self, input_names: dict[str, Names]) -> None:
        """Sets the input columns."""
        state = self._state
        state.inputs.update(input_names)
        state.results = None

    input_names = property(get_input_names, set_input_names)

    def get_input_arrays(self) -> Any:
        """Copy of the input arrays."""
        arrays = self._state.arrays
        return arrays.clone() if hasattr(arrays, "clone") else arrays.copy()

    def set_input_arrays(self, input_arrays: Any) -> bool:
        """Sets the input from a dict or data frame with all input columns; ``False`` if it is neither."""
        if not _is_table(input_arrays):
            return False
        there = _columns(input_arrays)
        missing = [name for name in self._columns() if name not in there]
        if missing:
            keys = "keys" if len(missing) > 1 else "key"
            raise Exception(f"input_arrays parameter missing required data {keys}: {', '.join(missing)}")
        state = self._state
        state.arrays, state.results = input_arrays, None
        return True

    def _take_arrays(self, input_arrays: Any) -> None:
        self.set_input_arrays(input_arrays)

    input_arrays = property(get_input_arrays, _take_arrays)

    def get_parameters(self) -> OrderedDict[str, Any]:
        """Current parameters, defaults included."""
        given = self._state.given
        return OrderedDict((name, given.get(name, param["default"])) for name, param in self._params.items())

    def set_parameters(self, parameters: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Sets parameters for later calls."""
        for name, value in {**(parameters or {}), **kwargs}.items():
            self._set(name, value)
        self._state.results = None

    parameters = property(get_parameters, set_parameters)

    def _set(self, name: str, value: Any) -> None:
        kind = float if self._params[name]["real"] else int
        if value is None:
            return
        if not isinstance(value, kind):
            got = type(value).__name__
            raise TypeError(f"Invalid parameter value for {name} (expected {kind.__name__}, got {got})")
        self._state.given[name] = value

    def set_function_args(self, *args: Any, **kwargs: Any) -> None:
        """Sets arrays (if given) and parameters by position, columns, parameters and `precision` by keyword."""
        state = self._state
        for name, value in kwargs.items():
            if name == "precision":
                state.precision = value
            elif name in self._params:
                self._set(name, value)
            elif name in state.inputs:
                state.inputs[name] = value
        values = args
        if args and self.set_input_arrays(args[0]):
            values = args[1:]
        for name, value in zip(self._params, values):
            self._set(name, value)
        if args or kwargs:
            state.results = None

    @property
    def lookback(self) -> int:
        """Lookback: bars before the first with all outputs."""
        return _gpuforge.talib_lookback(POSITIONS[self._name], *self.get_parameters().values())

    def _columns(self) -> list[str]:
        names: list[str] = []
        for series in self._state.inputs.values():
            names += series if isinstance(series, list) else [series]
        return names

    def _compute(self) -> list[Any]:
        import numpy as np

        state = self._state
        arrays = []
        for name in self._columns():
            column = state.arrays[name]
            arrays.append(column if isinstance(column, np.ndarray) else _array(column))
        function = getattr(_functions, self._name)
        results = function(*arrays, *self.get_parameters().values(), precision=state.precision)
        state.results = list(results) if isinstance(results, tuple) else [results]
        return state.results

    @property
    def outputs(self) -> Any:
        """Results, in the type of the input."""
        state = self._state
        results = self._compute() if state.results is None else state.results
        pandas, polars = (getattr(sys.modules.get(name), "DataFrame", ()) for name in ("pandas", "polars"))
        if pandas and isinstance(state.arrays, pandas):
            module, index = sys.modules["pandas"], state.arrays.index
            if len(results) == 1:
                return module.Series(results[0], index=index)
            return module.DataFrame(dict(zip(self.output_names, results)), index=index)
        if polars and isinstance(state.arrays, polars):
            module = sys.modules["polars"]
            if len(results) == 1:
                return module.Series(results[0])
            return module.DataFrame(dict(zip(self.output_names, results)))
        return results[0] if len(results) == 1 else list(results)

    def run(self, input_arrays: Any = None) -> Any:
        """Computes the function, with new arrays if given."""
        if input_arrays is not None:
            self.set_input_arrays(input_arrays)
        self._compute()
        return self.outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the function with these arrays and parameters, for this call only."""
        state = self._state
        before = dict(state.given), OrderedDict(state.inputs), state.precision
        try:
            self.set_function_args(*self._positional(args), **kwargs)
            self._compute()
        finally:
            state.given, state.inputs, state.precision = before
        return self.outputs

    def _positional(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Converts positional arrays to a dict; parameters follow."""
        names = self._columns()
        if args and _is_table(args[0]):
            return args
        count = 0
        while count < len(args) and _is_array(args[count]):
            count += 1
        listed = ", ".join(names)
        if count > len(names):
            raise TypeError(f"Too many price arguments: expected {len(names)} ({listed})")
        none_yet = len(_columns(self._state.arrays)) == 0
        if 0 < count < len(names) or (count == 0 and none_yet):
            raise TypeError(f"Not enough price arguments: expected {len(names)} ({listed})")
        if count == 0:
            return args
        return (dict(zip(names, args)), *args[count:])

    def __repr__(self) -> str:
        return f"{self.info}"

    def __str__(self) -> str:
        lines = [f"{self._name}([input_arrays]{''.join(f', [{n}={v}]' for n, v in self.get_parameters().items())})", ""]
        lines += [f"{self._row['display_name']} ({self._row['group']})", "", "Inputs:"]
        lines += [
            f"    {name}: {series if isinstance(series, list) else '(any ndarray)'}"
            for name, series in self.get_input_names().items()
        ]
        if self._params:
            lines.append("Parameters:")
        for name, value in self.get_parameters().items():
            kind = f" ({MA_Type[value]})" if "matype" in name else ""
            lines.append(f"    {name}: {value}{kind}")
        lines += ["Outputs:", *(f"    {name}" for name in self.output_names)]
        return "\n".join(lines)


def _is_table(data: Any) -> bool:
    if isinstance(data, dict):
        return True
    frames = (getattr(sys.modules.get(name), "DataFrame", None) for name in ("pandas", "polars"))
    return any(frame is not None and isinstance(data, frame) for frame in frames)


def _columns(data: Any) -> list[str]:
    return list(data) if isinstance(data, dict) else list(data.columns)


def _is_array(data: Any) -> bool:
    import numpy as np

    series = (getattr(sys.modules.get(name), "Series", None) for name in ("pandas", "polars"))
    return isinstance(data, (np.ndarray, *(kind for kind in series if kind is not None)))


def _array(column: Any) -> Any:
    """Values of a Series; other types are left to the function's error."""
    return column.to_numpy().astype(float) if hasattr(column, "to_numpy") else column


def __getattr__(name: str) -> Function:
    if name in POSITIONS:
        function = globals()[name] = Function(name)
        return function
    raise AttributeError(f"module 'gpuforge.talib.abstract' has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["Function", *POSITIONS]


__all__ = ["Function", *POSITIONS]

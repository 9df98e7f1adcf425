"""Table adapters of ``gpuforge.indicators``: one row of ``_ADAPTERS`` per table type (pandas, Polars, Arrow, DuckDB, NumPy)."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypeVar

from gpuforge import _gpuforge
from gpuforge._gpuforge import ColumnError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Data = TypeVar("Data")
Defined = Mapping[str, str]

#: Capacity of the plan cache.
_PLAN_CACHE = 128


@lru_cache(maxsize=_PLAN_CACHE)
def _request(select: str, define: tuple[str, ...], convention: str) -> _gpuforge.Request:
    return _gpuforge.Request(select, list(define), convention)


def indicators(
    data: Data,
    select: str | Sequence[str] = "",
    *,
    by: str | bool | None = None,
    time: str | bool | None = None,
    device: str = "auto",
    columns: Mapping[str, str] | None = None,
    define: Defined | None = None,
    convention: str = "talib",
    keep: Sequence[str] | None = None,
    threads: int | None = None,
) -> Data:
    """Compute indicators for every row of a table; the result has the rows of ``data`` in their order.

    ``data`` is a pandas or Polars frame, a pyarrow table or record batch, a DuckDB relation, anything else that offers
    ``__arrow_c_stream__``, or a dict of NumPy arrays; the result is of the same type. Zero-copy for float64 that is contiguous
    and aligned; other layouts and types are copied once.

    ``select`` has the syntax of the command line: ``"rsi(14), macd(12,26,9).signal, ema(5) - ema(20)"``, ``"group:momentum"``,
    ``"set:classic111"``, ``"all"``; a list is joined. ``source=`` replaces what a row reads: ``"sma(20, source=hlc3)"``,
    ``"correl(30, source=close,volume)"``. ``define`` names expressions of your own, which may then be selected; without
    ``select`` all of them are.

    ``by`` names the column that groups rows into series, ``time`` the one that orders them. By default, columns with common
    names (``symbol``, ``ticker``, ``date``, ``timestamp``, ...) are used; ``False`` disables this. ``columns`` maps the others:
    ``{"close": "px_last"}``.

    ``keep`` lists columns of ``data`` that come first in the result; a DuckDB relation, whose rows have no order, keeps its
    keys. ``device`` is ``"auto"`` (where it is predicted to be fastest), ``"cpu"`` or ``"gpu"``; ``convention`` is ``"talib"``
    or ``"pandas"``.

    >>> import numpy as np
    >>> bars = {"close": np.array([1.0, 2.0, 3.0, 4.0])}
    >>> indicators(bars, "sma(2)")
    {'sma_2': array([nan, 1.5, 2.5, 3.5])}
    >>> indicators({**bars, "open": np.array([1.0, 1.0, 2.0, 3.0])}, "sub(close, open)")
    {'sub_close_open': array([0., 1., 1., 1.])}
    >>> indicators(bars, define={"twice": "close * 2"})
    {'twice': array([2., 4., 6., 8.])}
    """
    text = select if isinstance(select, str) else ", ".join(select)
    defined = tuple(f"{name} = {expression}" for name, expression in (define or {}).items())
    request = _request(text, defined, convention)
    named = [(str(role), str(name)) for role, name in (columns or {}).items()]
    call = _Call(request, by, time, device, named, keep, threads)
    for fits, compute in _ADAPTERS:
        if fits(data):
            result: Data = compute(data, call)
            return result
    raise TypeError(
        f"indicators() cannot read {type(data).__module__}.{type(data).__qualname__}\n"
        "  hint: pass a pandas, Polars or pyarrow table, a DuckDB relation, or a dict of NumPy arrays"
    )


@lru_cache(maxsize=1)
def _rows() -> tuple[dict[str, Any], ...]:
    import json

    return tuple(json.loads(_gpuforge.catalogue()))


def catalogue(group: str | None = None) -> list[dict[str, Any]]:
    """Every indicator as a dict: name, aliases, group, params, inputs, outputs, lookback, causal, oracle, kind, doc.

    >>> rsi = next(row for row in catalogue("momentum") if row["name"] == "rsi")
    >>> rsi["params"][0]["default"], rsi["outputs"][0]["column"]
    (14, 'rsi_14')
    """
    import copy

    found = [row for row in _rows() if group is None or row["group"] == group.lower()]
    if not found:
        groups = ", ".join(dict.fromkeys(row["group"] for row in _rows()))
        raise ValueError(f"there is no group {group!r}\n  hint: one of {groups}")
    return copy.deepcopy(found)


class _Call:
    """Arguments of a call, independent of the table type."""

    def __init__(
        self,
        request: _gpuforge.Request,
        by: str | bool | None,
        time: str | bool | None,
        device: str,
        columns: list[tuple[str, str]],
        keep: Sequence[str] | None,
        threads: int | None,
    ) -> None:
        for name, value in (("by", by), ("time", time)):
            if not (value is None or value is False or (isinstance(value, str) and value)):
                raise TypeError(f"{name} must be the name of a column, None or False, not {value!r}")
        if isinstance(keep, str):
            raise TypeError(f"keep must be a list of names, not {keep!r}\n  hint: keep=[{keep!r}]")
        if threads is not None and threads < 1:
            raise ValueError(f"threads is {threads}, it must be at least 1")
        self.request, self.device, self.columns = request, device, columns
        self.by, self.time, self.keep, self.threads = by, time, keep, threads

    def arrow(self, data: Any, keep: Sequence[str] | None) -> _gpuforge.Table:
        by, time = ("" if key is False else key for key in (self.by, self.time))
        assert not isinstance(by, bool) and not isinstance(time, bool)
        kept = None if keep is None else list(keep)
        table, done = _gpuforge.indicators_arrow(
            self.request, data, self.columns, by, time, kept, self.device, self.threads
        )
        _log(done)
        return table

    def roles(self, names: list[str]) -> dict[str, int]:
        """Positions of the columns that are read, by role."""
        named = list(self.columns)
        for role, key in (("symbol", self.by), ("time", self.time)):
            if isinstance(key, str):
                named.append((role, key))
        roles = dict(self.request.resolve(names, named))
        for role, key in (("symbol", self.by), ("time", self.time)):
            if key is False:
                roles.pop(role, None)
        return roles

    def arrays(self, get: Mapping[str, Any], roles: Mapping[str, str]) -> list[NDArray[np.float64]]:
        """Computes NumPy columns; ``roles`` names the column of each role."""
        rows: int | None = None
        fields: list[tuple[str, Any]] = []
        codes = times = None
        per_second = 1.0
        for role, name in roles.items():
            if role == "symbol":
                codes = _codes(name, get[name])
                length = len(codes)
            elif role == "time":
                times, per_second = _times(name, get[name])
                length = len(times)
            else:
                column = _numbers(name, get[name])
                fields.append((role, column))
                length = len(column)
            if rows is not None and length != rows:
                raise ColumnError(
                    f"column `{name}` has {length} rows, the others have {rows}\n"
                    "  hint: all columns must have the same length"
                )
            rows = length
        results, done = _gpuforge.indicators_arrays(
            self.request, fields, rows or 0, codes, times, per_second, self.device, self.threads
        )
        _log(done)
        return results


#: Number of JIT fallbacks already warned about.
_warned = 0


def _warn_of_fallbacks() -> None:
    """Warns once per plan that fell back from JIT code to the kernels; its results are correct."""
    global _warned
    reasons = _gpuforge.jit_fallbacks()
    if len(reasons) > _warned:
        import warnings

        for reason in reasons[_warned:]:
            warnings.warn(f"{reason}; please report it with the selection", RuntimeWarning, stacklevel=5)
        _warned = len(reasons)


def _log(done: str | None) -> None:
    """Logs the placement, if a device was considered."""
    _warn_of_fallbacks()
    if done is not None:
        from gpuforge._logging import computed

        computed(done)


def _numbers(name: str, column: Any) -> NDArray[np.float64]:
    """Float64 in native byte order; strides and alignment are unchanged and handled when the array is read."""
    import numpy as np

    if isinstance(column, np.ma.MaskedArray):
        filled: Any = np.ma.filled  # NumPy before 2.3 has no types for it
        column = filled(column.astype(np.float64), np.nan)
        _gpuforge.count_copy(column.nbytes)
    if not isinstance(column, np.ndarray):
        column = np.asarray(column)
    if column.ndim != 1:
        raise ColumnError(f"column `{name}` has {column.ndim} dimensions, expected one")
    if column.dtype.kind not in "biuf":
        raise TypeError(
            f"column `{name}` holds {column.dtype}, not numbers\n"
            f"  hint: data[{name!r}].astype(float), if they are numbers stored as text"
        )
    if column.dtype != np.dtype(np.float64) or not column.dtype.isnative:
        column = column.astype(np.float64)
        _gpuforge.count_copy(column.nbytes)
    result: NDArray[np.float64] = column
    return result


def _codes(name: str, column: Any) -> NDArray[np.int64]:
    """Integer codes of the keys."""
    import numpy as np

    pandas = sys.modules.get("pandas")
    if pandas is not None and not isinstance(column, np.ndarray):
        return np.asarray(pandas.factorize(column)[0], dtype=np.int64)
    keys = np.asarray(column)
    if keys.ndim != 1:
        raise ColumnError(f"column `{name}` has {keys.ndim} dimensions, expected one")
    if keys.dtype.kind in "iu":
        return keys.astype(np.int64)
    try:
        codes: NDArray[np.int64] = np.asarray(np.unique(keys, return_inverse=True)[1], dtype=np.int64)
    except TypeError as error:
        raise TypeError(f"column `{name}` cannot be used as series keys: {error}") from error
    return codes


#: Ticks per second of NumPy's time units.
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "D": 1.0 / 86_400.0, "h": 1.0 / 3600.0, "m": 1.0 / 60.0}


def _times(name: str, column: Any) -> tuple[NDArray[np.int64], float]:
    """Times as int64 ticks, and ticks per second."""
    import numpy as np

    if hasattr(column, "dt") and hasattr(column, "to_numpy"):
        zone = getattr(column.dt, "tz", None)
        column = column.dt.tz_convert("UTC").dt.tz_localize(None) if zone is not None else column
    elif hasattr(column, "tz_convert") and getattr(column, "tz", None) is not None:
        column = column.tz_convert("UTC").tz_localize(None)
    times = np.asarray(column)
    if times.dtype.kind == "O" and len(times):
        times = times.astype("datetime64[us]")
    if times.dtype.kind == "M":
        unit, count = np.datetime_data(times.dtype)
        if count != 1 or unit not in _PER_SECOND:
            times, unit = times.astype("datetime64[us]"), "us"
        if np.isnat(times).any():
            raise ColumnError(f"column `{name}` has missing times (NaT)\n  hint: drop those rows")
        return times.astype(np.int64), _PER_SECOND[unit]
    if times.dtype.kind in "iu":
        return times.astype(np.int64), 1.0
    if times.dtype.kind == "f":
        return (times * 1e9).astype(np.int64), 1e9
    raise TypeError(f"column `{name}` holds {times.dtype}, not times")


def _of(module: str, *names: str) -> Any:
    """Type check against an optional module, without importing it: whoever has such an object has loaded its module."""

    def fits(data: object) -> bool:
        loaded = sys.modules.get(module)
        kinds = tuple(kind for name in names if (kind := getattr(loaded, name, None)) is not None)
        return bool(kinds) and isinstance(data, kinds)

    return fits


def _dict(data: Mapping[str, Any], call: _Call) -> dict[str, Any]:
    names = [str(name) for name in data]
    roles = {role: names[at] for role, at in call.roles(names).items()}
    results = call.arrays(data, roles)
    kept = {name: _kept(data, name) for name in call.keep or ()}
    return kept | dict(zip(call.request.columns, results))


def _kept(data: Mapping[str, Any], name: str) -> Any:
    if name not in data:
        raise ColumnError(f"there is no column `{name}` to keep\n  found: {', '.join(map(str, data))}")
    return data[name]


def _pandas(data: Any, call: _Call) -> Any:
    pandas: Any = sys.modules["pandas"]
    levels = {str(name): at for at, name in enumerate(data.index.names) if name is not None}
    names = [str(name) for name in data.columns]
    names += [name for name in levels if name not in names]
    if isinstance(data.index, pandas.DatetimeIndex) and call.time is None and not _has_time(names, call):
        # An unnamed DatetimeIndex is the time column.
        levels["time"] = 0
        names.append("time")
    get = _PandasColumns(data, levels)
    roles = {role: names[at] for role, at in call.roles(names).items()}
    results = call.arrays(get, roles)
    columns = {name: _kept(data, name) for name in call.keep or ()} | dict(zip(call.request.columns, results))
    return pandas.DataFrame(columns, index=data.index, copy=False)


def _has_time(names: list[str], call: _Call) -> bool:
    try:
        return "time" in call.roles(names)
    except ColumnError:
        # A required column is missing; the next resolve reports it.
        return False


class _PandasColumns(Mapping[str, Any]):
    """Columns and index levels by name; float64 is zero-copy."""

    def __init__(self, data: Any, levels: Mapping[str, int]) -> None:
        self._data, self._levels = data, levels

    def __getitem__(self, name: str) -> Any:
        at = next((i for i, column in enumerate(self._data.columns) if str(column) == name), None)
        if at is None:
            return self._data.index.get_level_values(self._levels[name])
        column = self._data.iloc[:, at]
        kind = column.dtype
        if getattr(kind, "na_value", None) is not None and getattr(kind, "kind", "O") in "iuf" and column.hasnans:
            import numpy as np

            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        return column.to_numpy() if getattr(kind, "kind", "O") in "biuf" else column

    def __iter__(self) -> Any:
        return iter([str(name) for name in self._data.columns])

    def __len__(self) -> int:
        return len(self._data.columns)


def _polars(data: Any, call: _Call) -> Any:
    polars: Any = sys.modules["polars"]
    lazy = isinstance(data, polars.LazyFrame)
    frame = polars.DataFrame(call.arrow(data.collect() if lazy else data, call.keep or ()))
    return frame.lazy() if lazy else frame


def _pyarrow(data: Any, call: _Call) -> Any:
    pyarrow: Any = sys.modules["pyarrow"]
    table = pyarrow.table(call.arrow(_aligned(pyarrow, data), call.keep or ()))
    if isinstance(data, pyarrow.RecordBatch):
        whole = table.combine_chunks().to_batches()
        return whole[0] if whole else pyarrow.RecordBatch.from_pylist([], schema=table.schema)
    return table


def _aligned(pyarrow: Any, data: Any) -> Any:
    """Copies string columns with unaligned offsets, such as those of an IPC message at an odd address.

    Arrow in Rust realigns numeric buffers by itself, but reads the last string offset before that.
    """
    for at, field in enumerate(data.schema):
        column = data.column(at)
        chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
        if not any(_is_unaligned(pyarrow, chunk) for chunk in chunks):
            continue
        plain = column.cast(field.type.value_type) if pyarrow.types.is_dictionary(field.type) else column
        copy = plain.take(pyarrow.array(range(len(plain)), pyarrow.int64()))
        _gpuforge.count_copy(copy.nbytes)
        data = data.set_column(at, field.name, copy)
    return data


def _is_unaligned(pyarrow: Any, chunk: Any) -> bool:
    """Whether its offsets, or those of its dictionary, are unaligned."""
    kinds = pyarrow.types
    if kinds.is_dictionary(chunk.type):
        return _is_unaligned(pyarrow, chunk.dictionary)
    with_offsets = (
        kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary, kinds.is_list, kinds.is_large_list
    )
    if not any(fits(chunk.type) for fits in with_offsets):
        return False
    return any(buffer is not None and buffer.address % 8 for buffer in chunk.buffers())


def _duckdb(data: Any, call: _Call) -> Any:
    return sys.modules["duckdb"].from_arrow(call.arrow(data, call.keep))


def _any_arrow(data: Any, call: _Call) -> Any:
    return call.arrow(data, call.keep or ())


def _has_arrow_capsule(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


#: Adapters by table type; the first match is used.
_ADAPTERS: tuple[tuple[Callable[[Any], bool], Callable[[Any, _Call], Any]], ...] = (
    (lambda data: isinstance(data, Mapping), _dict),
    (_of("pandas", "DataFrame"), _pandas),
    (_of("polars", "DataFrame", "LazyFrame"), _polars),
    (_of("pyarrow", "Table", "RecordBatch"), _pyarrow),
    (_of("duckdb", "DuckDBPyRelation"), _duckdb),
    (_has_arrow_capsule, _any_arrow),
)

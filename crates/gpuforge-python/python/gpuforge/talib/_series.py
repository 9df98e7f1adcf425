"""pandas and Polars Series for ``gpuforge.talib``: computed as arrays, returned as Series."""

from __future__ import annotations

import sys
from typing import Any

from gpuforge._gpuforge import talib_call


def call(function: int, names: list[str], args: tuple[Any, ...], precision: str | None) -> Any:
    """Calls a function with Series among its inputs; other types raise TA-Lib's error."""
    pandas = getattr(sys.modules.get("pandas"), "Series", None)
    polars = getattr(sys.modules.get("polars"), "Series", None)
    from_pandas = [arg for arg in args if pandas is not None and isinstance(arg, pandas)]
    from_polars = [arg for arg in args if polars is not None and isinstance(arg, polars)]
    if from_pandas and from_polars:
        raise Exception("Cannot mix polars and pandas")
    import numpy as np

    kinds = tuple(kind for kind in (pandas, polars) if kind is not None)
    plain: list[Any] = []
    for at, arg in enumerate(args):
        if kinds and isinstance(arg, kinds):
            plain.append(arg.to_numpy().astype(np.float64, copy=False))
            continue
        if at < len(names) and not isinstance(arg, np.ndarray):
            kind = type(arg).__name__
            raise TypeError(f"Argument '{names[at]}' has incorrect type (expected numpy.ndarray, got {kind})")
        plain.append(arg)
    result = talib_call(function, *plain, precision=precision)
    if from_pandas:
        assert pandas is not None
        index, wrap = from_pandas[0].index, pandas
        return _each(result, lambda array: wrap(array, index=index, copy=False))
    return _each(result, polars) if from_polars else result


def _each(result: Any, wrap: Any) -> Any:
    return tuple(wrap(array) for array in result) if isinstance(result, tuple) else wrap(result)

"""Every function against the real TA-Lib: defaults, random parameters, leading NaN, short arrays, errors."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gpuforge.talib as ours
from conftest import walk
from gpuforge.talib import _functions

theirs = pytest.importorskip("talib")

#: Functions of both.
SHARED = [name for name in ours.get_functions() if hasattr(theirs, name)]
#: The most that a value may differ, as a share of the greater of the value and the scale of its column.
BOUND = 1e-9


def arrays(name: str, n: int, seed: int) -> list[np.ndarray]:
    bars = walk(n, seed)
    rng = np.random.default_rng(seed + 1)
    parameters = inspect.signature(getattr(_functions, name)).parameters.values()
    wanted = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    others = {"real": bars["close"], "real0": bars["close"], "real1": bars["high"]}
    others["periods"] = rng.integers(2, 30, n).astype(float)
    if name in ("ACOS", "ASIN"):
        others["real"] = rng.random(n) * 2 - 1
    if name in ("COSH", "SINH", "EXP", "TANH"):
        others["real"] = rng.normal(0, 3, n)
    return [bars.get(w, others.get(w)) for w in wanted]


def columns(result) -> tuple[np.ndarray, ...]:
    return result if isinstance(result, tuple) else (result,)


def compare(name: str, got, want, context: str) -> None:
    got, want = columns(got), columns(want)
    assert len(got) == len(want), f"{name} {context}: {len(got)} outputs instead of {len(want)}"
    for at, (g, w) in enumerate(zip(got, want)):
        where = f"{name} {context}, output {at}"
        assert g.dtype == w.dtype, f"{where}: {g.dtype} instead of {w.dtype}"
        assert g.shape == w.shape, where
        if g.dtype.kind == "i":
            assert np.array_equal(g, w), f"{where}: differs at {np.flatnonzero(g != w)[:5]}"
            continue
        unlike = np.flatnonzero(np.isnan(g) != np.isnan(w))
        assert unlike.size == 0, f"{where}: NaN at {unlike[:5]} in one only"
        sure = ~np.isnan(w)
        assert np.array_equal(np.isinf(g[sure]), np.isinf(w[sure])), f"{where}: infinities"
        finite = sure & np.isfinite(w)
        if finite.any():
            scale = np.maximum(np.abs(w[finite]), np.abs(w[finite]).max())
            error = np.abs(g[finite] - w[finite]) / np.where(scale == 0, 1, scale)
            assert error.max() <= BOUND, f"{where}: off by {error.max():.1e} at {error.argmax()}"


def test_every_talib_function_exists():
    assert len(SHARED) >= 190
    assert set(theirs.get_functions()) - set(ours.get_functions()) == set()


@pytest.mark.parametrize("name", SHARED)
def test_defaults(name):
    for n in (0, 1, 2, 30, 100, 1000):
        data = arrays(name, n, seed=n + 1)
        context = f"of {n} bars"
        try:
            want = getattr(theirs, name)(*data)
        except Exception as error:
            with pytest.raises(type(error)):
                getattr(ours, name)(*data)
            continue
        compare(name, getattr(ours, name)(*data), want, context)


def random_parameters(name: str, rng: np.random.Generator) -> dict[str, float]:
    row = next(f for f in ours.abstract._table().values() if f["name"] == name)
    found = {}
    for param in row["params"]:
        default = param["default"]
        if "matype" in param["name"]:
            found[param["name"]] = int(rng.integers(0, 9))
        elif param["real"]:
            found[param["name"]] = float(np.round(default * rng.uniform(0.5, 1.5), 4))
        else:
            low = min(2, default)
            found[param["name"]] = int(rng.integers(low, max(default * 2, low + 2)))
    return found


@pytest.mark.parametrize("name", [n for n in SHARED if ours.abstract._table()[n]["params"]])
def test_random_parameters(name):
    rng = np.random.default_rng(sum(map(ord, name)))
    tried = 0
    for seed in range(6):
        data = arrays(name, 400, seed)
        params = random_parameters(name, rng)
        try:
            want = getattr(theirs, name)(*data, **params)
        except Exception as error:
            with pytest.raises(type(error)) as caught:
                getattr(ours, name)(*data, **params)
            assert str(caught.value) == str(error), params
            continue
        compare(name, getattr(ours, name)(*data, **params), want, f"{params}")
        tried += 1
    assert tried > 0, "TA-Lib refused every set of parameters"


@pytest.mark.parametrize("name", SHARED)
def test_leading_nan(name):
    data = arrays(name, 300, seed=9)
    for column, length in zip(data, (7, 3, 0, 11, 2)):
        column[:length] = np.nan
    compare(name, getattr(ours, name)(*data), getattr(theirs, name)(*data), "after leading NaN")
    nothing = [np.full(50, np.nan) for _ in data]
    compare(name, getattr(ours, name)(*nothing), getattr(theirs, name)(*nothing), "of nothing but NaN")


@pytest.mark.parametrize("name", SHARED)
def test_signature_and_bounds(name):
    mine, other = (inspect.signature(getattr(module, name)) for module in (ours, theirs))
    # `precision` is ours, by keyword only.
    shared = [p for p in mine.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert [(p.name, p.default) for p in shared] == [
        (p.name, p.default) for p in other.parameters.values()
    ]
    data = arrays(name, 60, seed=3)
    for param in shared:
        if param.default is inspect.Parameter.empty:
            continue
        for value in (-1, 0, 1, 2, 3, 100_000, 100_001, 3_000_000):
            if isinstance(param.default, float):
                value = float(value)
            try:
                getattr(theirs, name)(*data, **{param.name: value})
                refused = None
            except Exception as error:
                refused = error
            try:
                getattr(ours, name)(*data, **{param.name: value})
                mine_refused = None
            except Exception as error:
                mine_refused = error
            assert (type(mine_refused), str(mine_refused)) == (type(refused), str(refused)), (param.name, value)


def raised(module, call):
    try:
        call(module)
        return None
    except Exception as error:
        return type(error), str(error)


MISTAKES = {
    "lengths": lambda t: t.ATR(np.arange(10.0), np.arange(9.0), np.arange(10.0)),
    "whole numbers": lambda t: t.SMA(np.arange(10)),
    "float32": lambda t: t.SMA(np.arange(10.0, dtype=np.float32)),
    "objects": lambda t: t.SMA(np.arange(10.0).astype(object)),
    "two dimensions": lambda t: t.SMA(np.arange(10.0).reshape(2, 5)),
    "whole numbers in two dimensions": lambda t: t.SMA(np.arange(10).reshape(2, 5)),
    "a list": lambda t: t.SMA([1.0, 2.0]),
    "nothing": lambda t: t.SMA(None),
    "a period of 100001": lambda t: t.SMA(np.arange(10.0), timeperiod=100_001),
    "a negative period": lambda t: t.EMA(np.arange(10.0), timeperiod=-3),
    "a kind of mean": lambda t: t.BBANDS(np.arange(10.0), matype=99),
    "second array": lambda t: t.BETA(np.arange(10.0), np.arange(10)),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_errors_match_talib(what):
    assert raised(ours, MISTAKES[what]) == raised(theirs, MISTAKES[what])


def test_unknown_keyword_is_a_type_error():
    for call in (lambda t: t.SMA(), lambda t: t.SMA(np.arange(3.0), foo=1), lambda t: t.SMA(np.arange(3.0), "x")):
        assert raised(ours, call)[0] is raised(theirs, call)[0] is TypeError


def test_strides_byte_order_and_read_only():
    x = walk(200)["close"]
    want = theirs.RSI(x)
    twice = np.repeat(x, 2)[::2]
    locked = x.copy()
    locked.flags.writeable = False
    for given in (twice, x[::-1][::-1], x.astype(">f8"), locked):
        compare("RSI", ours.RSI(given), want, str(given.flags))


def test_pandas_and_polars_series():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    x = walk(100)["close"]
    index = pandas.date_range("2024-01-01", periods=100)
    mine, other = (t.MACD(pandas.Series(x, index=index)) for t in (ours, theirs))
    for m, o in zip(mine, other):
        pandas.testing.assert_series_equal(m, o, rtol=1e-9)
    mine, other = (t.SMA(polars.Series(x), timeperiod=5) for t in (ours, theirs))
    assert isinstance(mine, polars.Series)
    compare("SMA", mine.to_numpy(), other.to_numpy(), "of a Polars Series")
    mixed = lambda t: t.ATR(pandas.Series(x), polars.Series(x), x)  # noqa: E731
    assert raised(ours, mixed) == raised(theirs, mixed)


PROGRAM = """
import numpy as np
import pandas as pd
close = np.abs(np.sin(np.arange(300.0) / 7) * 10 + 100)
high, low = close + 1, close - 1
rsi = talib.RSI(close, timeperiod=14)
upper, middle, lower = talib.BBANDS(close, timeperiod=20, nbdevup=2.0, nbdevdn=2.0, matype=talib.MA_Type.EMA)
macd, signal, hist = talib.MACD(close, fastperiod=12, slowperiod=26, signalperiod=9)
k, d = talib.abstract.STOCH({"high": high, "low": low, "close": close})
doji = talib.CDLDOJI(close, high, low, close)
frame = talib.abstract.Function("bbands")(pd.DataFrame({"close": close}), timeperiod=10)
listed = sum(len(names) for names in talib.get_function_groups().values()) == len(talib.get_functions())
results = [rsi, upper, middle, lower, macd, signal, hist, k, d, doji, frame.to_numpy().ravel()]
"""


def test_talib_program_runs_unchanged():
    pytest.importorskip("pandas")
    outcomes = []
    for head in ("import gpuforge.talib as talib, gpuforge.talib.abstract", "import talib, talib.abstract"):
        scope: dict = {}
        exec(head + PROGRAM, scope)  # noqa: S102
        assert scope["listed"]
        outcomes.append(scope["results"])
    for mine, other in zip(*outcomes):
        compare("program", mine, other, "")

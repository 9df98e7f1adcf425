"""Precision of ``gpuforge.talib``: a value depends on the bars up to its own, never on the number of rows; exact is exact."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gpuforge
import gpuforge.talib as talib
from conftest import walk
from gpuforge.talib import _functions, abstract, stream

#: Rows from which on the GIL is released.
RELEASE_GIL_ROWS = 4096
#: Functions with float outputs only: the others are always exact.
FLOATS = [name for name in talib.get_functions() if not any(o["whole"] for o in abstract._table()[name]["outputs"])]
#: Functions and what they are in a selection.
SELECTED = {
    "SMA": "sma(30)",
    "EMA": "ema(30)",
    "WMA": "wma(30)",
    "DEMA": "dema(30)",
    "RSI": "rsi(14)",
    "ATR": "atr(14)",
    "ADX": "adx(14)",
    "MFI": "mfi(14)",
    "OBV": "obv",
    "SUM": "sum(30)",
    "TRIX": "trix(30)",
    "MACD": "macd(12,26,9)",
    "AD": "ad",
    "ADOSC": "adosc(3,10)",
}


@pytest.fixture(autouse=True)
def restored():
    yield
    talib.set_precision("fast")


def inputs(name: str, n: int) -> list[np.ndarray]:
    """Arrays of a function: the first bars of the same series, whatever `n` is."""
    bars = {column: values[:n] for column, values in walk(9_000, seed=4).items()}
    others = {"real": bars["close"], "real0": bars["high"], "real1": bars["low"]}
    others["periods"] = np.random.default_rng(3).integers(2, 30, 9_000).astype(float)[:n]
    if name in ("ACOS", "ASIN", "COSH", "SINH", "EXP", "TANH"):
        others["real"] = np.random.default_rng(5).random(9_000)[:n]
    return [bars.get(column, others.get(column)) for column in abstract._table()[name]["inputs"]]


def columns(result) -> tuple[np.ndarray, ...]:
    return result if isinstance(result, tuple) else (result,)


def same_bits(got, want) -> bool:
    """NaN equals NaN; everything else has the same bits."""
    bits = lambda x: np.where(np.isnan(x), np.nan, x).view(np.uint64)  # noqa: E731
    both = zip(columns(got), columns(want), strict=True)
    return all(np.array_equal(bits(g), bits(w)) for g, w in both)


@pytest.mark.parametrize("name", FLOATS)
def test_rows_that_follow_change_nothing(name):
    function = getattr(talib, name)
    for precision in ("fast", "exact"):
        whole = columns(function(*inputs(name, 8_999), precision=precision))
        for n in (7, 100, 1_003, RELEASE_GIL_ROWS - 1, RELEASE_GIL_ROWS, RELEASE_GIL_ROWS + 1):
            part = function(*inputs(name, n), precision=precision)
            assert same_bits(part, tuple(column[:n] for column in whole)), f"{name}, {precision}, {n} rows"


@pytest.mark.parametrize("name", SELECTED)
def test_exact_has_the_bits_of_indicators(name):
    table = abstract._table()[name]["inputs"]
    for n in (100, RELEASE_GIL_ROWS - 1, 8_999):
        data = inputs(name, n)
        bars = {"close" if column.startswith("real") else column: data[at] for at, column in enumerate(table)}
        want = tuple(gpuforge.indicators(bars, SELECTED[name], device="cpu").values())
        assert same_bits(getattr(talib, name)(*data, precision="exact"), want), (name, n)


def test_fast_differs_from_exact_at_any_number_of_rows():
    """Else the test of rows that follow would compare nothing."""
    for n in (200, RELEASE_GIL_ROWS, 8_999):
        exact, fast = (talib.EMA(*inputs("EMA", n), 30, precision=p) for p in ("exact", "fast"))
        assert not same_bits(exact, fast), n
        np.testing.assert_allclose(fast, exact, rtol=1e-12)


def test_default_of_the_process():
    data = inputs("EMA", 5_000)
    exact, fast = (talib.EMA(*data, precision=p) for p in ("exact", "fast"))
    assert talib.get_precision() == "fast"
    assert same_bits(talib.EMA(*data), fast)
    talib.set_precision("exact")
    assert talib.get_precision() == "exact"
    assert same_bits(talib.EMA(*data), exact)
    assert same_bits(talib.EMA(*data, precision="fast"), fast), "the keyword is the call's"
    assert same_bits(talib.EMA(*data, precision=None), exact)


@pytest.mark.parametrize("wrong", ["loose", "Exact", "", 1, b"fast"])
def test_other_values_are_refused(wrong):
    calls = (
        lambda: talib.set_precision(wrong),
        lambda: talib.SMA(*inputs("SMA", 50), precision=wrong),
        lambda: talib.CDLDOJI(*inputs("CDLDOJI", 50), precision=wrong),
        lambda: abstract.SMA({"close": inputs("SMA", 50)[0]}, precision=wrong),
    )
    for call in calls:
        with pytest.raises(ValueError, match='"exact" or "fast"'):
            call()
    assert talib.get_precision() == "fast"


def test_precision_is_keyword_only():
    with pytest.raises(TypeError):
        talib.SMA(*inputs("SMA", 50), 5, "exact")
    with pytest.raises(TypeError, match="always exact"):
        stream.SMA(*inputs("SMA", 50), 5, precision="fast")


def test_whole_numbers_are_always_exact():
    for name in ("CDLENGULFING", "HT_TRENDMODE", "MAXINDEX"):
        got = [columns(getattr(talib, name)(*inputs(name, 8_999), precision=p))[0] for p in ("exact", "fast")]
        assert got[0].dtype == np.int32 and np.array_equal(*got)


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_series(module):
    wrap = pytest.importorskip(module).Series
    data = inputs("EMA", 5_000)[0]
    for precision in ("exact", "fast"):
        got = talib.EMA(wrap(data), precision=precision)
        assert isinstance(got, wrap) and same_bits(got.to_numpy(), talib.EMA(data, precision=precision))
    talib.set_precision("exact")
    assert same_bits(talib.EMA(wrap(data)).to_numpy(), talib.EMA(data, precision="exact"))


def test_abstract():
    bars = {"close": inputs("EMA", 5_000)[0]}
    exact, fast = (talib.EMA(bars["close"], 30, precision=p) for p in ("exact", "fast"))
    function = abstract.Function("ema", timeperiod=30)
    assert same_bits(function(bars, precision="exact"), exact)
    assert same_bits(function(bars), fast), "of one call only"
    assert same_bits(abstract.Function("ema", bars, timeperiod=30, precision="exact").outputs, exact)
    talib.set_precision("exact")
    assert same_bits(function(bars), exact)
    assert "precision" not in function.info["parameters"]


def test_variable_periods():
    """Windows that are too long for one plan."""
    close, periods = inputs("MAVP", 6_000)
    periods = np.where(np.arange(6_000) % 2, 700.0, 1_200.0)
    for precision in ("exact", "fast"):
        call = lambda n: talib.MAVP(close[:n], periods[:n], 2, 1_500, 1, precision=precision)  # noqa: E731, B023
        assert same_bits(call(4_095), call(6_000)[:4_095])
    talib.set_precision("exact")
    assert same_bits(talib.MAVP(close, periods, 2, 1_500, 1), talib.MAVP(close, periods, 2, 1_500, 1, precision="exact"))


def test_streams_are_exact():
    data = inputs("EMA", 5_000)[0]
    handle, filled = stream.EMA.open_and_fill(data[:4_500], timeperiod=30)
    exact = talib.EMA(data, 30, precision="exact")
    assert same_bits(filled, exact[:4_500])
    for t in range(4_500, 4_600):
        assert handle.update(data[t]) == exact[t]


def test_threads_keep_what_their_call_says():
    """The default is one for all threads; the keyword is the call's, whatever others set meanwhile."""
    data = inputs("EMA", 6_000)
    want = {p: talib.EMA(*data, precision=p) for p in ("exact", "fast")}
    done = threading.Event()
    wrong: list[str] = []

    def switch():
        while not done.is_set():
            talib.set_precision("exact")
            talib.set_precision("fast")

    def compute(precision):
        for _ in range(200):
            if not same_bits(talib.EMA(*data, precision=precision), want[precision]):
                wrong.append(precision)
            either = talib.EMA(*data)
            if not any(same_bits(either, one) for one in want.values()):
                wrong.append("neither")

    switcher = threading.Thread(target=switch)
    workers = [threading.Thread(target=compute, args=(p,)) for p in ("exact", "fast") * 2]
    switcher.start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    done.set()
    switcher.join()
    assert wrong == []


def test_every_function_has_the_keyword():
    import inspect

    for name in talib.get_functions():
        precision = inspect.signature(getattr(_functions, name)).parameters["precision"]
        assert precision.kind is inspect.Parameter.KEYWORD_ONLY and precision.default is None, name

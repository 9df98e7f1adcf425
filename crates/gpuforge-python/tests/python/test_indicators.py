"""Every table type in and out, identical values, zero-copy; series by key and time; errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gpuforge
from conftest import walk
from gpuforge import _gpuforge

SELECT = "rsi(14), macd(12,26,9), bbands(20), atr(14), obv, cdldoji, ema(5) - ema(20)"


def expected(bars: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return gpuforge.indicators(bars, SELECT, device="cpu")


def long_bars() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Three symbols of several lengths one after the other, with their times."""
    parts = [walk(n, seed=n) for n in (120, 300, 77)]
    bars = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    symbol = np.repeat(np.array(["AA", "B", "CCC"]), [120, 300, 77])
    time = np.concatenate([np.arange(n) for n in (120, 300, 77)]).astype("datetime64[D]").astype("datetime64[us]")
    return bars, symbol, time


def per_symbol() -> dict[str, np.ndarray]:
    parts = [expected(walk(n, seed=n)) for n in (120, 300, 77)]
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def same(got, want: dict[str, np.ndarray], context: str = "") -> None:
    for name, column in want.items():
        np.testing.assert_array_equal(np.asarray(got[name]), column, err_msg=f"{context} {name}")


def test_dict_of_arrays(bars):
    out = expected(bars)
    assert list(out)[:2] == ["rsi_14", "macd_12_26_9"] and "ema(5) - ema(20)" in out
    assert all(isinstance(c, np.ndarray) and c.dtype == np.float64 and len(c) == 500 for c in out.values())


def frames(bars: dict[str, np.ndarray]):
    import duckdb
    import pandas
    import polars
    import pyarrow

    table = pyarrow.table(bars)
    yield "pandas", pandas.DataFrame(bars), pandas.DataFrame
    yield "polars", polars.DataFrame(bars), polars.DataFrame
    yield "pyarrow", table, pyarrow.Table
    yield "batch", table.to_batches()[0], pyarrow.RecordBatch
    yield "duckdb", duckdb.from_arrow(table), duckdb.DuckDBPyRelation


def columns_of(out) -> dict[str, np.ndarray]:
    if hasattr(out, "fetchnumpy"):
        return {name: np.ma.filled(column, np.nan) for name, column in out.fetchnumpy().items()}
    names = out.columns
    if hasattr(out, "schema") and isinstance(getattr(out.schema, "names", None), list):
        names = out.schema.names
    return {name: np.asarray(out[name]) for name in names}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "batch", "duckdb"])
def test_result_has_the_input_type(bars, kind):
    for module in ("pandas", "polars", "pyarrow", "duckdb"):
        pytest.importorskip(module)
    data, type_ = next((d, t) for name, d, t in frames(bars) if name == kind)
    out = gpuforge.indicators(data, SELECT, device="cpu")
    assert isinstance(out, type_)
    same(columns_of(out), expected(bars), kind)


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "pyarrow", "duckdb"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_series_by_key_and_time(kind, shuffled):
    for module in ("pandas", "polars", "pyarrow", "duckdb"):
        pytest.importorskip(module)
    bars, symbol, time = long_bars()
    want = per_symbol()
    order = np.random.default_rng(5).permutation(len(symbol)) if shuffled else np.arange(len(symbol))
    data = {"symbol": symbol[order], "date": time[order]} | {n: c[order] for n, c in bars.items()}
    if kind == "dict":
        out = gpuforge.indicators(data, SELECT, by="symbol", time="date")
        same(out, {n: c[order] for n, c in want.items()})
        return
    frame = next(d for name, d, _ in frames(data) if name == kind)
    out = columns_of(gpuforge.indicators(frame, SELECT, by="symbol", time="date", keep=["symbol", "date"]))
    if kind == "duckdb":
        at = {(s, t): i for i, (s, t) in enumerate(zip(symbol, time.astype("datetime64[us]")))}
        rows = [at[s, np.datetime64(t, "us")] for s, t in zip(out["symbol"], out["date"])]
        same(out, {n: c[rows] for n, c in want.items()})
    else:
        same(out, {n: c[order] for n, c in want.items()}, kind)
        assert list(out["symbol"]) == list(data["symbol"])


def test_default_key_columns_can_be_disabled():
    bars, symbol, time = long_bars()
    data = {"ticker": symbol, "timestamp": time} | bars
    same(gpuforge.indicators(data, SELECT), per_symbol())
    together = gpuforge.indicators(data, SELECT, by=False, time=False)
    same(together, expected(bars))


def test_pandas_index_levels_are_keys():
    pandas = pytest.importorskip("pandas")
    bars, symbol, time = long_bars()
    frame = pandas.DataFrame(bars | {"symbol": symbol, "date": time}).set_index(["symbol", "date"])
    out = gpuforge.indicators(frame, SELECT, by="symbol", time="date")
    same(out, per_symbol())
    assert out.index.equals(frame.index)
    dated = pandas.DataFrame(walk(300), index=pandas.date_range("2024-01-01", periods=300, tz="America/New_York"))
    backwards = gpuforge.indicators(dated[::-1], SELECT)
    same(backwards[::-1], expected(walk(300)))


def test_time_column_is_passed_to_indicators():
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    bars = walk(2000)
    index = pandas.date_range("2024-01-01 09:30", periods=2000, freq="1min")
    seconds = (index.values.astype("datetime64[s]")).astype(np.int64)
    want = gpuforge.indicators(bars | {"time": seconds}, "avwap(1)", device="cpu")
    same(gpuforge.indicators(pandas.DataFrame(bars, index=index), "avwap(1)"), want)
    table = pyarrow.table(bars | {"time": pyarrow.array(index.values.astype("datetime64[ns]"))})
    same(columns_of(gpuforge.indicators(table, "avwap(1)")), want)


# No copies.


def copied(call) -> int:
    before = _gpuforge.copied_bytes()
    call()
    return _gpuforge.copied_bytes() - before


def test_contiguous_float64_is_zero_copy(bars):
    pandas, polars, pyarrow = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
    for data in (bars, pandas.DataFrame(bars), polars.DataFrame(bars), pyarrow.table(bars)):
        assert copied(lambda: gpuforge.indicators(data, SELECT)) == 0, type(data)
    symbols = {"symbol": np.repeat([1, 2], 250)} | bars
    assert copied(lambda: gpuforge.indicators(symbols, SELECT)) == 0
    assert copied(lambda: gpuforge.indicators({n: c[::-1] for n, c in bars.items()}, "rsi(14)")) == 8 * 500
    assert copied(lambda: gpuforge.indicators({"close": bars["close"].astype("f4")}, "rsi(14)")) == 8 * 500


def test_arrow_results_are_zero_copy(bars):
    pyarrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    request = _gpuforge.Request(SELECT, [], "talib")
    table, _ = _gpuforge.indicators_arrow(request, pyarrow.table(bars), [], None, None, [], "cpu", None)
    seen = [c.chunk(0).buffers()[1].address for c in pyarrow.table(table).columns]
    assert seen == table.addresses()
    frame = polars.DataFrame(table)
    assert [frame[name].to_numpy().__array_interface__["data"][0] for name in frame.columns] == table.addresses()


def test_pandas_results_share_memory(bars):
    pandas = pytest.importorskip("pandas")
    out = gpuforge.indicators(pandas.DataFrame(bars), "rsi(14), sma(20)")
    first = out["rsi_14"].to_numpy()
    assert np.shares_memory(first, out["rsi_14"].to_numpy())
    assert copied(lambda: gpuforge.indicators(out.rename(columns={"rsi_14": "close"}), "sma(5)")) == 0


# Your own.


def test_definitions(bars):
    out = gpuforge.indicators(bars, "fast, rsi(14)", define={"fast": "ema(5) - ema(20)"})
    assert list(out) == ["fast", "rsi_14"]
    np.testing.assert_array_equal(
        out["fast"], gpuforge.indicators(bars, "ema(5) - ema(20)")["ema(5) - ema(20)"]
    )
    with pytest.raises(gpuforge.SelectError, match="taken already"):
        gpuforge.indicators(bars, "rsi", define={"rsi": "close"})


def test_conventions(bars):
    talib, pandas = (gpuforge.indicators(bars, "ema(10)", convention=c)["ema_10"] for c in ("talib", "pandas"))
    assert not np.array_equal(talib, pandas, equal_nan=True)
    with pytest.raises(ValueError, match="convention"):
        gpuforge.indicators(bars, "ema(10)", convention="mine")


def test_catalogue():
    rows = gpuforge.catalogue()
    assert sum(row["kind"] in ("indicator", "candlestick") for row in rows) >= 290
    assert {row["group"] for row in gpuforge.catalogue("volume")} == {"volume"}
    rows[0]["name"] = "changed"
    assert gpuforge.catalogue()[0]["name"] != "changed"
    with pytest.raises(ValueError, match="hint"):
        gpuforge.catalogue("nonsense")


# What is refused, and what is not.


def test_errors_name_the_argument(bars):
    refused = [
        (lambda: gpuforge.indicators(bars, "rsj(14)"), gpuforge.SelectError, "did you mean"),
        (lambda: gpuforge.indicators(bars, "rsi(0)"), gpuforge.SelectError, "period"),
        (lambda: gpuforge.indicators(bars, ""), gpuforge.SelectError, "nothing is selected"),
        (lambda: gpuforge.indicators({"x": bars["close"]}, "rsi"), gpuforge.ColumnError, "close column is missing"),
        (lambda: gpuforge.indicators(bars, "rsi", by="nope"), gpuforge.ColumnError, "nope"),
        (lambda: gpuforge.indicators(bars, "rsi", columns={"close": "px"}), gpuforge.ColumnError, "px"),
        (lambda: gpuforge.indicators(bars, "rsi", columns={"prize": "close"}), ValueError, "prize"),
        (lambda: gpuforge.indicators(bars, "rsi", device="tpu"), ValueError, "tpu"),
        (lambda: gpuforge.indicators(bars, "rsi", keep=["nope"]), gpuforge.ColumnError, "nope"),
        (lambda: gpuforge.indicators([1, 2], "rsi"), TypeError, "hint"),
        (lambda: gpuforge.indicators(bars | {"high": bars["high"][:9]}, "atr"), gpuforge.ColumnError, "rows"),
        (lambda: gpuforge.indicators({"close": bars["close"].astype(object)}, "rsi"), TypeError, "object"),
        (lambda: gpuforge.indicators({"close": bars["close"].astype(str)}, "rsi"), TypeError, "not numbers"),
        (lambda: gpuforge.indicators({"close": bars["close"].reshape(2, -1)}, "rsi"), gpuforge.ColumnError, "dim"),
        (lambda: gpuforge.indicators(bars, "rsi", threads=0), ValueError, "threads"),
    ]
    for call, kind, words in refused:
        with pytest.raises(kind) as caught:
            call()
        assert words in str(caught.value), str(caught.value)
    assert issubclass(gpuforge.SelectError, ValueError) and issubclass(gpuforge.ColumnError, ValueError)
    assert issubclass(gpuforge.DeviceError, RuntimeError) and issubclass(gpuforge.DeviceMemoryError, MemoryError)


def test_arrow_errors_name_the_column(bars):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"close": [str(x) for x in bars["close"]]})
    with pytest.raises(gpuforge.ColumnError, match="not numbers"):
        gpuforge.indicators(table, "rsi")
    with pytest.raises(gpuforge.ColumnError, match="missing"):
        gpuforge.indicators(pyarrow.table({"x": [1.0]}), "rsi")
    times = pyarrow.table(bars | {"time": pyarrow.array([None] * 500, pyarrow.timestamp("us"))})
    with pytest.raises(gpuforge.ColumnError, match="null"):
        gpuforge.indicators(times, "rsi")


def test_unusual_input_is_accepted(bars):
    close = bars["close"]
    want = gpuforge.indicators({"close": close}, "sma(5)")["sma_5"]
    locked = close.copy()
    locked.flags.writeable = False
    for given in (close[::-1][::-1], np.repeat(close, 3)[::3], close.astype(">f8"), locked, list(close)):
        np.testing.assert_array_equal(gpuforge.indicators({"close": given}, "sma(5)")["sma_5"], want)
    empty = gpuforge.indicators({"close": np.array([])}, "sma(5), rsi(14)")
    assert [len(c) for c in empty.values()] == [0, 0]
    whole = gpuforge.indicators({"close": np.arange(10)}, "sma(2)")["sma_2"]
    assert whole[-1] == 8.5


def test_nulls_and_masked_values_become_nan():
    pyarrow, polars, pandas = map(pytest.importorskip, ("pyarrow", "polars", "pandas"))
    numbers = [1.0, None, 3.0, 4.0]
    masked = np.ma.array([1.0, 9.0, 3.0, 4.0], mask=[False, True, False, False])
    for data in (
        {"close": masked},
        pyarrow.table({"close": numbers}),
        polars.DataFrame({"close": numbers}),
        pandas.DataFrame({"close": pandas.array(numbers, dtype="Float64")}),
    ):
        out = np.asarray(gpuforge.indicators(data, "close * 2")["close * 2"], dtype=float)
        np.testing.assert_array_equal(out, [2.0, np.nan, 6.0, 8.0])


def test_chunked_columns_are_one_series(bars):
    pyarrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    table = pyarrow.table(bars)
    pieces = pyarrow.concat_tables([table.slice(0, 123), table.slice(123)])
    same(columns_of(gpuforge.indicators(pieces, SELECT)), expected(bars))
    frame = polars.concat([polars.DataFrame(bars)[:50], polars.DataFrame(bars)[50:]], rechunk=False)
    same(columns_of(gpuforge.indicators(frame, SELECT)), expected(bars))
    lazy = gpuforge.indicators(frame.lazy(), "rsi(14)")
    assert isinstance(lazy, polars.LazyFrame)


def test_cpu_and_gpu_agree(bars, adapter):
    want = gpuforge.indicators(bars, "sma(20), rsi(14)", device="cpu")
    try:
        got = gpuforge.indicators(bars, "sma(20), rsi(14)", device="gpu")
    except gpuforge.DeviceError as error:
        assert "hint" in str(error)
        adapter.missing(error)
    adapter.ran()
    for name, column in want.items():
        np.testing.assert_allclose(got[name], column, rtol=1e-3, equal_nan=True)


def test_jit_fallback_warns_once(monkeypatch):
    from gpuforge import _indicators

    assert _gpuforge.jit_fallbacks() == []
    native = type("Native", (), {"jit_fallbacks": staticmethod(lambda: ["JIT code of output 0 gave 1 where 2"])})
    monkeypatch.setattr(_indicators, "_gpuforge", native)
    monkeypatch.setattr(_indicators, "_warned", 0)
    with pytest.warns(RuntimeWarning, match="JIT code of output 0"):
        _indicators._log(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _indicators._log(None)

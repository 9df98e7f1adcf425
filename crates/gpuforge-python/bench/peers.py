"""Benchmark against TA-Lib, polars_talib and pandas-ta-classic: one process, interleaved, medians and ratios.

`cargo xtask python bench` runs it on a release wheel and fails if a target is missed. `-- --quick` skips the catalogue;
`-- --every` adds all functions in every scenario.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import statistics
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any, Callable

import numpy as np
import pandas
import polars

import gpuforge
import gpuforge.talib as ours
import talib as theirs

try:
    import polars_talib  # noqa: F401  registers `.ta`
except ImportError:
    polars_talib = None
try:
    pandas_ta: Any = importlib.import_module("pandas_ta_classic")
except ImportError:
    pandas_ta = None

OHLC = ("open", "high", "low", "close")
#: Function, its arrays, the same of Polars (a function of the frame), the same of pandas-ta.
TYPICAL: list[tuple[str, tuple[str, ...], Callable[[Any], Any] | None, Callable[[Any, Any], Any] | None]] = [
    ("SMA", ("close",), lambda p: p.col("close").ta.sma(30), lambda t, d: t.sma(d.close, 30, talib=False)),
    ("EMA", ("close",), lambda p: p.col("close").ta.ema(30), lambda t, d: t.ema(d.close, 30, talib=False)),
    ("WMA", ("close",), lambda p: p.col("close").ta.wma(30), lambda t, d: t.wma(d.close, 30, talib=False)),
    ("RSI", ("close",), lambda p: p.col("close").ta.rsi(14), lambda t, d: t.rsi(d.close, 14, talib=False)),
    ("MACD", ("close",), lambda p: p.col("close").ta.macd(12, 26, 9), lambda t, d: t.macd(d.close, talib=False)),
    ("BBANDS", ("close",), lambda p: p.col("close").ta.bbands(20, 2.0, 2.0, 0), lambda t, d: t.bbands(d.close, 20, talib=False)),
    ("STDDEV", ("close",), lambda p: p.col("close").ta.stddev(5, 1.0), lambda t, d: t.stdev(d.close, 5, talib=False)),
    ("ROC", ("close",), lambda p: p.col("close").ta.roc(10), lambda t, d: t.roc(d.close, 10, talib=False)),
    ("ATR", OHLC[1:], lambda p: p.col("close").ta.atr(p.col("high"), p.col("low"), 14), lambda t, d: t.atr(d.high, d.low, d.close, 14, talib=False)),
    ("ADX", OHLC[1:], lambda p: p.col("close").ta.adx(p.col("high"), p.col("low"), 14), lambda t, d: t.adx(d.high, d.low, d.close, 14, talib=False)),
    ("CCI", OHLC[1:], lambda p: p.col("close").ta.cci(p.col("high"), p.col("low"), 14), lambda t, d: t.cci(d.high, d.low, d.close, 14, talib=False)),
    ("STOCH", OHLC[1:], lambda p: p.col("close").ta.stoch(p.col("high"), p.col("low")), lambda t, d: t.stoch(d.high, d.low, d.close, talib=False)),
    ("WILLR", OHLC[1:], lambda p: p.col("close").ta.willr(p.col("high"), p.col("low"), 14), lambda t, d: t.willr(d.high, d.low, d.close, 14, talib=False)),
    ("OBV", ("close", "volume"), lambda p: p.col("close").ta.obv(p.col("volume")), lambda t, d: t.obv(d.close, d.volume, talib=False)),
    ("MFI", (*OHLC[1:], "volume"), lambda p: p.col("close").ta.mfi(p.col("high"), p.col("low"), p.col("volume"), 14), lambda t, d: t.mfi(d.high, d.low, d.close, d.volume, 14, talib=False)),
    ("CDLENGULFING", OHLC, lambda p: p.col("open").ta.cdlengulfing(p.col("high"), p.col("low"), p.col("close")), None),
]  # fmt: skip


def walk(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    close = np.abs(np.round(100 + rng.normal(0, 0.3, n).cumsum(), 2)) + 5
    open_ = np.round(close + rng.normal(0, 0.3, n), 2)
    high = np.round(np.maximum(open_, close) + np.abs(rng.normal(0, 0.2, n)), 2)
    low = np.round(np.minimum(open_, close) - np.abs(rng.normal(0, 0.2, n)), 2)
    return {"open": open_, "high": high, "low": low, "close": close, "volume": np.floor(rng.random(n) * 1e4)}


def once(call: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times


#: Ways of calling: bars, and how many symbols' bars a function is called with in turn. The same bars again and again are in
#: L2 and memorised by the branch predictor; 16 times 100 000 bars are in no cache.
SCENARIOS = ((10_000, 1), (10_000, 16), (100_000, 1), (100_000, 16))


def round_robin(function: Callable[..., object], arrays: list[list[np.ndarray]]) -> Callable[[], object]:
    """Calls a function with the next arrays each time."""
    following = itertools.cycle(arrays)
    return lambda: function(*next(following))


def interleaved(calls: dict[str, Callable[[], object]], budget: float) -> dict[str, float]:
    """Median seconds of each, measured interleaved."""
    found: dict[str, list[float]] = {}
    usable: dict[str, tuple[Callable[[], object], int]] = {}
    for name, call in calls.items():
        try:
            call()
            took = max(once(call, 1), 1e-7)
            usable[name] = call, max(1, min(5000, int(budget / 9 / took)))
        except Exception as error:  # a peer without the function, or of another version
            print(f"    {name}: {type(error).__name__} {str(error).splitlines()[0][:80] if str(error) else ''}")
    for _ in range(9):
        for name, (call, times) in usable.items():
            found.setdefault(name, []).append(once(call, times))
    return {name: statistics.median(times) for name, times in found.items()}


def seconds(x: float | None) -> str:
    if x is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if x >= size:
            return f"{x / size:.2f} {unit}"
    return f"{x * 1e9:.0f} ns"


PEERS = ("TA-Lib", "polars_talib", "pandas-ta")


def peers_of(
    frame: pandas.DataFrame, table: polars.DataFrame, with_polars: Any, with_pandas: Any
) -> dict[str, Callable[[], object]]:
    """The same call of the other two peers, where they have it."""
    calls: dict[str, Callable[[], object]] = {}
    if polars_talib is not None and with_polars is not None:
        try:
            expression = with_polars(polars)
            calls["polars_talib"] = lambda: table.select(expression)
        except Exception as error:
            print(f"    polars_talib: {type(error).__name__} {str(error)[:80]}")
    if pandas_ta is not None and with_pandas is not None:
        calls["pandas-ta"] = lambda: with_pandas(pandas_ta, frame)
    return calls


def typical(n: int, symbols: int, budget: float) -> list[float]:
    """Prints a table; ratios to TA-Lib. The other peers are measured with one symbol."""
    several = [walk(n, seed) for seed in range(symbols)]
    frame, table = pandas.DataFrame(several[0]), polars.DataFrame(several[0])
    head = f"{n} bars" + (f", {symbols} in turn" if symbols > 1 else "")
    print(f"\n{head:<18}{'gpuforge':>11}" + "".join(f"{peer:>14}" for peer in PEERS) + "   TA-Lib / gpuforge")
    ratios = []
    for name, wanted, with_polars, with_pandas in TYPICAL:
        arrays = [[bars[w] for w in wanted] for bars in several]
        calls: dict[str, Callable[[], object]] = {
            "gpuforge": round_robin(getattr(ours, name), arrays),
            "TA-Lib": round_robin(getattr(theirs, name), arrays),
        }
        if symbols == 1:
            calls |= peers_of(frame, table, with_polars, with_pandas)
        found = interleaved(calls, budget)
        ratio = found["TA-Lib"] / found["gpuforge"]
        ratios.append(ratio)
        cells = "".join(f"{seconds(found.get(peer)):>14}" for peer in PEERS)
        print(f"{name:<18}{seconds(found['gpuforge']):>11}{cells}   {ratio:.2f}")
    print(f"{'geometric mean':<18}{'':>53}   {np.exp(np.mean(np.log(ratios))):.2f}")
    return ratios


#: Columns of generic inputs.
DEFAULT_COLUMNS = {"real": "close", "real0": "close", "real1": "high"}


def every(budget: float) -> None:
    """Every common function in every scenario: how many are slower than TA-Lib, and which."""
    table = ours.abstract._table()
    functions = [name for name in ours.get_functions() if hasattr(theirs, name)]
    print(f"\n{len(functions)} functions, TA-Lib / gpuforge")
    for n, symbols in SCENARIOS:
        several = [walk(n, seed) for seed in range(symbols)]
        periods = np.random.default_rng(0).integers(2, 30, n).astype(float)
        ratios: dict[str, float] = {}
        for name in functions:
            inputs = [DEFAULT_COLUMNS.get(i, i) for i in table[name]["inputs"]]
            share = 1 / 1000 if name in ("ACOS", "ASIN") else 1.0
            arrays = [[bars[i] * share if i in bars else periods for i in inputs] for bars in several]
            calls = {lib.__name__: round_robin(getattr(lib, name), arrays) for lib in (ours, theirs)}
            found = interleaved(calls, budget)
            if len(found) == 2:
                ratios[name] = found[theirs.__name__] / found[ours.__name__]
        slower = sorted((ratio, name) for name, ratio in ratios.items() if ratio < 1)
        mean = np.exp(np.mean(np.log(list(ratios.values()))))
        print(f"{n} bars, {symbols} in turn: geometric mean {mean:.2f}, {len(slower)} of {len(ratios)} slower")
        print(textwrap.fill(", ".join(f"{name} {ratio:.2f}" for ratio, name in slower), 120, initial_indent="    ", subsequent_indent="    "))


def catalogue(symbols: int, bars: int, at_once: int) -> float:
    """All functions of TA-Lib over many symbols: one call of ours for `at_once` symbols, theirs one by one."""
    parts = [walk(bars, seed) for seed in range(symbols)]
    rng = np.random.default_rng(0)
    periods = rng.integers(2, 30, bars).astype(float)
    rows = gpuforge.catalogue()
    known = {row["aliases"][0]: row["name"] for row in rows if row["aliases"]}
    # MA is one of the others, named by a parameter.
    functions = [(f, ours.abstract._table()[f]["inputs"]) for f in ours.get_functions() if f in known]
    select = ", ".join(known[f] for f, _ in functions)
    seen = 0
    tables = []
    for first in range(0, symbols, at_once):
        some = parts[first : first + at_once]
        table = {name: np.concatenate([p[name] for p in some]) for name in some[0]}
        tables.append(table | {"symbol": np.repeat(np.arange(len(some)), bars)})

    def mine() -> None:
        nonlocal seen
        for table in tables:
            seen = len(gpuforge.indicators(table, select, by="symbol", device="cpu"))

    def one_by_one() -> None:
        for part in parts:
            for name, inputs in functions:
                getattr(theirs, name)(*[part.get(DEFAULT_COLUMNS.get(i, i), periods) for i in inputs])

    mine_took, their_took = [], []
    for _ in range(3):
        mine_took.append(once(mine, 1))
        their_took.append(once(one_by_one, 1))
    mine_best, their_best = statistics.median(mine_took), statistics.median(their_took)
    print(
        f"\n{len(functions)} functions ({seen} columns), {symbols} x {bars} bars, {at_once} symbols a call: "
        f"gpuforge {seconds(mine_best)}, TA-Lib {seconds(their_best)}, ratio {their_best / mine_best:.2f}"
    )
    return their_best / mine_best


def imports(times: int = 9) -> float:
    """Import time of gpuforge, by `-X importtime`."""
    found = []
    for _ in range(times):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import gpuforge"], check=True, capture_output=True, text=True
        )
        rows = [line.split("|") for line in done.stderr.splitlines()]
        found.append(next(int(row[1]) for row in rows if row[-1].strip() == "gpuforge") * 1e-6)
    return statistics.median(found)


def threads(times: int = 7) -> float:
    """Speed-up of two threads over one."""
    close = walk(200_000)["close"]

    def work() -> None:
        for _ in range(20):
            ours.HT_DCPERIOD(close)

    def both() -> None:
        started = [threading.Thread(target=work) for _ in range(2)]
        [thread.start() for thread in started]
        [thread.join() for thread in started]

    work()
    ratios = [2 * once(work, 1) / once(both, 1) for _ in range(times)]
    return statistics.median(ratios)


INTERRUPT_SCRIPT = """
    import os, signal, threading, time, numpy as np, gpuforge
    n, symbols = 20_000, 200
    close = 100 + np.random.default_rng(1).normal(size=symbols * n).cumsum() * 0.01
    bars = {"symbol": np.repeat(np.arange(symbols), n), "time": np.tile(np.arange(n) * 60, symbols), "open": close,
            "high": close + 1, "low": close - 1, "close": close, "volume": close * 10}
    sent = []
    def interrupt():
        time.sleep(0.4)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        gpuforge.indicators(bars, "set:classic111", device="cpu")
        print("nan")
    except KeyboardInterrupt:
        print(time.perf_counter() - sent[0])
"""


def interrupt(times: int = 5) -> float:
    """Worst latency in seconds from Ctrl-C to the exception, during long calls."""
    took = []
    for _ in range(times):
        code = textwrap.dedent(INTERRUPT_SCRIPT)
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        took.append(float(done.stdout))
    return max(took)


class Targets:
    """Performance targets and their results."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def check(self, what: str, got: float, limit: float, least: bool, show: Callable[[float], str]) -> None:
        met = got >= limit if least else got <= limit
        word = "at least" if least else "at most"
        line = f"{what}: {show(got)}, {word} {show(limit)} is wanted"
        print(("met     " if met else "MISSED  ") + line)
        if not met:
            self.missed.append(line)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true", help="no catalogue")
    options.add_argument("--every", action="store_true", help="all functions too")
    options.add_argument("--symbols", type=int, default=30)
    options.add_argument("--bars", type=int, default=100_000)
    options.add_argument("--at-once", type=int, default=30, help="symbols in one call")
    options.add_argument("--budget", type=float, default=0.15, help="seconds for each function of each library")
    chosen = options.parse_args()
    print(f"gpuforge {gpuforge.__version__}, TA-Lib {theirs.__version__}, NumPy {np.__version__}")
    overhead = typical(100, 1, chosen.budget)
    scenarios = {scenario: typical(*scenario, chosen.budget) for scenario in SCENARIOS}
    if chosen.every:
        every(chosen.budget / 3)
    whole = None if chosen.quick else catalogue(chosen.symbols, chosen.bars, chosen.at_once)
    print()
    targets, times = Targets(), "{:.2f} times".format
    targets.check("a call on 100 bars, of TA-Lib's", 1 / min(overhead), 2.0, False, times)
    for (n, symbols), ratios in scenarios.items():
        turns = f" of {symbols} symbols in turn" if symbols > 1 else ""
        targets.check(f"a call on {n} bars{turns}, as fast as TA-Lib's", min(ratios), 1.0, True, times)
    if whole is not None:
        targets.check("the catalogue in one call, as fast as one by one", whole, 4.0, True, times)
    targets.check("two threads at once", threads(), 1.7, True, times)
    targets.check("import gpuforge", imports(), 0.030, False, seconds)
    targets.check("Ctrl-C until the exception", interrupt(), 0.100, False, seconds)
    sys.exit(f"{len(targets.missed)} targets are missed" if targets.missed else 0)


if __name__ == "__main__":
    main()

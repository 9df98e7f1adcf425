"""Process behaviour: threads, fork, Ctrl-C, memory, imports, the GIL."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import gpuforge
import gpuforge.talib as talib
from conftest import walk


def python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | env,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_is_lazy():
    code = """
        import sys, gpuforge
        heavy = [m for m in ("numpy", "pandas", "polars", "pyarrow", "inspect", "json") if m in sys.modules]
        maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
        print(heavy, [lib for lib in ("libvulkan", "libcuda", "libnvidia", "libGL") if lib in maps])
    """
    assert python(code) == "[] []"


def child(_: int) -> float:
    bars = walk(4000)
    out = gpuforge.indicators(bars, "rsi(14), macd, bbands, atr, group:momentum")
    forge = gpuforge.Forge(device="cpu")
    total = forge.run(gpuforge.ops.sum(np.ones(100, np.float32))).numpy()[0]
    return float(out["rsi_14"][-1] + talib.SMA(bars["close"])[-1] + total)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    want = child(0)  # threads and runtime of this process are up before the children begin
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(child, range(4)).get(timeout=100) == [want] * 4


def test_forge_survives_fork():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    code = """
        import os, numpy as np, gpuforge
        forge = gpuforge.Forge(device="cpu")
        total = lambda: float(forge.run(gpuforge.ops.sum(np.ones(50, np.float32))).numpy()[0])
        before = total()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if total() == before == 50 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), total())
    """
    assert python(code) == "0 50.0"


INTERRUPTED = """
    import os, signal, threading, numpy as np, gpuforge
    rng = np.random.default_rng(1)
    n = 10_000
    close = 100 + rng.normal(size=200 * n).cumsum() * 0.01
    bars = {"symbol": np.repeat(np.arange(200), n), "time": np.tile(np.arange(n) * 60, 200), "open": close, "high": close + 1, "low": close - 1,
            "close": close, "volume": close * 10}
    gpuforge.indicators({"close": close[:1000]}, "rsi")
    before = [column.copy() for column in bars.values()]
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            gpuforge.indicators(bars, "set:classic111", device="cpu")
    except KeyboardInterrupt:
        untouched = all(np.array_equal(a, b) for a, b in zip(before, bars.values()))
        out = gpuforge.indicators({"close": close[:1000]}, "sma(5)")["sma_5"]
        print("stopped", untouched, bool(np.isfinite(out[-1])))
"""


def test_ctrl_c_stops_a_long_call():
    # How soon is measured by bench/peers.py: a machine that is busy with other things answers late.
    assert python(INTERRUPTED) == "stopped True True"


def test_ctrl_c_stops_a_batch():
    code = """
        import os, signal, threading, numpy as np, gpuforge
        forge = gpuforge.Forge(device="cpu")
        a = gpuforge.ops.tensor(np.ones(4_000_000, np.float32))
        items = [gpuforge.ops.norm(a) for _ in range(4000)]
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                forge.batch(items)
        except KeyboardInterrupt:
            print("stopped", forge.run(gpuforge.ops.sum(np.ones(3, np.float32))).numpy()[0])
    """
    assert python(code) == "stopped 3.0"


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_memory_leak_in_a_thousand_calls():
    bars = walk(5000)
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(bars)

    def calls(n: int) -> None:
        for _ in range(n):
            talib.MACD(bars["close"])
            gpuforge.indicators(bars, "rsi(14), bbands(20), atr(14)")
            gpuforge.indicators(table, "rsi(14), bbands(20), atr(14)")

    calls(200)
    before = resident()
    calls(1000)
    assert resident() - before < 8 << 20


def test_result_buffers_are_pooled():
    close = walk(100_000)["close"]
    first = talib.SMA(close, 30)
    begin, want = first.ctypes.data, first.copy()
    assert begin % 64 == 0, "results begin at whole lines"
    # As long as anybody looks at a result, nobody else gets its memory.
    view = first[50:]
    del first
    other = talib.EMA(close, 30)
    assert not np.shares_memory(view, other) and np.array_equal(view, want[50:], equal_nan=True)
    del view
    again = talib.SMA(close, 30)
    assert again.ctypes.data == begin and np.array_equal(again, want, equal_nan=True)
    assert not np.shares_memory(again, other)
    again[:] = 0.0  # they are the caller's to write to
    # What is kept is bounded, and results that are longer than that are not kept at all.
    many = [talib.SMA(close, n) for n in range(2, 150)]
    assert not any(np.shares_memory(a, b) for a, b in zip(many, many[1:]))
    del many, again, other
    assert 0 < gpuforge._gpuforge.kept_bytes() <= 64 << 20
    before = gpuforge._gpuforge.kept_bytes()
    del_me = talib.SMA(np.ones(9_000_000), 30)
    del del_me
    assert gpuforge._gpuforge.kept_bytes() <= before


def test_gil_is_released():
    """The GIL is released: with this switch interval nothing else would let another thread in for an hour."""
    close = walk(1_000_000)["close"]
    go, seen = threading.Event(), []
    waiting = threading.Thread(target=lambda: (go.wait(), seen.append(1)), daemon=True)
    waiting.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        go.set()
        for _ in range(200):
            if seen:
                break
            talib.HT_DCPERIOD(close)
    finally:
        sys.setswitchinterval(before)
    assert seen


def test_results_are_the_same_on_threads():
    bars = walk(20_000)
    want = gpuforge.indicators(bars, "rsi(14), macd, atr(14)") | {"RSI": talib.RSI(bars["close"])}
    found = []

    def work() -> None:
        for _ in range(20):
            found.append(gpuforge.indicators(bars, "rsi(14), macd, atr(14)"))
            found.append({"RSI": talib.RSI(bars["close"])})

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(found) == 160
    for out in found:
        for name, column in out.items():
            np.testing.assert_array_equal(column, want[name])


def test_foreign_signal_handlers_are_kept():
    before = signal.getsignal(signal.SIGINT)
    gpuforge.indicators(walk(100), "rsi(14)")
    assert signal.getsignal(signal.SIGINT) is before

"""Threads, forks, interrupts, memory, imports: what a process of Python does to us."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

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


def test_importing_loads_nothing_heavy():
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


def test_a_forge_survives_a_fork():
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
    import os, signal, threading, time, numpy as np, gpuforge
    rng = np.random.default_rng(1)
    n = 10_000
    close = 100 + rng.normal(size=200 * n).cumsum() * 0.01
    bars = {"symbol": np.repeat(np.arange(200), n), "time": np.tile(np.arange(n) * 60, 200), "open": close, "high": close + 1, "low": close - 1,
            "close": close, "volume": close * 10}
    gpuforge.indicators({"close": close[:1000]}, "rsi")
    sent = []
    def strike():
        time.sleep(0.3)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=strike).start()
    try:
        gpuforge.indicators(bars, "set:classic111", device="cpu")
        print("finished too early")
    except KeyboardInterrupt:
        late = time.perf_counter() - sent[0]
        out = gpuforge.indicators({"close": close[:1000]}, "sma(5)")["sma_5"]
        print("stopped", late < float(os.environ["ALLOWED"]), bool(np.isfinite(out[-1])))
"""


def test_an_interrupt_stops_a_long_call():
    # A machine that is busy with other things answers late; 0.1 s is what is promised where it is not.
    allowed = "0.1" if os.getloadavg()[0] < os.cpu_count() else "2"
    assert python(INTERRUPTED, ALLOWED=allowed) == "stopped True True"


def test_an_interrupt_stops_a_batch():
    code = """
        import os, signal, threading, time, numpy as np, gpuforge
        forge = gpuforge.Forge(device="cpu")
        a = gpuforge.ops.tensor(np.ones(4_000_000, np.float32))
        items = [gpuforge.ops.norm(a) for _ in range(4000)]
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            forge.batch(items)
            print("finished too early")
        except KeyboardInterrupt:
            print("stopped", forge.run(gpuforge.ops.sum(np.ones(3, np.float32))).numpy()[0])
    """
    assert python(code) == "stopped 3.0"


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_thousand_calls_leave_memory_flat():
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


def test_threads_compute_at_once():
    close = walk(1_000_000)["close"]

    def work() -> None:
        for _ in range(6):
            talib.HT_DCPERIOD(close)

    work()
    began = time.perf_counter()
    work()
    work()
    alone = time.perf_counter() - began
    threads = [threading.Thread(target=work) for _ in range(2)]
    began = time.perf_counter()
    [t.start() for t in threads]
    [t.join() for t in threads]
    together = time.perf_counter() - began
    if os.cpu_count() < 2 or os.getloadavg()[0] > os.cpu_count():
        pytest.skip(f"processors are busy; {alone / together:.2f} times as fast")
    assert alone / together >= 1.7


def test_signals_of_others_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    gpuforge.indicators(walk(100), "rsi(14)")
    assert signal.getsignal(signal.SIGINT) is before

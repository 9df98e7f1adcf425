"""Operations against NumPy; batches, routing, memory, events, progress, logging; NumPy, DLPack and buffer inputs."""

from __future__ import annotations

import array
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import pytest

import gpuforge
from gpuforge import ops

F32 = np.float32


@pytest.fixture(scope="module")
def forge():
    return gpuforge.Forge()


X = np.random.default_rng(3).normal(size=(37, 23)).astype(F32)
BYTES = np.arange(100, dtype=np.uint8)

CASES = {
    "matmul": (lambda: ops.matmul(X, X.T.copy()), lambda: X @ X.T),
    "map": (lambda: ops.map("a * b + 2", a=X, b=X), lambda: X * X + 2),
    "xor": (lambda: ops.xor(BYTES, np.array([7, 9], dtype=np.uint8)), lambda: BYTES ^ np.tile([7, 9], 50).astype("u1")),
    "sum": (lambda: ops.sum(X), lambda: [X.sum(dtype=np.float64)]),
    "sum of rows": (lambda: ops.sum(X, rows=True), lambda: X.sum(axis=1)),
    "mean": (lambda: ops.mean(X), lambda: [X.mean(dtype=np.float64)]),
    "max": (lambda: ops.max(X), lambda: [X.max()]),
    "min of rows": (lambda: ops.min(X, rows=True), lambda: X.min(axis=1)),
    "norm": (lambda: ops.norm(X), lambda: [np.linalg.norm(X)]),
    "argmax": (lambda: ops.argmax(X), lambda: [X.argmax()]),
    "argmin": (lambda: ops.argmin(X), lambda: [X.argmin()]),
    "scan_sum": (lambda: ops.scan_sum(X[0]), lambda: X[0].cumsum()),
    "scan_max": (lambda: ops.scan_max(X[0]), lambda: np.maximum.accumulate(X[0])),
    "sort": (lambda: ops.sort(X[0]), lambda: np.sort(X[0])),
    "sort down": (lambda: ops.sort(X[0], descending=True), lambda: np.sort(X[0])[::-1]),
    "argsort": (lambda: ops.argsort(X[0]), lambda: np.argsort(X[0])),
    "top_k": (lambda: ops.top_k(X[0], 3), lambda: np.sort(X[0])[::-1][:3]),
    "bottom_k": (lambda: ops.bottom_k(X[0], 3), lambda: np.sort(X[0])[:3]),
    "gather": (lambda: ops.gather(X[0].copy(), np.array([3, 1], dtype=np.uint32)), lambda: X[0][[3, 1]]),
    "transpose": (lambda: ops.transpose(X), lambda: X.T),
    "histogram": (lambda: ops.histogram(X, 8, -2, 2), lambda: None),
    "uniform": (lambda: ops.uniform(50, seed=4), lambda: None),
    "normal": (lambda: ops.normal(50, seed=4), lambda: None),
    "scan_affine": (lambda: ops.scan_affine(np.full(3, 0.5, F32), np.ones(3, F32)), lambda: [1.0, 1.5, 1.75]),
}


@pytest.mark.parametrize("name", CASES)
def test_operations(forge, name):
    make, want = CASES[name]
    result = forge.run(make(), device="cpu")
    assert result.report.decision.index == 0 and result.report.seconds >= 0
    got = result.numpy()
    assert list(got.shape) == result.outputs[0].shape or tuple(got.shape) == result.outputs[0].shape
    if want() is not None:
        np.testing.assert_allclose(got.ravel(), np.ravel(want()), rtol=2e-5, atol=1e-5)


def test_report_and_log_name_the_backend(forge, caplog):
    with caplog.at_level(logging.DEBUG, logger="gpuforge"):
        result = forge.run(ops.sum(X))
    assert result.decision.reason and result.report.place in forge.places
    assert any("sum" in record.message and result.report.place in record.message for record in caplog.records)
    assert "Result float32" in repr(result)


def test_device_argument(forge):
    assert forge.run(ops.sum(X), device="cpu").decision.index == 0
    with pytest.raises(ValueError, match="hint"):
        forge.run(ops.sum(X), device="gpu:99")
    if len(forge.places) > 1:
        there = forge.run(ops.sum(X), device="gpu")
        assert there.decision.index == 1
        np.testing.assert_allclose(there.numpy(), [X.sum()], rtol=1e-3)
    else:
        with pytest.raises(gpuforge.DeviceError, match="hint"):
            forge.run(ops.sum(X), device="gpu")


def test_numpy_dlpack_and_buffer_inputs(forge):
    class Lent:
        """Speaks DLPack and nothing else."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    want = float(np.arange(6, dtype=F32).sum())
    for given in (
        np.arange(6, dtype=F32),
        np.arange(12, dtype=F32).repeat(1)[::2] * 0 + np.arange(6, dtype=F32),
        np.arange(6, dtype=">f4"),
        Lent(np.arange(6, dtype=F32)),
        array.array("f", range(6)),
        memoryview(np.arange(6, dtype=F32)),
    ):
        assert float(forge.run(ops.sum(given), device="cpu").numpy()[0]) == want
    out = np.from_dlpack(forge.run(ops.scan_sum(np.ones(4, F32)), device="cpu"))
    assert out.tolist() == [1, 2, 3, 4]
    assert np.asarray(forge.run(ops.sum(np.ones(4, F32)), device="cpu")).tolist() == [4.0]


def test_unsupported_inputs_raise():
    for make, kind, words in (
        (lambda: ops.matmul(X, X), ValueError, "matmul"),
        (lambda: ops.sum(np.ones(3)), TypeError, "float32"),
        (lambda: ops.sum(np.ones(3, dtype=object)), TypeError, "numeric dtype"),
        (lambda: ops.sum(np.ma.array([1.0], mask=[True])), TypeError, "masked"),
        (lambda: ops.map("a *", a=X), ValueError, ""),
        (lambda: ops.map("b", a=X), ValueError, ""),
        (lambda: ops.sum(np.ones(3, dtype=np.uint8)), TypeError, ""),
        (lambda: gpuforge.Forge().run("sum"), TypeError, "hint"),
        (lambda: gpuforge.Forge(devise="cpu"), ValueError, "devise"),
    ):
        with pytest.raises(kind) as caught:
            make()
        assert words in str(caught.value)


def test_batches(forge):
    items = [ops.xor(np.full(8, i, dtype=np.uint8), np.array([255], dtype=np.uint8)) for i in range(20)]
    seen = []
    run = forge.batch(items, device="cpu", progress=lambda done, total: seen.append((done, total)))
    assert [int(r.numpy()[0]) for r in run] == [255 - i for i in range(20)]
    stats = run.stats()
    assert (stats.items, stats.failed, len(run)) == (20, 0, 20) and seen[-1] == (20, 20)
    assert run.errors == [None] * 20

    class Bar:
        total, done = None, 0

        def update(self, n):
            self.done += n

    bar = Bar()
    forge.batch(items, device="cpu", progress=bar)
    assert (bar.total, bar.done) == (20, 20)
    with pytest.raises(ValueError, match="duty"):
        forge.batch(items, duty=7.0)


def test_route_and_memory(forge):
    decision = forge.route(ops.matmul(X, X.T.copy()))
    assert decision.place in forge.places and decision.reason
    assert forge.route(ops.matmul(X, X.T.copy()), device="cpu").reason
    if (why := forge.memory.why_not(1 << 10)) is not None:
        assert "device" in why  # a software adapter can be asked for, but is not chosen
        return
    assert forge.memory.can_allocate(1 << 10)
    assert not forge.memory.can_allocate(1 << 60) and forge.memory.why_not(1 << 60)
    assert forge.memory.stats() is not None and forge.memory.cleanup() >= 0
    assert forge.memory.on_pressure(lambda event: None)


def test_scope_keeps_results_on_device(forge):
    with forge.scope() as scope:
        total = scope.run(ops.scan_sum(np.ones(1000, F32)))
        again = scope.run(ops.sum(total))
    assert float(again.numpy()[0]) == 500500.0 and total.numpy()[-1] == 1000.0


def test_component_loading_is_reported():
    forge = gpuforge.Forge(device="cpu")
    seen = []
    forge.on_progress(lambda part, seconds, failed: seen.append((part, seconds is not None, failed)))
    forge.run(ops.sum(X))
    assert ("router", False, False) in seen and ("router", True, False) in seen
    assert forge.status().to_dict()["components"] and forge.metrics().to_dict() is not None


def test_settings_survive_pickling():
    forge = pickle.loads(pickle.dumps(gpuforge.Forge(device="cpu")))
    assert repr(forge) == "Forge(device='cpu')" and forge.places[1:] == []


def test_calibration_measures_every_backend():
    code = """
        import os, gpuforge, numpy as np
        forge, seen = gpuforge.Forge(device="cpu"), []
        found = forge.calibrate(progress=lambda place, step, share: seen.append((place, share)))
        assert {place for place, _ in seen} == set(forge.places), seen
        assert all(0 <= share <= 1 for _, share in seen) and found.to_dict()
        assert forge.route(gpuforge.ops.sum(np.ones(1 << 20, np.float32))).calibrated
        kept = [name for _, _, names in os.walk(os.environ["GPUFORGE_DATA_DIR"]) for name in names]
        print(len(kept) > 0)
    """
    with tempfile.TemporaryDirectory() as scratch:
        env = {f"GPUFORGE_{name}": os.path.join(scratch, name) for name in ("DATA_DIR", "CACHE_DIR", "CONFIG")}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=os.environ | env, timeout=120
        )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr

"""Spans of Python in the trace: nested, by decorator, on threads; summaries, exports, the page."""

from __future__ import annotations

import json
import threading

import pytest

import gpuforge
from gpuforge import profiler


@pytest.fixture(autouse=True)
def fresh():
    profiler.enable()
    profiler.reset()
    yield
    profiler.disable()
    profiler.reset()


def counts() -> dict[str, int]:
    return {row.name: row.count for row in profiler.summary()}


def test_spans_nest_and_close_on_errors():
    with pytest.raises(KeyError), gpuforge.profile("outer"):
        with gpuforge.profile("inner", "transfer") as span:
            span.bytes = 64
        raise KeyError
    with gpuforge.profile("outer"):
        pass
    assert counts() == {"outer": 2, "inner": 1}


def test_decorator_records_calls():
    @gpuforge.profiled
    def plain(x):
        """Kept."""
        return x + 1

    @gpuforge.profiled(name="named", category="wait")
    def named():
        return plain(1)

    assert named() == 2 and plain.__doc__ == "Kept." and plain.__name__ == "plain"
    found = counts()
    assert found["named"] == 1 and sum(n for name, n in found.items() if name.endswith("plain")) == 1


def test_spans_are_per_thread():
    def work():
        for _ in range(10):
            with gpuforge.profile("thread"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert counts()["thread"] == 40


def test_exports(tmp_path):
    for _ in range(3):
        with gpuforge.profile("step"):
            sum(range(1000))
    assert profiler.bottlenecks(5)[0].to_dict()["name"] == "step"
    assert "step" in json.dumps(json.loads(profiler.export_json()))
    profiler.export_json(tmp_path / "run.json")
    assert "step" in (tmp_path / "run.json").read_text()
    profiler.report(tmp_path / "run.html", title="mine")
    page = (tmp_path / "run.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html") and "step" in page and "mine" in page
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_errors():
    with pytest.raises(ValueError, match="disk"), gpuforge.profile("x", "disk"):
        pass
    profiler.disable()
    with gpuforge.profile("not recorded"):
        pass
    assert "not recorded" not in counts()

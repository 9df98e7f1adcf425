"""The command line of the wheel: the installed script and `python -m gpuforge`, child processes, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

import gpuforge
from gpuforge.__main__ import launcher

SCRIPT = Path(sysconfig.get_path("scripts")) / ("gpuforge.exe" if os.name == "nt" else "gpuforge")
WAYS = {"script": [str(SCRIPT)], "module": [sys.executable, "-m", "gpuforge"]}


def call(way: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WAYS[way], *arguments], env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("way", WAYS)
def test_version_and_exit_codes(way: str) -> None:
    assert call(way, "--version").stdout == f"gpuforge {gpuforge.__version__}\n"
    wrong = call(way, "no-such-command")
    assert wrong.returncode == 2 and "no-such-command" in wrong.stderr and wrong.stdout == ""
    failed = call(way, "report", "no-such-file")
    assert failed.returncode == 1 and "error" in failed.stderr


@pytest.mark.parametrize("way", WAYS)
def test_output_is_complete(way: str) -> None:
    """Longer than the buffer of stdout, which nobody but us flushes inside Python."""
    listed = json.loads(call(way, "indicators", "list", "--json").stdout)
    assert len(json.dumps(listed)) > 100_000


@pytest.mark.parametrize("way", WAYS)
def test_a_crashing_driver_costs_one_warning(way: str) -> None:
    """Probes run in child processes here too: a crash in a thread would take the process down."""
    done = call(way, "detect", "--json", "--no-cache", GPUFORGE_PROBE_FAULT="adapters=crash")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["cpu"]["logical"] and len(found["warnings"]) == 1, found["warnings"]
    assert "ended with" in found["warnings"][0]["message"]


@pytest.mark.parametrize("way", WAYS)
def test_probes_answer(way: str) -> None:
    """A child that could not start would be a warning."""
    found = json.loads(call(way, "detect", "--json", "--no-cache").stdout)
    assert not [w for w in found["warnings"] if w["source"] == "adapters"], found["warnings"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_it(way: str) -> None:
    running = subprocess.Popen(
        [*WAYS[way], "detect", "--no-cache", "--probe-timeout", "60s"],
        env={**os.environ, "GPUFORGE_PROBE_FAULT": "adapters=hang"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(2)
    assert running.poll() is None, "it waits for its probe"
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=20) == 130


def test_launcher_repeats_how_it_was_started() -> None:
    assert launcher("py", ["python", "-X", "utf8", "-m", "gpuforge"], []) == ["py", "-X", "utf8", "-m", "gpuforge"]
    assert launcher("py", ["python"], []) == ["py", "-m", "gpuforge"]

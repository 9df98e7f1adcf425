"""detect, doctor, explain, recommend_env and status: the facade's JSON as records."""

from __future__ import annotations

from typing import Any

from gpuforge import _gpuforge
from gpuforge._records import Record


class Gpu(Record):
    """A GPU."""

    name: str | None
    vendor: str
    memory_bytes: int | None
    driver_version: str | None
    _SHOWN = ("name", "vendor", "kind", "memory_bytes", "driver_version", "score")


class Inventory(Record):
    """Hardware inventory; ``best`` is ``None`` without a GPU."""

    gpus: list[Gpu]
    cpu: Record | None
    best: Record | None
    best_reason: str
    _KINDS = {"gpus": Gpu}
    _SHOWN = ("gpus", "cpu", "best", "best_reason")


class Check(Record):
    """One check of the doctor."""

    id: str
    status: str
    evidence: str
    fix: str | None
    _SHOWN = ("id", "status", "evidence", "fix")


class Diagnosis(Record):
    """Result of all checks."""

    checks: list[Check]
    _KINDS = {"checks": Check}

    @property
    def problems(self) -> list[Check]:
        """Checks that failed, most severe first."""
        order = ["critical", "error", "warning"]
        found = [check for check in self.checks if check.status in order]
        return sorted(found, key=lambda check: order.index(check.status))

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for check in self.checks:
            counts[check.status] = counts.get(check.status, 0) + 1
        return f"Diagnosis({', '.join(f'{n} {status}' for status, n in counts.items())})"


class Cause(Record):
    """A root cause."""

    id: str
    title: str
    severity: str
    confidence: float
    evidence: str
    steps: list[str]
    _SHOWN = ("id", "title", "severity", "confidence", "steps")


class Explanation(Record):
    """Explanation of a log; ``root`` is ``None`` if no known cause was found."""

    root: Cause | None
    also: list[Record]
    _KINDS = {"root": Cause}
    _SHOWN = ("root", "also")


class Recommendation(Record):
    """Recommended build and packages for a machine, and why."""

    machine: Record
    framework: str
    plan: Record
    fit: Record

    def __repr__(self) -> str:
        candidate = self.plan.candidate
        return f"Recommendation({candidate.requirement!r}, profile={self.plan.profile!r}, fit={self.fit.points})"


class Status(Record):
    """Runtime status: loaded components, open device."""

    components: list[Record]
    device: Record | None

    def __repr__(self) -> str:
        loaded = [part.name for part in self.components if part.loaded]
        device = self.device.caps.name if self.device is not None else None
        return f"Status(loaded={loaded}, device={device!r})"


def detect() -> Inventory:
    """Detects the devices of this machine, and which one would be used.

    >>> import gpuforge
    >>> machine = gpuforge.detect()
    >>> isinstance(machine.gpus, list) and isinstance(machine.best_reason, str)
    True
    """
    return Inventory.read(_gpuforge.detect())


def doctor(*, offline: bool = False, deep: bool = False) -> Diagnosis:
    """Diagnoses this machine: problems, evidence and fixes. ``offline`` makes no network requests.

    >>> import gpuforge
    >>> report = gpuforge.doctor(offline=True)
    >>> all(check.status for check in report.checks)
    True
    """
    return Diagnosis.read(_gpuforge.doctor(offline, deep))


def explain(text: str) -> Explanation:
    """Finds the root cause of a log, with steps to fix it.

    >>> import gpuforge
    >>> found = gpuforge.explain("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB")
    >>> found.root.id != "" and len(found.root.steps) > 0
    True
    >>> gpuforge.explain("all is well").root is None
    True
    """
    if not isinstance(text, str):
        raise TypeError(f"explain() takes the text of a log, not {type(text).__name__}")
    return Explanation.read(_gpuforge.explain(text))


def recommend_env(
    framework: str | None = None,
    *,
    profile: str | None = None,
    python: str | None = None,
    gpu: str | None = None,
    driver: str | None = None,
    platform: str | None = None,
    cpu_only: bool = False,
) -> Recommendation:
    """Recommends a framework build and packages for this machine or another one.

    ``gpu`` plans for another machine: ``"RTX 4090"``, ``"aws:g5.xlarge"``; ``driver`` and ``platform`` then describe that machine.

    >>> import gpuforge
    >>> choice = gpuforge.recommend_env("pytorch", gpu="RTX 4090", driver="580.95.05", platform="linux-x86_64")
    >>> choice.framework, choice.plan.candidate.requirement.startswith("torch")
    ('pytorch', True)
    """
    wanted: dict[str, Any] = {
        "framework": framework,
        "profile": profile,
        "python": python,
        "gpu": gpu,
        "driver": driver,
        "platform": platform,
        "cpu_only": cpu_only,
    }
    return Recommendation.read(_gpuforge.recommend_env(wanted))


def status() -> Status:
    """Runtime status; loads nothing.

    >>> import gpuforge
    >>> {part.name for part in gpuforge.status().components} >= {"inventory", "router"}
    True
    """
    return Status.read(_gpuforge.status())

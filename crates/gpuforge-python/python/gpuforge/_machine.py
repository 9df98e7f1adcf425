"""detect, doctor, explain, recommend_env and status: the facade's answers as records."""

from __future__ import annotations

from typing import Any

from gpuforge import _gpuforge
from gpuforge._records import Record


class Gpu(Record):
    """A device."""

    name: str | None
    vendor: str
    memory_bytes: int | None
    driver_version: str | None
    _SHOWN = ("name", "vendor", "kind", "memory_bytes", "driver_version", "score")


class Inventory(Record):
    """What the machine has; ``gpus`` may be empty, ``best`` is ``None`` then."""

    gpus: list[Gpu]
    cpu: Record | None
    best: Record | None
    best_reason: str
    _KINDS = {"gpus": Gpu}
    _SHOWN = ("gpus", "cpu", "best", "best_reason")


class Check(Record):
    """A check of the doctor."""

    id: str
    status: str
    evidence: str
    fix: str | None
    _SHOWN = ("id", "status", "evidence", "fix")


class Diagnosis(Record):
    """What the doctor found."""

    checks: list[Check]
    _KINDS = {"checks": Check}

    @property
    def problems(self) -> list[Check]:
        """Checks that found something, the worst first."""
        order = ["critical", "error", "warning"]
        found = [check for check in self.checks if check.status in order]
        return sorted(found, key=lambda check: order.index(check.status))

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for check in self.checks:
            counts[check.status] = counts.get(check.status, 0) + 1
        return f"Diagnosis({', '.join(f'{n} {status}' for status, n in counts.items())})"


class Cause(Record):
    """A cause that explains a log."""

    id: str
    title: str
    severity: str
    confidence: float
    evidence: str
    steps: list[str]
    _SHOWN = ("id", "title", "severity", "confidence", "steps")


class Explanation(Record):
    """What a log means; ``root`` is ``None`` where no known cause was found."""

    root: Cause | None
    also: list[Record]
    _KINDS = {"root": Cause}
    _SHOWN = ("root", "also")


class Recommendation(Record):
    """The build and the packages that fit a machine, and why."""

    machine: Record
    framework: str
    plan: Record
    fit: Record

    def __repr__(self) -> str:
        candidate = self.plan.candidate
        return f"Recommendation({candidate.requirement!r}, profile={self.plan.profile!r}, fit={self.fit.points})"


class Status(Record):
    """What is loaded, open and in use."""

    components: list[Record]
    device: Record | None

    def __repr__(self) -> str:
        loaded = [part.name for part in self.components if part.loaded]
        device = self.device.caps.name if self.device is not None else None
        return f"Status(loaded={loaded}, device={device!r})"


def detect() -> Inventory:
    """Every device of this machine, and which would be used.

    >>> import gpuforge
    >>> machine = gpuforge.detect()
    >>> isinstance(machine.gpus, list) and isinstance(machine.best_reason, str)
    True
    """
    return Inventory.read(_gpuforge.detect())


def doctor(*, offline: bool = False, deep: bool = False) -> Diagnosis:
    """What is wrong with this machine, what shows it, and what to do. ``offline`` asks no host.

    >>> import gpuforge
    >>> report = gpuforge.doctor(offline=True)
    >>> all(check.status for check in report.checks)
    True
    """
    return Diagnosis.read(_gpuforge.doctor(offline, deep))


def explain(text: str) -> Explanation:
    """The root cause in a log, with what to do about it.

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
    """Which build of a framework, and which packages, fit this machine or another one.

    ``gpu`` plans for another machine: ``"RTX 4090"``, ``"aws:g5.xlarge"``; ``driver`` and ``platform`` are then its own.

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
    """What is loaded, open and in use; loads nothing.

    >>> import gpuforge
    >>> {part.name for part in gpuforge.status().components} >= {"inventory", "router"}
    True
    """
    return Status.read(_gpuforge.status())

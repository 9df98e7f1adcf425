"""``Forge``: runs operations of ``gpuforge.ops`` on the backend that its cost model predicts to be fastest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

from gpuforge import _gpuforge
from gpuforge._logging import logger
from gpuforge._machine import Status
from gpuforge._records import Record
from gpuforge.ops import Op, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Decision(Record):
    """Routing decision: backend, predicted cost, reason."""

    place: str
    index: int
    reason: str
    calibrated: bool
    predicted: list[Record]
    _SHOWN = ("place", "reason", "calibrated")


class Report(Record):
    """Run report: measured and predicted time."""

    place: str
    seconds: float
    predicted_seconds: float | None
    device_seconds: float | None
    decision: Decision
    fallback: str | None
    _KINDS = {"decision": Decision}
    _SHOWN = ("place", "seconds", "predicted_seconds", "device_seconds", "fallback")


class BatchStats(Record):
    """Batch statistics."""

    items: int
    failed: int
    chunks: int
    fused: int
    seconds: float


class Result:
    """Results of an operation, with report and routing decision."""

    def __init__(self, forge: Forge, ran: _gpuforge.Ran) -> None:
        self._forge, self._ran = forge, ran

    @property
    def report(self) -> Report:
        """Run report."""
        return Report.read(self._ran.report)

    @property
    def decision(self) -> Decision:
        """Routing decision."""
        return self.report.decision

    @property
    def outputs(self) -> list[Tensor]:
        """All outputs."""
        return [Tensor(inner, self._forge._bring) for inner in self._ran.outputs]

    def numpy(self, output: int = 0) -> NDArray[Any]:
        """An output as an array."""
        return self.outputs[output].numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=bool(copy))

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{t.dtype}{t.shape}" for t in self.outputs)
        return f"<Result {shapes} on {self.report.place}>"


class Batch(Sequence[Any]):
    """Results in input order; a failed one raises when accessed."""

    def __init__(self, results: list[Any], stats: BatchStats) -> None:
        self._results, self._stats = results, stats

    def stats(self) -> BatchStats:
        """Batch statistics."""
        return self._stats

    @property
    def errors(self) -> list[BaseException | None]:
        """Exception of each operation; ``None`` if it succeeded."""
        return [result if isinstance(result, BaseException) else None for result in self._results]

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Batch(self._results[at], self._stats)
        result = self._results[at]
        if isinstance(result, BaseException):
            raise result
        return result

    def __repr__(self) -> str:
        return f"<Batch of {self._stats.items}, {self._stats.failed} failed>"


class Memory:
    """Memory of the chosen device."""

    def __init__(self, inner: _gpuforge.Forge) -> None:
        self._inner = inner

    def can_allocate(self, size: int) -> bool:
        """Whether ``size`` bytes fit now. Opens the device."""
        return self.why_not(size) is None

    def why_not(self, size: int) -> str | None:
        """Why ``size`` bytes would not fit; ``None`` if they would."""
        return self._inner.can_allocate(size)

    def cleanup(self) -> int:
        """Frees idle pool memory; returns the bytes."""
        return self._inner.cleanup()

    def stats(self) -> Record | None:
        """Memory statistics; ``None`` while no device is open."""
        text = self._inner.memory_stats()
        return None if text is None else Record.read(text)

    def on_pressure(self, listener: Callable[[Record], object]) -> bool:
        """Calls ``listener`` on every change of memory pressure; ``False`` without a device."""
        return self._inner.on_pressure(lambda text: listener(Record.read(text)))


class Scope:
    """Keeps results on the device until the scope ends."""

    def __init__(self, forge: Forge) -> None:
        self._forge, self._kept = forge, list[Result]()

    def run(self, op: Op, *, device: str | None = None) -> Result:
        """Runs an operation and keeps its results on the device."""
        result = self._forge.run(op, device=device, stays=True)
        self._kept.append(result)
        return result

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *_: object) -> None:
        # Download results that are still referenced.
        for result in self._kept:
            for tensor in result.outputs:
                tensor._download()
        self._kept.clear()


class Forge:
    """The runtime. Creating one is cheap and loads no GPU library; the first run opens what it needs.

    Keywords are settings (``gpuforge config list``) that override the user's file: ``Forge(device="cpu")``,
    ``Forge(memory_limit="2GiB")``.

    >>> import gpuforge, numpy as np
    >>> with gpuforge.Forge(device="cpu") as forge:
    ...     a = np.arange(4, dtype=np.float32).reshape(2, 2)
    ...     forge.run(gpuforge.ops.matmul(a, a)).numpy()
    array([[ 2.,  3.],
           [ 6., 11.]], dtype=float32)
    """

    def __init__(self, **settings: object) -> None:
        def text(value: object) -> str:
            return str(value).lower() if isinstance(value, bool) else str(value)

        self._settings = {name: text(value) for name, value in settings.items()}
        self._inner = _gpuforge.Forge(list(self._settings.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._settings,)

    def run(self, op: Op, *, device: str | None = None, stays: bool = False) -> Result:
        """Runs an operation where it is predicted to be fastest, and updates the cost model.

        ``device`` is ``"auto"``, ``"cpu"``, ``"gpu"`` or ``"gpu:N"``; ``stays`` keeps results on the device.
        """
        result = Result(self, self._inner.run(_op(op), device, stays))
        _log(op, result)
        return result

    def batch(
        self,
        ops: Iterable[Op],
        *,
        device: str | None = None,
        duty: float | None = None,
        stays: bool = False,
        spread: bool = False,
        progress: Any = None,
    ) -> Batch:
        """Runs many operations: equal shapes are fused, results come in order, failures are isolated.

        ``progress`` is a callback ``(done, total)``, or a progress bar with ``update`` and ``total`` such as ``tqdm()``. ``duty``
        is the maximum duty cycle.

        >>> import gpuforge, numpy as np
        >>> key = np.array([255], dtype=np.uint8)
        >>> items = [gpuforge.ops.xor(np.array([i], dtype=np.uint8), key) for i in range(3)]
        >>> run = gpuforge.Forge(device="cpu").batch(items)
        >>> [int(r.numpy()[0]) for r in run], run.stats().failed
        ([255, 254, 253], 0)
        """
        found, stats = self._inner.batch(
            [_op(op) for op in ops], device, duty, stays, spread, _progress(progress)
        )
        results = [r if isinstance(r, BaseException) else Result(self, r) for r in found]
        return Batch(results, BatchStats.read(stats))

    def route(self, op: Op, *, device: str | None = None) -> Decision:
        """Routing decision for an operation; runs nothing.

        >>> import gpuforge
        >>> gpuforge.Forge(device="cpu").route(gpuforge.ops.uniform(1000)).index
        0
        """
        return Decision.read(self._inner.route(_op(op), device))

    def calibrate(self, *, full: bool = False, progress: Callable[[str, str, float], object] | None = None) -> Record:
        """Calibrates every backend and stores the result; ``progress`` gets backend, step and fraction done."""
        return Record.read(self._inner.calibrate(full, progress))

    @property
    def places(self) -> list[str]:
        """Names of the backends; the CPU is the first."""
        return self._inner.places()

    @property
    def memory(self) -> Memory:
        """Memory of the chosen device."""
        return Memory(self._inner)

    def scope(self) -> Scope:
        """Context that keeps results on the device until it ends.

        >>> import gpuforge, numpy as np
        >>> with gpuforge.Forge(device="cpu").scope() as scope:
        ...     total = scope.run(gpuforge.ops.sum(np.ones(10, dtype=np.float32)))
        >>> float(total.numpy()[0])
        10.0
        """
        return Scope(self)

    def on_progress(self, listener: Callable[[str, float | None, bool], object]) -> None:
        """Calls ``listener`` when components start and finish loading: name, seconds or ``None``, failed."""
        self._inner.on_progress(listener)

    def load(self) -> None:
        """Loads every component and opens the device now."""
        self._inner.load()

    def reset_device(self) -> None:
        """Closes the device; the next run reopens it."""
        self._inner.reset_device()

    def status(self) -> Status:
        """Runtime status."""
        return Status.read(self._inner.status())

    def metrics(self) -> Record:
        """Current metrics; ``None`` where nothing was measured."""
        return Record.read(self._inner.metrics())

    def _bring(self, tensor: _gpuforge.Tensor) -> None:
        self._inner.bring(tensor)

    def __enter__(self) -> Forge:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings.items())
        return f"Forge({settings})"


def _unpickle(settings: dict[str, str]) -> Forge:
    return Forge(**settings)


def _op(op: Any) -> _gpuforge.Op:
    if not isinstance(op, Op):
        raise TypeError(
            f"expected an operation of gpuforge.ops, not {type(op).__name__}\n  hint: forge.run(gpuforge.ops.sum(x))"
        )
    return op._inner


def _progress(progress: Any) -> Callable[[int, int], object] | None:
    """Normalises a callback or progress bar to a callback ``(done, total)``."""
    if progress is None or not hasattr(progress, "update"):
        return progress  # type: ignore[no-any-return]
    before = 0

    def update(done: int, all_: int) -> None:
        nonlocal before
        if getattr(progress, "total", None) != all_:
            progress.total = all_
        progress.update(done - before)
        before = done

    return update


def _log(op: Op, result: Result) -> None:
    """Logs where it ran."""
    if logger.isEnabledFor(30) or logger.isEnabledFor(10):
        report = json.loads(result._ran.report)
        for event in report.get("events") or ():
            logger.warning("%s: %s (%s)", op.name, event.get("error"), event.get("step"))
        if report.get("fallback"):
            logger.warning("%s: %s; fell back to the CPU", op.name, report["fallback"])
        logger.debug("%s on %s: %s", op.name, report["place"], report["decision"]["reason"])


"""Arrays of every memory layout: unaligned, strided, byte-swapped, broadcast, read-only. All give the bits of an aligned copy.

Fields of packed record arrays, ``np.frombuffer`` with an odd offset and memmaps behind a header are unaligned: their elements
begin at any byte, and the stride of a field need not be a multiple of 8.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuforge
import gpuforge.talib as talib
import gpuforge.talib.stream as stream
from conftest import walk
from gpuforge import _gpuforge
from test_indicators import SELECT, columns_of, copied, same
from test_talib_parity import arrays, columns

FUNCTIONS = talib.get_functions()


class Sub(np.ndarray):
    """A subclass, as libraries have them."""


def packed(x: np.ndarray, kind: str = "f8", byte: str = "u1") -> np.ndarray:
    record = np.zeros(len(x), dtype=[("flag", byte), ("x", kind)])
    record["x"] = x
    return record["x"]


def offset(x: np.ndarray, kind: str = "f8", by: int = 1) -> np.ndarray:
    return np.frombuffer(b"\0" * by + x.astype(kind).tobytes(), dtype=kind, offset=by)


def locked(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def said_to_be_unaligned(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.setflags(align=False)
    return x


#: The same values, differently in memory.
LAYOUTS = {
    "a field of a packed record": packed,
    "a field of a record": lambda x: packed(x, byte="f8"),
    "a field of a packed record, backwards": lambda x: packed(x[::-1])[::-1],
    "a buffer with offset 1": offset,
    "a buffer with offset 4": lambda x: offset(x, by=4),
    "a buffer with offset 1, every third": lambda x: offset(np.repeat(x, 3))[::3],
    "every second": lambda x: np.repeat(x, 2)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "a column of a matrix": lambda x: np.stack([x, x + 1], axis=1)[:, 0],
    "big-endian": lambda x: x.astype(">f8"),
    "big-endian, offset 3": lambda x: offset(x, ">f8", 3),
    "big-endian, packed": lambda x: packed(x, ">f8"),
    "big-endian, backwards": lambda x: x[::-1].astype(">f8")[::-1],
    "little-endian": lambda x: x.astype("<f8"),
    "read-only": locked,
    "a flag that says unaligned": said_to_be_unaligned,
    "a subclass": lambda x: x.view(Sub),
    "a masked array without a mask": np.ma.array,
}
#: Layouts that are used where they are.
IN_PLACE = {"read-only", "a subclass", "little-endian"}


def bits(result) -> list[bytes]:
    return [np.asarray(column).tobytes() for column in columns(result)]


def test_layout_fixtures():
    x = walk(50)["close"]
    made = {name: make(x) for name, make in LAYOUTS.items()}
    for name, array in made.items():
        np.testing.assert_array_equal(array, x, err_msg=name)
    assert sum(not a.flags.aligned for a in made.values()) >= 8
    assert sum(not a.flags.c_contiguous for a in made.values()) >= 8
    assert made["a field of a packed record"].strides == (9,)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function(name):
    # Longer arrays are computed without the GIL, and over several bars at once.
    for n in (260, 4500):
        data = arrays(name, n, seed=7)
        want = bits(getattr(talib, name)(*data))
        for layout, make in LAYOUTS.items():
            assert bits(getattr(talib, name)(*map(make, data))) == want, f"{name} of {n}: {layout}"
        # One array of several in another layout than its neighbours.
        for at in range(len(data)):
            mixed = [packed(x) if i == at else x for i, x in enumerate(data)]
            assert bits(getattr(talib, name)(*mixed)) == want, f"{name} of {n}: array {at} packed"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_with_broadcast_input(name):
    data = [np.full(200, x[50]) for x in arrays(name, 200, seed=7)]
    given = [np.broadcast_to(x[:1], 200) for x in data]
    assert all(x.strides == (0,) for x in given)
    assert bits(getattr(talib, name)(*given)) == bits(getattr(talib, name)(*data))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_stream(name):
    data = arrays(name, 260, seed=4)
    history, rest = [x[:250] for x in data], [x[250:] for x in data]
    want = getattr(stream, name)(*history)
    handles = {layout: getattr(stream, name)(*map(make, history)) for layout, make in LAYOUTS.items()}
    for layout, handle in handles.items():
        assert handle.value == want.value, layout
    for at in range(10):
        expected = want.update(*(float(x[at]) for x in rest))
        for layout, make in LAYOUTS.items():
            # Bars come as NumPy's scalars of that layout.
            assert handles[layout].update(*(make(x)[at] for x in rest)) == expected, layout


def test_memmap_with_header_offset(tmp_path):
    bars = walk(500)
    for name, x in bars.items():
        (tmp_path / name).write_bytes(b"HDR" + x.tobytes())
    mapped = {name: np.memmap(tmp_path / name, dtype="f8", mode="r", offset=3) for name in bars}
    assert not any(x.flags.aligned for x in mapped.values())
    names = ("high", "low", "close")
    assert bits(talib.STOCH(*(mapped[n] for n in names))) == bits(talib.STOCH(*(bars[n] for n in names)))
    same(gpuforge.indicators(mapped, SELECT), gpuforge.indicators(bars, SELECT))


def test_masks_are_ignored_as_in_talib():
    theirs = pytest.importorskip("talib")
    x = walk(100)["close"]
    masked = np.ma.array(x, mask=np.arange(100) % 7 == 3)
    for name in ("SMA", "RSI", "BBANDS", "MAXINDEX"):
        got, want = getattr(talib, name)(masked), getattr(theirs, name)(masked)
        assert bits(got) == bits(getattr(talib, name)(x))
        for g, w in zip(columns(got), columns(want)):
            assert type(g) is type(w) is np.ndarray
            np.testing.assert_allclose(g, w, rtol=1e-9)


def test_copies_are_counted():
    x = walk(500)["close"]
    for layout, make in LAYOUTS.items():
        given = make(x)
        kept = layout in IN_PLACE or layout == "a masked array without a mask"
        assert copied(lambda: talib.SMA(given)) == (0 if kept else 8 * 500), layout
    for layout, make in LAYOUTS.items():
        given = make(x)
        # Masked values become NaN, for which there has to be a copy.
        want = 0 if layout in IN_PLACE else 8 * 500
        assert copied(lambda: gpuforge.indicators({"close": given}, "rsi(14)")) == want, layout


# Tables.


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dict_and_pandas(layout, bars):
    pandas = pytest.importorskip("pandas")
    make = LAYOUTS[layout]
    want = gpuforge.indicators(bars, SELECT, device="cpu")
    given = {name: make(x) for name, x in bars.items()}
    same(gpuforge.indicators(given, SELECT, device="cpu"), want, layout)
    if layout != "a masked array without a mask":
        native = {n: x for n, x in given.items() if x.dtype.isnative} or bars
        frame = pandas.DataFrame({n: pandas.Series(x, copy=False) for n, x in native.items()}, copy=False)
        same(gpuforge.indicators(frame, SELECT, device="cpu"), want, layout)
        series = pandas.Series(native["close"], copy=False)
        np.testing.assert_array_equal(talib.RSI(series).to_numpy(), talib.RSI(bars["close"]))


def keyed() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    bars = walk(600, seed=3)
    order = np.random.default_rng(1).permutation(600)
    symbol, time = np.repeat([5, 7, 9], 200)[order], np.tile(np.arange(200), 3)[order]
    return {n: x[order] for n, x in bars.items()}, symbol, time


def test_keys_and_times_of_every_layout():
    bars, symbol, time = keyed()
    data = {"symbol": symbol, "time": time} | bars
    want = gpuforge.indicators(data, SELECT)
    seconds = time.astype("datetime64[s]")
    whole = [lambda x: packed(x, "i8"), lambda x: offset(x, "i8"), lambda x: x.astype(">i8"), lambda x: np.repeat(x, 2)[::2]]
    for make in whole:
        same(gpuforge.indicators(data | {"symbol": make(symbol), "time": make(time)}, SELECT), want)
        same(gpuforge.indicators(data | {"symbol": make(symbol).astype("i4"), "time": make(time)}, SELECT), want)
    for times in (packed(seconds, "M8[s]"), seconds.astype(">M8[us]"), seconds.astype("M8[ns]")[::-1].copy()[::-1]):
        same(gpuforge.indicators(data | {"time": times}, SELECT), want)
    names = np.array([f"S{s}" for s in symbol])
    record = np.zeros(600, dtype=[("flag", "u1"), ("name", names.dtype)])
    record["name"] = names
    same(gpuforge.indicators(data | {"symbol": record["name"]}, SELECT), want)


def unaligned_arrow(pyarrow, array, by: int = 1):
    """The same Arrow array with every buffer at an odd address."""

    def moved(buffer):
        return None if buffer is None else pyarrow.py_buffer(b"\0" * by + buffer.to_pybytes() + b"\0" * 8).slice(by)

    buffers = [moved(buffer) for buffer in array.buffers()]
    if pyarrow.types.is_dictionary(array.type):
        parts = (unaligned_arrow(pyarrow, part, by) for part in (array.indices, array.dictionary))
        return pyarrow.DictionaryArray.from_arrays(*parts)
    return pyarrow.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)


class Stream:
    """Something that only speaks Arrow's stream."""

    def __init__(self, table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_unaligned_arrow_buffers():
    pyarrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    bars, symbol, time = keyed()
    names = [f"S{s}" for s in symbol]
    plain = pyarrow.table({"symbol": names, "time": pyarrow.array(time.astype("datetime64[us]"))} | bars)
    want = columns_of(gpuforge.indicators(plain, SELECT, device="cpu"))
    same(want, gpuforge.indicators({"symbol": np.array(names), "time": time} | bars, SELECT, device="cpu"))
    for by in (1, 3, 4):
        odd = pyarrow.table(
            {name: unaligned_arrow(pyarrow, plain[name].combine_chunks(), by) for name in plain.column_names}
        )
        assert odd["close"].chunk(0).buffers()[1].address % 8 == by
        for data in (odd, odd.to_batches()[0], odd.slice(0, 600)):
            same(columns_of(gpuforge.indicators(data, SELECT, device="cpu")), want, f"{type(data)} by {by}")
        codes = odd.set_column(0, "symbol", unaligned_arrow(pyarrow, pyarrow.array(symbol.astype("i4")), by))
        got = pyarrow.table(gpuforge.indicators(Stream(codes), SELECT, device="cpu"))
        same(columns_of(got), want, f"a stream by {by}")
        chunks = pyarrow.concat_tables([odd.slice(0, 250), odd.slice(250)])
        same(columns_of(gpuforge.indicators(chunks, SELECT, device="cpu")), want)
        kept = gpuforge.indicators(odd, "rsi(14)", keep=["symbol", "close"])
        assert kept["symbol"].to_pylist() == names and kept["close"].to_pylist() == bars["close"].tolist()
    # A slice of a table begins in the middle of its buffers.
    tail = gpuforge.indicators(plain.slice(7), "close * 2", by=False, time=False)
    np.testing.assert_array_equal(columns_of(tail)["close * 2"], bars["close"][7:] * 2)
    frame = polars.DataFrame({"close": bars["close"]})[5:][::3]
    got = gpuforge.indicators(frame, "sma(9)", device="cpu")["sma_9"].to_numpy()
    np.testing.assert_array_equal(got, gpuforge.indicators({"close": bars["close"][5::3].copy()}, "sma(9)")["sma_9"])


def test_unaligned_arrow_strings():
    pyarrow = pytest.importorskip("pyarrow")
    bars, symbol, time = keyed()
    texts = pyarrow.array([f"symbol number {s}" for s in symbol])
    data = pyarrow.table({"symbol": texts, "time": time} | bars)
    want = columns_of(gpuforge.indicators(data, SELECT))
    view = [pyarrow.string_view()] if hasattr(pyarrow, "string_view") else []
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), *view):
        odd = data.set_column(0, "symbol", unaligned_arrow(pyarrow, texts.cast(kind)))
        for given in (odd, odd.to_batches()[0]):
            out = gpuforge.indicators(given, SELECT, keep=["symbol"])
            same({n: np.asarray(out[n]) for n in want}, want, str(kind))
            assert out["symbol"].to_pylist() == texts.to_pylist()
    # An IPC message that begins at an odd address, as one in the middle of a file or a packet does.
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    moved = pyarrow.py_buffer(b"HDR" + sink.getvalue().to_pybytes()).slice(3)
    same(columns_of(gpuforge.indicators(pyarrow.ipc.open_stream(moved).read_all(), SELECT)), want)
    assert copied(lambda: gpuforge.indicators(data, SELECT, time=False, by=False)) == 0


def test_unaligned_arrow_nulls():
    pyarrow = pytest.importorskip("pyarrow")
    numbers = [1.0, None, 3.0, 4.0] * 20
    odd = unaligned_arrow(pyarrow, pyarrow.array(numbers))
    out = gpuforge.indicators(pyarrow.table({"close": odd}), "close * 2")["close * 2"].to_numpy()
    np.testing.assert_array_equal(out, [2.0, np.nan, 6.0, 8.0] * 20)


# The rest of the package.


def test_tensors_and_lattices():
    x = np.arange(12, dtype="f4")
    forge = gpuforge.Forge(device="cpu")
    for given in (packed(x, "f4"), offset(x, "f4"), x.astype(">f4"), np.repeat(x, 2)[::2], locked(x)):
        np.testing.assert_array_equal(forge.run(gpuforge.ops.map("a + 1", a=given)).numpy(), x + 1)
    zeros = np.broadcast_to(np.float32(2), 12)
    np.testing.assert_array_equal(forge.run(gpuforge.ops.map("a + 1", a=zeros)).numpy(), np.full(12, 3, dtype="f4"))
    costs = 1 + np.arange(25.0) % 7
    want = gpuforge.Lattice((5, 5), weights=costs).path((0, 0), (4, 4))
    for layout, make in LAYOUTS.items():
        got = gpuforge.Lattice((5, 5), weights=make(costs)).path((0, 0), (4, 4))
        np.testing.assert_array_equal(got, want, err_msg=layout)


def test_internal_functions_reject_other_arrays():
    request = _gpuforge.Request("sma(2)", [], "talib")
    for wrong in (np.arange(4), np.arange(4.0).astype(">f8"), np.arange(4.0).reshape(2, 2), [1.0]):
        with pytest.raises(TypeError, match="float64"):
            _gpuforge.indicators_arrays(request, [("close", wrong)], 4, None, None, 1.0, "cpu", None)

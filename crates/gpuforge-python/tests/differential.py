"""Differential test: do Python and SQL compute the bits that the command line wrote?

    python differential.py CASES                       # gpuforge.indicators, all in this process
    python differential.py CASES --sql gpuforge-cluster

``CASES`` has a directory for every case, ``case-00001`` and so on, each with

* ``bars.parquet``: symbol, time, open, high, low, close, volume,
* ``select.txt``: the selection; ``define.txt``, if there is one: a definition per line,
* ``expected.parquet``: what ``gpuforge indicators bars.parquet -o expected.parquet --select ... --define ...`` wrote.

Rows are matched by symbol and time, columns are compared bit for bit; a NaN is a NaN, and a null is one too. Kinds of tables take
turns (``KINDS``), and bars that several cases share are read once and used again. What differs is printed as shell commands that
show it. Exit code 0: all equal, 1: some differ, 2: nothing to compare.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as parquet

KEYS = ("symbol", "time")
#: Cases that one query computes, and the longest text of one: an argument has at most 128 KiB on Linux.
BATCH, LONGEST = 32, 100_000


@dataclass(frozen=True)
class Case:
    """A directory with bars, a selection and the expected result."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def select(self) -> str:
        file = self.path / "select.txt"
        return file.read_text(encoding="utf-8").strip() if file.exists() else ""

    @cached_property
    def define(self) -> list[str]:
        file = self.path / "define.txt"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [line.strip() for line in lines if line.strip()]

    @property
    def bars(self) -> Path:
        return self.path / "bars.parquet"

    @cached_property
    def expected(self) -> pa.Table:
        return parquet.read_table(self.path / "expected.parquet")

    @property
    def columns(self) -> list[str]:
        """Names of the computed columns."""
        return [name for name in self.expected.column_names if name not in KEYS]

    def command(self, program: str) -> str:
        """Shell command that writes ``expected.parquet``."""
        words = [program, "indicators", str(self.bars), "-o", "expected.parquet"]
        words += ["--select", self.select] if self.select else []
        for line in self.define:
            words += ["--define", line]
        return shlex.join(words)


@dataclass
class Outcome:
    """Result of a comparison; empty if equal."""

    case: Case
    how: str
    why: str = ""
    #: What shows it.
    commands: list[str] = field(default_factory=list)


# Comparing.


def doubles(column: Any) -> np.ndarray:
    """A column as float64; nulls are NaN."""
    if isinstance(column, (pa.ChunkedArray, pa.Array)):
        column = column.cast(pa.float64())
        return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return np.asarray(column, dtype=np.float64)


def bits(column: np.ndarray) -> np.ndarray:
    """Bit patterns; NaNs are canonical."""
    return np.where(np.isnan(column), np.nan, column).view(np.int64)


def keys(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Symbols and times of rows. Times as integers or text: units and zones do not matter here, only which are the same."""
    symbol = table["symbol"].cast(pa.string()).to_numpy(zero_copy_only=False).astype(str)
    times = table["time"]
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ns", times.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date(times.type):
        times = times.cast(pa.date64()).cast(pa.int64())
    return symbol, times.to_numpy(zero_copy_only=False)


def order(table: pa.Table) -> np.ndarray:
    """Rows in the order of symbol and time."""
    symbol, times = keys(table)
    return np.lexsort((times, symbol))


def matched(have: pa.Table, want: pa.Table) -> tuple[np.ndarray, np.ndarray] | str:
    """Matching rows of both, or why they do not match."""
    if have.num_rows != want.num_rows:
        return f"{have.num_rows} rows instead of {want.num_rows}"
    left, right = order(have), order(want)
    for mine, other in zip(keys(have), keys(want)):
        if not np.array_equal(mine[left], other[right]):
            return "other symbols or times"
    return left, right


def differs(case: Case, have_keys: pa.Table, have: dict[str, np.ndarray]) -> str:
    """The first difference, or an empty string."""
    want = case.expected
    if list(have) != case.columns:
        missing = [name for name in case.columns if name not in have]
        more = [name for name in have if name not in case.columns]
        return f"other columns: without {missing[:3]}, with {more[:3]}" if missing or more else "columns in another order"
    rows = matched(have_keys, want)
    if isinstance(rows, str):
        return rows
    left, right = rows
    for name, column in have.items():
        mine, other = column[left], doubles(want[name])[right]
        unlike = np.flatnonzero(bits(mine) != bits(other))
        if unlike.size:
            at = unlike[0]
            symbol, when = want["symbol"][int(right[at])], want["time"][int(right[at])]
            return (
                f"column `{name}`: {unlike.size} of {len(mine)} rows, the first at {symbol} {when}: "
                f"{float(mine[at])!r} instead of {float(other[at])!r}"
            )
    return ""


# Python.


class Bars:
    """Bars of a file as every table type, each converted once."""

    def __init__(self, path: Path) -> None:
        self.table = parquet.read_table(path)
        self._made: dict[str, tuple[Any, pa.Table]] = {}

    def as_(self, kind: str) -> tuple[Any, pa.Table]:
        """The data, and a table with the keys of its rows."""
        if kind not in self._made:
            self._made[kind] = KINDS[kind](self.table)
        return self._made[kind]


def as_dict(table: pa.Table) -> dict[str, np.ndarray]:
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def packed(table: pa.Table) -> dict[str, np.ndarray]:
    """Fields of a packed record array: no float64 of it is aligned."""
    columns = as_dict(table)
    plain = {name: x for name, x in columns.items() if x.dtype.kind in "fiuM"}
    record = np.zeros(table.num_rows, dtype=[("flag", "u1"), *((name, x.dtype) for name, x in plain.items())])
    for name, x in plain.items():
        record[name] = x
    return {name: record[name] if name in plain else x for name, x in columns.items()}


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(table.num_rows).permutation(table.num_rows)))


def chunked(table: pa.Table) -> pa.Table:
    middle = table.num_rows // 3
    return pa.concat_tables([table.slice(0, middle), table.slice(middle)])


def polars(table: pa.Table) -> Any:
    import polars

    return polars.from_arrow(table)


#: Kinds of tables: what is computed on, with a table that has its rows' keys.
KINDS: dict[str, Callable[[pa.Table], tuple[Any, pa.Table]]] = {
    "dict": lambda t: (as_dict(t), t),
    "pandas": lambda t: (t.to_pandas(), t),
    "pyarrow": lambda t: (t, t),
    "unaligned": lambda t: (packed(t), t),
    "polars": lambda t: (polars(t), t),
    "shuffled pandas": lambda t: ((s := shuffled(t)).to_pandas(), s),
    "chunks": lambda t: (chunked(t), t),
    "shuffled dict": lambda t: (as_dict(s := shuffled(t)), s),
}


@lru_cache(maxsize=64)
def bars_of(digest: str, path: Path) -> Bars:
    return Bars(path)


#: The first file of every content.
_files: dict[str, Path] = {}


def read(case: Case) -> Bars:
    """Bars of a case; the same table for the same bytes."""
    digest = hashlib.blake2b(case.bars.read_bytes()).hexdigest()
    return bars_of(digest, _files.setdefault(digest, case.bars))


def numbers(result: Any) -> dict[str, np.ndarray]:
    if hasattr(result, "column_names"):
        return {name: doubles(result[name]) for name in result.column_names}
    names = list(result) if isinstance(result, dict) else list(result.columns)
    return {name: doubles(result[name]) for name in names}


def by_python(case: Case, kind: str) -> Outcome:
    """Computes a case in this process."""
    import gpuforge

    outcome = Outcome(case, f"python ({kind})")
    define = dict(map(str.strip, line.split("=", 1)) for line in case.define)
    try:
        data, rows = read(case).as_(kind)
        result = gpuforge.indicators(data, case.select, define=define)
        outcome.why = differs(case, rows, numbers(result))
    except Exception as error:
        outcome.why = f"{type(error).__name__}: {error}".split("\n")[0]
    if outcome.why:
        again = [sys.executable, str(Path(__file__)), str(case.path.parent), "--only", case.name, "--kind", kind]
        outcome.commands = [shlex.join(again)]
    return outcome


# SQL.


def name(text: str) -> str:
    """Quotes a SQL identifier."""
    return '"' + text.replace('"', '""') + '"'


def text(value: object) -> str:
    """Quotes a SQL string literal."""
    return "'" + str(value).replace("'", "''") + "'"


def query(cases: list[Case]) -> str:
    """One query for some cases: their rows one below the other, their columns as c0, c1, ..."""
    most = max(len(case.columns) for case in cases)
    parts = []
    for at, case in enumerate(cases):
        computed = [f"CAST({name(column)} AS DOUBLE) AS c{i}" for i, column in enumerate(case.columns)]
        computed += [f"CAST(NULL AS DOUBLE) AS c{i}" for i in range(len(computed), most)]
        shown = ", ".join([f"CAST({at} AS BIGINT) AS case_number", *map(name, KEYS), *computed])
        source = f"indicators({text(case.bars.resolve())}, {text(case.select)})"
        parts.append(f"SELECT {shown} FROM {source}")
    return " UNION ALL ".join(parts)


def run(words: list[str]) -> str:
    """Runs a program; returns its output if it failed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {said[0] if said else 'it said nothing'}"


def by_sql(binary: str, cases: list[Case], directory: str) -> list[Outcome]:
    """Computes some cases with one query; where it fails, each with its own."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        out = str(Path(scratch) / "out.parquet")
        if cases[0].define:
            # The table function takes no definitions.
            words = [binary, "submit", str(cases[0].bars), "-o", out, "--select", cases[0].select]
            words += [word for line in cases[0].define for word in ("--define", line)]
        else:
            words = [binary, "sql", query(cases), "-o", out]
        failed = run(words)
        if failed and len(cases) > 1:
            return [outcome for case in cases for outcome in by_sql(binary, [case], directory)]
        found = None if failed else plain(parquet.read_table(out))
    outcomes = []
    for at, case in enumerate(cases):
        outcome = Outcome(case, "sql", failed)
        if found is not None:
            outcome.why = differs(case, *part(found, at, case))
        if outcome.why:
            alone = words if case.define else [binary, "sql", query([case]), "-o", "sql.parquet"]
            outcome.commands = [shlex.join(word if word != out else "sql.parquet" for word in alone)]
        outcomes.append(outcome)
    return outcomes


def plain(table: pa.Table) -> pa.Table:
    """Text as pyarrow can filter it: DataFusion writes views, of which pyarrow takes no rows."""
    fields = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in table.schema]
    return table.cast(pa.schema(fields))


def part(found: pa.Table, at: int, case: Case) -> tuple[pa.Table, dict[str, np.ndarray]]:
    """Rows and columns of one case of a query's result."""
    if "case_number" not in found.column_names:
        return found, {column: doubles(found[column]) for column in case.columns if column in found.column_names}
    rows = found.filter(pa.compute.equal(found["case_number"], at))
    return rows, {column: doubles(rows[f"c{i}"]) for i, column in enumerate(case.columns)}


def batches(cases: list[Case], most: int) -> Iterator[list[Case]]:
    """Cases that one query can compute: of the same kinds of keys, without definitions, not too long."""
    waiting: dict[str, list[Case]] = {}
    for case in cases:
        if case.define:
            yield [case]
            continue
        schema = parquet.read_schema(case.bars)
        kind = " ".join(str(schema.field(key).type) for key in KEYS)
        batch = waiting.setdefault(kind, [])
        if batch and (len(batch) >= most or len(query([*batch, case])) > LONGEST):
            yield batch
            batch = waiting[kind] = []
        batch.append(case)
    yield from filter(None, waiting.values())


# The whole.


def compared(args: argparse.Namespace, cases: list[Case]) -> Iterator[Outcome]:
    if args.sql:
        with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(args.jobs) as pool:
            work = [pool.submit(by_sql, args.sql, batch, directory) for batch in batches(cases, args.batch)]
            for done in work:
                yield from done.result()
        return
    kinds = [args.kind] if args.kind else list(KINDS)
    for at, case in enumerate(cases):
        yield by_python(case, kinds[at % len(kinds)])


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compare what Python or SQL computes with what the command line wrote.")
    parser.add_argument("cases", type=Path, help="directory of case-00001, case-00002, ...")
    parser.add_argument("--sql", metavar="BINARY", help="compute with this gpuforge-cluster instead of Python")
    parser.add_argument("--batch", type=int, default=BATCH, help="cases of one query [default: %(default)s]")
    parser.add_argument("--jobs", type=int, default=1, help="queries at once [default: %(default)s]")
    parser.add_argument("--kind", choices=KINDS, help="one kind of table instead of all by turns")
    parser.add_argument("--only", action="append", metavar="CASE", help="this case only; may be repeated")
    parser.add_argument("--show", type=int, default=10, help="mismatches that are printed [default: %(default)s]")
    parser.add_argument("--program", default="gpuforge", help="name of the command in what is printed")
    return parser


def main(given: list[str] | None = None) -> int:
    args = arguments().parse_args(given)
    found = sorted(path for path in args.cases.glob("case-*") if (path / "expected.parquet").is_file())
    cases = [Case(path) for path in found if not args.only or path.name in args.only]
    if not cases:
        print(f"no case-*/expected.parquet in {args.cases}", file=sys.stderr)
        return 2
    began, wrong = time.monotonic(), []
    equal: Counter[str] = Counter()
    for outcome in compared(args, cases):
        if not outcome.why:
            equal[outcome.how] += 1
            continue
        wrong.append(outcome)
        if len(wrong) <= args.show:
            print(f"{outcome.case.name}, {outcome.how}: {outcome.why}")
            for command in [outcome.case.command(args.program), *outcome.commands]:
                print(f"  {command}")
    if len(wrong) > args.show:
        print(f"and {len(wrong) - args.show} more: {' '.join(o.case.name for o in wrong[args.show :][:20])}")
    how = "sql" if args.sql else "python"
    took = time.monotonic() - began
    print(f"{how}: {sum(equal.values())} of {len(cases)} cases equal to the last bit, {len(wrong)} differ, {took:.1f} s")
    if equal:
        print("  " + ", ".join(f"{kind}: {n}" for kind, n in sorted(equal.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

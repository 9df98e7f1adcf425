"""The differential script itself: equal cases, every kind of difference, and SQL, which a small stand-in computes with DuckDB."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import gpuforge
from conftest import walk

pyarrow = pytest.importorskip("pyarrow")
for module in ("pandas", "polars", "duckdb"):
    pytest.importorskip(module)

sys.path.insert(0, str(Path(__file__).parents[1]))
import differential  # noqa: E402

SELECTIONS = ["rsi(14), macd(12,26,9)", "ema(5) - ema(20)", "sma(3|9)", "spread, sma(4, source=spread)", "bbands(5)"]
DEFINE = ["spread = high - low", "mid = (high + low) / 2"]

#: `gpuforge-cluster` as far as the script needs it.
STAND_IN = """
import re, sys
import duckdb, gpuforge, pyarrow.parquet as parquet
words = sys.argv[1:]
out = words[words.index("-o") + 1]
def computed(path, select, define):
    bars = parquet.read_table(path)
    keep = bars.column_names
    defined = dict(map(str.strip, line.split("=", 1)) for line in define)
    return gpuforge.indicators(bars, select, define=defined, keep=keep)
if words[0] == "submit":
    define = [words[i + 1] for i, word in enumerate(words) if word == "--define"]
    parquet.write_table(computed(words[1], words[words.index("--select") + 1], define), out)
else:
    tables = {}
    def table(found):
        name = f"t{len(tables)}"
        tables[name] = computed(*(text.replace("''", "'") for text in found.groups()), [])
        return name
    statement = re.sub(r"indicators\\('((?:[^']|'')*)', '((?:[^']|'')*)'\\)", table, words[1])
    locals().update(tables)
    parquet.write_table(duckdb.sql(statement).to_arrow_table(), out)
"""


def cases(directory: Path, n: int) -> None:
    for at in range(n):
        case_dir = directory / f"case-{at:05}"
        case_dir.mkdir(parents=True)
        bars = walk(120, seed=at % 3)
        time = np.tile(np.arange(60), 2).astype("datetime64[D]").astype("datetime64[us]")
        table = pyarrow.table({"symbol": np.repeat(["B", "A"], 60), "time": time} | bars)
        differential.parquet.write_table(table, case_dir / "bars.parquet")
        select = SELECTIONS[at % len(SELECTIONS)]
        (case_dir / "select.txt").write_text(select + "\n")
        define = DEFINE if "spread" in select else []
        if define:
            (case_dir / "define.txt").write_text("\n".join(define) + "\n")
        defined = dict(map(str.strip, line.split("=", 1)) for line in define)
        out = gpuforge.indicators(table, select, define=defined, keep=["symbol", "time"])
        # As the command line writes it: by symbol, and no value is a null.
        out = out.sort_by([("symbol", "ascending"), ("time", "ascending")])
        columns = {name: differential.doubles(out[name]) for name in out.column_names[2:]}
        columns = {name: pyarrow.array(column, from_pandas=True) for name, column in columns.items()}
        written = pyarrow.table({"symbol": out["symbol"], "time": out["time"]} | columns)
        differential.parquet.write_table(written, case_dir / "expected.parquet")


def spoil(file: Path, change) -> None:
    differential.parquet.write_table(change(differential.parquet.read_table(file)), file)


def one_bit(table):
    name, at = table.column_names[2], table.num_rows - 1
    column = differential.doubles(table[name]).copy()
    column[at] = np.nextafter(column[at], np.inf)
    return table.set_column(2, name, pyarrow.array(column))


def stand_in(directory: Path) -> str:
    program = directory / "stand-in"
    program.write_text(f"#!{sys.executable}\n{STAND_IN}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_equal_cases(tmp_path, capsys):
    cases(tmp_path, 2 * len(differential.KINDS))
    assert differential.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"python: {2 * len(differential.KINDS)} of {2 * len(differential.KINDS)} cases equal" in said
    assert all(f"python ({kind}): 2" in said for kind in differential.KINDS)
    assert differential.main([str(tmp_path / "nothing")]) == 2


def test_differences_are_found(tmp_path, capsys):
    cases(tmp_path, 6)
    spoil(tmp_path / "case-00000/expected.parquet", one_bit)
    spoil(tmp_path / "case-00001/expected.parquet", lambda t: t.slice(1))
    spoil(tmp_path / "case-00002/expected.parquet", lambda t: t.rename_columns([*t.column_names[:-1], "other"]))
    spoil(tmp_path / "case-00004/expected.parquet", lambda t: t.set_column(0, "symbol", pyarrow.array(["C"] * 120)))
    (tmp_path / "case-00005/select.txt").write_text("rsj(14)")
    assert differential.main([str(tmp_path), "--show", "4"]) == 1
    said = capsys.readouterr().out
    assert "case-00000, python (dict): column `rsi_14`: 1 of 120 rows" in said
    assert "120 rows instead of 119" in said and "other columns: without ['other']" in said
    assert "--select 'rsi(14), macd(12,26,9)'" in said and "other symbols or times" in said
    assert "and 1 more: case-00005" in said and "1 of 6 cases equal" in said


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script")
def test_sql(tmp_path, capsys):
    cases(tmp_path / "cases", 7)
    program = stand_in(tmp_path)
    assert differential.main([str(tmp_path / "cases"), "--sql", program, "--batch", "3", "--jobs", "2"]) == 0
    assert "sql: 7 of 7 cases equal" in capsys.readouterr().out
    spoil(tmp_path / "cases/case-00001/expected.parquet", one_bit)
    (tmp_path / "cases/case-00002/select.txt").write_text("rsj(14)")
    assert differential.main([str(tmp_path / "cases"), "--sql", program]) == 1
    said = capsys.readouterr().out
    # One that fails does not take its neighbours along.
    assert "5 of 7 cases equal" in said and "case-00002, sql: exit code 1" in said
    assert f"{program} sql" in said and "-o sql.parquet" in said

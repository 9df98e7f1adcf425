"""Writes python/gpuforge/talib/_functions.py from the table in the extension module: `python tools/talib_functions.py`."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from gpuforge import _gpuforge

HEAD = '''"""Every function of TA-Lib that the catalogue has. Written by tools/talib_functions.py; changes are made there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from gpuforge._gpuforge import talib_call as _call

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Real = NDArray[np.float64]
    Whole = NDArray[np.int32]
    Precision = Literal["exact", "fast"]

'''


def default(param: dict[str, Any]) -> str:
    """Default in the signature: TA-Lib's sentinel for "the default", or the value."""
    if param["shown"]:
        return repr(param["default"])
    return "-4e37" if param["real"] else "-(2**31)"


def returned(outputs: list[dict[str, Any]]) -> str:
    kinds = ["Whole" if output["whole"] else "Real" for output in outputs]
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


def docs(function: dict[str, Any]) -> str:
    lines = [f"{function['display_name']} ({function['group']})", ""]
    lines += textwrap.wrap(function["doc"], 100)
    lines += ["", "Inputs: " + ", ".join(function["inputs"])]
    if function["params"]:
        lines.append("Parameters: " + ", ".join(f"{p['name']} ({p['default']})" for p in function["params"]))
    lines.append("Outputs: " + ", ".join(o["name"] for o in function["outputs"]))
    return "\n    ".join(line.replace("\\", "\\\\") for line in lines).replace("\n    \n", "\n\n")


def written(at: int, function: dict[str, Any]) -> str:
    params = [f"{name}: Any" for name in function["inputs"]]
    params += [f"{p['name']}: {'float' if p['real'] else 'int'} = {default(p)}" for p in function["params"]]
    params += ["*", "precision: Precision | None = None"]
    names = ", ".join(function["inputs"] + [p["name"] for p in function["params"]])
    # Keywords are parsed only where one is given: a call over few bars takes about as long.
    return (
        f"\ndef {function['name']}({', '.join(params)}) -> {returned(function['outputs'])}:\n"
        f'    """{docs(function)}\n    """\n'
        "    if precision is None:\n"
        f"        return _call({at}, {names})  # type: ignore[no-any-return]\n"
        f"    return _call({at}, {names}, precision=precision)  # type: ignore[no-any-return]\n"
    )


def text() -> str:
    """The whole file."""
    functions = json.loads(_gpuforge.talib_functions())
    body = "\n".join(written(at, function) for at, function in enumerate(functions))
    groups: dict[str, list[str]] = {}
    for function in functions:
        groups.setdefault(function["group"], []).append(function["name"])
    table = "".join(
        f"    {group!r}: [\n" + "".join(f"        {name!r},\n" for name in names) + "    ],\n"
        for group, names in groups.items()
    ).replace("'", '"')
    names = "".join(f'    "{f["name"]}": {at},\n' for at, f in enumerate(functions))
    return (
        f"{HEAD}{body}\n\n#: Names by group.\nGROUPS: dict[str, list[str]] = {{\n{table}}}\n\n"
        f"#: Positions by name.\nPOSITIONS: dict[str, int] = {{\n{names}}}\n"
    )


if __name__ == "__main__":
    here = Path(__file__).parent.parent
    (here / "python/gpuforge/talib/_functions.py").write_text(text())

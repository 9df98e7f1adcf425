"""The command line: ``gpuforge`` and ``python -m gpuforge``."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from gpuforge._gpuforge import cli_main


def launcher(executable: str, started: list[str], arguments: list[str]) -> list[str]:
    """What starts this program again: the interpreter and its arguments up to those of gpuforge.

    ``started`` is ``sys.orig_argv``. Probes of drivers run in child processes, which must find the same package: one that was
    started by a script, by ``-m``, from a zip file or with ``-X`` is started again in that way.

    >>> launcher("/venv/bin/python", ["python", "/venv/bin/gpuforge", "detect", "--json"], ["detect", "--json"])
    ['/venv/bin/python', '/venv/bin/gpuforge']
    >>> launcher("/venv/bin/python", ["python", "other.py"], ["detect"])
    ['/venv/bin/python', '-m', 'gpuforge']
    """
    own, rest = started[1 : len(started) - len(arguments)], started[len(started) - len(arguments) :]
    return [executable, *(own if own and rest == arguments else ["-m", "gpuforge"])]


def main() -> NoReturn:
    """Runs the command line of this process and exits with its code."""
    arguments = sys.argv[1:]
    # Mesa's device-select layer prints to stderr for every Vulkan instance when no display server runs.
    os.environ.setdefault("NODEVICE_SELECT", "1")
    sys.exit(cli_main(launcher(sys.executable or "", sys.orig_argv, arguments), arguments))


if __name__ == "__main__":
    main()

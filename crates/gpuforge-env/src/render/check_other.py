"""Test whether the framework can be imported; exit code 0 if it can, else 1."""

import importlib
import sys

MODULE = "@MODULE@"


def main():
    try:
        module = importlib.import_module(MODULE)
    except Exception as error:
        print(f"{MODULE} cannot be imported: {error}")
        return 1
    print(f"{MODULE} {getattr(module, '__version__', '')}, Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

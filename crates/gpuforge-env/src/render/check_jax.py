"""Test whether JAX sees the expected device; exit code 0 if it does, else 1."""

import os
import sys

EXPECTED = "@EXPECTED@"
# JAX would preallocate most of the GPU memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def main():
    try:
        import jax
        import jax.numpy as jnp
    except Exception as error:
        print(f"JAX cannot be imported: {error}")
        return 1
    print(f"JAX {jax.__version__}, Python {sys.version.split()[0]}")
    try:
        device = jax.devices()[0]
        ones = jnp.ones((64, 64))
        total = float((ones @ ones).sum())
    except Exception as error:
        print(f"gpu: no ({error})")
        return 1
    if EXPECTED != "cpu" and device.platform == "cpu":
        print("gpu: no (JAX sees no GPU)")
        return 1
    if total != 64.0**3:
        print(f"gpu: no (a product of ones gives {total})")
        return 1
    print(f"gpu: {'not asked for' if EXPECTED == 'cpu' else 'yes'} ({device.device_kind})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

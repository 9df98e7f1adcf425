"""Test whether PyTorch sees the expected device; exit code 0 if it does, else 1."""

import sys

EXPECTED = "@EXPECTED@"


def describe(torch):
    """Description of the expected device; None if PyTorch does not see it."""
    if EXPECTED == "cuda":
        if not torch.cuda.is_available():
            return None
        kind = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
        major, minor = torch.cuda.get_device_capability(0)
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        return f"{torch.cuda.get_device_name(0)}, {memory:.1f} GiB, {major}.{minor}, {kind}"
    if EXPECTED == "xpu":
        seen = hasattr(torch, "xpu") and torch.xpu.is_available()
        return torch.xpu.get_device_name(0) if seen else None
    if EXPECTED == "mps":
        return "Apple GPU" if torch.backends.mps.is_available() else None
    return "the CPU"


def main():
    try:
        import torch
    except Exception as error:
        print(f"PyTorch cannot be imported: {error}")
        return 1
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}")
    try:
        device = describe(torch)
        if device is None:
            print(f"gpu: no (PyTorch sees no {EXPECTED} device)")
            return 1
        ones = torch.ones(64, 64, device=EXPECTED)
        total = float((ones @ ones).sum().cpu())
    except Exception as error:
        print(f"gpu: no ({error})")
        return 1
    if total != 64.0**3:
        print(f"gpu: no (a product of ones gives {total})")
        return 1
    print(f"gpu: {'not asked for' if EXPECTED == 'cpu' else 'yes'} ({device})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What decides the bits of a row beside its sources: versions, and the kernels that libraries choose for this processor."""

import platform
from functools import cache
from importlib.metadata import version

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")  # whose versions rows may depend on


@cache
def versions() -> dict[str, str]:
    """Python and the packages that rows may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@cache
def environment() -> str:
    """Versions and kernels in one line of text."""
    import numpy  # noqa: F401 -- its BLAS has to be loaded to be asked
    import torch
    from threadpoolctl import threadpool_info

    blas = {
        f"{b['internal_api']} {b.get('architecture') or ''}".strip()
        for b in threadpool_info()
        if b["user_api"] == "blas"
    }
    kernels = {"processor": platform.machine(), "kernels": torch.backends.cpu.get_cpu_capability()}
    return ", ".join(
        f"{name} {v}" for name, v in {**versions(), **kernels, "BLAS": " + ".join(sorted(blas))}.items()
    )

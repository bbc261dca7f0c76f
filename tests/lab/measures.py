"""Functions that the sweep tests sweep; also named in spec files."""

import os
import signal
import time
from pathlib import Path

import torch


def short(setting, seed):
    """Two rows that depend on every bit of the arithmetic."""
    generator = torch.Generator().manual_seed(seed + 1000 * setting["size"])
    table = torch.randn(40, 40, generator=generator)
    value = float((table @ table.T * setting["scale"]).tanh().sum())
    return [{"kind": "sum", "value": value}, {"kind": "size", "value": setting["size"] ** 2}]


def hostile(setting, seed):
    """Do what the setting says: work, raise, hang, hog memory, or die, every time or only the first."""
    act = setting["act"]
    if act == "raise":
        raise RuntimeError("this one always raises")
    if act == "hang":
        torch.randn(10).sum()
        while True:
            time.sleep(0.01)
    if act == "hog":
        hoard = [torch.ones(2**22) for _ in range(100)]  # 16 MB each
        return [{"value": len(hoard)}]
    if act == "die" or (act == "die once" and _first(setting)):
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "leave":
        raise SystemExit(3)
    return [{"value": 10 * seed}]


def _first(setting):
    mark = Path(setting["mark"])
    if mark.exists():
        return False
    mark.touch()
    return True


def wrong(_setting, _seed):
    """Not rows."""
    return {"value": 1}


def gated(setting, seed):
    """A short task that takes a moment; from some size on it waits until somebody opens the gate."""
    time.sleep(setting["seconds"])
    while setting["size"] >= setting["free"] and not Path(setting["gate"]).exists():
        time.sleep(0.01)
    return short(setting, seed)


def growing(_setting, _seed):
    """How many MB a process gains by tensors that are freed, each a little larger than the one before, with small ones between them."""
    kept, _ = [], torch.ones(2**22)
    before = _held_mb()
    for step in range(100):
        large = torch.ones(1_100_000 + 5000 * step)
        kept.append(torch.ones(1000))
        del large
    return [{"gained": _held_mb() - before}]


def _held_mb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))

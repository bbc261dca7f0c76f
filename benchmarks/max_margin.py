"""The exact KKT point of the max-margin problem: seconds at the size of the papers, and how they grow with the points."""

import time
from collections.abc import Iterator
from math import log

from benchmarks.timing import line
from featureprism import generator_for
from featureprism.data import orthogonal_clusters, sample
from featureprism.probes import kkt_audit
from featureprism.training import max_margin_network

SIZES = (96, 191, 382, 764)


def ratios() -> Iterator[str]:
    """d = 1000, eight clusters, σ = 1."""
    clusters = orthogonal_clusters(1000, 4, 4, 1.0, generator=generator_for("centres", 0))
    seconds, audits = [], []
    for num in SIZES:
        data = sample(clusters, num, generator=generator_for("train", 0))
        began = time.perf_counter()
        found = max_margin_network(data.x, data.y)
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
        audit = kkt_audit(found.net, data.x, data.y, tolerance=1e-9)
        audits.append(time.perf_counter() - began)
        yield (
            f"     KKT point, d = 1000, k = 8, n = {num}: {seconds[-1]:.2f} s, "
            f"audit {audits[-1]:.2f} s, stationarity {audit.stationarity:.1e}"
        )
    yield line("KKT point, d = 1000, k = 8, n = 382, seconds", seconds[2], 5.0)
    grown = log(seconds[-1] / seconds[0]) / log(SIZES[-1] / SIZES[0])
    yield line("KKT point, exponent in n (O(n³) work)", grown, 3.2)

"""From a fitted model to a file that other machines accept: every source and kind of proof, both norms, boxes, BLAS kernels."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from seams import KERNELS, SETTINGS, check_folder, write_proofs

pytestmark = pytest.mark.filterwarnings("ignore")  # of short trainings


def checked_by(kernel: str, folder: Path) -> dict:
    """What a process with the arithmetic of another processor says."""
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"}
    program = [sys.executable, str(Path(__file__).with_name("seams.py")), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_proven_of_fitted_models_is_accepted_by_other_kernels(tmp_path):
    names = ("sklearn_quadratic", "sklearn_one", "sklearn_tanh", "torch_deep")
    proven, kinds = write_proofs(tmp_path, 1, 0, {"l2": {}, "linf_box": SETTINGS["linf_box"]}, names)
    assert len({kind for kind, _ in kinds}) >= 4
    here = check_folder(tmp_path)
    assert here == {"certified": proven, "verified": proven, "refused": []}
    assert checked_by(KERNELS[1], tmp_path) == here


@pytest.mark.slow
def test_five_hundred_points_are_accepted_by_every_kernel(tmp_path):
    total, every = 0, set()
    for seed in range(2):
        proven, kinds = write_proofs(tmp_path / str(seed), 8, seed, SETTINGS)
        total, every = total + proven, every | kinds
        for kernel in KERNELS:
            found = checked_by(kernel, tmp_path / str(seed))
            print(f"\nseed {seed}, {kernel}: {found['verified']} of {found['certified']}, {found['refused']}")
            assert found == {"certified": proven, "verified": proven, "refused": []}
    print(f"{total} points, kinds {sorted(every)}")
    assert total >= 500
    assert {kind for kind, _ in every} == {
        "closed form",
        "lipschitz",
        "crown",
        "cells",
        "lines",
        "ellipsoid",
        "deep",
        "norm product",
    }

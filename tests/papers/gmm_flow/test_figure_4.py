from dataclasses import replace

from featureprism.lab import Rows
from featureprism.papers.gmm_flow.figure_4 import FIGURE_4, mass_law_error
from featureprism.papers.gmm_flow.theory import nominal_mass

TINY = {
    "gmm-flow/figure-4": [
        replace(setting, dim=40, per_cluster=5, positive=2, negative=2, width=8, num_times=5)
        for setting in FIGURE_4.settings("quick")
    ]
}


def test_the_law_of_the_masses_is_recovered_and_another_is_not():
    law = [{"seed": 0, "cluster": 0, "time": t / 10, "mass": nominal_mass(1e-4, t / 10)} for t in range(100)]
    assert mass_law_error(Rows.gather(law)) < 1e-9
    assert mass_law_error(Rows.gather({**row, "mass": row["mass"] ** 2} for row in law)) > 0.05

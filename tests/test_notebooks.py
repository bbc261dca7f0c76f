"""What people see in notebooks: brackets, claims, verdicts, trajectories and estimators show themselves."""

import numpy as np

import featureprism as fp
from featureprism.heads import files
from featureprism.lab import below, judge
from featureprism.training.trajectory import Ended

CLAIM = fp.Claim("error", "Theorem 1", "a < b", lambda rows: rows.per_seed("error"), below(0.1))


def test_a_bracket_shows_its_line_and_its_curve():
    shown = fp.RadiusBracket(np.array([0.5]), np.array([0.6]))._repr_html_()
    assert "half break between 0.5" in shown
    assert "<svg" in shown


def test_a_claim_and_its_verdict_show_what_was_decided():
    rows = fp.lab.Rows.gather([{"seed": s, "error": 0.05 + 0.001 * s} for s in range(3)])
    shown = judge(CLAIM, rows)._repr_html_()
    assert "a &lt; b" in shown
    assert "a &lt; b" in CLAIM._repr_html_()
    assert "0.0510 ± 0.0025" in shown
    assert "<b class='verdict holds'>holds</b>" in shown


def test_a_trajectory_shows_how_it_ended_and_what_probes_saw_last():
    run = fp.training.Trajectory(
        [0.0, 2.0], ["a", "b"], Ended.TIME_REACHED, {"loss": [1.0, 0.25], "W": [None, None]}, work=7
    )
    shown = run._repr_html_()
    assert "2 snapshots from 0 to 2; 7 gradients; ran to the requested time" in shown
    assert "<td>loss</td><td>0.25</td>" in shown
    assert "W" not in shown


def test_estimators_link_to_the_site_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SITE", tmp_path)
    assert files.documentation() == ""
    (tmp_path / "index.html").touch()
    assert files.documentation().endswith("/reference/generated/featureprism.{estimator_name}.html")
    assert files.documentation().startswith("file://")

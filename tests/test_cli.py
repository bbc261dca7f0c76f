import csv
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import featureprism.cli as cli
from featureprism.networks import ReLU, TwoLayerNet, gaussian_start, load_net, save_net
from featureprism.papers import PAPERS
from featureprism.records import Experiment, judge
from featureprism.seeds import generator_for
from featureprism.training import max_margin_network


def toy(holds):
    return Experiment(
        "gmm-flow/figure-5",
        "a source",
        "a title",
        {"quick": [{"dim": 3}]},
        lambda setting, seed, _progress: [
            {"kind": "v", "value": setting["dim"] + seed},
            {
                "kind": "premise",
                "name": "n",
                "measured": 1.0,
                "relation": ">=",
                "required": 0.5,
                "holds": True,
                "slack": 0.5,
                "source": "s",
            },
        ],
        lambda rows: [
            judge(
                "figure-5.x",
                "s",
                "t <b>",
                [r["value"] for r in rows if r["kind"] == "v"],
                ">",
                0.0 if holds else 99.0,
            ),
            judge("figure-5.y", "s", "t", [float("nan")], ">", 0.0),
        ],
    )


@pytest.fixture
def with_toy(monkeypatch):
    from featureprism.report import figures
    from featureprism.report.style import panels

    monkeypatch.setattr(cli, "PAPERS", {"gmm-flow": (toy(True),)})
    monkeypatch.setitem(figures.DRAWINGS, "gmm-flow/figure-5", lambda _rows: panels(1)[0])


def test_list_names_every_experiment(capsys):
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    every = [e.id for experiments in PAPERS.values() for e in experiments]
    assert all(name in out for name in every)
    assert cli.main(["list", "--json"]) == 0
    assert [r["id"] for r in json.loads(capsys.readouterr().out)] == every


@pytest.mark.usefixtures("with_toy")
def test_json_is_one_object_and_nothing_else_is_on_stdout(tmp_path, capsys):
    assert (
        cli.main(["reproduce", "gmm-flow", "--json", "--out", str(tmp_path), "--seed", "4", "--seeds", "2"])
        == 0
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed["seeds"] == [4, 5]
    assert printed["claims"][0]["measured"] == 7.5
    assert printed["claims"][1]["measured"] is None
    assert printed["claims"][1]["holds"] is None
    assert len(printed["items"][0]["premises"]) == 2
    files = {p.name for p in (tmp_path / "gmm-flow/figure-5").iterdir()}
    assert {"rows.jsonl", "claims.json", "run.json", "figure.png", "figure.svg"} <= files


@pytest.mark.usefixtures("with_toy")
def test_strict_tells_of_failed_claims(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(cli.PAPERS, "gmm-flow", (toy(False),))
    arguments = ["reproduce", "gmm-flow/figure-5", "--out", str(tmp_path)]
    assert cli.main(arguments) == 0
    assert cli.main([*arguments, "--strict"]) == 3
    assert "figure-5.x" in capsys.readouterr().out


@pytest.mark.usefixtures("with_toy")
def test_the_report_is_one_page_that_needs_no_network(tmp_path, capsys):
    cli.main(["reproduce", "all", "--out", str(tmp_path)])
    assert cli.main(["report", str(tmp_path)]) == 0
    path = capsys.readouterr().out.strip().splitlines()[-1]
    html = Path(path).read_text()
    assert path.endswith("index.html")
    assert "data:image/svg+xml;base64," in html
    assert "figure-5.x" in html
    assert "t &lt;b&gt;" in html
    assert "1 holds" in html
    assert not re.search(r'(src|href)="(?!data:|#)', html)
    assert "| `figure-5.x` t <b> | 4 ± 1 | > 0 | holds |" in (tmp_path / "results.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reproduce", "gmm-flwo"], "Did you mean 'gmm-flow'"),
        (["reproduce", "gmm-flow/figure-55"], "Did you mean 'gmm-flow/figure-5'"),
        (["reproduce", "gmm-flow", "--seeds", "0"], "at least 1"),
        (["report", "no-such-folder"], "No results"),
        (["reproduce", "gmm-flow", "--out", "/proc/none"], "Cannot write"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(arguments, said, capsys):
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_unknown_options_exit_with_2(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["reproduce", "gmm-flow", "--scale", "huge"])
    assert stop.value.code == 2
    assert "quick" in capsys.readouterr().err


@pytest.mark.usefixtures("with_toy")
def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def stop(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", stop)
    assert cli.main(["reproduce", "gmm-flow", "--out", str(tmp_path)]) == 130
    assert "same command" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["list", "reproduce", "radius", "kkt", "sweep", "rows", "phase", "audit", "report"]
)
def test_every_help_text_has_an_example(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert "Example: featureprism" in capsys.readouterr().out


@pytest.fixture
def own_files(tmp_path):
    net = gaussian_start(6, 4, 1.0, ReLU(), generator=generator_for("net", 0))
    x = torch.randn(5, 4, generator=generator_for("points", 0)).double()
    with torch.no_grad():
        y = torch.where(net(x) >= 0, 1.0, -1.0)
    save_net(tmp_path / "net.npz", net)
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    return tmp_path


def test_radius_brackets_a_network_from_a_file(own_files, capsys):
    out = own_files / "radii"
    assert (
        cli.main(["radius", str(own_files / "net.npz"), str(own_files / "data.npz"), "--out", str(out)]) == 0
    )
    assert "proven" in capsys.readouterr().out
    with (out / "brackets.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [r["index"] for r in rows] == ["0", "1", "2", "3", "4"]
    assert list(rows[0]) == ["index", "certified", "attacked", "method", "seconds"]
    assert all(0 < float(r["certified"]) <= float(r["attacked"]) for r in rows)
    with np.load(out / "witnesses.npz") as witnesses, np.load(own_files / "data.npz") as data:
        lengths = np.linalg.norm(witnesses["delta"], axis=1)
        assert lengths == pytest.approx([float(r["attacked"]) for r in rows])
        flipped = torch.as_tensor(data["x"] + witnesses["delta"])
        with torch.no_grad():
            assert bool((torch.as_tensor(data["y"]) * load_net(own_files / "net.npz")(flipped) <= 0).all())
    assert (out / "curve.png").exists()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: np.savez(f / "net.npz", W=np.ones((2, 4))), "lacks a, activation"),
        (
            lambda f: np.savez(f / "net.npz", W=np.ones((2, 4)), a=np.ones(2), activation="swish"),
            "Unknown activation",
        ),
        (lambda f: np.savez(f / "net.npz", W=np.ones((2, 4)), a=np.ones(2), activation="prelu"), "needs p"),
        (lambda f: np.savez(f / "data.npz", x=np.ones((2, 3)), y=np.ones(2)), "dimension 3"),
        (lambda f: np.savez(f / "data.npz", x=np.ones((2, 4)), y=np.zeros(2)), "Labels must be"),
        (lambda f: np.savez(f / "data.npz", x=np.full((2, 4), np.nan), y=np.ones(2)), "NaN"),
        (lambda f: (f / "data.npz").write_text("not numpy"), "Cannot read"),
    ],
)
def test_bad_files_get_one_sentence(spoil, said, own_files, capsys):
    spoil(own_files)
    assert (
        cli.main(
            ["radius", str(own_files / "net.npz"), str(own_files / "data.npz"), "--out", str(own_files / "x")]
        )
        == 2
    )
    assert said in capsys.readouterr().err


@pytest.fixture
def separated_files(tmp_path, generator):
    """A network near a KKT point of its data, and the data."""
    x = torch.randn(16, 6, generator=generator).double()
    y = torch.where(x[:, 0] > 0, 1.0, -1.0).double()
    x[:, 0] += y
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    save_net(tmp_path / "net.npz", max_margin_network(x, y).net)
    return tmp_path, x, y


def test_kkt_audits_a_network_from_a_file(separated_files, capsys):
    folder, x, y = separated_files
    arguments = ["kkt", str(folder / "net.npz"), str(folder / "data.npz")]
    assert cli.main(arguments) == 0
    assert "stationarity" in capsys.readouterr().out
    assert cli.main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["stationarity"] < 1e-9
    assert facts["margin_share"] == pytest.approx(1)
    assert facts["cosine_positive"] == pytest.approx(1)
    assert cli.main([*arguments, "--json", "--most-points", "3"]) == 0
    assert "more than 3 points" in json.loads(capsys.readouterr().out)["reference"]
    np.savez(folder / "wrong.npz", x=x.numpy(), y=-y.numpy())
    assert cli.main(["kkt", str(folder / "net.npz"), str(folder / "wrong.npz")]) == 2
    assert "at no KKT point" in capsys.readouterr().err


def test_kkt_keeps_its_audit_when_only_one_class_has_points(separated_files, capsys):
    folder, x, y = separated_files
    np.savez(folder / "one.npz", x=x[y > 0].numpy(), y=y[y > 0].numpy())
    assert cli.main(["kkt", str(folder / "net.npz"), str(folder / "one.npz"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert "both classes" in facts["reference"]
    assert facts["stationarity"] > 0.1


def test_kkt_says_when_there_is_no_reference(tmp_path, capsys):
    """XOR is separated by four neurons, but by no network of two directions."""
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).double()
    y = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    save_net(tmp_path / "net.npz", TwoLayerNet(x, y, torch.zeros(4).double(), activation=ReLU()))
    assert cli.main(["kkt", str(tmp_path / "net.npz"), str(tmp_path / "data.npz"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert "Not separable" in facts["reference"]
    assert "margin_share" not in facts


def test_long_items_are_left_out_unless_asked_for(monkeypatch, capsys, tmp_path):
    ran = []

    def run(experiment, *_args, **_more):
        ran.append(experiment.id)
        raise ValueError("stop")

    monkeypatch.setattr(cli, "run", run)
    short = dataclasses.replace(cli.PAPERS["gmm-flow"][0], id="toy/short")
    long = dataclasses.replace(short, id="toy/long", long=True)
    monkeypatch.setattr(cli, "PAPERS", {"toy": (long, short)})
    for name, more, first in (
        ("toy", [], "toy/short"),
        ("all", [], "toy/short"),
        ("toy", ["--long"], "toy/long"),
        ("toy/long", [], "toy/long"),
    ):
        ran.clear()
        assert cli.main(["reproduce", name, "--out", str(tmp_path), *more]) == 2
        assert ran == [first]
        assert ("Left out" in capsys.readouterr().err) == (first == "toy/short")


def test_bad_data_and_devices_are_one_sentence(capsys, tmp_path, monkeypatch):
    item = ["reproduce", "feature-averaging/figure-10", "--out", str(tmp_path)]
    for variable, option, value in (
        ("DATA", "--data", str(tmp_path / "none")),
        ("DEVICE", "--device", "abacus"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"FEATUREPRISM_{variable}", "")  # so that it is put back
            assert cli.main([*item, option, value]) == 2
        assert value in capsys.readouterr().err

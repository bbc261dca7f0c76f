import csv
import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import featureprism.cli as cli
from featureprism.commands import arguments
from featureprism.data.images import ARCHIVES
from featureprism.lab import Claim, Experiment, Paper, Premise, above, all_papers, below, requires
from featureprism.lab.experiment import SCALES
from featureprism.networks import ReLU, TwoLayerNet, gaussian_start, load_net, save_net
from featureprism.seeds import generator_for
from featureprism.training import max_margin_network
from featureprism.verify import robust_radius


@dataclass(frozen=True)
class Setting:
    dim: int = 3


def measure(setting, seed, _context):
    premise = Premise("theorem-1.n", "n", 1.0, ">=", 0.5, "s")
    return [{"kind": "v", "value": setting.dim + seed}, premise.as_row()]


CLAIMS = (
    Claim(
        "x",
        "Theorem 1",
        "t <b>",
        lambda rows: rows.of("v").per_seed("value"),
        above(0.0),
        premises=requires("theorem-1"),
    ),
    Claim("y", "s", "t", lambda rows: rows.of("none").per_seed("value"), above(0.0), origin="featureprism"),
)
TOY = Experiment("toy/item", "a source", "a title", {"quick": [Setting()]}, measure, CLAIMS)


@pytest.fixture
def with_toys(monkeypatch):
    """Instead of the papers: experiments that cost nothing."""

    def use(*experiments):
        papers = {"toy": Paper("toy", "someone", experiments)}
        for module in ("lab.registry", "commands.listing"):
            monkeypatch.setattr(f"featureprism.{module}.all_papers", lambda: papers)

    use(TOY)
    return use


def test_the_arguments_name_what_there_is():
    """They are written down twice, so that --help need not import the rest."""
    assert arguments.SCALES == SCALES
    assert list(arguments.IMAGES) == sorted(ARCHIVES)
    known = arguments.parser()._subparsers._group_actions[0].choices  # pyright: ignore
    assert set(known) == set(cli.COMMANDS)


def test_help_and_version_import_nothing_heavy():
    script = "import sys, featureprism.cli as cli; cli.parser().format_help(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "False\n"


def test_reading_what_there_is_imports_little_beside_torch():
    """Few modules, none of a large package: torch itself brings above a thousand, scikit-learn and scipy as many again."""
    script = (
        "import sys, torch; before = set(sys.modules); import featureprism.cli as cli; "
        "[cli.main([command]) for command in ('list', 'claims')]; "
        "print('|'.join(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    added = run.stdout.splitlines()[-1].split("|")
    packages = {name.partition(".")[0] for name in added}
    assert "featureprism" in packages
    assert not packages & {"sklearn", "scipy", "matplotlib", "pooch", "pandas", "rich", "foolbox", "onnx"}
    assert len([name for name in added if not name.startswith("featureprism")]) < 50


def test_list_names_every_paper_and_every_experiment(capsys):
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(f"{paper}  (" in out for paper in all_papers())
    assert cli.main(["list", "all"]) == 0
    out = capsys.readouterr().out
    every = [e.id for paper in all_papers().values() for e in paper.experiments]
    assert all(name in out for name in every)
    assert cli.main(["list", "--json"]) == 0
    assert [r["id"] for r in json.loads(capsys.readouterr().out)] == every


def test_claims_are_listed_without_running_anything(capsys):
    assert cli.main(["claims", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == sum(len(e.claims) for paper in all_papers().values() for e in paper.experiments)
    assert len({(row["item"], row["id"]) for row in rows}) == len(rows)
    for row in rows:
        assert {"id", "origin", "source", "says", "bound", "reported"} <= row.keys()
        assert row["origin"] in ("paper", "featureprism")
        assert row["says"]
        assert row["source"]
    assert cli.main(["claims", "gmm-flow/figure-2"]) == 0
    told = capsys.readouterr().out
    assert "A pReLU network trained from a small start" in told
    assert "(Figure 2)" in told
    assert "figure-4" not in told


@pytest.mark.usefixtures("with_toys")
def test_json_is_one_object_and_nothing_else_is_on_stdout(tmp_path, capsys):
    arguments = [
        "reproduce",
        "toy",
        "--json",
        "--out",
        str(tmp_path),
        "--seed",
        "4",
        "--seeds",
        "2",
        "--workers",
        "1",
    ]
    assert cli.main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seeds"] == [4, 5]
    first, second = printed["claims"]
    assert (first["measured"], first["verdict"], first["origin"], first["reported"]) == (
        7.5,
        "holds",
        "paper",
        None,
    )
    assert first["interval"] == pytest.approx([7.5 - 6.353, 7.5 + 6.353], abs=1e-3)
    assert first["regime"] == {"inside": True, "premises": 1, "holding": 1, "failing": []}
    assert first["slack"] is None
    assert (second["measured"], second["verdict"]) == (None, "not measured")
    assert len(printed["items"][0]["premises"]) == 2
    files = {p.name for p in (tmp_path / "toy/item").iterdir()}
    assert {"rows.jsonl", "claims.json", "run.json", "figure.png", "figure.svg"} <= files


def test_strict_tells_of_failed_claims(with_toys, tmp_path, capsys):
    arguments = ["reproduce", "toy/item", "--out", str(tmp_path), "--workers", "1"]
    assert cli.main(arguments) == 0
    assert cli.main([*arguments, "--strict"]) == 3  # one of them is not measured
    with_toys(replace(TOY, claims=CLAIMS[:1]))
    assert cli.main([*arguments, "--strict"]) == 0
    with_toys(replace(TOY, claims=(replace(CLAIMS[0], bound=below(0.0)),)))
    assert cli.main([*arguments, "--strict"]) == 3
    assert "item.x" in capsys.readouterr().out


@pytest.mark.usefixtures("with_toys")
def test_the_report_is_one_page_that_needs_no_network(tmp_path, capsys):
    cli.main(["reproduce", "all", "--out", str(tmp_path), "--workers", "1"])
    assert cli.main(["report", str(tmp_path)]) == 0
    path = capsys.readouterr().out.strip().splitlines()[-1]
    html = Path(path).read_text()
    assert path.endswith("index.html")
    assert "data:image/svg+xml;base64," in html
    assert "t &lt;b&gt;" in html
    assert "The paper&#x27;s claims: 1 holds; our own: 1 not measured" in html
    outside_scripts = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", outside_scripts)
    table = (tmp_path / "results.md").read_text()
    assert "| `item.x` t &lt;b> | > 0 | 4.0 ± 2.5, holds |" in table
    assert "scale quick, seeds 0, 1, 2" in table


def test_a_claim_or_a_drawing_that_raises_is_told_in_one_sentence(with_toys, tmp_path, capsys):
    arguments = ["reproduce", "toy", "--out", str(tmp_path), "--workers", "1"]
    with_toys(replace(TOY, draw=lambda rows: rows.nothing_of_that_name))
    assert cli.main(arguments) == 0
    assert "toy/item: no figure could be drawn: AttributeError" in capsys.readouterr().err
    with_toys(
        replace(TOY, claims=(replace(CLAIMS[0], value=lambda rows: rows.of("v").per_seed("value")[:1]),))
    )
    assert cli.main(arguments) == 2
    told = capsys.readouterr().err
    assert "The claim item.x of toy/item cannot be judged: ValueError: x has 1 values for 3 seeds." in told
    assert "Traceback" not in told


def test_a_unit_that_fails_is_told_and_nothing_else_is_lost(with_toys, tmp_path, capsys):
    def broken(*_args):
        raise RuntimeError("out of luck")

    with_toys(TOY, replace(TOY, id="toy/broken", measure=broken))
    assert cli.main(["reproduce", "toy", "--out", str(tmp_path), "--workers", "1"]) == 2
    captured = capsys.readouterr()
    assert "toy/broken: 3 units failed, so it is not judged: RuntimeError: out of luck" in captured.err
    assert (tmp_path / "toy/item/claims.json").exists()
    assert not (tmp_path / "toy/broken/claims.json").exists()


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


def test_an_interrupt_says_how_to_go_on(with_toys, tmp_path, capsys):
    def stop(*_args):
        raise KeyboardInterrupt

    with_toys(replace(TOY, measure=stop))
    assert cli.main(["reproduce", "toy", "--out", str(tmp_path), "--workers", "1"]) == 130
    assert "same command" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["list", "show", "claims", "reproduce", "radius", "kkt", "sweep", "rows", "phase", "audit", "report"],
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
    wanted = "index label predicted target certified attacked method stopped_because"
    assert list(rows[0]) == wanted.split()
    assert all(0 < float(r["certified"]) <= float(r["attacked"]) for r in rows)
    with np.load(out / "witnesses.npz") as witnesses, np.load(own_files / "data.npz") as data:
        lengths = np.linalg.norm(witnesses["delta"], axis=1)
        assert lengths == pytest.approx([float(r["attacked"]) for r in rows])
        flipped = torch.as_tensor(data["x"] + witnesses["delta"])
        with torch.no_grad():
            assert bool((torch.as_tensor(data["y"]) * load_net(own_files / "net.npz")(flipped) <= 0).all())
    assert (out / "curve.png").exists()


def test_radius_at_one_radius_says_what_python_says_and_its_proofs_hold(own_files, capsys):
    out, files = own_files / "radii", [str(own_files / "net.npz"), str(own_files / "data.npz")]
    assert cli.main(["radius", *files, "--eps", "0.3", "--out", str(out)]) == 0
    with np.load(own_files / "data.npz") as data:
        bracket = robust_radius(load_net(own_files / "net.npz"), data["x"], data["y"], eps=0.3)
    holds, flipped = bracket.certified >= 0.3, bracket.attacked <= 0.3
    assert bool(holds.any())
    assert bool(flipped.any())
    assert (
        f"{int(holds.sum())} of 5 points hold at 0.3 (proven), {int(flipped.sum())} do not"
        in capsys.readouterr().out
    )
    with (out / "brackets.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(r["certified"]) for r in rows] == pytest.approx(bracket.certified.tolist())
    assert [float(r["attacked"]) for r in rows] == pytest.approx(bracket.attacked.tolist())
    assert cli.main(["check", str(out / "proofs.npz"), *files]) == 0


@pytest.mark.parametrize("eps", ["0", "-1", "inf", "nan", "far"])
def test_a_radius_in_question_is_positive_and_finite(eps, own_files, capsys):
    arguments = ["radius", str(own_files / "net.npz"), str(own_files / "data.npz"), f"--eps={eps}"]
    try:
        code = cli.main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert re.search("eps must be positive and finite|--eps: invalid float", capsys.readouterr().err)


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
        (lambda f: np.savez(f / "data.npz", x=np.ones((2, 4)), y=np.full(2, 7)), "Unknown labels 7"),
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


def test_kkt_forgets_a_point_and_writes_other_data(separated_files, capsys):
    folder, _, _ = separated_files
    arguments = ["kkt", str(folder / "net.npz"), str(folder / "data.npz")]
    assert cli.main([*arguments, "--forget", "3", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["forgotten"] == 3
    assert {"epsilon_before", "epsilon_after", "delta_before", "delta_after"} <= facts.keys()
    assert cli.main([*arguments, "--forget", "3"]) == 0
    assert "one ascent step" in capsys.readouterr().out
    assert cli.main([*arguments, "--forget", "16"]) == 2
    assert "numbered from 0 to 15" in capsys.readouterr().err
    assert cli.main([*arguments, "--witness", str(folder / "other.npz"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["witness_stationarity"] < 1e-8
    assert cli.main(["kkt", arguments[1], str(folder / "other.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == facts["witness_points"] > 16


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


def test_slow_items_are_left_out_unless_named(with_toys, capsys, tmp_path):
    with_toys(replace(TOY, id="toy/slow", slow=True), replace(TOY, id="toy/short"))
    for number, (named, expected) in enumerate(
        [
            (["toy"], ["toy/short"]),
            (["all"], ["toy/short"]),
            (["toy", "--slow"], ["toy/slow", "toy/short"]),
            (["toy/slow"], ["toy/slow"]),
        ]
    ):
        out = tmp_path / str(number)
        assert cli.main(["reproduce", *named, "--out", str(out), "--workers", "1", "--json"]) == 0
        captured = capsys.readouterr()
        assert [item["id"] for item in json.loads(captured.out)["items"]] == expected
        assert ("Left out" in captured.err) == (expected == ["toy/short"])


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


@pytest.mark.usefixtures("with_toys")
def test_settings_are_set_on_the_command_line(tmp_path, capsys):
    arguments = ["reproduce", "toy/item", "--out", str(tmp_path), "--workers", "1", "--json"]
    assert cli.main([*arguments, "--set", "dim=40"]) == 0
    assert json.loads(capsys.readouterr().out)["claims"][0]["values"] == [40.0, 41.0, 42.0]
    for bad, words in (
        ("dmi=4", "Did you mean 'dim'"),
        ("dim=x", "must be a whole number"),
        ("dim", "FIELD=VALUE"),
    ):
        assert cli.main([*arguments, "--set", bad]) == 2
        assert words in capsys.readouterr().err


def test_a_paper_prints_its_headline_claims_and_counts_the_others(with_toys, tmp_path, capsys):
    with_toys(replace(TOY, claims=(replace(CLAIMS[0], headline=True), CLAIMS[1])))
    arguments = ["reproduce", "toy", "--out", str(tmp_path), "--workers", "1"]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "✓ item.x  4.0 ± 2.5  > 0" in text
    assert "item.y" not in text
    assert "1 more: 1 not measured (--all shows them)" in text
    assert cli.main([*arguments, "--all"]) == 0
    assert "- item.y" in capsys.readouterr().out


@pytest.mark.usefixtures("with_toys")
def test_fresh_seeds_are_chosen_published_and_not_run_again(tmp_path, capsys):
    runs, folder = tmp_path / "runs", tmp_path / "results"
    arguments = ["reproduce", "toy", "--out", str(runs), "--workers", "1", "--fresh", str(folder)]
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seeds"] == [2000, 2001, 2002, 2003, 2004]
    assert cli.main(["report", str(runs), "--publish", str(folder)]) == 0
    assert cli.main(arguments) == 0
    captured = capsys.readouterr()
    assert "Left out, as they are published as they are: toy/item." in captured.err
    assert "Nothing was run." in captured.out


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("Sizes do not match\nat tensor.cpp:12"), "RuntimeError: Sizes do not match."),
        (MemoryError(), "MemoryError: there is not enough memory."),
        (
            RecursionError("maximum recursion depth exceeded"),
            "RecursionError: maximum recursion depth exceeded.",
        ),
        (KeyError("name"), "KeyError: 'name'."),
    ],
)
def test_errors_of_libraries_are_one_sentence(error, said, capsys, monkeypatch):
    def fails(_args):
        raise error

    monkeypatch.setattr("featureprism.commands.listing.list_claims", fails)
    assert cli.main(["claims"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert said in printed.err
    monkeypatch.setenv("FEATUREPRISM_DEBUG", "1")
    with pytest.raises(type(error)):
        cli.main(["claims"])

"""Experiments, unit by unit: whatever is measured is kept at once, and an experiment is judged as soon as its last unit is there."""

import json
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from featureprism import __version__
from featureprism._environment import environment, versions
from featureprism._files import as_json, content_hash, prepare_folder, strict, write_whole
from featureprism.lab.context import Context
from featureprism.lab.engine import Remark, Step, UnitEnded, last, unit_events
from featureprism.lab.executors import Executor
from featureprism.lab.experiment import Experiment, fields_of
from featureprism.lab.looks import Looks
from featureprism.lab.rows import Row, Rows
from featureprism.lab.sources import paper_hash, paper_packages, value_hash
from featureprism.lab.store import Store
from featureprism.lab.unit import Unit, units_of
from featureprism.lab.verdict import Outcome, Verdict
from featureprism.lab.work import DONE


@dataclass(frozen=True)
class Result:
    """What a finished experiment left in its folder.

    Attributes
    ----------
    experiment : Experiment
        What was run.
    scale : str
        At which scale.
    seeds : tuple of int
        On which seeds.
    rows : Rows
        What was measured.
    verdicts : list of Verdict
        What became of the claims.
    seconds : float
        Processor time.
    folder : path
        Where it is kept.
    """

    experiment: Experiment
    scale: str
    seeds: tuple[int, ...]
    rows: Rows
    verdicts: list[Verdict]
    seconds: float
    folder: Path


@dataclass(frozen=True)
class Failure:
    """A unit that could not be measured, and why."""

    unit: Unit
    message: str


@dataclass(frozen=True)
class ItemJudged:
    """An experiment is complete, and its folder is written."""

    result: Result


@dataclass(frozen=True)
class Reproduction:
    """What to reproduce.

    Parameters
    ----------
    experiments : sequence of Experiment
        Items of papers.
    scale : str
        "quick", "standard" or "paper".
    seeds : sequence of int, or mapping
        The seeds of every experiment, or those of each by its id.
    changes : mapping
        Other values for fields of the settings.
    looks : Looks, optional
        Take more seeds while a claim is undecided, at these looks; `seeds` then gives the first seed alone.
    """

    experiments: Sequence[Experiment]
    scale: str
    seeds: Sequence[int] | Mapping[str, Sequence[int]]
    changes: Mapping[str, Any]
    looks: Looks | None = None

    def seeds_of(self, experiment: Experiment) -> tuple[int, ...]:
        """The seeds of one experiment."""
        seeds = self.seeds[experiment.id] if isinstance(self.seeds, Mapping) else self.seeds
        return tuple(seeds)


def reproduce(
    experiments: Sequence[Experiment],
    scale: str,
    seeds: Sequence[int] | Mapping[str, Sequence[int]],
    out: Path,
    executor: Executor,
    *,
    context: Context = Context(),
    set: Mapping[str, Any] | None = None,
    looks: Looks | None = None,
) -> tuple[list[Result], list[Failure]]:
    """Measure what is missing and judge.

    Parameters
    ----------
    experiments : sequence of Experiment
        Items of papers, as `experiments_called("gmm-flow")` gives them.
    scale : {"quick", "standard", "paper"}
        Which of their settings.
    seeds : sequence of int, or mapping
        The seeds of every experiment, or those of each by its id.
    out : Path
        Leaves out/ID/{rows.jsonl, claims.json, run.json} and one store of units.
    executor : Executor
        `Serial()`, `Local(workers)` or `Cluster()`.
    context : Context
        Folders, device, progress.
    set : mapping, optional
        Other values for fields of the settings: `set={"dim": 200}`.
    looks : Looks, optional
        Take more seeds while a claim is undecided.

    Returns
    -------
    results : list of Result
        Every experiment that is complete. One of which a unit failed is not judged; the same call tries it again.
    failures : list of Failure
        Units that could not be measured.
    """
    request = Reproduction(experiments, scale, seeds, set or {}, looks)
    return last(reproduction_events(request, out, executor, context=context))


def reproduction_events(
    request: Reproduction, out: Path, executor: Executor, *, context: Context = Context()
) -> Generator[Step | UnitEnded | Remark | ItemJudged, None, tuple[list[Result], list[Failure]]]:
    """The same as a stream of events, which returns results and failures at its end."""
    prepare_folder(out)
    experiments = [e.with_settings(request.scale, request.changes) for e in request.experiments]
    results: dict[str, Result] = {}
    failures: list[Failure] = []
    numbers = request.looks.seeds if request.looks else (None,)
    with Store(out, write=True) as store:
        due = experiments
        for number in numbers:
            plans = [_Plan(e, request, number, context) for e in due]
            ended = yield from _round(plans, store, out, executor, context)
            failures += ended
            results |= {plan.experiment.id: plan.result for plan in plans if plan.result is not None}
            due = [plan.experiment for plan in plans if plan.result is not None and not plan.is_final]
    return [results[e.id] for e in experiments if e.id in results], failures


class _Plan:
    """The units of one experiment in one round, and its result when all of them are there."""

    def __init__(
        self, experiment: Experiment, request: Reproduction, number: int | None, context: Context
    ) -> None:
        first = request.seeds_of(experiment)
        self.seeds = first if number is None else tuple(range(first[0], first[0] + number))
        self.experiment, self.request = experiment, request
        self.units = units_of(experiment, request.scale, self.seeds, context)
        self.missing = {unit.key for unit in self.units}
        self.result: Result | None = None
        self.is_final = True

    def judge(self, store: Store, out: Path) -> Iterator[ItemJudged]:
        """Judge the experiment, write its folder, and see whether another look is due."""
        rows, (seconds, _) = Rows.gather(store.rows_of(self.units)), store.cost_of(self.units)
        looks = self.request.looks
        verdicts = self.experiment.judge(rows, looks)
        if looks is not None:
            reason = _reason_to_stop(verdicts, looks, len(self.seeds), seconds)
            self.is_final = reason != ""
            verdicts = [_with_reason(v, reason) for v in verdicts]
        scale, folder = self.request.scale, out / self.experiment.id
        self.result = Result(self.experiment, scale, self.seeds, rows, verdicts, seconds, folder)
        _write(self.result, store, self.units, self.request.changes)
        if self.is_final:
            yield ItemJudged(self.result)


def _round(
    plans: Sequence[_Plan], store: Store, out: Path, executor: Executor, context: Context
) -> Generator[Step | UnitEnded | Remark | ItemJudged, None, list[Failure]]:
    """Run what is missing of all plans; each is judged as soon as its last unit is there."""
    by_name = {plan.experiment.id: plan for plan in plans}
    failures: list[Failure] = []
    for plan in plans:
        statuses = store.statuses(plan.units)
        plan.missing -= {key for key, status in statuses.items() if status == DONE}
        if not plan.missing:
            yield from plan.judge(store, out)
    units = [unit for plan in plans for unit in plan.units]
    for event in unit_events(store, units, executor, context=context):
        yield event
        if not isinstance(event, UnitEnded):
            continue
        if event.ending.status != DONE:
            failures.append(Failure(event.unit, event.ending.message or event.ending.status))
            continue
        plan = by_name[event.unit.name]
        plan.missing.discard(event.unit.key)
        if not plan.missing:
            yield from plan.judge(store, out)
    return failures


def _reason_to_stop(verdicts: Sequence[Verdict], looks: Looks, num: int, seconds: float) -> str:
    """Why no more seeds are run; empty when the next look is due."""
    undecided = [v for v in verdicts if v.outcome == Outcome.UNDECIDED]
    more = looks.next(num)
    if not undecided:
        return "every claim is decided"
    if all(v.reason for v in undecided):
        return undecided[0].reason
    if more is None or all(
        v.seeds_to_decide is None or v.seeds_to_decide > looks.seeds[-1] for v in undecided
    ):
        return f"the plan ends at {looks.seeds[-1]} seeds"
    cost = (more - num) * seconds / num
    if cost > looks.seconds:
        return f"{more - num} more seeds would take {cost:.0f} s of processor time, more than {looks.seconds:.0f} s"
    return ""


def _with_reason(verdict: Verdict, reason: str) -> Verdict:
    is_open = verdict.outcome == Outcome.UNDECIDED and not verdict.reason
    return replace(verdict, reason=reason) if is_open else verdict


def _write(result: Result, store: Store, units: Sequence[Unit], changes: Mapping[str, Any]) -> None:
    """rows.jsonl, run.json and claims.json of an experiment."""
    experiment, rows = result.experiment, result.rows
    prepare_folder(result.folder)
    about = {
        "id": experiment.id,
        "source": experiment.source,
        "title": experiment.title,
        "about": experiment.about,
        "scale": result.scale,
        "seeds": list(result.seeds),
        "settings": [fields_of(setting) for setting in experiment.settings(result.scale)],
        "set": dict(changes),
        "seconds": result.seconds,
        "memory_mb": store.cost_of(units)[1],
        "code": units[0].code,
        "hashes": hashes(experiment, result.scale),
        "premises": premises(rows),
        "attack": attack_facts(rows),
        **provenance(),
    }
    claims = strict([v.as_row() for v in result.verdicts])
    write_whole(result.folder / "rows.jsonl", "".join(as_json(row) + "\n" for row in rows))
    write_whole(result.folder / "run.json", as_json(with_checksum(strict(about), claims), indent=1))
    write_whole(result.folder / "claims.json", as_json(claims, indent=1))


def with_checksum(about: Row, claims: list[Row]) -> Row:
    """What run.json holds: a checksum over it and the claims tells the report that neither is damaged."""
    plain = json.loads(json.dumps({name: value for name, value in about.items() if name != "checksum"}))
    return {**about, "checksum": content_hash([plain, claims])[:16]}


def hashes(experiment: Experiment, scale: str) -> Row:
    """What a verdict depends on besides the seeds: settings and sources of the measure, and for each claim value, aggregate and bound.

    The words of a claim do not count: a verdict survives rewording. Nor do the bodies of library functions (see `lab.sources`).
    """
    packages = paper_packages(experiment.measure)
    settings = [fields_of(setting) for setting in experiment.settings(scale)]
    claims = {
        experiment.claim_id(claim): content_hash(
            [
                value_hash(claim.value, packages),
                value_hash(claim.ceiling, packages) if claim.ceiling else "",
                claim.aggregate,
                claim.bound.relation,
                claim.bound.value,
            ]
        )[:16]
        for claim in experiment.claims
    }
    return {"measure": content_hash([settings, paper_hash(experiment.measure)])[:16], "claims": claims}


def premises(rows: Rows) -> list[Row]:
    """Each premise once: in how many runs it holds, and the run that has the least slack."""
    table = []
    for id, part in rows.of("premise").groups("id").items():
        tightest = min(part, key=lambda row: row["slack"] if row["slack"] is not None else float("inf"))
        fields = ("name", "measured", "relation", "required", "slack", "source")
        holding = sum(row["holds"] is True for row in part)
        table.append(
            {"id": id, **{key: tightest[key] for key in fields}, "holding": holding, "runs": len(part)}
        )
    return table


def attack_facts(rows: Rows) -> Row | None:
    """What stands beside attacked radii: whether every self-test passed, and the largest shares; None where nothing was attacked."""
    attacked = rows.where(lambda row: row.get("self_test_passed") is not None)
    if not len(attacked):
        return None
    shares = {
        name: max((v for v in attacked.column(name).tolist() if v == v), default=0.0)
        for name in ("zero_gradient_share", "blind_share")
    }
    return {"passed": all(row["self_test_passed"] for row in attacked), **shares}


def provenance() -> Row:
    """The code and the versions that results come from."""
    return {
        "featureprism": __version__,
        "commit": _commit(),
        "versions": versions(),
        "environment": environment(),
    }


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of the source tree this runs from, marked when files differ from it; None for an installed package."""
    folder = Path(__file__).parent
    commands = (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", str(folder.parent)])
    try:
        head, status = (
            subprocess.run(
                ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True, timeout=20
            ).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head + (" with changes" if status else "")

"""Published clusters, runs and fleets, each planned from its own inputs and set beside what was published of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from ..catalogue import ROLES, Fact, Sourced, find, read_records, stored
from ..failures import Estimate
from ..own import model_of
from ..quantities import Count
from ..records import Json, Rows, Value, words
from .choice import Plan, plan
from .fleet import FLEET_METRICS, Fleet, serve
from .result import PublishedComparison
from .scenario import READERS, Scenario, Serving, Site, Training, from_inputs, quantity, read_value, refuse_inputs
from .training import METRICS


@dataclass(frozen=True, repr=False)
class Preset(Sourced):
    """A published cluster or run: what is put into a plan, and what was published of it."""

    inputs: Mapping[str, Value]
    published: Mapping[str, float]

    def __post_init__(self) -> None:
        """Refuse inputs and results that no plan has."""
        refuse_inputs(self.inputs)
        known = FLEET_METRICS if "rate" in self.inputs else METRICS
        if unknown := sorted(set(self.published) - set(known)):
            raise ValueError(f"unknown result {unknown[0]!r}; known: {', '.join(known)}")
        if wordless := [name for name in self.published if not self.facts[f"published_{name}"].role]:
            raise ValueError(f"published_{wordless[0]} must say its role: {', '.join(ROLES)}")

    def _rows(self) -> Rows:
        rows = [(words(key), str(f.printed), f.kind, f.source.date, f.source.title) for key, f in self.facts.items()]
        return [(self.name, "value", "kind", "date", "source"), *rows]


def preset(
    name: str,
    *,
    scenario: Scenario | None = None,
    draws: Count = 1000,
    seed: int = 0,
    progress: Callable[[float, str], None] | None = None,
) -> Plan | Fleet:
    """Plan a published cluster, run or fleet, and set each result beside what was published of it.

    Parameters
    ----------
    name
        A key of ``PRESETS``.
    scenario, draws, seed, progress
        As in :func:`plan`.

    Returns
    -------
    Plan or Fleet
        With ``published``.

    Examples
    --------
    >>> {check.name: f"{check.error:+.0%}" for check in preset("SuperPOD, 256", draws=10).published}["leaf_switches"]
    '+0%'
    """
    one = find("preset", name, PRESETS)
    asked, site = from_inputs(one.inputs)
    made: Plan | Fleet
    if isinstance(asked, Serving):
        made = serve(asked, site, scenario=scenario, draws=draws, seed=seed, progress=progress)
    else:
        made = plan(asked, site, scenario=scenario, draws=draws, seed=seed, progress=progress)
    return replace(made, published=checks(made, one))


def run_of(model: str, site: Site, *, tokens: float | None = None) -> tuple[Training, Site]:
    """What a model is trained on, and where: as its run was published, where it was.

    Whoever asks for a published run asks here, so that it is one run on every page: its tokens, sequence, batch and
    precision; and where the site is the run's too, its layout, network, memory and storage.

    Parameters
    ----------
    model
        A name of the catalogue.
    site
        With an accelerator and ``gpus``.
    tokens : optional
        Of a model of which no preset has a run; its batch is then the default of :class:`Training`.

    Raises
    ------
    ValueError
        No preset has a run of the model, and ``tokens`` are not given.

    Examples
    --------
    >>> run, site = run_of("Llama 3.1 405B", Site("H100 SXM", gpus=16384))
    >>> run.global_batch, site.layout["pp"]
    (2048.0, 16.0)
    >>> run_of("Llama 3.1 405B", Site("GB200", gpus=8192))[0] == run
    True
    """
    for one in PRESETS.values():
        if one.inputs["model"] == model and "gpu_hours" in one.published:
            training, there = from_inputs(one.inputs)
            if isinstance(training, Training):
                same = (there.accelerator, there.gpus) == (site.accelerator, site.gpus)
                return training, there if same else site
    if tokens is None:
        raise ValueError(f"tokens must be given: no preset has a run of {model}")
    return Training(model_of(model), tokens), site


def checks(made: Plan | Fleet, against: Preset) -> tuple[PublishedComparison, ...]:
    """Each published number beside the plan's own, with its interval."""
    found = []
    for name, published in against.published.items():
        unit, planned = made.results[name]
        value = published / 1000 if unit == "t" else published
        one = made.intervals.get(name, Estimate(planned, planned, planned, unit))
        fact = against.facts[f"published_{name}"]
        found.append(PublishedComparison(name, unit, planned, float(one.low), float(one.high), value, fact))
    return tuple(found)


# --- The data --------------------------------------------------------------------------------------------------------


def _read_preset(name: str, facts: Mapping[str, Fact], _row: Mapping) -> Preset:
    inputs, said = {}, {}
    for key, fact in facts.items():
        if key.startswith("published_"):
            said[key.removeprefix("published_")] = quantity(fact.printed)
        else:
            inputs[key] = read_value(key, fact.printed)
    kept = MappingProxyType(dict(facts))
    return Preset(name, kept, inputs=MappingProxyType(inputs), published=MappingProxyType(said))


def load(document: Mapping) -> dict[str, dict[str, Sourced]]:
    """Build every record of a parsed ``planner.toml``, refusing whatever rests on nothing.

    Parameters
    ----------
    document
        Tables ``sources``, ``assumption``, ``switch``, ``price`` and ``preset``, in the form of
        :func:`clusterlab.catalogue.read_records`.

    Returns
    -------
    dict
        ``{"assumption": {name: Assumption}, "switch": {name: Switch}, ...}``
    """
    return read_records(document, "planner", {**READERS, "preset": _read_preset})


@cache
def _document() -> dict[str, dict[str, Json]]:
    return tomllib.loads(stored("planner.toml"))


class _Presets(Mapping[str, Preset]):
    """The published clusters, built when the first of them is asked for."""

    @staticmethod
    @cache
    def _records() -> dict[str, Preset]:
        rows = {name: _document()[name] for name in ("sources", "preset")}
        return read_records(rows, "planner", {"preset": _read_preset})["preset"]

    def __getitem__(self, name: str) -> Preset:
        return self._records()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_document()["preset"])

    def __len__(self) -> int:
        return len(_document()["preset"])


PRESETS: Mapping[str, Preset] = _Presets()

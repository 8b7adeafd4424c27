"""Online runs: serving at a concurrency, read from a table as what the laws of serving take.

Each row says how many requests are there at any time, and what a mean one waited for its first token and from token to
token. A replica serves them, or pools of replicas that read prompts and decode apart. A row that cannot be predicted is
named, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from ..catalogue import ServingSoftware
from ..checks import Numeric
from ..model import PRECISIONS, Layout, Transformer
from ..serving import MEASURES, Drafts, Formats, Online, Pools, Replica, Requests, closed_loop, saturation, split_loop
from .inference_runs import FORM as OFFLINE
from .inference_runs import framework, machine_of, plain_name
from .naming import model_named
from .rows import Form, Row, Skipped, SkipRow, read_rows, skipped_in_order
from .text import TextFile, name_of, read_text

_POOLS = ("prefill", "decode")
_OF_POOL = ("num_workers", "batch_size", "tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
_LAUNCHED = ("poll_interval", "balance_passes")  # what software is told when it starts
_LATENCIES = ("ttft_ms", "tpot_ms")

FORM = Form(
    text=("row_id", "group", "model", "gpu", "software", "precision", "moe_precision", "mode", "lengths", "note"),
    notes=("measured", "launch", "source"),
    counts=(
        *("n_gpus", "tp", "pp", "attention_dp", "moe_tp", "moe_ep", "isl", "osl", "concurrency", "repeats"),
        *("poll_interval", "balance_passes", "drafts"),
        *(f"{pool}_{name}" for pool in _POOLS for name in _OF_POOL),
    ),
    measures=(*_LATENCIES, "output_tok_s_total"),
    others=("cache_bytes",),
    aliases={
        **dict.fromkeys(("gpus", "num_gpus", "world_size"), "n_gpus"),
        "dtype": "precision",
        "quantization": "precision",
        "max_concurrency": "concurrency",
        "engine": "software",
        "tp_size": "tp",
        "pp_size": "pp",
        "accelerator": "gpu",
        "model_id": "model",
        "input_len": "isl",
        "output_throughput": "output_tok_s_total",
        "mean_ttft_ms": "ttft_ms",
        "mean_tpot_ms": "tpot_ms",
        "output_len": "osl",
        "users": "concurrency",
    },
    hints={"framework": "software", "dp": "attention_dp", "ep": "moe_ep"},
    required=("model", "gpu", "isl", "osl", "concurrency"),
)
_OFFLINE_ALONE = set(OFFLINE.columns) - set(FORM.columns) - set(FORM.aliases) - set(FORM.hints)


@dataclass(frozen=True, eq=False)
class OnlineRun:
    """One row: what serves, what is asked, and what was measured, by the names of :data:`MEASURES`, in seconds."""

    row: str
    source: str
    model: str  # as written
    serves: Replica | Pools
    requests: Requests
    alike: bool  # whether all have these lengths
    users: float
    drafted: float  # tokens a pass that are drafted to be verified
    measured: Mapping[str, float | None]
    filled: Mapping[str, str]
    repeats: str = ""  # the row before it that lists the same measurement, under another name of model or software

    @property
    def pools(self) -> bool:
        """Whether prompts are read and answers written apart."""
        return isinstance(self.serves, Pools)

    @property
    def decoding(self) -> Replica:
        """The replica that writes answers."""
        return self.serves.decode if isinstance(self.serves, Pools) else self.serves

    @property
    def software(self) -> ServingSoftware:
        """What it runs."""
        return self.decoding.software


def is_online(heading: Iterable[str]) -> bool:
    """Whether a table with these columns is one of serving at a concurrency.

    Examples
    --------
    >>> is_online(["model", "gpu", "isl", "osl", "concurrency", "ttft_ms"]), is_online(["model", "gpu", "concurrency"])
    (True, False)

    Columns by another name are read as what they mean, so that the reader of tables can say the right one:

    >>> is_online(["model", "gpu", "framework", "isl", "osl", "users", "tpot_ms"])
    True
    """
    names = {FORM.aliases.get(name, name) for name in (cell.strip().casefold() for cell in heading)}
    return "concurrency" in names and bool(names & set(_LATENCIES)) and not names & _OFFLINE_ALONE


@cache
def published_online() -> tuple[tuple[OnlineRun, ...], tuple[Skipped, ...]]:
    """Return the runs that come with the library, and the rows that cannot be predicted.

    Examples
    --------
    >>> runs, skipped = published_online()
    >>> len(runs) + len(skipped)
    2223
    """
    runs, skipped = read_online(files("clusterlab.evidence") / "data" / "serving_online.csv")
    return tuple(runs), tuple(skipped)


def read_online(path: TextFile) -> tuple[list[OnlineRun], list[Skipped]]:
    """Read a table of serving at a concurrency, as :func:`read_inference` reads one of maxima: the same refusals.

    What a row leaves open is filled in by the same rules for all, and ``OnlineRun.filled`` says what: software is
    ``usual``, ranks left open are tensor-parallel, precision is 16 bits, and where products have 8 or 4 caches have 8,
    as four in five published runs whose scripts say so, unless ``cache_bytes`` says otherwise. ``drafts`` are tokens
    that are drafted for each pass, ``poll_interval`` and ``balance_passes`` what the software was told when it started.
    ``lengths`` may say "uniform 0.8 to 1.0 of isl, osl", whose means are taken, since a spread of 6 % changes nothing.
    A mode of ``disaggregated`` takes the columns of both pools.
    """
    return parse_online(read_text(path), name_of(path))


def parse_online(text: str, name: str) -> tuple[list[OnlineRun], list[Skipped]]:
    r"""Read the text of a table, as :func:`read_online`; ``name`` stands in messages.

    Examples
    --------
    >>> table = "model,gpu,tp,precision,isl,osl,concurrency,tpot_ms\nLlama 3.1 8B,H100,1,fp8,1000,1000,8,5.2"
    >>> (run,), _ = parse_online(table, "mine.csv")
    >>> run.measured["time_per_token"], dict(run.filled)
    (0.0052, {'software': 'usual', 'caches': '8 bits'})
    """
    runs, refused = read_rows(text, name, FORM, _run)
    return _with_repeats(runs), skipped_in_order(refused)


def _with_repeats(runs: Sequence[OnlineRun]) -> list[OnlineRun]:
    """The runs, each with the first that says as much: to the last digit of both latencies, of the same replica."""
    first: dict[tuple, str] = {}
    found = []
    for run in runs:
        one = run.decoding
        where = one.model.name, one.machine.name, one.software.name, float(run.serves.gpus), run.users
        latencies = tuple(run.measured[name] for name in MEASURES if name != "tokens_per_second")
        key = (*where, run.requests.prompt, run.requests.output, *latencies)
        if all(latencies) and (row := first.setdefault(key, run.row)) != run.row:
            run = replace(run, repeats=row, filled={**run.filled, "counted": f"with {row}"})
        found.append(run)
    return found


def measured_once(runs: Iterable[OnlineRun]) -> tuple[OnlineRun, ...]:
    """Return the runs without those that list another's measurement again: what errors and fits count.

    Examples
    --------
    DeepSeek-V3 and R1 have one shape, and 178 runs are listed under both names:

    >>> runs, _ = published_online()
    >>> len(runs), len(measured_once(runs))
    (2223, 2030)
    """
    return tuple(run for run in runs if not run.repeats)


def _run(row: Row) -> OnlineRun:
    """A row as a run: what it names, and what was measured."""
    for name in FORM.required:
        if not row.text[name]:
            raise SkipRow(f"no {name}")
    if all(row[name] is None for name in FORM.measures):
        raise SkipRow(f"nothing measured: one of {', '.join(FORM.measures)}")
    model, note = model_named(plain_name(row.text["model"]), (), None, None, 1)
    if note:
        row.filled["model"] = note
    requests, users = _requests(row), row["concurrency"] or 1.0
    mode = row.text["mode"].casefold()
    if mode not in ("", "aggregated", "disaggregated"):
        raise SkipRow(f"mode must be aggregated or disaggregated, got {row.text['mode']!r}")
    if mode == "disaggregated":
        prefill, decode = (_replica(row, model, _pool_layout(row, model, pool)) for pool in _POOLS)
        counts = [row[f"{pool}_num_workers"] or 1.0 for pool in _POOLS]
        serves: Replica | Pools = Pools(prefill, decode, counts[0], counts[1])
    else:
        serves = _replica(row, model, _layout(row, model))
        if saturation(serves, requests) < 1:
            raise SkipRow("not one sequence fits into the memory")
    return OnlineRun(
        row=row.name,
        source=row.source,
        model=row.text["model"],
        serves=serves,
        requests=requests,
        alike=not row.text["lengths"].startswith("uniform"),
        users=users,
        drafted=row["drafts"] or 0.0,
        measured=_measured(row, requests, users),
        filled=row.filled,
    )


def _requests(row: Row) -> Requests:
    """What is asked, by both lengths of the row and how they are drawn."""
    lengths, share = row.text["lengths"].casefold(), 1.0
    if lengths.startswith("uniform 0.8 to 1.0"):
        share = 0.9
    elif lengths not in ("", "as isl, osl"):
        raise SkipRow(f"lengths must be 'as isl, osl' or 'uniform 0.8 to 1.0 of isl, osl', got {row.text['lengths']!r}")
    return Requests(share * (row["isl"] or 1.0), max(share * (row["osl"] or 1.0), 2.0))


def _measured(row: Row, requests: Requests, users: float) -> dict[str, float | None]:
    """What was measured, in SI units; a throughput that is not stated is what both times say, by Little's law."""
    first, token = (None if row[name] is None else row[name] / 1e3 for name in _LATENCIES)  # type: ignore[operator]
    rate = row["output_tok_s_total"]
    if rate is None and first is not None and token is not None:
        rate = float(users * requests.output / (first + (requests.output - 1) * token))
    return dict(zip(MEASURES, (first, token, rate), strict=True))


def _replica(row: Row, model: Transformer, layout: Layout) -> Replica:
    chip, software = machine_of(row.text["gpu"]), framework(row)
    launched = {name: row[name] for name in _LAUNCHED if row[name]}
    if launched:
        software = replace(software, **launched)  # type: ignore[arg-type]  # of floats alone
    written = (row.text["moe_precision"] if model.experts else "") or row.text["precision"] or "bf16"
    compute = next((name for name in ("fp4", "fp8", "fp16", "bf16") if name in written.casefold()), "")
    if not compute or re.search(r"disabled|without|\bno\b|\boff\b", written.casefold()):
        raise SkipRow(f"precision must be fp4, fp8, fp16 or bf16, got {written!r}")
    wider = ["fp4", "fp8", "bf16"] if compute != "fp16" else ["fp16", "bf16"]
    taken = next(name for name in wider[wider.index(compute) :] if PRECISIONS[name][0] in chip.peaks)
    if taken != compute:
        row.filled["products"] = f"{taken} (no {compute} peak of {chip.name})"
    # Weights are unpacked to what the chip multiplies. Whoever measures narrow weights mostly asks for narrow caches.
    wide = PRECISIONS[compute][1] == 2
    cache = row["cache_bytes"] or (2.0 if wide else 1.0)
    if not (wide or row["cache_bytes"]):
        row.filled["caches"] = "8 bits"
    formats = Formats(taken, PRECISIONS[compute][1], cache)
    redundant = float(-model.experts % layout.ep) if model.experts else 0.0
    return Replica(model, chip, layout, formats, False, redundant, software)


def _layout(row: Row, model: Transformer) -> Layout:
    """The layout of a replica that serves alone."""
    tp, pp, dp, gpus = row["tp"], row["pp"] or 1.0, row["attention_dp"] or 1.0, row["n_gpus"]
    if tp is None:
        tp = (gpus or 1.0) / (pp * dp)
        row.filled["tp"] = f"{tp:g} (what is left of the GPUs)"
    if gpus and gpus != tp * pp * dp:
        raise SkipRow(f"tp {tp:g}, pp {pp:g} and attention_dp {dp:g} are not {gpus:g} GPUs")
    return _with_experts(model, tp, pp, dp, row["moe_tp"], row["moe_ep"])


def _pool_layout(row: Row, model: Transformer, pool: str) -> Layout:
    """The layout of a replica of a pool."""
    if row[f"{pool}_tp_size"] is None:
        raise SkipRow(f"a disaggregated row needs {pool}_tp_size")
    tp, dp, etp, ep = (row[f"{pool}_{name}"] for name in _OF_POOL[2:])
    return _with_experts(model, tp or 1.0, 1.0, dp or 1.0, etp, ep)


def _with_experts(
    model: Transformer, tp: float, pp: float, dp: float, moe_tp: float | None, moe_ep: float | None
) -> Layout:
    if model.heads % tp:
        raise SkipRow(f"tp must divide the {model.heads} heads, got {tp:g}")
    if not model.experts:
        return Layout(tp=tp, pp=pp, dp=dp)
    ep = moe_ep or (tp * dp / moe_tp if moe_tp else 1.0)
    return Layout(tp=tp, pp=pp, dp=dp, ep=ep, etp=moe_tp or tp * dp / ep)


# --- Predictions -----------------------------------------------------------------------------------------------------


class OnlineBatch(NamedTuple):
    """Runs whose replicas differ in layout alone, side by side; ``where`` are their places among all runs."""

    where: np.ndarray
    serves: Replica | Pools
    requests: Requests
    users: np.ndarray
    alike: np.ndarray
    drafted: np.ndarray

    def under(self, constants: Mapping[str, Numeric] | None = None) -> Online:
        """Predict them, with other constants of their software if they are given."""
        if isinstance(self.serves, Pools):
            prefill, decode = (_with(pool, constants) for pool in (self.serves.prefill, self.serves.decode))
            pools, drafts = replace(self.serves, prefill=prefill, decode=decode), self._drafts(decode)
            return split_loop(pools, self.requests, users=self.users, drafts=drafts)
        replica = _with(self.serves, constants)
        drafts = self._drafts(replica)
        return closed_loop(replica, self.requests, users=self.users, alike=self.alike, drafts=drafts)

    def _drafts(self, replica: Replica) -> Drafts:
        return Drafts(self.drafted, replica.software.random_acceptance)


def _with(replica: Replica, constants: Mapping[str, Numeric] | None) -> Replica:
    if not constants:
        return replica
    return replace(replica, software=replace(replica.software, **constants))


def online_batches(runs: Sequence[OnlineRun]) -> list[OnlineBatch]:
    """Return the runs in batches, each of which is one prediction."""
    alike: dict[tuple, list[int]] = {}
    for i, run in enumerate(runs):
        one = run.decoding
        formats = one.formats.compute, one.formats.weight_bytes, one.formats.cache_bytes, one.formats.mixing
        alike.setdefault((run.pools, one.model.name, one.machine.name, formats, one.software.name), []).append(i)
    return [_side_by_side([runs[i] for i in where], np.array(where)) for where in alike.values()]


def _side_by_side(runs: Sequence[OnlineRun], where: np.ndarray) -> OnlineBatch:
    asked = Requests(*(np.array([getattr(run.requests, f.name) for run in runs]) for f in fields(Requests)))
    users, alike, first = np.array([run.users for run in runs]), np.array([run.alike for run in runs]), runs[0].serves
    drafted = np.array([run.drafted for run in runs])

    def column(replicas: Sequence[Replica]) -> Replica:
        layouts = [one.layout for one in replicas]
        axes = {name: np.array([getattr(one, name) for one in layouts]) for name in ("tp", "pp", "dp", "ep")}
        axes["etp"] = np.array([one.expert_tp for one in layouts])
        launched = {name: np.array([getattr(one.software, name) for one in replicas]) for name in _LAUNCHED}
        software = replace(replicas[0].software, **launched)  # type: ignore[arg-type]  # as arrays
        redundant = [one.redundant for one in replicas]
        return replace(replicas[0], layout=Layout(**axes), redundant=np.array(redundant), software=software)

    if isinstance(first, Replica):
        return OnlineBatch(where, column([run.decoding for run in runs]), asked, users, alike, drafted)
    pools = [run.serves for run in runs if isinstance(run.serves, Pools)]
    readers, writers = (np.array([getattr(one, f"{name}_replicas") for one in pools]) for name in _POOLS)
    both = Pools(column([one.prefill for one in pools]), column([one.decode for one in pools]), readers, writers)
    return OnlineBatch(where, both, asked, users, alike, drafted)


def predict_online(runs: Sequence[OnlineRun]) -> dict[str, np.ndarray]:
    """Predict many runs: each of :data:`MEASURES` to its values.

    Examples
    --------
    >>> runs, _ = published_online()
    >>> predicted = predict_online(runs[:3])
    >>> {name: values.shape for name, values in predicted.items()}["time_per_token"]
    (3,)
    """
    return {name: values.copy() for name, values in _predicted(tuple(runs)).items()}


@lru_cache(maxsize=4)
def _predicted(runs: tuple[OnlineRun, ...]) -> dict[str, np.ndarray]:
    found = {name: np.empty(len(runs)) for name in MEASURES}
    for batch in online_batches(runs):
        online = batch.under()
        for name, values in found.items():
            values[batch.where] = getattr(online, name)
    return found

"""Tables of training runs: published ones, or a reader's own, read as what the model of a step takes.

A row that cannot be predicted is named, with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files

from ..planning import match_stack
from .rows import Form, Row, Skipped, read_rows, skipped_in_order
from .text import TextFile, name_of, read_text
from .training_close import close_rows, one_run_each
from .training_naming import EXPERTS, SHAPE, SWITCHES
from .training_open import MEASURES, OpenRow, open_row
from .training_runs import Run

# --- Training runs ---------------------------------------------------------------------------------------------------

# Other names of columns, as stacks and their loggers have them.
_ALIASES = {
    "global_batch": "batch_size_global global_batch_size gbs global_bs train_batch_size sequences_per_step",
    "micro_batch": "micro_batch_size mbs microbatch_size micro_bs train_micro_batch_size_per_gpu",
    "seq": "seq_len seqlen seq_length sequence_length max_seq_len encoder_seq_length max_target_length",
    "n_gpus": "gpus num_gpus gpu_count world_size ngpus",
    "gpu": "accelerator gpu_type gpu_name",
    "tp": "tp_size tensor_parallel tensor_parallel_size tensor_model_parallel_size",
    "pp": "pp_size pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size",
    "dp": "dp_size data_parallel data_parallel_size",
    "cp": "cp_size context_parallel context_parallel_size",
    "ep": "ep_size expert_parallel expert_parallel_size expert_model_parallel_size",
    "tokens_per_s_per_gpu": "tokens/s/gpu tokens_per_sec_per_gpu tokens_per_second_per_gpu tgs",
    "step_time_s": "step_time_seconds step_seconds time_per_step_s s/step",
    "mfu_pct": "mfu_percent mfu(%)",
    "hfu_pct": "hfu_percent hfu(%)",
    "model_tflops_per_gpu": "tflops/s/gpu tflop/s/gpu tflops_per_gpu tflops/gpu",
    "precision": "dtype",
    "fsdp": "zero zero_stage sharding",
    "recompute": "activation_checkpointing recompute_granularity remat recomputation",
    "seq_parallel": "sequence_parallel",
    "vpp": "vp virtual_stages virtual_pipeline_parallel_size",
    "gpus_per_node": "gpus/node devices_per_node",
    "row_id": "run_id run_name",
    "model": "model_name model_id",
    "layers": "n_layers num_layers num_hidden_layers",
    "hidden": "hidden_size d_model",
    "heads": "n_heads num_heads num_attention_heads",
    "kv_heads": "num_key_value_heads num_query_groups n_kv_heads",
    "ffn": "ffn_hidden_size intermediate_size",
    "vocab": "vocab_size padded_vocab_size",
    "experts": "n_experts num_experts n_routed_experts num_local_experts",
    "experts_per_token": "num_experts_per_tok moe_router_topk topk",
    "shared_experts": "n_shared_experts",
    "expert_ffn": "moe_ffn moe_ffn_hidden_size moe_intermediate_size expert_width",
    "dense_layers": "first_k_dense first_k_dense_replace first_dense_layers",
    "software": "stack framework library",
    "tp_overlap": "tp_comm_overlap async_tp",
    "dp_overlap": "overlap_grad_reduce",
    "ep_overlap": "moe_a2a_overlap",
    "attention_kernel": "attention_backend",
    "params_b": "params_billion parameters_b",
}
# Names that may mean a column, or another thing: a batch of one rank, a rate of all GPUs, milliseconds, a share.
_HINTS = {
    "global_batch": "batch batch_size bs",
    "micro_batch": "microbatch device_batch local_batch_size",
    "seq": "sequence context context_length",
    "n_gpus": "accelerators chips devices",
    "gpu": "chip device",
    "tokens_per_s_per_gpu": "tokens/s tokens_per_s tokens_per_second tokens_per_sec tps throughput",
    "step_time_s": "step_time time time_s seconds iteration_time iter_time step_time_ms",
    "mfu_pct": "mfu",
    "hfu_pct": "hfu",
    "model_tflops_per_gpu": "tflops tflop/s",
    "params_b": "params parameters size size_b",
    "recompute": "checkpointing",
    "seq_parallel": "sp",
    "vpp": "chunks interleaving",
    "attention_kernel": "attention attn",
}


def _each(names: dict[str, str]) -> dict[str, str]:
    return {other: name for name, others in names.items() for other in others.split()}


FORM = Form(
    text=(
        *("row_id", "group", "model", "gpu", "gated", "fsdp", "recompute", "seq_parallel", "precision", "software"),
        *("attention_kernel", *SWITCHES, "dispatcher"),
    ),
    notes=("cuda_graphs", "metric_note", "derived", "source", "source_loc", "source_check", "quality", "role"),
    counts=(
        *SHAPE,
        *EXPERTS,
        *("seq", "n_gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch"),
    ),
    measures=MEASURES,
    others=("params_b", "active_params_b", "mfu_peak_tflops"),
    aliases=_each(_ALIASES),
    hints=_each(_HINTS),
)


@cache
def published_runs(*, named: bool = True) -> tuple[tuple[Run, ...], tuple[Skipped, ...]]:
    """Return the runs that come with the library, and the rows that cannot be predicted.

    Parameters
    ----------
    named
        Whether their software is read; if not, each is one of those that nobody names.

    Examples
    --------
    >>> runs, skipped = published_runs()
    >>> len({run.source for run in runs}) > 15
    True
    """
    path = files("clusterlab.evidence") / "data" / "training_throughput.csv"
    runs, skipped = parse_runs(read_text(path), name_of(path), software=None if named else "")
    return tuple(runs), tuple(skipped)


def read_runs(path: TextFile, *, software: str | None = None) -> tuple[list[Run], list[Skipped]]:
    """Read a table of runs.

    Parameters
    ----------
    path
        A CSV file with columns such as ``clusterlab validate --template`` prints, in any case: ``model``, ``gpu``,
        ``n_gpus`` and one measurement at least. ``"-"`` is standard input. An empty cell, ``N/A``, ``-`` and ``null``
        mean not published; lines that begin with ``#`` are comments. Without ``row_id`` a row is called by its line,
        without ``group`` its source is ``"runs"``.
    software : optional
        Of rows whose column ``software`` is empty.

    Returns
    -------
    tuple of list
        The runs, and the rows that cannot be predicted.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not text, is empty, or has a heading with a column that is unknown, missing or there twice.

    Notes
    -----
    What a row leaves open is filled in by rules that are the same for every row, and ``Run.filled`` says what and why.
    The era of the software follows from the year that the source names, or from NVIDIA's container, the accelerator and
    the precision. What people tune and did not publish (microbatch, interleaving since 2023, the split into tensor,
    pipeline and expert ranks) is taken as the fastest that fits in memory. Interleaving before 2023 and recomputation
    since then are off unless published; before, recomputation is full. Weights are sharded where a copy and its
    optimizer do not fit. TPU programs shard weights, recompute what does not fit, have no pipeline, and count the batch
    by the chip. Where a rate is published, so that the batch hardly matters, a missing batch is what was usual (4
    million tokens a step until 2023, 16 million since; four sequences a chip), a missing sequence too.
    """
    if software is not None:
        match_stack(software)
    return parse_runs(read_text(path), name_of(path), software=software)


def parse_runs(
    text: str, name: str, *, measured: bool = True, software: str | None = None
) -> tuple[list[Run], list[Skipped]]:
    r"""Read the text of a table, as :func:`read_runs`; ``name`` stands in messages.

    Unless they have to be ``measured``, runs without a measurement are runs too: their seconds are NaN. ``software``
    that is empty leaves every row's unnamed.

    Examples
    --------
    >>> head = "model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s"
    >>> (run,), _ = parse_runs(f"{head}\nGPT 175B,A100,64,8,8,64,2048,13.75", "mine.csv")
    >>> run.seconds
    13.75
    """

    def use(row: Row) -> list[OpenRow]:
        if software is not None and not (software and row.text["software"]):
            row.text["software"] = software
        return open_row(row)

    opened, refused = read_rows(text, name, FORM if measured else replace(FORM, measured=False), use)
    every = [one for several in opened for one in several]
    closed, more = close_rows(every)
    whys = {id(row): why for row, why in more}
    runs_of = iter(closed)
    rows = []
    for several in opened:
        found = [next(runs_of) for one in several if id(one.row) not in whys]
        if found:
            rows.append(found)
        else:
            refused.append((several[0].row, whys[id(several[0].row)]))
    return one_run_each(rows), skipped_in_order(refused)

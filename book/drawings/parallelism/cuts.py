"""Shards: one layer of two matrices on four GPUs, in nine ways, step by step forward and backward.

The layer is H = relu(X W1), Y = H W2, with B tokens, D values a token and F in between. What a GPU holds at a step is
written as in ``"X:rows W1:columns *Y+"``: an array and which of its axes is cut, ``*`` for what the step computes and
``@`` for what it receives, ``+`` for a sum whose other parts are on the other GPUs, and ``d`` for a gradient.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterlab import interconnect
from clusterlab.parallelism import model_state

GPUS = 4
PHASES = (
    "what each GPU keeps",
    "forward: before GEMM 1",
    "forward: GEMM 1",
    "forward: GEMM 2",
    "forward: after GEMM 2",
    "backward: GEMM 2",
    "backward: GEMM 1",
    "backward: exchange",
    "update",
)


class Move(NamedTuple):
    """A collective: what it exchanges, and how many bytes a value has.

    ``what`` names arrays whose whole sizes are added, as in ``"dW1 dW2"``, and ``ranks`` is how many GPUs take part.
    """

    collective: str
    what: str
    value_bytes: int = 2
    ranks: int = GPUS


class Phase(NamedTuple):
    """What each GPU holds at a step (one text for all, or one for each), what it computes, and what moves."""

    holds: str | tuple[str, ...]
    says: str
    moves: tuple[Move, ...] = ()


class Way(NamedTuple):
    """A way to cut the layer: its phases, and what a GPU keeps from step to step.

    ``share`` is the share of the layer's weights that are a GPU's, and ``zero`` the ZeRO stage over ``shards`` GPUs.
    """

    phases: tuple[Phase, ...]
    share: float
    zero: int = 0
    shards: int = 1


_KV = "K V"
_GRADIENTS = Move("all-reduce", "dW1 dW2", 4)


_STAYS = "Nothing to send."
_DP = (
    Phase("W1 W2 X:rows", "Every GPU has all weights\nand a quarter of the tokens:\nX[B_dp, D]"),
    Phase("W1 W2 X:rows", _STAYS),
    Phase("W1 W2 X:rows *H:rows", "H[B_dp, F] =\nrelu(X[B_dp, D] W1[D, F])"),
    Phase("W1 W2 X:rows H:rows *Y:rows", "Y[B_dp, D] =\nH[B_dp, F] W2[F, D]"),
    Phase("W1 W2 X:rows H:rows Y:rows", _STAYS),
    Phase(
        "W1 X:rows *dH:rows *dW2+ dY:rows", "dW2[F, D] sums over this\nGPU's tokens only: a part\nof the sum over dp."
    ),
    Phase("*dX:rows *dW1+ dH:rows dW2+ dY:rows", "dW1[D, F] likewise:\na part of the sum over dp."),
    Phase("@dW1 @dW2", "All-reduce the gradients:\nevery GPU has the sums.", (_GRADIENTS,)),
    Phase("*W1 *W2", "Every GPU makes the same\nupdate to its own replica."),
)
_ZERO_1 = (
    Phase(_DP[0].holds, "As DP, but each GPU keeps\na quarter of the optimizer\nstate."),
    *_DP[1:7],
    Phase(
        "@dW1:rows @dW2:rows",
        "Reduce-scatter: each GPU\ngets the sum of the quarter\nthat it will update.",
        (Move("reduce-scatter", "dW1 dW2", 4),),
    ),
    Phase("@W1 @W2", "Update a quarter, then\nall-gather the new weights.", (Move("all-gather", "W1 W2"),)),
)
_ZERO_2 = (
    Phase(_DP[0].holds, "As ZeRO 1, but each GPU\nkeeps a quarter of the\ngradients, too."),
    *_DP[1:5],
    Phase(
        "W1 X:rows *dH:rows @dW2:rows dY:rows",
        "Reduce-scatter dW2 as soon\nas it is there, and keep the\nsum of a quarter.",
        (Move("reduce-scatter", "dW2", 4),),
    ),
    Phase(
        "*dX:rows @dW1:rows dH:rows dW2:rows dY:rows",
        "Likewise dW1: so after\nevery microbatch, not once\na step.",
        (Move("reduce-scatter", "dW1", 4),),
    ),
    Phase("dW1:rows dW2:rows", "Nothing is left to send."),
    _ZERO_1[8],
)
_ZERO_3 = (
    Phase("W1:rows W2:rows X:rows", "A quarter of everything:\nW1[D_dp, F], W2[F_dp, D],\nX[B_dp, D]"),
    Phase("@W1 W2:rows X:rows", "All-gather W1,\njust in time.", (Move("all-gather", "W1"),)),
    Phase("W1 W2:rows X:rows *H:rows", "H[B_dp, F] =\nrelu(X[B_dp, D] W1[D, F])\nThen drop W1."),
    Phase("W1:rows @W2 X:rows H:rows *Y:rows", "All-gather W2. Y = H W2.\nThen drop W2.", (Move("all-gather", "W2"),)),
    Phase("W1:rows W2:rows X:rows H:rows Y:rows", _STAYS),
    Phase(
        "W1:rows X:rows *dH:rows @dW2:rows dY:rows",
        "Gather W2 again for dH;\nreduce-scatter dW2.",
        (Move("all-gather", "W2"), Move("reduce-scatter", "dW2", 4)),
    ),
    Phase(
        "*dX:rows @dW1:rows dH:rows dW2:rows dY:rows",
        "Gather W1 again for dX;\nreduce-scatter dW1.",
        (Move("all-gather", "W1"), Move("reduce-scatter", "dW1", 4)),
    ),
    Phase("dW1:rows dW2:rows", "Nothing is left to send."),
    Phase("*W1:rows *W2:rows", "Each GPU updates the\nquarter that it keeps."),
)
_TP = (
    Phase("W1:columns W2:rows X", "W1 by columns: W1[D, F_tp].\nW2 by rows: W2[F_tp, D].\nEvery GPU has all tokens."),
    Phase("W1:columns W2:rows X", _STAYS),
    Phase("W1:columns W2:rows X *H:columns", "H[B, F_tp] =\nrelu(X[B, D] W1[D, F_tp])\nrelu needs no other column."),
    Phase(
        "W1:columns W2:rows X H:columns *Y+",
        "H[B, F_tp] W2[F_tp, D] sums\nover a quarter of F only:\na part of Y[B, D].",
    ),
    Phase(
        "W1:columns W2:rows X H:columns @Y", "All-reduce: every GPU has\nthe sum over tp.", (Move("all-reduce", "Y"),)
    ),
    Phase("W1:columns X *dH:columns *dW2:rows dY", "dH[B, F_tp], dW2[F_tp, D]:\nthe GPU's own, complete."),
    Phase(
        "*dX+ *dW1:columns dH:columns dW2:rows dY", "dW1[D, F_tp] is complete.\ndX[B, D] is a part of\nits sum over tp."
    ),
    Phase(
        "@dX dW1:columns dW2:rows",
        "All-reduce dX for the layer\nbelow. The weights'\ngradients stay.",
        (Move("all-reduce", "dX"),),
    ),
    Phase("*W1:columns *W2:rows", "Each GPU updates its own\nslice of the weights."),
)
_SP = (
    Phase("W1:columns W2:rows X:rows", "Weights as TP. Between the\nGEMMs the tokens are cut\ntoo: X[B_tp, D]"),
    Phase("W1:columns W2:rows @X", "All-gather X.", (Move("all-gather", "X"),)),
    Phase("W1:columns W2:rows X *H:columns", "H[B, F_tp] =\nrelu(X[B, D] W1[D, F_tp])\nThen keep a quarter of X."),
    Phase("W1:columns W2:rows X:rows H:columns *Y+", _TP[3].says),
    Phase(
        "W1:columns W2:rows X:rows H:columns @Y:rows",
        "Reduce-scatter: each GPU\nhas the sum for a quarter\nof the tokens: Y[B_tp, D]",
        (Move("reduce-scatter", "Y"),),
    ),
    Phase(
        "W1:columns X:rows *dH:columns *dW2:rows @dY",
        "All-gather dY.\ndH and dW2 as in TP.",
        (Move("all-gather", "dY"),),
    ),
    Phase(
        "*dX+ *dW1:columns dH:columns dW2:rows dY",
        "All-gather X once more\nfor dW1: nobody kept it.",
        (Move("all-gather", "X"),),
    ),
    Phase("@dX:rows dW1:columns dW2:rows", "Reduce-scatter dX:\ndX[B_tp, D]", (Move("reduce-scatter", "dX"),)),
    _TP[8],
)
_OTHERS = ("W1 W2",) * 3  # each stage has a layer of its own
_PP = (
    Phase(("W1 W2 X", *_OTHERS), "Four layers, one to a GPU.\nGPU 0 has this one, GPU 1\nthe next."),
    Phase(("W1 W2 X", *_OTHERS), _STAYS),
    Phase(("W1 W2 X *H", *_OTHERS), "GPU 0 computes H, one\nmicrobatch at a time."),
    Phase(("W1 W2 X H *Y", *_OTHERS), "And Y. It has all of the\nlayer, so no sum is pending."),
    Phase(
        ("W1 W2 X H Y", "W1 W2 @X", *_OTHERS[1:]),
        "Hand Y on: it is the X\nof the next layer.",
        (Move("send", "Y", ranks=2),),
    ),
    Phase(
        ("W1 X *dH *dW2 @dY", "W1 W2 dX", *_OTHERS[1:]),
        "GPU 1 hands its dX back:\nit is the dY of this layer.",
        (Move("send", "dX", ranks=2),),
    ),
    Phase(("*dX *dW1 dH dW2 dY", *_OTHERS), "dX and dW1. No other GPU\nhas this layer."),
    Phase(("dX dW1 dW2", *_OTHERS), "The weights' gradients stay."),
    Phase(("*W1 *W2",) * 4, "Each GPU updates its own\nlayer."),
)
_CP = (
    Phase("W1 W2 X:rows", "As DP, but B are the tokens\nof one sequence: X[B_cp, D]"),
    Phase(
        "W1 W2 *X:rows",
        "Before the MLP, attention\nneeds the keys and values\nof all tokens: K, V[B, ..]",
        (Move("all-gather", _KV),),
    ),
    *(Phase(phase.holds, phase.says.replace("B_dp", "B_cp")) for phase in _DP[2:5]),
    Phase(_DP[5].holds, "dW2[F, D] sums over this\nGPU's tokens only: a part\nof the sum over cp."),
    Phase(_DP[6].holds, "dW1[D, F] likewise.\nNext comes attention."),
    Phase(
        "@dW1 @dW2",
        "K and V again, their\ngradients back, and the\nweights' all-reduce.",
        (Move("all-gather", _KV), Move("reduce-scatter", "dK dV"), _GRADIENTS),
    ),
    _DP[8],
)
_EP = (
    Phase("W1 W2 X:rows", "Another expert on each GPU:\nW1[E_ep, D, F]. Tokens as\nin DP: X[B_ep, D]"),
    Phase("W1 W2 @X:routed", "Dispatch: each token to the\nGPU of its expert.", (Move("all-to-all", "X"),)),
    Phase("W1 W2 X:routed *H:routed", "H = relu(X W1) with the\nexpert's own W1, over the\ntokens that chose it."),
    Phase("W1 W2 X:routed H:routed *Y:routed", "Y = H W2, complete for\nthese tokens."),
    Phase(
        "W1 W2 X:routed H:routed @Y:rows",
        "Combine: each token back\nto where it came from.",
        (Move("all-to-all", "Y"),),
    ),
    Phase(
        "W1 X:routed *dH:routed *dW2 @dY:routed",
        "Dispatch dY the same way.\ndW2 is complete: no other\nGPU has this expert.",
        (Move("all-to-all", "dY"),),
    ),
    Phase("*dX:routed *dW1 dH:routed dW2 dY:routed", "dW1 is complete too."),
    Phase("@dX:rows dW1 dW2", "Combine dX. The experts'\ngradients stay.", (Move("all-to-all", "dX"),)),
    Phase("*W1 *W2", "Each GPU updates its own\nexpert."),
)
WAYS = {
    "DP": Way(_DP, 1),
    "ZeRO 1": Way(_ZERO_1, 1, 1, GPUS),
    "ZeRO 2": Way(_ZERO_2, 1, 2, GPUS),
    "ZeRO 3": Way(_ZERO_3, 1, 3, GPUS),
    "TP": Way(_TP, 1 / GPUS),
    "TP + SP": Way(_SP, 1 / GPUS),
    "PP": Way(_PP, 1),
    "CP": Way(_CP, 1),
    "EP": Way(_EP, 1),
}


class Sizes(NamedTuple):
    """Of the layer, in values: B tokens, D values a token, F in between, and the keys and values of a token."""

    tokens: int
    width: int
    hidden: int
    kv: int = 0

    def of(self, arrays: str) -> int:
        """Values of whole arrays together.

        Examples
        --------
        >>> Sizes(tokens=8, width=4, hidden=16).of("dW1 dW2")
        128
        """
        b, d, f = self.tokens, self.width, self.hidden
        whole = {"X": b * d, "W1": d * f, "H": b * f, "W2": f * d, "Y": b * d, "K": b * self.kv // 2}
        whole["V"] = whole["K"]
        return sum(whole[array.removeprefix("d")] for array in arrays.split())


def sent_bytes(move: Move, sizes: Sizes) -> float:
    """Bytes that a GPU sends in an exchange, by the law of its collective.

    Examples
    --------
    >>> sent_bytes(Move("all-reduce", "Y"), Sizes(tokens=8, width=4, hidden=16))
    96.0
    """
    size: float = move.value_bytes * sizes.of(move.what)
    law = {
        "all-reduce": interconnect.ring_all_reduce,
        "all-gather": interconnect.ring_all_gather,
        "reduce-scatter": interconnect.ring_reduce_scatter,
        "all-to-all": interconnect.pairwise_all_to_all,
    }
    free = {"bandwidth": 1.0, "latency": 0.0}  # only the bytes are asked for
    if move.collective == "send":
        return float(interconnect.point_to_point(size, **free).sent_bytes)
    if move.collective == "all-to-all":  # the law's size is what one rank has to give
        size /= move.ranks
    return float(law[move.collective](size, move.ranks, **free).sent_bytes)


def sent_so_far(way: str, step: int, sizes: Sizes) -> float:
    """Bytes that GPU 0 has sent up to a step; in a pipeline it is the first stage, which hands on Y and gets dY back.

    Examples
    --------
    >>> sizes = Sizes(tokens=8, width=4, hidden=16)
    >>> sent_so_far("TP", 4, sizes), sent_so_far("TP", 8, sizes)
    (96.0, 192.0)
    >>> sent_so_far("PP", 6, sizes) == sizes.of("Y") * 2
    True
    """
    return sum(sent_bytes(move, sizes) for move in of_gpu_0(way, step))


def of_gpu_0(way: str, step: int) -> list[Move]:
    """The exchanges up to a step in which GPU 0 sends: of a pipeline it is the first stage."""
    moves = [move for phase in WAYS[way].phases[: step + 1] for move in phase.moves]
    return [move for move in moves if not (move.collective == "send" and "d" in move.what)]


def kept_bytes(way: str, sizes: Sizes) -> float:
    """Bytes of weights, gradients and optimizer state on a GPU: :func:`clusterlab.parallelism.model_state`.

    Examples
    --------
    >>> sizes = Sizes(tokens=8, width=4, hidden=16)
    >>> [kept_bytes(way, sizes) for way in ("DP", "ZeRO 1", "ZeRO 3", "TP")]
    [2304.0, 1152.0, 576.0, 576.0]
    """
    cut = WAYS[way]
    own = cut.share * sizes.of("W1 W2")
    return float(model_state(own, shards=cut.shards, zero=cut.zero).total)

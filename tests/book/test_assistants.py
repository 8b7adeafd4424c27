"""The assistants' guide says what the sets know, and its sample answers what the laws compute."""

import re
from dataclasses import replace
from pathlib import Path

import course
import pytest
from course.kinds import Flaw
from course.problems import SETS, Draw, load, student_key

from clusterlab import failures
from clusterlab.units import hour

GUIDE = (Path(course.__file__).parent / "assistants.md").read_text(encoding="utf-8")
SAMPLE = student_key("an example, and no secret", "sample")

# Each family of the guide's table, and the words by which a mistake belongs to it.
FAMILIES = {
    "A server for its eight GPUs": r"servers? of eight|counted servers|eight GPUs|[Tt]hose are servers|one GPU's share"
    r"|one server's share|MTTF (given )?is (of a|a) |All GPUs (read|work)|server's, not a GPU|by server",
    "The forward pass alone": r"backward pass|forward alone",
    "Bits for bytes": r"\b[Bb]its\b",
    "The wrong hour": r"[Tt]hat is (a|an|in a|litres a|cubic metres an) ?(day|month|hour|second)"
    r"|[Dd]ays? (has|have)|year has|minute has|by the (hour|second)|of an hour|a day has",
    "Time that nobody counts": r"[Gg]oodput|[Ll]ost (hours|time)|Idle hours|rework|writes are|without a job"
    r"|last checkpoint is lost|Restart and|bubble is missing|exchanges are|wait for it|also waits",
    "The full peak": r"MFU is missing|full peak|\bsparse peak|while (it computes|a stage works)",
    "The PUE left out": r"\bPUE\b|counts? cooling|cooling and distribution|Cooling and distribution",
    "Part of what is kept": r"[Ww]eights alone|the weights alone|caches alone|caches are read|[Mm]aster|Keys and values"
    r"|KV heads|weights (take|come)",
    "One pass of an exchange": r"one pass|sends the buffer|goes around|all-gather:|in each step|moves a chunk"
    r"|two passes|before and after|2 \(t - 1\)",
    "A straight line": r"straight line|(do not|don't simply) add|add in squares|in proportion|not 1 - s|same share a",
    "The mean, where": r"mean (uplink|attempt)|longest of",
}


def known_mistakes():
    """Of each problem that is judged by machine, all the mistakes that it names to some student."""
    keys = [student_key("an example, and no secret", f"student{number}") for number in range(60)]
    for name in SETS:
        for problem in load(name).problems:
            if not problem.rubric:
                drawn = [problem.question(key) for key in keys]
                yield {why for q in drawn for why in ([q.slip] if isinstance(q, Flaw) else q.mistakes)}


def test_the_table_of_mistakes_counts_the_problems_that_name_them():
    rows = re.findall(r"^\| ([A-Z].*?) \| (\d+) \| \"", GUIDE, re.MULTILINE)
    named = list(known_mistakes())
    counted = {
        words: sum(any(re.search(pattern, why) for why in whys) for whys in named)
        for words, pattern in FAMILIES.items()
    }
    stated = {next(words for words in FAMILIES if row.startswith(words)): int(count) for row, count in rows}
    assert stated == counted
    assert list(stated.values()) == sorted(stated.values(), reverse=True), "the most frequent first"


def test_the_sample_question_is_what_a_student_would_get_with_its_rubric():
    problem = load("failures")["policy"]
    assert f"> {problem.text(SAMPLE)}" in GUIDE
    for criterion, points in problem.rubric.items():
        assert f"| {criterion} | {points} |" in GUIDE
    assert re.findall(r"\*(\d) \+ (\d) \+ (\d)\.\*", GUIDE) == [("2", "2", "2"), ("1", "1", "1"), ("0", "0", "1")]


def test_the_sample_answers_have_the_laws_numbers():
    draw = Draw(SAMPLE, "failures/policy")
    job = load("failures")["policy"].make.__globals__["_job"](draw)
    gpus = 1024 * draw.one_of((4, 8, 16, 24))
    young = failures.young_interval

    def gains(now, anew):
        """Points of goodput of the three remedies, and their dollars a month; the interval set anew, or kept."""
        base = failures.goodput(now).useful
        for changed in (
            {"write": now.write / 2},
            {"detection": now.detection / 2, "restart": now.restart / 2},
            {"mtbf": 1.15 * now.mtbf},
        ):
            better = replace(now, **changed)
            better = replace(better, interval=young(better.write, better.mtbf)) if anew else better
            points = float(failures.goodput(better).useful - base)
            yield f"{100 * points:.1f}", f"${points * gpus * 720 * 2 / 1000:,.0f},000"

    (storage, check, driver), tuned = gains(job, False), replace(job, interval=young(job.write, job.mtbf))
    said = f"storage brings {storage[0]} points, the health check {check[0]}, the driver {driver[0]}; at $2 a GPU-hour"
    assert f"{said} that's {storage[1]}, {check[1]} and {driver[1]} a month" in GUIDE
    parts = failures.goodput(job).parts
    assert f"{100 * parts['useful']:.1f} % useful, {100 * parts['checkpoint']:.1f} % writing" in GUIDE
    free = float(failures.goodput(tuned).useful - failures.goodput(job).useful)
    assert f"Young's rule says {tuned.interval / 60:.0f}." in GUIDE
    assert f"{100 * failures.goodput(tuned).useful:.1f} %: ${free * gpus * 720 * 2 / 1000:.0f},000 a month" in GUIDE
    (storage, check, driver) = gains(tuned, True)
    said = (
        f"storage brings {storage[0]} points ({storage[1]}), the check {check[0]} ({check[1]}), the driver {driver[0]}"
    )
    assert f"{said} ({driver[1]})" in GUIDE
    for life, first in ((3.4, "check"), (3.6, "storage")):
        short = replace(job, mtbf=life * hour, interval=young(job.write, life * hour))
        (storage, _), (check, _), _ = gains(short, True)
        assert (float(check) > float(storage)) == (first == "check")


@pytest.mark.parametrize("said", ["83.3 %", "75.9 %", "74.9 %"])
def test_the_half_answer_has_its_numbers_right(said):
    job = load("failures")["policy"].make.__globals__["_job"](Draw(SAMPLE, "failures/policy"))
    better = [replace(job, write=job.write / 2), replace(job, detection=job.detection / 2, restart=job.restart / 2)]
    better.append(replace(job, mtbf=1.15 * job.mtbf))
    assert said in GUIDE
    assert said in [f"{100 * failures.goodput(one).useful:.1f} %" for one in better]


def test_the_defence_that_is_played_through_has_the_laws_numbers():
    def plan(write, life, interval=None):
        every = interval or failures.optimal_interval(write, life)
        job = failures.Job(interval=every, write=write, mtbf=life, detection=120, restart=300)
        return float(every) / 60, float(failures.goodput(job).useful)

    life, write = 3.97 * hour, 96.2
    (before, good), (anew, worse) = plan(write, life), plan(3 * write, life)
    assert (
        f"goodput is {100 * good:.1f} % at an interval of {before:.0f} minutes. With writes of {3 * write:.0f} s"
        in GUIDE
    )
    assert f"{100 * plan(3 * write, life, before * 60)[1]:.1f} % if I keep the interval" in GUIDE
    assert f"{100 * worse:.1f} % if I save every {anew:.0f}." in GUIDE
    longer = good / worse - 1
    assert f"{100 * longer:.0f} % longer, {121 * longer:.0f} days, and costs ${114 * longer:.0f}M more" in GUIDE
    assert good - plan(3 * write, life / 2)[1] > 2 * good - worse - plan(write, life / 2)[1], "more than both alone"

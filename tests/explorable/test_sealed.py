"""Sealed questions: they judge as the question does, to the digit, and nobody reads them back."""

import base64
import hashlib
import json
import math
import zlib
from dataclasses import replace

import pytest

from explorable import Question, sealed
from explorable.sealed import COST, Sealed

TIME = Question(
    "How long?",
    2.0,
    "s",
    mistakes={"The port counts bits, and 8 bits are a byte.": 16.0, "That is one direction.": 1.0},
    hints=["How many bytes pass in a second?"],
    way="100 GB / 50 GB/s.",
)
ALL = [
    TIME,
    Question("How many?", 72, "GPUs", tolerance=0, mistakes={"A tray has four.": 36}),
    Question("What share?", 0.375, "%", tolerance=0.004, mistakes={"That is the share that works.": 0.625}),
    Question("What is lost?", -3.0, tolerance=0.3, mistakes={"The sign.": 3.0, "Nothing is no answer.": 0.0}),
    Question("How many bytes?", 1e12, "B", tolerance=0.49),
]


@pytest.mark.parametrize("question", ALL, ids=lambda question: question.text)
def test_it_judges_as_the_question_does_to_the_digit_of_its_tolerance(question):
    check = Sealed(Sealed.of(question, cost=2))
    hint = f" Hint: {question.hints[0]}" if question.hints else ""
    for target in (question.answer, *question.mistakes.values()):
        for edge in (1 - question.tolerance, 1, 1 + question.tolerance):
            for inside in (-1e-6, 0, 1e-6):
                value = target * edge * (1 + inside)
                asked, got = question.judge(value), check(value)
                assert got.right == asked.right
                assert (got.kind == "mistake") == (asked.kind == "mistake")
                if asked.right:
                    assert got.text == f"{asked.text} {question.way}".strip()
                elif asked.kind == "mistake":
                    assert got.text == asked.text + hint
    assert question.mistakes == {} or check(float(next(iter(question.mistakes.values())))).kind == "mistake"
    for value in (7.3e4, -1e-9, 1e300):
        assert check(value) == ("wrong", f"Not right: {sealed.reads(value, question.unit)}.")


def test_texts_are_read_as_the_question_reads_them_and_no_answer_costs_no_hash(monkeypatch):
    check = Sealed(Sealed.of(TIME, cost=2))
    assert check("2,000 ms").right
    assert check("16").text.startswith("The port counts bits")
    monkeypatch.setattr(hashlib, "scrypt", None)
    assert check(None).text == "No answer yet."
    for nonsense in ("soon", "3 GB", "", float("nan")):
        assert check(nonsense).kind == "unread"


def test_a_choice_opens_by_its_letter_alone():
    question = Question("Which?", "memory", choices={"compute": "It idles.", "memory": "Every weight is read."})
    check = Sealed(Sealed.of(question, letters={"a": "memory", "b": "compute"}, cost=2))
    assert check(" A ") == ("right", "Every weight is read.")
    assert check("b") == ("mistake", "It idles.")
    assert check("c").kind == "wrong"
    assert check("memory").kind == "unread"


def readings(text):
    """All that a student might try on a sealed text without a key: base64, JSON, XOR with one byte, zlib, hex."""
    whole = base64.b64decode(text)
    parts = [base64.b64decode(one) for one in json.loads(whole)["kept"]]
    for data in (text.encode(), whole, *parts):
        yield data
        yield bytes(reversed(data))
        for byte in range(256):
            yield data.translate(bytes(other ^ byte for other in range(256)))
        for wbits in (15, -15, 31):
            try:
                yield zlib.decompress(data, wbits)
            except zlib.error:
                continue
    for one in parts:  # a stream used twice would show in the sum of two
        yield bytes(a ^ b for a, b in zip(parts[0], one, strict=True))


def test_nothing_can_be_read_back():
    text = Sealed.of(replace(TIME, mistakes={**TIME.mistakes, "Twice too far.": 31.415926}), cost=2)
    # Six letters or more: the readings are millions of random bytes, in which any four stand by chance one run in a
    # thousand.
    secrets = [b"Right.", b"mistake", b"counts bits", b"direction", b"bytes pass", b"100 GB", b"31.415926", b'"kind"']
    tried = 0
    for data in readings(text):
        tried += 1
        assert not [secret for secret in secrets if secret in data]
    assert tried > 2000
    assert repr(Sealed(text)) == "Sealed question: call it with your answer."
    assert set(vars(Sealed(text))) == {"_unit", "_width", "_cost", "_salt", "_kept"}


def test_two_seals_of_one_question_share_nothing_and_their_size_tells_nothing():
    one, two = (json.loads(base64.b64decode(Sealed.of(TIME, cost=2))) for _ in range(2))
    assert one["salt"] != two["salt"], "a table of all buckets would serve one question only"
    assert not set(one["kept"]) & set(two["kept"])
    for question in ALL:
        kept = json.loads(base64.b64decode(Sealed.of(question, cost=2)))["kept"]
        assert len(kept) == 2 * (1 + len(question.mistakes))
        assert len({len(part) for part in kept}) == 1


def test_a_guess_costs_a_whole_slow_hash_and_a_thousand_cost_a_thousand(monkeypatch):
    check, spent, slow = Sealed(Sealed.of(TIME)), [], hashlib.scrypt

    def counted(token, *, salt, n, r, p, dklen):
        spent.append(n * r * p)
        return hashlib.sha512(token + salt).digest()[:dklen]

    assert check(2.0).right, "as it is handed out"
    monkeypatch.setattr(hashlib, "scrypt", counted)
    first, last = math.log(1e-4), math.log(1e6)
    for step in range(1000):
        assert not check(math.exp(first + (last - first) * step / 999)).right
    assert len(spent) == 1000, "no shortcut and nothing kept"
    assert sum(spent) >= 1000 * COST * 8 >= 6.5e7, "blocks of 128 bytes, each mixed twice"
    assert slow is not hashlib.scrypt


def test_a_torn_seal_is_refused():
    text = Sealed.of(TIME, cost=2)
    for torn in (text[:40], "?", "", base64.b64encode(b"{}").decode(), base64.b64encode(b"no").decode()):
        with pytest.raises(ValueError, match="no sealed question"):
            Sealed(torn)

"""Names of a stranger are made harmless; numbers are read by people."""

import pytest

from calibrant.text import block, name, number, p_text, percent, short

MINUS = "\N{MINUS SIGN}"


def test_names_are_one_line_without_what_a_page_would_obey() -> None:
    assert name("a\r\n\tb\u2028c") == "a b c"
    assert name("x\x00\x1b\x7fy") == "x���y"
    for turning in "\u202e\u2066\u200f\u061c":
        assert name(f"a{turning}b") == "a�b"
    assert name("\ud800") == "�"
    assert name("Fläche, 面積 👍🏽 <b>") == "Fläche, 面積 👍🏽 <b>"
    assert name("") == ""


@pytest.mark.parametrize("length", [3, 5, 21, 90])
def test_long_names_keep_both_ends(length: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(5000))
    cut = name(text, longest=length)
    assert len(cut) == length
    assert cut.startswith(text[0])
    assert cut.endswith(text[-1])
    assert name(text[:length], longest=length) == text[:length]
    assert len(short(text)) == 21
    assert len(name(text)) == 90


def test_blocks_keep_their_lines_and_have_an_end() -> None:
    assert block("\na\tb\r\nc\x00\n") == "a    b\nc�"
    long = block("x" * 30_000)
    assert len(long) == 20_001
    assert long.endswith("…")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5678, "1,235"),
        (12.345678, "12.35"),
        (0.00012346, "0.0001235"),
        (0.000012345, f"1.23e{MINUS}5"),
        (1.5e20, "1.50e20"),
        (-3.0, f"{MINUS}3.000"),
        (float("-inf"), f"{MINUS}∞"),
    ],
)
def test_amounts_have_four_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


def test_what_is_not_a_number_is_a_dash() -> None:
    assert percent(float("nan")) == "\N{EN DASH}"
    assert p_text(float("nan")) == ""

"""Palette: every colour is seen in light and in dark, its text is read, and no eye takes one meaning for another."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from explorable import palette
from explorable.palette import CYCLE, PALETTE, SHADES, colour

LIBRARY = Path(palette.__file__).parent
CSS = (LIBRARY / "explorer" / "explorer.css").read_text(encoding="utf-8")
PAGES = {"light": "#ffffff", "dark": "#14181e"}  # the background of the book's pages


def linear(shade: str) -> np.ndarray:
    """Linear light of an sRGB colour."""
    channels = np.array([int(shade[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2.2)."""
    dark, light = sorted(np.dot([0.2126, 0.7152, 0.0722], linear(shade)) for shade in (one, other))
    return (light + 0.05) / (dark + 0.05)


def mixed(shade: str, page: str, share: float) -> str:
    """What ``color-mix(in srgb, ...)`` gives."""
    channels = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (shade, page)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in zip(*channels, strict=True))


def test_the_contrast_formula_gives_the_ratios_that_wcag_states():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


# Severity 1.0 of Machado, Oliveira and Fernandes (2009), for linear light.
EYES = {
    "usual": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def oklab(light: np.ndarray) -> np.ndarray:
    """OKLab of linear light (Ottosson, 2020): distances as eyes see them, 0.02 being just noticeable."""
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(lab) @ np.cbrt(np.array(cones) @ np.clip(light, 0, 1))


def distance(one: str, other: str, eye: str) -> float:
    return float(np.linalg.norm(np.subtract(*(oklab(np.array(EYES[eye]) @ linear(shade)) for shade in (one, other)))))


def test_white_and_black_are_one_apart_and_a_protan_takes_red_for_a_dark_yellow():
    assert distance("#000000", "#ffffff", "usual") == pytest.approx(1, abs=1e-3)
    assert distance("#ff0000", "#6d5f00", "protan") < 0.02 < 0.2 < distance("#ff0000", "#6d5f00", "usual")


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("page", PAGES)
def test_no_eye_takes_one_of_the_four_meanings_for_another(eye, page):
    """Five times what is just noticeable."""
    apart = {
        (a, b): distance(getattr(colour(a), page), getattr(colour(b), page), eye)
        for a, b in itertools.combinations(SHADES, 2)
    }
    assert len(apart) == 6
    assert min(apart.values()) >= 0.0995, min(apart, key=apart.get)


@pytest.mark.parametrize("page", PAGES)
def test_shades_of_a_meaning_differ_from_one_another_and_lie_nearest_to_their_own(page):
    for meaning, shades in SHADES.items():
        shown = {name: getattr(colour(name), page) for name in shades}
        assert all(distance(a, b, "usual") >= 0.06 for a, b in itertools.combinations(shown.values(), 2)), meaning
        for name, shade in shown.items():
            nearest = min(SHADES, key=lambda other: hue_apart(shade, getattr(colour(other), page)))
            assert nearest == meaning, name


def hue_apart(one: str, other: str) -> float:
    """Degrees between two hues."""
    hues = [np.degrees(np.arctan2(*oklab(linear(shade))[:0:-1])) for shade in (one, other)]
    return abs((hues[0] - hues[1] + 180) % 360 - 180)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", PALETTE)
def test_a_colour_stands_out_on_its_page_and_its_text_is_read(name, page):
    """WCAG 2.2: 3:1 for graphics (1.4.11), 4.5:1 for text (1.4.3), also on the tint of a box."""
    shade, text = getattr(colour(name), page), getattr(colour(name).text, page)
    assert contrast(shade, PAGES[page]) >= 3
    assert contrast(shade, text) >= 4.5
    share = int(re.search(r"\.cl-box rect \{ fill: color-mix\(in srgb, var\(--cl-c\) (\d+)%", CSS)[1]) / 100
    assert contrast(mixed(shade, PAGES[page], share), getattr(colour("ink"), page)) >= 4.5


def test_the_pictures_of_the_book_have_the_cycle_of_the_explorer_and_stand_out_on_both_pages():
    cycle = re.search(r"axes\.prop_cycle: .*", (LIBRARY / "figure.mplstyle").read_text(encoding="utf-8")).group()
    shades = [f"#{shade}" for shade in re.findall(r'"([0-9a-f]{6})"', cycle)]
    assert shades == [colour(name).light for name in CYCLE]
    assert all(contrast(shade, page) >= 3 for shade in shades for page in PAGES.values())


def test_no_two_curves_differ_by_colour_alone():
    dashes = re.findall(r"--cl-dash: ([^;]+);", CSS)
    assert len(set(dashes)) == len(dashes) == len(CYCLE)


def test_the_style_sheet_sets_every_colour_and_no_other_is_written_in_it():
    css = palette.css()
    for selector, name in [
        *((f".cl-s{i}", name) for i, name in enumerate(CYCLE)),
        *((f".cl-c-{n}", n) for n in PALETTE),
    ]:
        light, dark = colour(name)
        assert f"{selector} {{ --cl-c: light-dark({light}, {dark});" in css
    screen = CSS[: CSS.index("@media print")]
    assert re.findall(r"#[0-9a-f]{3,6}\b", screen) == []


def test_every_name_of_the_palette_has_a_place_in_it():
    shades = [name for names in SHADES.values() for name in names]
    assert sorted([*SHADES, "ink", *shades, *CYCLE[len(SHADES) :]]) == sorted(PALETTE)
    assert set(CYCLE[: len(SHADES)]) == set(SHADES)


def test_a_meaning_without_a_colour_is_refused_with_the_nearest_that_has_one():
    with pytest.raises(ValueError, match=r"no colour means 'optimiser'; did you mean 'optimizer'\? there are: compute"):
        colour("optimiser")
    with pytest.raises(ValueError, match="no colour means 'xyz'; there are: compute, memory"):
        colour("xyz")

"""What a user sees of a page: its texts and shapes as the browser laid them out, and its pixels."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from PIL import Image, ImageStat
from playwright.sync_api import Browser

WIDE, PHONE = 1280, 390
SHAPES = (
    ".plot svg",
    ".plot polyline.line",
    ".plot .target",
    ".plot .knee",
    ".bar",
    "#memory .bar",
    "#memory .bar .part",
    "#rejected tbody tr",
    "#goodput, #memory",
    "script, img, h1 *",
)

_TEXTS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const solid = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim()) continue;
    const parent = node.parentElement;
    const style = getComputedStyle(parent);
    if (style.visibility === 'hidden') continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const card = parent.closest('.card, .tile, header, footer');
    const edge = card.getBoundingClientRect();
    for (const box of range.getClientRects()) {
      if (box.width < 1) continue;
      found.push({text: node.data.trim(), left: box.left, right: box.right, top: box.top, bottom: box.bottom,
        size: parseFloat(style.fontSize), colour: style.color, behind: solid(parent), cardLeft: edge.left,
        cardRight: edge.right, cardBottom: edge.bottom});
    }
  }
  return found;
}"""

_SHAPES = """(selector) => [...document.querySelectorAll(selector)].map((element) => {
  const box = element.getBoundingClientRect();
  return {left: box.left, right: box.right, top: box.top, bottom: box.bottom, colour:
    getComputedStyle(element).backgroundColor, stroke: getComputedStyle(element).stroke};
})"""


_WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@dataclass(frozen=True)
class Seen:
    """A page as it was in a window of this width, and everything that it did besides showing itself."""

    width: int
    title: str
    heading: str
    verdict: str
    texts: list[dict[str, Any]]
    """Each line of each text: what, where, in which colour on which."""
    shapes: Mapping[str, list[dict[str, Any]]]
    """Where elements are, by selector."""
    wider: bool
    """Whether the page is wider than its window."""
    brightness: float
    """Of the mean pixel of the window, 0 to 255."""
    plot: Image.Image | None
    """The pixels of the plot."""
    said: tuple[str, ...]
    asked: tuple[str, ...]


def look(browser: Browser, path: Path, width: int, scheme: str) -> Seen:
    """Opens a file as a user would, unfolds what is folded, and takes in what there is."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    brightness = sum(ImageStat.Stat(_pixels(page.screenshot()).convert("L")).mean)
    plot = page.locator(".plot")
    pixels = _pixels(plot.screenshot()) if plot.count() else None
    for summary in page.locator("summary").all():
        summary.click()
    found = Seen(
        width=width,
        title=page.title(),
        heading=page.locator("h1").inner_text(),
        verdict=page.locator(".verdict").inner_text(),
        texts=page.evaluate(_TEXTS),
        shapes={selector: page.evaluate(_SHAPES, selector) for selector in SHAPES},
        wider=bool(page.evaluate(_WIDER)),
        brightness=brightness,
        plot=pixels,
        said=tuple(said),
        asked=tuple(asked),
    )
    page.close()
    return found


def _pixels(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def overlaps(texts: list[dict[str, Any]]) -> list[str]:
    """Pairs of texts that lie over each other."""
    return [
        f"{one['text'][:40]!r} over {other['text'][:40]!r}"
        for one, other in combinations(texts, 2)
        if min(one["right"], other["right"]) - max(one["left"], other["left"]) > 1.5
        and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > 4
    ]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours as WCAG 2.2 defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def rgb(colour: str) -> tuple[int, int, int]:
    """A computed colour, rgb(1, 2, 3), as numbers."""
    red, green, blue = (round(float(part)) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    return red, green, blue


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in rgb(colour)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

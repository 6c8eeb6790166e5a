"""What a user sees of a page: its texts and shapes as the browser laid them out, and its pixels."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

WIDE, PHONE = 1280, 390

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


@dataclass
class Seen:
    """A page in a window, and everything that it did besides showing itself."""

    page: Page
    width: int
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[dict[str, Any]]:
        """Each line of each text: what, where, in which colour on which."""
        found: list[dict[str, Any]] = self.page.evaluate(_TEXTS)
        return found

    def shapes(self, selector: str) -> list[dict[str, Any]]:
        """Where elements are."""
        found: list[dict[str, Any]] = self.page.evaluate(_SHAPES, selector)
        return found

    @property
    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than its window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))

    def pixels(self, selector: str | None = None) -> Image.Image:
        """The pixels of the whole page, or of one element."""
        raw = self.page.locator(selector).screenshot() if selector else self.page.screenshot(full_page=True)
        return Image.open(io.BytesIO(raw)).convert("RGB")


@contextmanager
def seen(browser: Browser, path: Path, width: int, scheme: str = "light") -> Iterator[Seen]:
    """Opens a file as a user would, in a window of this width."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    found = Seen(page, width)
    page.on("console", lambda message: found.said.append(message.text))
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("dialog", lambda dialog: (found.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: found.asked.append(request.url))
    page.goto(path.as_uri())
    yield found
    page.close()


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

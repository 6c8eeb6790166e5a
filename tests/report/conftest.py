"""A browser to look at reports with."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(
    scope="module"
)  # not longer: while it runs, its event loop is the main thread's, and no other test can have one
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("there is no chromium; `make setup` installs it", pytrace=False)
    # Chromium's sandbox refuses to run as root; the pages are our own and ask nothing of a network.
    sandbox = [] if os.geteuid() else ["--no-sandbox"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=[*sandbox, "--disable-gpu"])
        yield running
        running.close()

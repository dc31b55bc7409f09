"""A worker in a real browser."""

from __future__ import annotations

import time
from typing import Any

from tests.slvmeval.web.annotation.pages.films import DAMAGED
from tests.slvmeval.web.annotation.pieces import NAME

FOCUSED = "document.activeElement"
LANGUAGES = {"en": "en-US", "ja": "ja-JP"}


class Visitor:
    """One browser context, and the actions in it; `expected` are parts of console messages."""

    def __init__(
        self,
        chromium: Any,
        address: str,
        token: str,
        *,
        language: str = "en",
        phone: bool = False,
        dark: bool = False,
        expected: tuple[str, ...] = (),
    ) -> None:
        self.address, self.token, self.phone, self._expected = address, token, phone, expected
        self.problems: list[str] = []
        self.requests: list[Any] = []
        self.context = chromium.new_context(
            viewport={"width": 360, "height": 740} if phone else {"width": 1280, "height": 900},
            has_touch=phone,
            is_mobile=phone,
            color_scheme="dark" if dark else "light",
            locale=LANGUAGES[language],
        )
        self.page = self.open_tab()

    def open_tab(self) -> Any:
        """Open a tab that records every error and every request to another server."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self._complain(str(error)))
        page.on("console", lambda message: self._complain(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (self._complain("a dialog"), dialog.dismiss()))
        page.on("request", self._asked)
        return page

    def _complain(self, text: str) -> None:
        if not any(part in text for part in self._expected):
            self.problems.append(text)

    def _asked(self, request: Any) -> None:
        self.requests.append(request)
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.problems.append(f"a request to {request.url}")

    def enter(self) -> None:
        """Follow the link, which leads to consent, a task or a refusal."""
        self.page.goto(f"{self.address}/c/{NAME}/enter?token={self.token}")

    def consent(self) -> None:
        """Agree on the page of the link."""
        self.page.locator("input[name=agree]").check()
        self.page.locator("form .button.primary").click()

    def agree(self) -> None:
        """Follow the link and agree; wait until both videos are loaded."""
        self.enter()
        self.consent()
        self.settled()

    def settled(self) -> None:
        """Wait until the task page is loaded and both videos can be played."""
        self.page.wait_for_url("**/task")
        self.both("document.getElementById(id).readyState >= 1")

    def both(self, expression: str) -> None:
        """Wait until an expression with `id` is true of both videos."""
        self.wait(f"['left', 'right'].every((id) => {expression})")

    def wait(self, expression: str, seconds: float = 60, page: Any = None) -> None:
        """Wait until an expression is true; the pages' policy forbids Playwright's own way with eval."""
        shown = page or self.page
        end = time.monotonic() + seconds
        while not self._holds(shown, expression):
            assert time.monotonic() < end, f"still not: {expression}"
            shown.wait_for_timeout(50)

    @staticmethod
    def _holds(page: Any, expression: str) -> bool:
        from playwright.sync_api import Error

        try:
            return bool(page.evaluate(f"Boolean({expression})"))
        except Error as problem:
            # between two pages there is no document
            if "navigation" not in str(problem) and "of null" not in str(problem):
                raise
            return False

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def tab_to(self, expression: str) -> None:
        """Press Tab until an expression is true of the focused element, `at`."""
        for _ in range(60):
            if self.page.evaluate(f"Boolean(((at) => {expression})({FOCUSED}))"):
                return
            self.press("Tab")
        raise AssertionError(f"no Tab leads to {expression}")

    def see_all(self) -> None:
        """Play and check off all stretches with the keyboard."""
        for number in range(len(DAMAGED)):
            self.press("n")
            self.wait(f"document.querySelector('[data-number=\"{number}\"].seen')")
            assert self.page.locator("#send").is_disabled()
            self.press("c")
            self.wait(f"document.querySelector('[data-number=\"{number}\"].confirmed')")
        self.wait("!document.getElementById('rating').disabled")

    def tap(self, selector: str) -> None:
        """Tap on a phone, click elsewhere."""
        result = self.page.locator(selector)
        if self.phone:
            result.tap()
        else:
            result.click()

    def decided(self) -> None:
        """Agree, look and prefer the left video."""
        self.agree()
        self.look()
        self.prefer("left")

    def finish(self, rating: int) -> None:
        """Choose a rating and send it."""
        self.tap(f".rating >> nth={rating}")
        self.tap("#send")

    def fastest(self) -> None:
        self.page.locator("#speed").select_option("4")

    def look(self) -> None:
        """Play both videos until the preference is unlocked."""
        self.fastest()
        self.tap("#play")
        self.wait("!document.querySelector('[data-prefer]').disabled")
        self.tap("#play")

    def prefer(self, place: str) -> None:
        self.tap(f"[data-prefer={place}]")
        self.tap("#sure-yes")
        self.wait("document.getElementById('stretches')")

    def see(self, number: int) -> None:
        """Play a stretch with its button in the list, and check it off."""
        self.tap(f"[data-number='{number}'] button >> nth=0")
        self.wait(f"document.querySelector('[data-number=\"{number}\"] .tick:not([disabled])')")
        self.tap(f"[data-number='{number}'] .tick")
        self.wait(f"document.querySelector('[data-number=\"{number}\"].confirmed')")

    def time(self, place: str) -> float:
        return float(self.page.evaluate(f"document.getElementById('{place}').currentTime"))

"""The rules' manual, for commands."""

from __future__ import annotations

from addendum.script.manual import Page, page, pages

__all__ = ["Page", "page", "pages"]

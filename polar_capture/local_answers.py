"""What a provider's hosts answer by themselves, where a 404 is not the best of answers.

Measured on ten harnesses (facts/harnesses.md §9): settings, feature flags, telemetry, policy limits and release checks
are all best answered 404 at once, in the dialect's own words. That leaves Codex's model catalog, by which Codex learns
the real window and what tools to offer.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from polar_capture.dialects.base import HttpAnswer, ModelCard, WireRequest
from polar_capture.dialects.codex_catalog import CodexCatalog, CodexTools

log = logging.getLogger(__name__)

_CATALOG_PATH = re.compile(r"/backend-api/codex/models")


class LocalAnswers:
    """Answers of one proxy. `catalog_of` gives the catalog file of a Codex version, which need not be there."""

    def __init__(self, catalog_of: Callable[[str], Path], codex_tools: CodexTools = "classic") -> None:
        self._catalog_of = catalog_of
        self._tools = codex_tools
        self._catalogs: dict[str, CodexCatalog] = {}

    def answer(self, wire: WireRequest, cards: list[ModelCard]) -> HttpAnswer | None:
        """The answer to a request, or None where it is for the dialects."""
        if wire.method == "GET" and _CATALOG_PATH.fullmatch(wire.path):
            body = self._catalog(wire.query.get("client_version", "")).body(cards)
            return None if body is None else HttpAnswer(200, body)
        return None

    def _catalog(self, version: str) -> CodexCatalog:
        """The catalog of exactly this version: Codex drops a catalog that lacks a field it knows."""
        known = self._catalogs.get(version)
        if known is None:
            known = self._catalogs[version] = self._read(version)
        return known

    def _read(self, version: str) -> CodexCatalog:
        if re.fullmatch(r"\d[\w.+-]{0,60}", version) is None:
            return CodexCatalog()
        file = self._catalog_of(version)
        try:
            return CodexCatalog(file.read_bytes(), self._tools)
        except FileNotFoundError:
            log.info("no model catalog of codex %s: `polar-capture harness install codex@%s` gets it", version, version)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("the model catalog %s cannot be used: %s", file, error)
        return CodexCatalog()

"""The rule file: which calls are helpers, which are trained on, which go to another model.

    [[rule]]
    name = "titles go to a small model"
    when = { agent = "aux:*" }                       # or harness, dialect, kind, model, path, contains
    upstream = "http://small-box:8000"               # an engine of their own; and/or model = "NAME"

    [[rule]]
    name = "the router is the policy's own work"
    when = { harness = "gemini-cli", agent = "aux:router" }
    kind = "turn"                                    # turn or side
    trainable = true

The first rule that fits decides. All conditions of a rule must hold; `*` and `?` are wild cards. What another model
has answered is never trained on.
"""

import fnmatch
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from polar_capture.chat import Message
from polar_capture.chat_normal import text_of
from polar_capture.config import ConfigError, parse_upstreams

Kind = Literal["turn", "side", "nested"]


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions, each a pattern with wild cards; `contains` is text in the instructions or the last message."""

    harness: str | None = None
    dialect: str | None = None
    agent: str | None = None
    kind: str | None = None
    model: str | None = None
    path: str | None = None
    contains: str | None = None


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule. `trainable` of None leaves it to the call's kind; `upstream` is an engine's base URL, `model` the name
    of its model."""

    name: str
    when: When
    kind: Literal["turn", "side"] | None = None
    trainable: bool | None = None
    upstream: str | None = None
    model: str | None = None

    @property
    def diverts(self) -> bool:
        """Whether another model answers."""
        return self.upstream is not None or self.model is not None


class Facts(msgspec.Struct, frozen=True):
    """What of a call the rules look at."""

    harness: str | None
    dialect: str
    agent: str
    kind: str
    model: str | None
    path: str
    messages: list[Message]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rule: list[Rule] = []


class Rules(msgspec.Struct, frozen=True):
    """The rules of one proxy, in order."""

    rules: tuple[Rule, ...] = ()

    def find(self, facts: Facts) -> Rule | None:
        """The rule that decides for a call."""
        return next((rule for rule in self.rules if _holds(rule.when, facts)), None)

    def engines(self) -> set[tuple[str | None, str | None]]:
        """(upstream, model) of every other engine that the rules name."""
        return {(rule.upstream, rule.model) for rule in self.rules if rule.diverts}


def read(path: Path | None) -> Rules:
    """The rules of a file; none without one. Raises ConfigError, which names file, rule and remedy."""
    if path is None:
        return Rules()
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File)
    except OSError as error:
        raise ConfigError(f"--rules {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"--rules {path}: {error}") from error
    return Rules(tuple(_checked(path, rule) for rule in found.rule))


def _checked(path: Path, rule: Rule) -> Rule:
    if rule.diverts and rule.trainable:
        raise ConfigError(f"--rules {path}: {rule.name!r} sends calls to another model and trains on them: drop one")
    if rule.kind is None and rule.trainable is None and not rule.diverts:
        raise ConfigError(f"--rules {path}: {rule.name!r} does nothing: give it kind, trainable, upstream or model")
    if rule.upstream is None:
        return rule
    return msgspec.structs.replace(rule, upstream=parse_upstreams([rule.upstream])[0])


def _holds(when: When, facts: Facts) -> bool:
    for name in ("harness", "dialect", "agent", "kind", "model", "path"):
        pattern = getattr(when, name)
        if pattern is not None and not fnmatch.fnmatchcase(getattr(facts, name) or "", pattern):
            return False
    return when.contains is None or when.contains in _telling(facts.messages)


def _telling(messages: list[Message]) -> str:
    """The texts that tell what a call is for: the instructions and the last message."""
    if not messages:
        return ""
    instructions = [text_of(message.content) for message in messages if message.role in ("system", "developer")]
    return "\n".join([*instructions, text_of(messages[-1].content)])

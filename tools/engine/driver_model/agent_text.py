"""Random text that looks like what stands in a coding agent's prompt: prose, lists, tags, JSON, code, dates."""

from __future__ import annotations

import json
import string
from random import Random

WORDS = """
the a an of to in is it and or not for with as on at by from this that these those there their they you your we our
its out over before after about within without between while during such each every other more most than then also
only always never may can could will would should must do does make has have been being use uses used using when what
how why who where which if else import return class def self true false null none all any new old same next file files
folder folders path paths directory read write edit create delete update search find replace open close run running
command commands shell terminal process output input error errors exit status code test tests suite python script
module package project repository branch commit git diff patch line lines text word words message messages user users
system assistant agent agents tool tools call calls function functions name names argument arguments parameter
parameters description property properties required optional type string number integer boolean object array value
values list lists key keys schema format json markdown data result results answer question model token tokens server
client request requests response context session task tasks plan step steps skill skills memory note important example
examples default option options setting settings platform linux version environment working home date today time
timeout seconds start end background limit long short single multiple full current available following existing
relevant specific absolute relative allowed needed provide include based first last previous different content change
changes instruction instructions rule rules The A You Your Use Do Not When If This It For In All Only Run Read Write
Always Never Make Please
""".split()  # noqa: SIM905, a list literal takes a line a word
RARE_SYMBOLS = ["é", "ü", "…", "→", "✓", "—", "•", "“", "”", "🤖"]
SHELL_TOOL_NAMES: list[str] = []  # filled by lessons.py: names out of their place must not trigger a call


def phrase(rng: Random, fewest: int, most: int) -> str:
    return " ".join(rng.choice(WORDS) if rng.random() < 0.9 else oddity(rng) for _ in range(rng.randint(fewest, most)))


def oddity(rng: Random) -> str:
    """Something that is no dictionary word and has to be spelled in small pieces."""
    kind = rng.randrange(6)
    if kind == 0:
        return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 10)))
    if kind == 1:
        return "".join("/" + rng.choice(WORDS) for _ in range(rng.randint(1, 5)))
    if kind == 2:
        return str(rng.randrange(10 ** rng.randint(1, 6)))
    if kind == 3:
        return rng.choice("`*'\"(") + rng.choice(WORDS) + rng.choice("`*'\"),.;:")
    if kind == 4:
        return rng.choice(WORDS) + rng.choice("_-.=/") + rng.choice(WORDS).capitalize()
    return rng.choice(SHELL_TOOL_NAMES) if SHELL_TOOL_NAMES and rng.random() < 0.5 else rng.choice(RARE_SYMBOLS)


def prose(rng: Random) -> str:
    return phrase(rng, 3, 40).capitalize() + rng.choice([".\n", ".\n\n", ". ", ":\n", "?\n", "\n"])


def bullets(rng: Random) -> str:
    return "".join(f"- {phrase(rng, 2, 14)}\n" for _ in range(rng.randint(1, 5)))


def heading(rng: Random) -> str:
    return "#" * rng.randint(1, 3) + " " + phrase(rng, 1, 5).title() + "\n\n"


def tagged(rng: Random) -> str:
    tag = rng.choice(WORDS) + rng.choice(["", "-", "_"]) + rng.choice(WORDS)
    return f"<{tag}>\n{phrase(rng, 1, 25)}\n</{tag}>\n"


def tool_schema(rng: Random) -> str:
    properties = {rng.choice(WORDS): {"type": "string", "description": phrase(rng, 2, 12)} for _ in range(2)}
    return json.dumps({"name": oddity(rng), "parameters": {"type": "object", "properties": properties}}) + "\n"


def snippet(rng: Random) -> str:
    name, argument, value = rng.choices(WORDS, k=3)
    return f"```\ndef {name}({argument}):\n    return {value}\n```\n"


def dated(rng: Random) -> str:
    day = f"{rng.randint(2000, 2099)}-{rng.randint(1, 12):02}-{rng.randint(1, 31):02}"
    subject = phrase(rng, 1, 6).capitalize()
    return subject + rng.choice([" ", ": ", " is "]) + day + rng.choice([".", ".\n", "\n", "\n\n"])


def field(rng: Random) -> str:
    return f"{rng.choice(WORDS)}: {oddity(rng)}\n"


def technical(rng: Random) -> str:
    """Dense text: names in backticks, brackets, numbers, operators, broken lines."""
    parts = []
    for _ in range(rng.randint(4, 20)):
        name, other = rng.choice(WORDS), rng.choice(WORDS)
        shapes = [f"`{name}_{other}`", f"({name}", f"{other})", f"{name}.{other}()", f"**{name}**", name.upper()]
        shapes += [
            f"{name}:",
            f"{name};",
            f"{name},",
            f'"{name}"',
            f"-> {name}",
            f"= {rng.randrange(1000)}",
            f"{name}\n",
        ]
        parts.append(rng.choice(shapes) if rng.random() < 0.6 else phrase(rng, 1, 4))
    return " ".join(parts) + rng.choice(["\n", ".\n", ". ", ""])


def table(rng: Random) -> str:
    columns = rng.randint(2, 6)
    rows = [[phrase(rng, 0, 4) for _ in range(columns)] for _ in range(rng.randint(1, 4))]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


BLOCKS = [
    prose,
    prose,
    prose,
    bullets,
    heading,
    tagged,
    tool_schema,
    snippet,
    dated,
    field,
    technical,
    technical,
    table,
]


def block(rng: Random) -> str:
    return rng.choice(BLOCKS)(rng)


def blocks(rng: Random, fewest: int, most: int) -> str:
    return "".join(block(rng) for _ in range(rng.randint(fewest, most)))

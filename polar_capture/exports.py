"""Export: choose samples in the database, stream them through a format into a file, and account for what was left
out."""

import datetime
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from polar_capture.export import files, registry
from polar_capture.export.manifest import Manifest
from polar_capture.export.row import CallNote, CallText, ExportRow
from polar_capture.outcomes import Warning
from polar_capture.sample_choice import Choice, Chosen, choose, left_out_calls, suspect_calls
from polar_capture.samples_table import read_samples
from polar_capture.store import Store
from polar_capture.store.models import Call

_AT_ONCE = 16


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is exported and how."""

    format: str
    choice: Choice = Choice()


def export(
    captured: Store, out: Path, options: ExportOptions, progress: Callable[[int, int], None] = lambda done, of: None
) -> Manifest:
    """Writes `out` and the manifest beside it (`<out>.manifest.json`), and returns the manifest; writes neither where
    no sample was chosen (`samples` is 0). ConfigError for a choice that can't be made, DatabaseError for bad SQL."""
    format = registry.get(options.format)
    suspects = suspect_calls(captured)
    selection = choose(captured, options.choice, needs_reward=format.needs_reward, suspects=suspects)
    manifest = Manifest(
        format=format.name,
        file=out.name,
        layout=format.layout,
        options=msgspec.to_builtins(options.choice),
        version=importlib.metadata.version("polar-capture"),
        created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        left_out=selection.left_out,
    )
    exported: set[str] = set()
    if selection.chosen:
        records = _records(captured, format, selection.chosen, manifest, exported, suspects, progress)
        first = next(records, None)
        if first is not None:
            written = files.write(out, format, _behind(first, records))
            manifest.size, manifest.sha256 = written.size, written.sha256
    left_out_calls(captured, options.choice, selection, exported, manifest)
    if manifest.samples:
        with files.replaced(out.with_name(out.name + ".manifest.json")) as part:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(manifest.as_json()), indent=2) + b"\n")
    return manifest


def _behind(first: dict[str, Any], records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield first
    yield from records


def _records(
    captured: Store,
    format: registry.Format,
    chosen: Sequence[Chosen],
    manifest: Manifest,
    exported: set[str],
    suspects: set[str],
    progress: Callable[[int, int], None],
) -> Iterator[dict[str, Any]]:
    """The records one by one; counts them in the manifest, and in `exported` the calls that train in them."""
    groups: dict[str, int] = {}
    sessions: dict[str, int] = {}
    members: dict[str, set[str]] = {}
    versions: set[int] = set()
    with captured.database.read.connect() as connection:
        for begin in range(0, len(chosen), _AT_ONCE):
            part = chosen[begin : begin + _AT_ONCE]
            notes = _notes(connection, {call for one in part for call in one.call_ids})
            samples = {sample.id: sample for sample in read_samples(connection, [one.id for one in part])}
            for place, one in enumerate(part, begin):
                sample = samples.pop(one.id, None)
                if sample is None:
                    manifest.left_out["rebuilt_meanwhile"] += 1
                    continue
                row = ExportRow(
                    sample=sample,
                    index=manifest.samples,
                    session_index=sessions.setdefault(sample.session_id, len(sessions)),
                    group_index=groups.setdefault(sample.group_id or f"session {sample.session_id}", len(groups)),
                    is_last_of_session=place + 1 == len(chosen) or chosen[place + 1].session_id != one.session_id,
                    sample_index=one.sample_index,
                    harness=one.harness,
                    harness_version=one.harness_version,
                    notes=notes,
                    text=cache(lambda call_id: _text(captured, call_id)),
                )
                record = format.record(row)
                progress(place + 1, len(chosen))
                if record is None:
                    manifest.left_out["no_text"] += 1
                    continue
                manifest.samples += 1
                manifest.sessions = len(sessions)
                manifest.tokens += len(sample.input_ids)
                manifest.trained_tokens += int(sample.loss_mask.sum())
                manifest.verdicts[sample.verdict] += 1
                manifest.breaks.update(record.break_ for record in sample.breaks)
                manifest.suspect_samples += any(call in suspects for call in one.call_ids)
                if sample.group_id is not None:
                    members.setdefault(sample.group_id, set()).add(sample.session_id)
                    manifest.groups[sample.group_id] = len(members[sample.group_id])
                versions.update(version for version in sample.policy_versions if version is not None)
                manifest.policy_versions = [min(versions), max(versions)] if versions else []
                exported.update(span.call_id for span in sample.turn_spans if span.trained)
                yield record


def _notes(connection: sa.Connection, call_ids: set[str]) -> dict[str, CallNote]:
    found: dict[str, CallNote] = {}
    wanted = sorted(call_ids)
    columns = (Call.id, Call.model_served, Call.sampling, Call.finish_reason, Call.warnings, Call.started_at)
    for begin in range(0, len(wanted), 500):
        query = sa.select(*columns).where(Call.id.in_(wanted[begin : begin + 500]))
        for id, model, sampling, finish_reason, warnings, started_at in connection.execute(query):
            temperature = (sampling or {}).get("temperature")
            found[id] = CallNote(
                model=model,
                temperature=1.0 if temperature is None else float(temperature),
                finish_reason=finish_reason,
                suspect=Warning.LOGPROBS_ALL_ZERO in (warnings or []),
                started_at=started_at,
            )
    return found


class _Body(msgspec.Struct):
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None


def _text(captured: Store, call_id: str) -> CallText | None:
    request, message = captured.body(call_id, "chat_request"), captured.body(call_id, "message")
    if request is None or message is None:
        return None
    try:
        body = msgspec.json.decode(request, type=_Body)
        answer = msgspec.json.decode(message, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return CallText(body.messages, body.tools, {"role": "assistant"} | answer)


def reasons_for_nothing(manifest: Manifest) -> str:
    """Why no sample was chosen, with the remedy, in one line."""
    left_out = manifest.left_out
    if not left_out:
        return "there are no samples: run `polar-capture build`"
    why = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in left_out.most_common())
    remedies = {
        "no_reward": "rewards came after the build: run `polar-capture build` again"
        if manifest.stale_rewards
        else "give rewards with `polar-capture reward` and build again",
        "verdict_split": "take split samples with --sql \"SELECT id FROM samples WHERE verdict = 'split'\"",
        "verdict_not_trainable": "`polar-capture build` shows why calls do not train",
    }
    remedy = next((remedies[name] for name, _ in left_out.most_common() if name in remedies), None)
    return f"every sample was left out: {why}" + (f"; {remedy}" if remedy else "")

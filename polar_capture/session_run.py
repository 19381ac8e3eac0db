"""One harness run as one session: proxy, session, child, reward, what was captured, status."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from polar_capture import capture_summary, captured, child, reward_command
from polar_capture.config import ServeConfig
from polar_capture.control_client import PROXIED, ControlClient, Refused
from polar_capture.environment import Endpoint, child_environment, evaluator_environment
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home
from polar_capture.launch import ProxyProcess, start_proxy, worker_for
from polar_capture.store import DatabaseError
from polar_capture.trust import write_bundle


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run. `extra` is added to the harness's environment; `db` is an SQLAlchemy URL."""

    command: tuple[str, ...]
    session: str
    home: Home
    db: str
    db_named: bool = True
    """False: `db` is the default, which a running proxy need not use."""
    spool: Path
    """Where the proxy keeps rows that its database could not take."""
    task_id: str | None = None
    group_id: str | None = None
    reward_command: str | None = None
    extra: Mapping[str, str] = {}
    inherited: Mapping[str, str] | None = None
    """What the harness has of our own environment; None: all of it."""
    harness: str | None = None
    harness_version: str | None = None
    finish: tuple[str, ...] = ()
    """A command that ends what the harness leaves running."""


def say(text: str) -> None:
    """A line of ours on stderr, told apart from the harness's own."""
    for line in text.splitlines():
        print(f"polar-capture: {line}", file=sys.stderr, flush=True)


def with_private_proxy(run: Run, config: ServeConfig, environ: Mapping[str, str] = os.environ) -> int:
    """Run behind a proxy of its own; the status for `polar-capture run`. Raises Failure, HomeError, TrustError."""
    child.check_command(run.command, _child_environment(run, environ))
    bundle = write_bundle(run.home.make_ca().read_text(encoding="utf-8"), run.home.bundle, environ)
    log = run.home.new_log(run.session)
    with _proxy(config, log, environ) as proxy:
        for name, url in (("mitmweb", proxy.ready.web), ("base-URL gateway", proxy.ready.gateway)):
            if url:
                say(f"{name}: {url}")
        address = worker_for(run.session, proxy.ready.workers or [proxy.ready.proxy])
        endpoint = Endpoint(address, bundle, run.session, config.key)
        # Through the proxy itself: of several workers, the one that serves the session has to know when it ends.
        control = ControlClient(PROXIED, config.control_token, proxy=endpoint.url)
        status = _drive(run, control, endpoint, environ)
        died = proxy.died()
    if died is not None:
        say(f"the proxy ended while the harness ran (status {died}); its log: {log}")
        status = status or (died if died in (Exit.NO_IDS, Exit.DATABASE) else Exit.FAULT)
    return _conclude(run, status, environ, log)


@contextlib.contextmanager
def _proxy(config: ServeConfig, log: Path, environ: Mapping[str, str]) -> Iterator[ProxyProcess]:
    proxy = start_proxy(config, log, environ)
    try:
        yield proxy
    finally:
        proxy.stop()


def with_running_proxy(run: Run, address: str, key: str | None, environ: Mapping[str, str] = os.environ) -> int:
    """Run behind the proxy at `address` (a bare URL); the status for `polar-capture run`. Raises as above."""
    child.check_command(run.command, _child_environment(run, environ))
    endpoint = Endpoint(address, run.home.bundle, run.session, key)
    control = ControlClient(PROXIED, _token(run.home), proxy=endpoint.url)
    ca = control.ca_pem()
    run.home.folder(run.home.path)
    # Another machine's or user's proxy has a CA of its own: its bundle must not replace that of ours.
    own = run.home.ca.exists() and run.home.ca.read_text(encoding="utf-8") == ca
    bundle = write_bundle(ca, run.home.bundle if own else run.home.foreign_bundle(ca), environ)
    status = _drive(run, control, msgspec.structs.replace(endpoint, bundle=bundle), environ)
    return _conclude(run, status, environ, None)


def _token(home: Home) -> str | None:
    return os.environ.get("POLAR_CONTROL_TOKEN") or home.kept_token()


def _child_environment(run: Run, environ: Mapping[str, str]) -> dict[str, str]:
    return {**(environ if run.inherited is None else run.inherited), **run.extra}


def _drive(run: Run, control: ControlClient, endpoint: Endpoint, environ: Mapping[str, str]) -> int:
    """Open the session, run the harness in it, close it, and let the reward command judge; the harness's status."""
    labels = {"task_id": run.task_id, "group_id": run.group_id}
    named = {"harness": run.harness, "harness_version": run.harness_version}
    trusted = True
    try:
        fields = {name: value for name, value in (labels | named).items() if value is not None}
        control.open_session(run.session, {"status": "open", **fields})
    except Refused as refused:
        if run.reward_command or any(labels.values()):
            raise
        trusted = False
        say(f"{refused} (the session is captured all the same; its end will not be marked)")
    try:
        status = child.run(
            run.command,
            child_environment(endpoint, _child_environment(run, environ)) | dict(run.extra),
            kill_rest=run.reward_command is not None,
        )
    except Failure as failure:
        say(str(failure))
        status = failure.status
    if run.finish:
        child.finish(run.finish, _child_environment(run, environ))
    if trusted:
        try:
            ended = {"status": "failed" if status else "completed", "metadata": {"exit_status": status}}
            control.change_session(run.session, ended)
            if run.reward_command is not None:
                _reward(run, control, environ)
        except Failure as failure:
            say(str(failure))
            status = status or Exit.FAULT
    return status


def _reward(run: Run, control: ControlClient, environ: Mapping[str, str]) -> None:
    assert run.reward_command is not None
    judgement = reward_command.judge(run.reward_command, evaluator_environment(environ, run.session))
    row = {"value": judgement.value, "source": "reward-cmd", "comment": judgement.comment}
    control.give_reward(run.session, row)
    say(f"reward {judgement.value:g}")


def _conclude(run: Run, status: int, environ: Mapping[str, str], log: Path | None) -> int:
    """Print what was captured; the status, 3 where the harness ended well and left no turn with ids."""
    try:
        facts = captured.read_facts(run.db, run.session, run.spool)
    except DatabaseError as error:
        if log is None and not run.db_named:
            say(f"what was captured is in the proxy's database; name it with --db to see it here ({error})")
            return status
        say(f"cannot read what was captured: {error}")
        return status or Exit.DATABASE
    if facts is None and log is None and not run.db_named:
        say(f"session {run.session} is not in {captured.shown(run.db)}: name the proxy's database with --db to see it")
        return status
    facts = facts or capture_summary.Facts()
    for line in capture_summary.lines(run.session, facts, captured.shown(run.db), named=run.db_named):
        say(line)
    if facts.captured:
        return status
    say(capture_summary.why_nothing(facts, _child_environment(run, environ), log))
    return status or Exit.NOTHING

"""Groups with a scripted engine and agent, through the real command and the real proxy."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
import requests

from polar_capture.config import ServeConfig
from polar_capture.home import Home
from polar_capture.launch import start_proxy
from tests.double.script import Rule, Script, Step, When
from tests.rollout.stage import processes, staged

pytestmark = pytest.mark.timeout(600)
NORTH = "grep -qx north proof.txt"


def overheads(stage):
    """Seconds of a session beside its calls, the agent's and the evaluator's own start included: for people's eyes."""
    gaps = {
        "opened to first call": "SELECT min(c.started_at) - s.started_at AS gap FROM sessions s "
        "JOIN calls c ON c.session_id = s.id GROUP BY s.id, s.started_at",
        "last call to reward": "SELECT min(r.created_at) - max(c.finished_at) AS gap FROM rewards r "
        "JOIN calls c ON c.session_id = r.session_id GROUP BY r.session_id",
    }
    for name, query in gaps.items():
        found = sorted(row["gap"] for row in stage.rows(query))
        yield f"{name}: median {found[len(found) // 2] * 1000:.0f} ms, least {found[0] * 1000:.0f} ms"


def test_32_tasks_of_8_samples_are_groups_with_rewards_and_advantages():
    with staged() as stage:
        stage.write(*({"id": f"t{n}", "prompt": f"turns {1 + n % 3}, flip", "evaluator": NORTH} for n in range(32)))
        done = stage.run("--samples", "8", "--parallel", "8", patience=500)
        assert done.returncode == 0, done.stderr
        print(done.stderr.splitlines()[-1], *overheads(stage), sep="\n")
        rows = stage.rows("SELECT group_id, count(*) AS n, count(DISTINCT sample_index) AS i FROM sessions GROUP BY 1")
        assert len(rows) == 32
        assert {(row["n"], row["i"]) for row in rows} == {(8, 8)}
        assert stage.count("sessions WHERE status = 'completed'") == 256
        assert {row["value"] for row in stage.rows("SELECT value FROM rewards WHERE name = 'outcome'")} == {0.0, 1.0}
        assert stage.count("rewards") == 256
        assert stage.count("calls WHERE trainable") == sum(8 * (1 + n % 3) for n in range(32))
        built = subprocess.run(
            [*stage.command()[:3], "build", "--db", stage.db, "--home", str(stage.folder / "home")],
            cwd=stage.folder,
            capture_output=True,
            text=True,
        )
        assert built.returncode == 0, built.stderr
        advantages = {round(row["advantage"], 3) for row in stage.rows("SELECT advantage FROM samples")}
        assert advantages == {-0.935, 0.935}
        assert processes(str(stage.folder)) == []


def test_each_sample_has_a_clean_workspace_and_home_and_its_own_environment():
    with staged() as stage:
        (stage.folder / "repo").mkdir()
        (stage.folder / "repo" / "given.txt").write_text("given")
        seen = 'test "$(cat given.txt)" = given && test "$(cat made.txt)" = yes && test ! -e stray && touch stray'
        check = f'{seen} && test -z "$HTTPS_PROXY$https_proxy" && test -n "$POLAR_SESSION" && test "$A" = b'
        stage.environ.pop("HTTPS_PROXY", None)
        stage.write(
            {"id": "t", "prompt": "turns 1", "workspace": "repo", "setup": "echo yes > made.txt"}
            | {"evaluator": {"command": check, "reads": "status"}, "env": {"A": "b"}, "tags": ["easy"]}
        )
        (group,) = stage.groups("--samples", "3", "--parallel", "2")
        assert group["rewards"] == [1.0, 1.0, 1.0]
        assert list((stage.folder / "tmp").rglob("given.txt")) == [], "finished workspaces are removed"
        (row, *_) = stage.rows("SELECT metadata FROM sessions")
        metadata = json.loads(row["metadata"])
        assert metadata["tags"] == ["easy"]
        assert metadata["rollout"]["stage"] == "done"


def test_a_git_commit_and_a_tarball_are_workspaces():
    with staged() as stage:
        repo = stage.folder / "repo"
        repo.mkdir()
        script = "git init -q . && echo old > f && git add f && git -c user.name=a -c user.email=b commit -qm 1 && "
        script += "git rev-parse HEAD && echo new > f && git -c user.name=a -c user.email=b commit -qam 2"
        commit = subprocess.run(["sh", "-c", script], cwd=repo, capture_output=True, text=True).stdout.strip()
        subprocess.run(["tar", "czf", stage.folder / "f.tar.gz", "-C", repo, "f"], check=True)
        stage.write(
            {"id": "git", "prompt": "turns 1", "workspace": {"git": str(repo), "commit": commit}}
            | {"evaluator": 'grep -qx old f && test -z "$(git remote)"'},
            {"id": "tar", "prompt": "turns 1", "workspace": "f.tar.gz", "evaluator": "grep -qx new f"},
        )
        assert [group["rewards"] for group in stage.groups("--samples", "1")] == [[1.0], [1.0]]


def test_a_timeout_ends_the_whole_tree_and_keeps_what_was_captured():
    with staged() as stage:
        stage.write(
            {"id": "t", "prompt": "turns 2, write north, leave 971, sleep 972", "timeouts": 6, "evaluator": NORTH}
        )
        (group,) = stage.groups("--samples", "2", "--parallel", "2")
        assert [result["status"] for result in group["results"]] == ["timeout", "timeout"]
        assert group["rewards"] == [1.0, 1.0], "what it has done is judged"
        assert stage.count("calls WHERE trainable") == 4
        assert processes("sleep 97") == []


def test_the_evaluator_starts_when_the_agents_whole_tree_is_dead():
    with staged() as stage:
        stage.write({"id": "t", "prompt": "turns 1, leave 973", "evaluator": "! pgrep -f '^sleep 973$'"})
        assert stage.groups("--samples", "1")[0]["rewards"] == [1.0]


def test_an_agent_that_fails_is_not_tried_again():
    with staged() as stage:
        stage.write({"id": "t", "prompt": "turns 1, exit 9", "evaluator": "echo 0"})
        (group,) = stage.groups("--samples", "2")
        assert [(r["status"], r["reward"], r["attempt"]) for r in group["results"]] == [("failed", 0.0, 0)] * 2


def test_an_engine_that_fails_is_a_reason_to_try_again_and_the_broken_attempt_leaves_its_group():
    first_attempt = Rule(When(contains="tasks.t.0 starts"), Step(status=500, error="broken"))
    with staged(Script(rules=[first_attempt])) as stage:
        stage.write({"id": "t", "prompt": "turns 2, write north", "evaluator": NORTH})
        (group,) = stage.groups("--samples", "2", "--parallel", "1")
        assert group["rewards"] == [1.0, 1.0]
        assert [result["attempt"] for result in group["results"]] == [1, 0]
        assert stage.count("sessions WHERE group_id = 'tasks.t'") == 2
        assert stage.count("sessions WHERE status = 'abandoned' AND group_id = 'tasks.t.abandoned'") == 1


def test_an_engine_that_dies_stops_the_rollout_with_what_to_do_and_it_goes_on_later():
    with staged() as stage:
        stage.write({"id": "t", "prompt": f"turns 1, until {stage.folder}/go, turns 1", "evaluator": "true"})
        process = stage.start("--samples", "2", "--parallel", "2", "--patience", "2", "--retries", "1")
        stage.await_count("calls", 2)
        stage.engine.process.send_signal(signal.SIGSTOP)
        stage.engine.kill()
        (stage.folder / "go").touch()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "the engine has not answered for 2 s: start it, and run the same command again" in errors
        assert processes(str(stage.folder)) == []


def test_a_failed_setup_is_told_with_its_output_and_nothing_is_sampled():
    with staged() as stage:
        stage.write({"id": "t", "prompt": "turns 1", "setup": "echo no such thing >&2; exit 4"})
        done = stage.run("--samples", "1", "--retries", "1")
        assert done.returncode == 3
        assert "setup ended with status 4" in done.stderr
        assert stage.count("calls") == 0


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        ("sleep 974", "took longer than 6 s"),
        ({"command": "echo ???", "reads": "number"}, "left no number in its last line: '???'"),
        ("no-such-judge", "could not run (status 127)"),
    ],
    ids=["hangs", "garbage", "missing"],
)
def test_a_broken_evaluator_gives_no_reward_and_is_the_only_thing_to_run_again(evaluator, said):
    with staged() as stage:
        task = {"id": "t", "prompt": "turns 1, write north", "timeouts": {"evaluate": 6}}
        stage.write(task | {"evaluator": evaluator})
        done = stage.run("--samples", "1")
        assert done.returncode == 1
        assert said in done.stderr
        assert stage.count("rewards") == 0
        assert processes("sleep 974") == []
        again = stage.run("--samples", "1")
        assert said in again.stderr
        assert stage.count("calls") == 1, "the agent does not run a second time for the evaluator's sake"


def test_a_session_at_its_limit_of_turns_ends_cleanly():
    with staged() as stage:
        stage.write({"id": "t", "prompt": "turns 50, write north", "limits": {"turns": 3}, "evaluator": NORTH})
        (group,) = stage.groups("--samples", "2")
        assert [(r["turns"], r["status"], r["reward"]) for r in group["results"]] == [(3, "completed", 1.0)] * 2
        assert stage.count("calls WHERE reason = 'limit_reached' AND kind = 'side' AND NOT trainable") == 2


@pytest.mark.parametrize("limits", [{"tokens": 8}, {"seconds": 0.01}], ids=["tokens", "seconds"])
def test_a_session_at_its_limit_of_tokens_or_seconds_ends_cleanly(limits):
    with staged() as stage:
        stage.write({"id": "t", "prompt": "turns 50, sleep 0.1, turns 50, write north", "limits": limits})
        (group,) = stage.groups("--samples", "1")
        assert group["results"][0]["turns"] <= 2
        assert stage.count("calls WHERE reason = 'limit_reached'") >= 1


def test_started_again_it_does_nothing_that_is_done_and_only_what_is_missing():
    with staged() as stage:
        stage.write({"id": "a", "prompt": "turns 1, flip", "evaluator": NORTH})
        assert stage.groups("--samples", "2")[0]["rewards"] == [0.0, 1.0]
        stage.write(
            {"id": "a", "prompt": "turns 1, flip", "evaluator": NORTH},
            {"id": "b", "prompt": "turns 1, flip", "evaluator": NORTH},
        )
        groups = stage.groups("--samples", "4")
        assert [group["rewards"] for group in groups] == [[0.0, 1.0, 0.0, 1.0]] * 2
        assert stage.count("calls") == 8


def test_a_changed_task_of_the_same_name_is_refused():
    with staged() as stage:
        stage.write({"id": "a", "prompt": "turns 1"})
        stage.run("--samples", "1")
        stage.write({"id": "a", "prompt": "turns 2"})
        done = stage.run("--samples", "1")
        assert done.returncode == 2
        assert "the task is another now" in done.stderr
        assert "--name" in done.stderr


def test_ctrl_c_leaves_no_process_and_the_next_start_goes_on():
    with staged() as stage:
        stage.write(
            *(
                {"id": f"t{n}", "prompt": "turns 1, write north, leave 975, sleep 0.7", "evaluator": NORTH}
                for n in range(4)
            )
        )
        process = stage.start("--samples", "4", "--parallel", "3")
        stage.await_count("rewards", 3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 130, errors
        assert "goes on from here" in errors
        assert processes(str(stage.folder)) == []
        assert processes("sleep 975") == []
        finished = stage.count("rewards")
        assert 3 <= finished < 16
        done = stage.run("--samples", "4", "--parallel", "3")
        assert done.returncode == 0, done.stderr
        assert f"{finished} from an earlier start" in done.stderr
        groups = stage.rows("SELECT group_id, count(*) AS n FROM sessions WHERE status = 'completed' GROUP BY 1")
        assert [row["n"] for row in groups] == [4, 4, 4, 4]
        assert stage.count("rewards") == 16


def test_a_killed_rollout_leaves_no_process_either():
    with staged() as stage:
        stage.write({"id": "t", "prompt": "turns 1, leave 976, sleep 60"})
        process = stage.start("--samples", "2", "--parallel", "2")
        stage.await_count("calls", 2)
        process.kill()
        process.communicate(timeout=30)
        deadline = time.monotonic() + 30
        while processes(str(stage.folder)) + processes("sleep 976") and time.monotonic() < deadline:
            time.sleep(0.2)
        assert processes(str(stage.folder)) + processes("sleep 976") == []


def test_the_same_command_twice_at_once_is_refused():
    with staged() as stage:
        stage.write({"id": "t", "prompt": f"turns 1, until {stage.folder}/go", "evaluator": "true"})
        first = stage.start("--samples", "1")
        stage.await_count("calls", 1)
        second = stage.run("--samples", "1")
        assert second.returncode == 2
        assert "rollout 'tasks' is running already" in second.stderr
        (stage.folder / "go").touch()
        first.communicate(timeout=60)
        assert first.returncode == 0
        assert stage.count("sessions") == 1


def test_bad_input_starts_nothing():
    with staged() as stage:
        stage.tasks.write_text('{"id": "a", "prompt": "x"}\n{"id": "b"}\nnonsense\n')
        done = stage.run()
        assert done.returncode == 2
        assert "tasks.jsonl:2: field prompt: it is required" in done.stderr
        assert "tasks.jsonl:3: expected a JSON object" in done.stderr
        stage.write({"id": "a", "prompt": "x"})
        for options, status, said in (
            (["--harness", "nobody"], 2, "harness 'nobody' is unknown: one of"),
            (["--samples", "0", "--harness", "pi"], 2, "--samples 0: at least 1"),
            (["--runtime", "docker", "--harness", "pi"], 2, "--runtime docker"),
            ([], 2, "no agent"),
        ):
            done = stage.run(*options, agent=False)
            assert (done.returncode, said in done.stderr) == (status, True), done.stderr
        assert not Path(stage.folder / "polar.db").exists() or stage.count("sessions") == 0


def test_in_the_jail_an_agent_that_ignores_the_proxy_is_caught_and_one_that_uses_it_works():
    with staged() as stage:
        stage.write(
            {"id": "good", "prompt": "turns 2, write north", "evaluator": NORTH},
            {"id": "bad", "prompt": "direct", "evaluator": "true"},
        )
        done = stage.run("--samples", "1", "--runtime", "jail")
        if "needs root, or user namespaces" in done.stderr:
            pytest.skip("this machine allows no network namespaces")
        assert done.returncode == 1
        assert "tasks.good: 1 samples, mean reward 1.000" in done.stderr
        assert "the harness ignores HTTPS_PROXY" in done.stderr
        (row,) = stage.rows("SELECT metadata FROM sessions WHERE task_id = 'bad'")
        assert "Network is unreachable" in json.loads(row["metadata"])["rollout"]["error"]


def test_a_session_that_spans_a_weight_update_is_marked():
    with staged() as stage:
        stage.write({"id": "t", "prompt": f"turns 1, until {stage.folder}/go, turns 1", "evaluator": "true"})
        home = Home(stage.folder / "home")
        home.make_ca()
        token = home.control_token()
        config = ServeConfig(
            upstreams=(stage.engine.url,), home=home.path, db=stage.db, port=0, control_token=token, egress="block"
        )
        proxy = start_proxy(config, stage.folder / "proxy.log", stage.environ)
        try:
            process = stage.start("--samples", "1", "--proxy", proxy.ready.proxy)
            stage.await_count("calls", 1)
            for page, body in (("pause", None), ("policy", {"version": 3}), ("resume", None)):
                headers = {"Authorization": f"Bearer {token}"}
                assert requests.post(f"{proxy.ready.control}/{page}", json=body, headers=headers, timeout=20).ok
            (stage.folder / "go").touch()
            _, errors = process.communicate(timeout=60)
        finally:
            proxy.stop()
        assert process.returncode == 0, errors
        assert "1 across policy versions" in errors
        (row,) = stage.rows("SELECT metadata FROM sessions")
        assert json.loads(row["metadata"])["rollout"]["policy_versions"] == [0, 3]

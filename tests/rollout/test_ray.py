"""A rollout over a Ray cluster of three nodes, one of which dies in the middle."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.double.process import running
from tests.installed import beside, installed
from tests.postgres import PostgresServer
from tests.rollout.stage import AGENT, POLAR, Stage, processes

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def environment():
    """Where Ray is: in a folder of its own, since nothing else needs it."""
    own = beside(ROOT, installed("ray", sys.executable, alone=False))
    return {"PYTHONPATH": own["PYTHONPATH"], "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def folder():
    """Of a short name: Ray's sockets are below TMPDIR, and a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


def test_a_dead_node_loses_no_finished_sample_and_its_others_are_made_again(environment, folder):
    server = PostgresServer()
    with running() as engine:
        stage = Stage(folder, engine)
        stage.db = server.url()
        stage.environ |= environment
        stage.write(
            *(
                {"id": f"t{n}", "prompt": "turns 2, flip, sleep 1", "evaluator": "grep -qx north proof.txt"}
                for n in range(3)
            )
        )
        count = "SELECT count(*) AS n FROM sessions WHERE status = 'completed'"
        counting = [*POLAR, "sql", count, "--json", "--db", stage.db]
        script = f"{subprocess.list2cmdline(counting[:3])} sql \"{count}\" --json --db '{stage.db}' | tr -dc 0-9"
        rollout = stage.command("--samples", "6", "--parallel", "6", "--ray", "ADDRESS")
        done = subprocess.run(
            [sys.executable, str(AGENT.with_name("ray_cluster.py")), "4", "sh", "-c", script, "--", *rollout],
            cwd=folder,
            env=stage.environ,
            capture_output=True,
            text=True,
            timeout=800,
        )
        print(done.stderr[-3000:])
        assert "a node dies" in done.stderr
        assert done.returncode == 0, done.stderr[-3000:]
        assert "it died with" in done.stderr
        rows = stage.rows("SELECT group_id, count(*) AS n FROM sessions WHERE status = 'completed' GROUP BY 1")
        assert sorted((row["group_id"], row["n"]) for row in rows) == [(f"tasks.t{n}", 6) for n in range(3)]
        assert stage.count("sessions WHERE status = 'abandoned' AND metadata::text LIKE '%its node died%'") >= 1
        # One that the node had judged as it died keeps its reward, in the group of what was abandoned.
        rewards = stage.rows(
            "SELECT s.id, count(r.id) AS n FROM sessions s JOIN rewards r ON r.session_id = s.id "
            "WHERE s.status = 'completed' GROUP BY 1"
        )
        assert {row["n"] for row in rewards} == {1}
        assert len(rewards) == 18
        assert processes(str(folder)) == []


def test_a_database_that_other_nodes_cannot_reach_is_refused(environment, tmp_path):
    with running() as engine:
        stage = Stage(tmp_path, engine)
        stage.write({"id": "t", "prompt": "turns 1"})
        done = stage.run("--ray", "auto")
        assert done.returncode == 2
        assert "--ray needs a database that every node reaches" in done.stderr

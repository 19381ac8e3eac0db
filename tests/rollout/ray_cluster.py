"""A Ray cluster of three nodes on this machine, a rollout on it, and the end of one node in the middle.

    python ray_cluster.py LEAST COUNT_COMMAND… -- ROLLOUT_COMMAND…

The node dies as soon as COUNT_COMMAND prints LEAST or more. Prints what the rollout said; ends with its status.
"""

import subprocess
import sys
import time

from ray.cluster_utils import Cluster

SIZES = {"num_cpus": 1, "object_store_memory": 80 << 20}


def started(tries: int = 3) -> "tuple[Cluster, object]":
    """Three nodes, and the one that is to die. Ray gives each 30 s to start, whatever else the machine is at."""
    cluster = Cluster()
    try:
        cluster.add_node(**SIZES, include_dashboard=False)
        victim = [cluster.add_node(**SIZES) for _ in range(2)][-1]
        cluster.wait_for_nodes()
    except Exception as error:
        cluster.shutdown()
        if tries == 1:
            raise
        print(f"the cluster did not start ({error}): again", file=sys.stderr, flush=True)
        return started(tries - 1)
    return cluster, victim


def main() -> int:
    split = sys.argv.index("--")
    least, count, rollout = int(sys.argv[1]), sys.argv[2:split], sys.argv[split + 1 :]
    cluster, victim = started()
    try:
        command = [cluster.address if part == "ADDRESS" else part for part in rollout]
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                told = subprocess.run(count, capture_output=True, text=True).stdout.strip()
                if told.isdigit() and int(told) >= least:
                    print("a node dies", file=sys.stderr, flush=True)
                    cluster.remove_node(victim, allow_graceful=False)
                    break
                time.sleep(0.2)
            return process.wait()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    sys.exit(main())

"""A Ray cluster of three nodes on this machine, a rollout on it, and the end of one node in the middle.

    python ray_cluster.py LEAST COUNT_COMMAND… -- ROLLOUT_COMMAND…

The node dies as soon as COUNT_COMMAND prints LEAST or more. Prints what the rollout said; ends with its status.
"""

import subprocess
import sys
import time

from ray.cluster_utils import Cluster


def main() -> int:
    split = sys.argv.index("--")
    least, count, rollout = int(sys.argv[1]), sys.argv[2:split], sys.argv[split + 1 :]
    sizes = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    try:
        victim = [cluster.add_node(**sizes) for _ in range(2)][-1]
        cluster.wait_for_nodes()
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

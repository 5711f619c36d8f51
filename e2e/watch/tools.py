"""A real Prometheus scrapes every process of a run, and a real TensorBoard reads its event files."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import support

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def prometheus(canoe, folder):
    program = shutil.which("prometheus")
    assert program, "no Prometheus: apt-get install prometheus"
    job = support.demo(canoe, folder)
    with support.run(canoe, job, passes=2000) as run:
        config = folder / "prometheus.yml"
        config.write_text(f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: canoe
    http_sd_configs: [{{url: "{run.page}/api/targets", refresh_interval: 1s}}]
  - job_name: canoe-job
    static_configs: [{{targets: ["{run.page.removeprefix('http://')}"]}}]
""")
        port = free_port()
        server = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            api = f"http://127.0.0.1:{port}/api/v1"

            def query(text):
                try:
                    return support.get_json(f"{api}/query?query={text}")["data"]["result"]
                except OSError:
                    return []

            def healthy():
                found = query("up")
                return found if len(found) == 7 and all(series["value"][1] == "1" for series in found) else None

            up = support.until(healthy, "seven healthy targets")
            support.until(lambda: len(query("canoe_trainer_batches_total")) == 3, "batches of three trainers")
            support.until(lambda: query("sum(rate(canoe_pserver_pushes_total[5s]))>0"), "pushes")
            support.until(lambda: any(mark.parent.name > "pass-00000" for mark in job.glob("output/pass-*/done")), "two saved passes")
            targets = support.get_json(f"{api}/targets")["data"]["activeTargets"]
            errors = [target["lastError"] for target in targets if target["lastError"]]
            assert not errors, errors
            names = {name for name in support.get_json(f"{api}/label/__name__/values")["data"] if name.startswith("canoe_")}
        finally:
            server.terminate()
            server.wait()
    documented = set(re.findall(r"^\| `(canoe_\w+)`", DOCS.read_text(), re.M))
    rare = {name for name in documented if "shard_touched_rows" in name or "table" in name or name.startswith("canoe_serve_")}
    assert names <= documented, f"not in docs/metrics.md: {sorted(names - documented)}"
    assert documented - rare <= names, f"documented but not exposed: {sorted(documented - rare - names)}"
    grafana = json.loads((DOCS.parents[1] / "deploy" / "grafana-dashboard.json").read_text())
    used = set(re.findall(r"canoe_\w+", json.dumps([p.get("targets") for p in grafana["panels"]])))
    assert used and used <= documented, f"the Grafana dashboard asks for {sorted(used - documented)}"
    print(f"Prometheus: {len(up)} targets up, {len(names)} metrics, all documented; Grafana's {len(used)} exist")
    return job


def tensorboard(output):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tags = {}
    for part in ("train", "test"):
        reader = EventAccumulator(str(output / "tensorboard" / part), size_guidance={"scalars": 0, "histograms": 0})
        reader.Reload()
        tags[part] = reader.Tags()
        costs = reader.Scalars("cost")
        assert all(a.step <= b.step for a, b in zip(costs, costs[1:])), "steps go back"
        assert all(0 < cost.value < 10 for cost in costs), "no such costs"
        if part == "train":
            # How long the job ran depends on the machine, and the last batch may be a difficult one: only the lowest is certain.
            assert min(cost.value for cost in costs) < costs[0].value, "the cost did not fall"
            (name, *_) = tags[part]["histograms"]
            spread = reader.Histograms(name)[-1].histogram_value
            assert spread.num == sum(spread.bucket) > 0, spread
    print(f"TensorBoard: {[(part, found['scalars'], found['histograms']) for part, found in tags.items()]}")
    for part in tags.values():
        assert "classification_error_evaluator" in part["scalars"], tags


def main():
    canoe = support.canoe_from_arguments()
    with support.scratch() as folder:
        job = prometheus(canoe, folder)
        tensorboard(job / "output")


if __name__ == "__main__":
    sys.exit(main())

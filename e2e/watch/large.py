"""A page of 64 nodes, 100 passes and 100,000 points, and one of hostile text: both from generated files."""

import json
import math
import random
import sys
import time

import support
from browser import Browser

NODES, PASSES, POINTS = 64, 100, 100_000


def write_large(folder):
    output = folder / "large" / "output"
    random.seed(1)
    per_pass = POINTS // NODES // PASSES + 1
    extra = POINTS // 2 // PASSES
    t0 = time.time() - 7200
    for node in range(NODES):
        home = output / f"node_{node}"
        home.mkdir(parents=True)
        # Half of the points are trainer 0's: the page shows its curve first.
        count = extra if node == 0 else max(1, per_pass // 2)
        with open(home / "train.events.jsonl", "w") as file:
            say = lambda t, kind, **rest: file.write(json.dumps({"t": t, "kind": kind, **rest}) + "\n")
            say(t0, "start", role="trainer", node=node, run="r", pid=100 + node, host=f"host-{node}", trainers=NODES, passes=PASSES)
            for number in range(PASSES):
                say(t0 + 60 * number, "pass_started", **{"pass": number, "batch": 0})
                for point in range(count):
                    x = number + point / count
                    cost = math.exp(-x / 30) + random.gauss(0, 0.03)
                    say(t0 + 60 * x, "batch", **{"pass": number, "batch": point + 1, "samples": (point + 1) * 1000, "cost": cost,
                                                 "evaluators": {"error": abs(cost) / 3} if point % 10 == 0 else {}})
                ends = {"pass": number, "batch": count, "samples": count * 1000, "cost": math.exp(-number / 30), "evaluators": {"error": 0.3}}
                say(t0 + 60 * number + 59, "pass_finished", **ends, seconds=59.0, waited=5.0)
                say(t0 + 60 * number + 59.5, "tested", **ends)
                if node == 0:
                    spread = [{"name": f"layer_{n}.w", "count": 10000, "mean": 0.0, "std": 0.1 + number / 100, "zeros": 0.0, "min": -1.0, "max": 1.0,
                               "squares": 10.0, "histogram": [int(100 * math.exp(-((b - 20) / 8) ** 2)) for b in range(40)]} for n in range(20)]
                    say(t0 + 60 * number + 59.6, "parameters", **{"pass": number, "parameters": spread})
        with open(home / "server.events.jsonl", "w") as file:
            file.write(json.dumps({"t": t0, "kind": "start", "role": "pserver", "node": node, "run": "r"}) + "\n")
            for number in range(0, PASSES, 5):
                file.write(json.dumps({"t": t0 + 60 * number, "kind": "snapshot", "step": number * 100}) + "\n")
        (home / "train.log").write_text("I1116 line\n" * 1000)
        for role, file in (("trainer", "train"), ("pserver", "server")):
            beat = {"t": time.time(), "run": "r", "role": role, "pid": 5, "host": "h", "pass": 99, "batch": 7, "samples": 1, "samples_per_second": 1234.5,
                    "received_bytes_per_second": 1e6, "sent_bytes_per_second": 1e6, "waiting": 0.1, "memory_bytes": 10**9, "phase": "running", "waits_for": ""}
            (home / f"{file}.beat.json").write_text(json.dumps(beat))
    return folder / "large"


def large(canoe, folder, browser):
    job = write_large(folder)
    with support.dashboard(canoe, job) as program:
        begun = time.monotonic()
        cold = support.get(f"{program.page}/api/jobs/0/update")
        cold_time = time.monotonic() - begun
        browser.goto(program.page)
        browser.wait("window.canoe && canoe.charts.size >= 2 && document.querySelectorAll('#node-table tbody tr').length === 64", "the large page")
        paint = browser.ask("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        ready = browser.ask("performance.now()")
        sent = browser.ask("performance.getEntriesByType('resource').reduce((n, e) => n + e.transferSize, performance.getEntriesByType('navigation')[0].transferSize)")
        frames = browser.ask("""new Promise(done => { const times = []; let last = performance.now(), n = 0;
            const chart = [...canoe.charts.values()][0];
            const step = () => { const begun = performance.now(); canoe.view.cursor = n * 40000; canoe.view.cursorOwner = chart; chart.draw(); times.push(performance.now() - begun);
                n += 1; if (n < 40) requestAnimationFrame(step); else done(times.sort((a, b) => a - b)); }; step(); })""")
        browser.ask("(() => { const s = document.getElementById('curve-nodes'); s.value = 'all'; s.dispatchEvent(new Event('change')); })()")
        browser.wait("canoe.jobs[0].series.size >= 64 * 2", "the curves of all nodes")
        everything = browser.ask("performance.getEntriesByType('resource').filter(e => e.name.includes('nodes=all')).map(e => e.transferSize)[0]")
        browser.wait("new Promise(done => setTimeout(() => done(true), 300))", "a frame")
        all_time = browser.ask("(() => { const b = performance.now(); [...canoe.charts.values()][0].draw(); return performance.now() - b; })()")
        browser.picture(support.pictures() / "large.png")
        assert not browser.errors, browser.errors
        points = browser.ask("[...canoe.jobs[0].series.values()].reduce((n, s) => n + s.x.length, 0)")
        browser.leave()
    print(f"64 nodes, 100 passes, {POINTS:,} points: files read and answered in {cold_time:.2f} s ({len(cold):,} bytes); first paint {paint:.0f} ms, complete {ready:.0f} ms, "
          f"{sent:,} bytes sent; a frame takes {frames[20]:.1f} ms (worst {frames[-1]:.1f}); all nodes' curves: {everything:,} bytes, {points:,} points, {all_time:.0f} ms a frame")
    assert sent < 2_000_000, "the page is heavy"


EVIL = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>\u202e\x1b[31m\x07"


def write_hostile(folder):
    job = folder / "<b>job&amp;\"'"
    home = job / "output" / "node_0"
    home.mkdir(parents=True)
    lines = [
        {"t": 1, "kind": "start", "role": "trainer", "node": 0, "run": EVIL, "host": EVIL, "version": EVIL, "config": EVIL, "command": [EVIL], "passes": 3},
        {"t": 2, "kind": "batch", "pass": 0, "batch": 1, "samples": 10, "cost": 1.0, "evaluators": {EVIL: 0.5, "__proto__": 1.0, "constructor": 2.0}},
        {"t": 3, "kind": "batch", "pass": 0, "batch": 2, "samples": 20, "cost": 0.9, "evaluators": {EVIL: 0.4}},
        {"t": 4, "kind": "pass_finished", "pass": 0, "batch": 2, "samples": 20, "cost": 0.95, "evaluators": {EVIL: 0.45}, "seconds": 2, "waited": 0},
        {"t": 5, "kind": "parameters", "pass": 0, "parameters": [{"name": EVIL, "count": 4, "mean": 0, "std": 1, "zeros": 0, "min": -1, "max": 1, "squares": 4, "histogram": [2, 2]}]},
        {"t": 6, "kind": "saved", "pass": 0, "path": EVIL},
        {"t": 7, "kind": "end", "error": EVIL},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (home / "train.events.jsonl").write_bytes(text.encode() + b"\xff\xfe\n{\n" + b"y" * (10 << 20) + b"\n" + json.dumps(lines[5]).encode() + b"\n{\"t\":9,\"ki")
    (home / "train.log").write_bytes(EVIL.encode() + b"\n" + b"z" * (10 << 20) + b"\n" + bytes(range(256)) + b"\n" + EVIL.encode() + b"\n")
    (home / "server.events.jsonl").write_text(json.dumps({"t": 1, "kind": "tables", "tables": [{"name": EVIL, "rows": 5, "bytes": 50}]}) + "\n")
    (home / "network.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40" onload="window.hacked=1"><script>window.hacked=1</script><text y="20">layer</text></svg>')
    (home / "config.txt").write_text(EVIL)
    return job


def hostile(canoe, folder, browser):
    job = write_hostile(folder)
    with support.dashboard(canoe, job) as program:
        browser.goto(program.page)
        browser.wait("window.canoe && canoe.charts.size >= 2", "the hostile page")
        browser.wait("document.getElementById('log-text').textContent.includes('onerror')", "the hostile log")
        browser.wait("!document.getElementById('network-image').hidden", "the hostile picture")
        browser.wait("!!document.querySelector('#parameter-table canvas.histogram')", "the hostile parameter")
        assert browser.ask("window.hacked") is None
        assert browser.ask("document.querySelectorAll('main img').length") == 1, "text became a picture"
        assert browser.ask("document.scripts.length") == 1, "text became a script"
        shown = browser.ask("document.getElementById('log-text').textContent")
        assert len(shown) < 20_000 and "\x1b" not in shown and "\u202e" not in shown, len(shown)
        (monster,) = support.get_json(f"{program.page}/api/jobs/0/log?search=zzzz")["lines"]
        assert len(monster) < 3000 and "bytes in all" in monster, len(monster)
        everything = browser.ask("document.body.innerText")
        assert "<img src=x" in everything, "shown as text"
        assert not any(hidden in everything for hidden in "\x07\x1b\u202e"), "what cannot be seen is made visible"
        picture = support.get(f"{program.page}/api/jobs/0/network.svg")
        assert b"hacked" in picture, "the file is passed on as it is, and cannot run"
        assert not browser.errors, browser.errors
        head = {}
        import urllib.request
        with urllib.request.urlopen(f"{program.page}/api/jobs/0/network.svg") as answer:
            head = answer.headers
        assert "default-src 'none'" in head["Content-Security-Policy"], head
        browser.goto(f"{program.page}/api/jobs/0/network.svg")
        time.sleep(0.3)
        assert browser.ask("window.hacked") is None, "a picture ran a script"
        browser.leave()
        request = urllib.request.Request(program.page, headers={"Host": "evil.example"})
        try:
            urllib.request.urlopen(request)
            raise AssertionError("a page of another name led here")
        except urllib.error.HTTPError as refused:
            assert refused.code == 403
    import subprocess
    report = folder / "report.html"
    subprocess.run([canoe, "report", job, "--out", report, "--svg"], check=True, stdout=subprocess.DEVNULL)
    text = report.read_text()
    assert "<script" not in text and "<img src=x" not in text and report.with_suffix(".svg").read_text().startswith("<svg")
    browser.goto(report.as_uri())
    assert browser.ask("window.hacked") is None and not browser.errors, browser.errors
    print("hostile text in logs, names, paths, pictures and records is shown harmless, on the page and in the report")


def main():
    canoe = support.canoe_from_arguments()
    with support.scratch() as folder, Browser(1280, 900) as browser:
        large(canoe, folder, browser)
        hostile(canoe, folder, browser)


if __name__ == "__main__":
    sys.exit(main())

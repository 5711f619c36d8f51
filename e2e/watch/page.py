"""The page in a real browser: a running job, a stopped and a killed node, the finished job's files, two jobs together; and reports."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import support
from browser import Browser

LONGER = "window.canoe && [...canoe.jobs[0].series.values()].some(s => s.key.metric === 'cost' && !s.key.test && s.x.length > {})"


def curves_move(browser):
    browser.wait(LONGER.format(10), "the first points")
    before = browser.ask("[...canoe.jobs[0].series.values()].find(s => s.key.metric === 'cost' && !s.key.test).x.at(-1)")
    browser.wait(f"[...canoe.jobs[0].series.values()].find(s => s.key.metric === 'cost' && !s.key.test).x.at(-1) > {before}", "the curve to move")
    pixels = browser.ask("""(() => { const c = document.querySelector('.chart canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
        for (let i = 3; i < d.length; i += 4) if (d[i]) n += 1; return n; })()""")
    assert pixels > 2000, f"the chart is empty: {pixels} pixels"


def a_point_tells_its_value(browser):
    browser.ask("scrollTo(0, 0)")
    x, y = browser.ask("(() => { const c = document.querySelector('.chart canvas').getBoundingClientRect(); return [c.left + c.width * 0.6, c.top + c.height / 2]; })()")
    browser.move(x, y)
    tip = browser.wait("(() => { const t = document.querySelector('.chart .tip'); return !t.hidden && t.textContent; })()", "the tip")
    assert "samples" in tip and "train" in tip, tip
    browser.drag(x - 150, x + 100, y)
    browser.wait("canoe.view.range !== null", "the zoom")
    browser.wait("!document.getElementById('zoom-out').disabled", "the way back")
    browser.ask("document.getElementById('zoom-out').click()")
    browser.wait("canoe.view.range === null", "the whole run")
    browser.ask("document.querySelector('.chart canvas').focus()")
    browser.key("ArrowLeft")
    browser.wait("document.getElementById('spoken').textContent.includes('train')", "the keyboard's cursor to be spoken")
    browser.ask("document.querySelector('input[name=axis][value=time]').click()")
    browser.wait("canoe.view.axis === 'time'", "the axis of time")
    browser.ask("document.querySelector('input[name=axis][value=samples]').click()")


def logs_can_be_switched(browser):
    browser.wait("document.getElementById('log-text').textContent.includes('--trainer_id=0')", "the log of trainer 0")
    browser.ask("(() => { const s = document.getElementById('log-node'); s.value = '1'; s.dispatchEvent(new Event('change')); })()")
    browser.wait("document.getElementById('log-text').textContent.includes('--trainer_id=1')", "the log of trainer 1")
    browser.ask("document.querySelector('input[name=log-role][value=server]').click()")
    browser.wait("document.getElementById('log-text').textContent.includes('tcp server start')", "the log of server 1")
    browser.ask("(() => { const s = document.getElementById('log-search'); s.value = 'TCP SERVER'; s.dispatchEvent(new Event('input')); })()")
    browser.wait("document.querySelectorAll('#log-text mark').length > 0 && document.getElementById('log-state').textContent.includes('contain')", "the search")
    browser.ask("(() => { const s = document.getElementById('log-search'); s.value = ''; s.dispatchEvent(new Event('input')); })()")
    browser.ask("document.querySelector('input[name=log-role][value=trainer]').click()")


def everything_is_there(browser):
    browser.wait("document.querySelectorAll('#node-table tbody tr').length === 3", "three nodes")
    browser.wait("document.querySelectorAll('#parameter-table tbody tr canvas.histogram').length >= 2", "histograms")
    browser.wait("document.querySelectorAll('#pass-table tbody tr').length > 1", "passes")
    browser.wait("(() => { const i = document.getElementById('network-image'); return !i.hidden && i.naturalWidth > 50; })()", "the network")
    browser.wait("document.getElementById('config-text').textContent.includes('settings(')", "the configuration")
    unlabelled = browser.ask("""[...document.querySelectorAll('button, input, select, canvas[tabindex]')].filter(e =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels && e.labels.length && e.labels[0].textContent.trim())).map(e => e.id || e.outerHTML)""")
    assert not unlabelled, f"without a name for screen readers: {unlabelled}"


def a_stopped_node_is_found(browser, job):
    """A stopped node is replaced after some seconds, and a busy machine may show nothing before that: then once more."""
    row = "document.querySelector('#node-table tbody tr[data-node=\"0/1\"]')"
    does = "[0, 2].map(n => document.querySelector(`#node-table tbody tr[data-node=\"0/${n}\"]`).cells[10].textContent)"
    shown = f"{row}.classList.contains('awaited') && {does}.some(text => /wait/.test(text))"
    for _ in range(10):
        stopped = [support.pid_of(job, 1, role) for role in ("train", "server")]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        found = browser.sees(shown, 7)
        if found:
            own, others = browser.ask(f"{row}.cells[10].textContent"), browser.ask(does)
            browser.picture(support.pictures() / "stopped.png")
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):  # it may have been replaced
                os.kill(pid, signal.SIGCONT)
        browser.wait(f"canoe.jobs[0].head.state === 'running' && !{row}.classList.contains('awaited')", "node 1 to be back")
        if found:
            print(f"stopped node 1 shows: '{own}'; the others: {others}")
            return
    raise AssertionError("the page never showed that node 1 was stopped and that the others waited")


def a_killed_node_is_an_event(browser, job):
    os.kill(support.pid_of(job, 2), signal.SIGKILL)
    events = "document.getElementById('event-list').textContent"
    browser.wait(f"{events}.includes('trainer 2 was killed by SIGKILL')", "the death")
    browser.wait(f"{events}.includes('trainer 2 is running again')", "the restart")
    browser.wait("canoe.jobs[0].marks.some(m => m.kind === 'restarted')", "the mark on the curves")
    browser.wait("document.querySelector('#node-table tbody tr[data-node=\"0/2\"]').cells[9].textContent === '1'", "the count of restarts")
    browser.wait("canoe.jobs[0].head.state === 'running'", "the job to go on")


def pictures(browser, name):
    folder = support.pictures()
    browser.ask("scrollTo(0, 0)")
    for dark, width, height, suffix in ((False, 1280, 1000, "light"), (True, 1280, 1000, "dark"), (False, 400, 800, "400")):
        browser.dark(dark)
        browser.size(width, height)
        time.sleep(0.5)
        browser.picture(folder / f"{name}-{suffix}.png")
        wide = browser.ask("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} {suffix}: the page is {wide} wide"
    browser.dark(False)
    browser.size(1280, 900)


def an_open_page_shows_the_end(browser, job):
    """The program has ended, and the page was told how the job did."""
    browser.wait("!document.getElementById('ended').hidden", "the page to notice that it has ended")
    state, result, passes = browser.ask("[canoe.jobs[0].head.state, document.querySelector('.head .result').textContent, canoe.jobs[0].head.done]")
    assert state == "finished" and passes == 3, (state, passes)
    assert result.startswith("best test error"), result
    told = browser.ask("document.getElementById('ended').textContent")
    assert "has finished" in told and f"canoe dashboard {job}" in told, told
    assert browser.ask("document.getElementById('trouble').hidden"), "the end is no fault"
    working = browser.ask("[...document.querySelectorAll('#node-table .pill')].map(pill => pill.textContent).filter(text => text !== 'finished' && text !== 'ended')")
    assert not working, working


def main():
    canoe = support.canoe_from_arguments()
    with support.scratch() as folder, Browser() as browser:
        job = support.demo(canoe, folder)
        with support.run(canoe, job, "--keep-going", passes=2000) as program:
            browser.goto(program.page)
            browser.wait("window.canoe && canoe.jobs[0].head && canoe.jobs[0].head.state === 'running'", "the job to run")
            curves_move(browser)
            everything_is_there(browser)
            a_point_tells_its_value(browser)
            logs_can_be_switched(browser)
            pictures(browser, "running")
            a_stopped_node_is_found(browser, job)
            a_killed_node_is_an_event(browser, job)
            assert not browser.errors, browser.errors
            browser.leave()
        print("a running job: curves move, hover, zoom, keys, logs, stop, kill")

        with support.dashboard(canoe, job) as program:
            browser.goto(program.page)
            browser.wait(LONGER.format(10), "the curves of the finished job")
            assert browser.ask("canoe.jobs[0].head.state") == "interrupted"
            everything_is_there(browser)
            a_point_tells_its_value(browser)
            logs_can_be_switched(browser)
            pictures(browser, "finished")
            assert not browser.errors, browser.errors
            browser.leave()
        print("the same from the files of the finished job")

        second = support.demo(canoe, folder / "second")
        with support.run(canoe, second, passes=3) as program:
            browser.goto(program.page)
            assert program.process.wait(300) == 0, program.text()
            an_open_page_shows_the_end(browser, second)
            pictures(browser, "ended")
            browser.leave()
        print("a page that was open until the end")
        with support.dashboard(canoe, job, second) as program, support.dashboard(canoe, program.page, second) as other:
            for page in (program.page, other.page):
                browser.goto(page)
                browser.wait("window.canoe && canoe.jobs.length === 2 && canoe.jobs.every(j => j.series && j.series.size)", "both jobs")
                browser.wait("document.querySelectorAll('#heads .head').length === 2 && document.querySelectorAll('#legend button').length === 4", "both heads")
            browser.wait("!document.getElementById('comparison').hidden && document.querySelectorAll('#comparison-table tbody tr').length === 2", "the comparison")
            result = browser.ask("document.querySelector('.head .result').textContent")
            assert result.startswith("best test error"), result
            samples = browser.ask("canoe.jobs[1].head.samples")
            assert samples == 60000, f"three passes over 20,000 samples by three trainers, the page says {samples}"
            pictures(browser, "two")
            assert not browser.errors, browser.errors
            browser.leave()
        print("two jobs over each other, from folders and from another page")

        for name, jobs in (("report", [second]), ("report-two", [job, second])):
            report = folder / (name + ".html")
            subprocess.run([canoe, "report", *jobs, "--to", report], check=True, stdout=subprocess.DEVNULL)
            browser.goto(report.as_uri())
            browser.wait("document.body && /best test error/i.test(document.body.textContent)", "the result in words")
            pictures(browser, name)
            assert not browser.errors, browser.errors
        print("reports of one job and of two")


if __name__ == "__main__":
    sys.exit(main())

// Polls for new data, stores it, and redraws.

const view = {
  axis: 'samples', range: null, cursor: null, cursorOwner: null, smoothing: 0.6, log: false, showMarks: true, nodes: '',
  setCursor(at, owner, speak) {
    this.cursor = at;
    this.cursorOwner = owner;
    redraw(() => { if (speak) setText(document.getElementById('spoken'), owner.spokenText || ''); });
  },
  zoom(range) {
    const whole = range && charts.size ? [...charts.values()][0].wholeRange() : null;
    if (range && whole) range = [Math.max(0, range[0]), Math.min(whole, range[1])];
    this.range = range && range[1] - range[0] > 1e-9 && !(whole && range[0] <= 0 && range[1] >= whole) ? range : null;
    document.getElementById('zoom-out').disabled = !this.range;
    for (const job of jobs) job.detail = null;
    redraw();
    clearTimeout(this.timer);
    if (this.range) this.timer = setTimeout(fetchDetail, 120);
  },
};

Chart.prototype.wholeRange = function () {
  const range = view.range;
  view.range = null;
  const whole = this.xRange()[1];
  view.range = range;
  return whole;
};

const jobs = [];
const charts = new Map();
const tableCharts = new Map();
const hidden = new Set();
const parameters = new Parameters();
const logs = new Logs();
window.canoe = { jobs, charts, view };

async function ask(job, question) {
  const answer = await fetch('/api/jobs/' + job.index + '/' + question).catch(() => null);
  if (!answer || !answer.ok) return null;
  return answer.json().catch(() => null);
}

// ---- data

function forget(job) {
  job.series = new Map();
  job.marks = [];
  job.passes = new Map();
  job.parameters = new Map();
  job.tables = new Map();
  job.detail = null;
}

// Folders of one name get a number.
function tellApart() {
  for (const job of jobs) {
    const same = jobs.filter(other => other.own === job.own);
    job.name = job.own + (same.length > 1 ? ' (' + (same.indexOf(job) + 1) + ')' : '');
  }
}

function take(job, news) {
  if (news.incarnation !== job.incarnation || news.since === 0) forget(job);
  job.incarnation = news.incarnation;
  job.order = news.order;
  if (job.own !== news.name) {
    job.own = news.name;
    tellApart();
    showLegend();
  }
  job.began = news.began;
  job.paused = news.paused;
  job.head = news.head;
  job.nodes = news.nodes;
  for (const { key, whole, points } of news.series) {
    const name = [key.metric, key.test, key.node].join('\u0000');
    const known = job.series.get(name);
    if (!known || whole) job.series.set(name, { key, ...points });
    else {
      // After a roll-back, drop the points that come after the new ones.
      const from = lowerBound(known.x, points.x[0]);
      for (const column of ['x', 't', 'v']) known[column] = known[column].slice(0, from).concat(points[column]);
    }
  }
  job.marks = job.marks.concat(news.marks).sort((a, b) => a.t - b.t).slice(-4000);
  for (const pass of news.passes) job.passes.set(pass.pass, pass);
  for (const { pass, list } of news.parameters) job.parameters.set(pass, new Map(list.map(parameter => [parameter.name, parameter.std])));
  for (const table of news.tables) job.tables.set(table.name, table);
}

// A number for this page: a job that ends waits until its open pages have shown the end.
const page = crypto.getRandomValues(new Uint32Array(1))[0];

// Seconds between two polls.
function pause() {
  return document.hidden || failures > 3 || jobs.every(isOver) ? 5 : 1;
}

async function poll(job) {
  const question = 'update?incarnation=' + (job.incarnation || 0) + '&since=' + (job.order || 0) + '&nodes=' + view.nodes + '&page=' + page + '&again=' + pause();
  const asked = view.nodes;
  const news = await ask(job, question);
  if (asked !== view.nodes) return true;
  if (news) take(job, news);
  return news !== null;
}

async function fetchDetail() {
  if (!view.range) return;
  const [from, to] = view.range;
  await Promise.all(jobs.map(async job => {
    const dense = [...job.series.values()].some(series => series.x.length > 1200);
    if (!dense) return;
    const scale = view.axis === 'time' ? 1 : firstScale(job), wide = (to - from) / 2 / scale;
    const answer = await ask(job, 'stretch?by=' + view.axis + '&nodes=' + view.nodes + '&from=' + Math.max(0, from / scale - wide) + '&to=' + (to / scale + wide));
    if (!answer || !view.range || view.range[0] !== from) return;
    job.detail = new Map(answer.series.map(({ key, points }) => [[key.metric, key.test, key.node].join('\u0000'), points]));
  }));
  redraw();
}

// ---- drawing

function curvesOf(metric) {
  const found = [];
  const several = jobs.length > 1;
  jobs.forEach((job, index) => {
    if (hidden.has('job' + index) || !job.series) return;
    const nodes = new Set([...job.series.values()].map(series => series.key.node));
    const first = Math.min(...nodes);
    for (const [name, series] of job.series) {
      const { key } = series;
      if (key.metric !== metric || hidden.has(key.test ? 'test' : 'train')) continue;
      const points = job.detail && job.detail.get(name) || series;
      const scale = scaleOf(job, key.node);
      const label = (several ? job.name + ' ' : '') + (key.test ? 'test' : 'train') + (nodes.size > 1 ? ' ' + key.node : '');
      found.push({
        x: scale === 1 ? points.x : points.x.map(x => x * scale), t: points.t, v: points.v, test: key.test, label,
        colour: several ? job.colour : colour(key.test ? 'c1' : 'c0'),
        dashed: several && key.test, thin: nodes.size > 1 && key.node !== first,
      });
    }
  });
  return found.sort((a, b) => (b.thin - a.thin) || (a.test - b.test));
}

// A trainer's points are at its own samples; jobs are drawn, and compared, by the samples of all their trainers.
function scaleOf(job, node) {
  const scales = job.head && job.head.scales || {};
  return scales[node] || 1;
}

function firstScale(job) {
  const nodes = Object.keys(job.head && job.head.scales || {}).map(Number);
  return nodes.length ? scaleOf(job, Math.min(...nodes)) : 1;
}

function marksOf() {
  return jobs.flatMap((job, index) => {
    if (hidden.has('job' + index)) return [];
    const scale = firstScale(job);
    return (job.marks || []).map(mark => scale === 1 ? mark : { ...mark, x: mark.x * scale });
  });
}

function showCharts() {
  const metrics = new Set();
  for (const job of jobs) for (const series of (job.series || new Map()).values()) metrics.add(series.key.metric);
  const wanted = [...metrics].sort((a, b) => (b === 'cost') - (a === 'cost') || a.localeCompare(b)).slice(0, 24);
  const box = document.getElementById('charts');
  if (!wanted.length && !box.firstChild) box.append(make('p', { class: 'quiet' }, 'Curves appear after the first batch.'));
  for (const metric of wanted) {
    if (charts.has(metric)) continue;
    if (!charts.size) box.replaceChildren();
    charts.set(metric, new Chart(box, metric, view, () => curvesOf(metric), marksOf));
  }
}

const tableView = { axis: 'time', range: null, cursor: null, cursorOwner: null, smoothing: 0, log: false, showMarks: false, setCursor(at, owner) { this.cursor = at; this.cursorOwner = owner; redraw(); }, zoom() {} };

function showTables() {
  const names = new Set(jobs.flatMap(job => [...(job.tables || new Map()).keys()]));
  document.getElementById('tables').hidden = !names.size;
  for (const name of names) {
    if (tableCharts.has(name)) continue;
    const curves = () => jobs.filter(job => job.tables && job.tables.has(name)).map(job => {
      const table = job.tables.get(name);
      return { ...table.rows, test: false, label: (jobs.length > 1 ? job.name + ' ' : '') + 'rows (' + bytes(table.bytes) + ')', colour: jobs.length > 1 ? job.colour : colour('c2'), dashed: false, thin: false };
    });
    tableCharts.set(name, new Chart(document.getElementById('table-charts'), name, tableView, curves, () => []));
  }
}

function showLegend() {
  const entries = [];
  if (jobs.length > 1) jobs.forEach((job, i) => entries.push(['job' + i, job.name, job.colour, false]));
  const several = jobs.length > 1;
  entries.push(['train', several ? 'train (solid)' : 'train', several ? colour('soft') : colour('c0'), false]);
  entries.push(['test', several ? 'test (dashed)' : 'test', several ? colour('soft') : colour('c1'), several]);
  const box = document.getElementById('legend');
  box.replaceChildren(...entries.map(([id, text, tint, dashed]) => {
    const key = make('span', { class: dashed ? 'key dashed' : 'key' });
    key.style.borderTopColor = tint;
    const button = make('button', { type: 'button', 'aria-pressed': String(!hidden.has(id)) }, key, text);
    button.addEventListener('click', () => { if (hidden.has(id)) hidden.delete(id); else hidden.add(id); showLegend(); redraw(); });
    return button;
  }));
}

let drawing = null;
function redraw(after) {
  if (drawing) { if (after) drawing.push(after); return; }
  drawing = after ? [after] : [];
  requestAnimationFrame(() => {
    const then = drawing;
    drawing = null;
    for (const chart of [...charts.values(), ...tableCharts.values()]) {
      const rect = chart.box.getBoundingClientRect();
      if (rect.bottom > -400 && rect.top < window.innerHeight + 400) chart.draw();
    }
    for (const act of then) act();
  });
}

function showNodeChoice() {
  const ids = new Set(jobs.flatMap(job => (job.nodes || []).map(node => node.id)));
  options(document.getElementById('curve-nodes'), [['', 'first'], ['all', 'all'], ...[...ids].sort((a, b) => a - b).map(id => [String(id), String(id)])]);
}

async function showAll() {
  showHeads(jobs);
  showComparison(jobs);
  showCharts();
  showNodes(jobs);
  showPasses(jobs);
  showEvents(jobs);
  const pending = [parameters.update(jobs), showNetwork(jobs)];
  showTables();
  showHot(jobs);
  showNodeChoice();
  logs.update(jobs);
  redraw();
  await Promise.all(pending);
}

// ---- polling

let failures = 0;
async function turn() {
  const answers = await Promise.all(jobs.map(poll));
  failures = answers.every(answer => answer) ? 0 : failures + 1;
  showSilence();
  if (!jobs.every(job => job.head)) return;
  const shown = showAll();
  if (failures > 0) return;
  if (!jobs.every(job => job.head.over)) { await logs.further(); return; }
  if (told) return;
  await Promise.all([shown, logs.further()]);
  told = true;
  await Promise.all(jobs.map(job => ask(job, 'seen?page=' + page)));
}

// Says why there are no news: the job has ended, and its page with it, or something is wrong.
function showSilence() {
  const over = jobs.every(isOver), silent = failures >= (over ? 1 : 2);
  const trouble = document.getElementById('trouble'), ended = document.getElementById('ended');
  trouble.hidden = !silent || over;
  ended.hidden = !silent || !over;
  if (!silent) return;
  const again = 'canoe dashboard ' + jobs.map(job => job.head && job.head.folder || 'JOB_DIR').join(' ') + ' shows ' + (jobs.length > 1 ? 'them' : 'it') + ' again.';
  if (over) setText(ended, (jobs.length > 1 ? 'The jobs have ended' : 'The job ' + (ENDS[jobs[0].head.state] || 'has ended')) + ', and this page has ended too. ' + again);
  else setText(trouble, 'The program that serves this page does not respond. If the job has ended, ' + again);
}

const ENDS = { finished: 'has finished', failed: 'has failed', interrupted: 'was interrupted' };

// Whether the program was told that this page shows the end.
let told = false;

function isOver(job) {
  return job.head && job.head.over;
}

async function live() {
  for (;;) {
    const begun = performance.now();
    await turn();
    await new Promise(resolve => setTimeout(resolve, Math.max(200, 1000 * pause() - (performance.now() - begun))));
  }
}

function listen() {
  const on = (id, event, act) => document.getElementById(id).addEventListener(event, act);
  for (const radio of document.getElementsByName('axis')) radio.addEventListener('change', () => { view.axis = radio.value; view.cursor = null; view.zoom(null); });
  on('smoothing', 'input', event => { view.smoothing = Number(event.target.value); redraw(); });
  on('log-scale', 'change', event => { view.log = event.target.checked; redraw(); });
  on('show-marks', 'change', event => { view.showMarks = event.target.checked; redraw(); });
  on('zoom-out', 'click', () => view.zoom(null));
  on('curve-nodes', 'change', event => { view.nodes = event.target.value; for (const job of jobs) { job.incarnation = 0; job.order = 0; } turn(); });
  on('theme', 'click', () => {
    const dark = getComputedStyle(document.documentElement).colorScheme.includes('dark');
    theme(dark ? 'light' : 'dark');
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => recolour());
  document.addEventListener('visibilitychange', () => { if (!document.hidden) turn(); });
  addEventListener('scroll', () => redraw(), { passive: true });
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem('canoe-theme', name); } catch { /* a page without storage forgets */ }
  recolour();
}

function recolour() {
  jobs.forEach((job, i) => { job.colour = colour('c' + i % 6); });
  showLegend();
  if (jobs.every(job => job.head)) {
    showHeads(jobs);
    showComparison(jobs);
  }
  parameters.redraw();
  redraw();
}

async function begin() {
  try { const kept = localStorage.getItem('canoe-theme'); if (kept) document.documentElement.dataset.theme = kept; } catch { /* as above */ }
  listen();
  const wanted = new URLSearchParams(location.search);
  if (wanted.has('theme')) document.documentElement.dataset.theme = wanted.get('theme') === 'dark' ? 'dark' : 'light';
  const answer = await fetch('/api/jobs').then(answer => answer.json());
  answer.jobs.forEach((job, index) => {
    const made = { index, own: job.name, name: job.name };
    forget(made);
    jobs.push(made);
  });
  tellApart();
  recolour();
  live();
}

begin();

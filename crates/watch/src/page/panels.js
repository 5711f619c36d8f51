// Everything below the curves: head, nodes, passes, events, parameters, sparse tables, logs, network.

const STATES = { starting: 'starting', running: 'running', waiting: 'waiting', finished: 'finished', failed: 'failed', interrupted: 'interrupted', gone: 'no sign of life' };

function fact(value, after, before) {
  return make('span', { class: 'fact' }, before ? make('span', {}, before + ' ') : null, make('b', {}, value), after ? make('span', {}, ' ' + after) : null);
}

function showHeads(jobs) {
  const box = document.getElementById('heads');
  jobs.forEach((job, i) => {
    if (!job.box) {
      job.progress = make('i');
      job.box = make('div', { class: 'head' });
      box.append(job.box);
    }
    const head = job.head;
    if (!head) { job.box.replaceChildren(make('span', { class: 'quiet' }, 'waiting for the job …')); return; }
    const swatch = make('span', { class: 'swatch' });
    swatch.style.background = job.colour;
    const items = [make('span', { class: 'name' }, jobs.length > 1 ? swatch : null, job.name, make('span', { class: 'pill ' + head.state }, STATES[head.state] || head.state))];
    if (head.result) items.push(make('span', { class: 'result' }, head.result));
    // Passes are named from 0, as in the names of models; how many are done is said in words.
    if (head.state === 'finished') items.push(fact(count(head.done), head.done === 1 ? 'pass' : 'passes'));
    else if (head.pass !== null) {
      items.push(fact(count(head.pass), '', 'pass'));
      if (head.batch !== null) items.push(fact(count(head.batch) + (head.batches ? ' of ' + count(head.batches) : ''), '', 'batch'));
      items.push(fact(count(head.done) + (head.passes ? ' of ' + count(head.passes) : ''), 'passes done'));
    }
    if (head.speed !== null) items.push(fact(short(head.speed), 'samples/s'));
    if (head.test) items.push(lastTest(head));
    const soon = head.left_unimproved;
    if (soon) items.push(fact(span(soon), 'left unless it improves', head.left !== null ? 'at most ' + span(head.left) + ',' : ''));
    else if (head.left !== null) items.push(fact(span(head.left), 'left, until ' + timeOfDay(Date.now() / 1000 + head.left), head.patience ? 'at most' : ''));
    if (head.samples) items.push(fact(short(head.samples), 'samples'));
    const end = head.ended !== null ? head.ended : Date.now() / 1000;
    if (job.began) items.push(fact(span(end - job.began - job.paused), head.ended !== null ? 'in total' : 'so far'));
    items.push(fact(count(head.nodes), head.nodes === 1 ? 'node' : 'nodes'));
    if (head.parameters) items.push(fact(short(head.parameters), 'parameters'));
    if (head.config) items.push(make('span', { class: 'fact quiet' }, head.config));
    if (head.text) items.push(make('span', { class: 'why' }, head.text));
    const bar = make('span', { class: 'progress', role: 'progressbar' }, job.progress);
    const done = head.state === 'finished' ? 1 : progressOf(head);
    job.progress.style.width = 100 * done + '%';
    job.progress.style.background = jobs.length > 1 ? job.colour : '';
    bar.setAttribute('aria-valuenow', String(Math.round(100 * done)));
    bar.setAttribute('aria-label', 'progress of the job');
    job.box.replaceChildren(...items, bar);
  });
  const first = jobs[0];
  const names = jobs.map(job => job.name).join(' · ');
  const share = first.head && first.head.passes && first.head.state === 'running' ? Math.floor(100 * progressOf(first.head)) + ' % · ' : '';
  const title = share + names + ' · canoe';
  if (document.title !== title) document.title = title;
  if (first.head) setText(document.getElementById('foot'), 'canoe ' + (first.head.version || ''));
  setText(document.getElementById('again'), jobs.every(isOver) ? '· canoe dashboard JOB_DIR shows this page again, canoe report JOB_DIR writes it to a file' : '');
}

function lastTest(head) {
  const names = Object.keys(head.test.evaluators);
  const name = head.best && names.includes(head.best.measure) ? head.best.measure : names[0];
  const value = name ? head.test.evaluators[name] : head.test.cost;
  return fact(measured(name || 'cost', value), '', 'last test ' + plain(name || 'cost'));
}

function plain(name) {
  return name.includes('classification_error') ? 'error' : pretty(name);
}

// Error rates as percentages, as in the sentence about the best pass.
function measured(name, value) {
  return name.includes('classification_error') && value !== null ? (100 * value).toFixed(1) + ' %' : figure(value);
}

function showComparison(jobs) {
  document.getElementById('comparison').hidden = jobs.length < 2;
  if (jobs.length < 2) return;
  const rows = jobs.map(job => {
    const head = job.head, best = head.best;
    const end = head.ended !== null ? head.ended : Date.now() / 1000;
    const time = job.began ? end - job.began - job.paused : null;
    const swatch = make('span', { class: 'swatch' });
    swatch.style.background = job.colour;
    const name = make('td', {}, swatch, ' ' + job.name);
    const state = make('td', {}, make('span', { class: 'pill ' + head.state }, STATES[head.state] || head.state));
    const cells = [best ? plain(best.measure) + ' ' + measured(best.measure, best.value) : '–', best ? count(best.pass) : '–', figure(head.cost), count(head.done), count(head.nodes), count(head.samples), span(time), time ? short(head.samples / time) : '–', head.config || '–'];
    return make('tr', {}, name, state, ...cells.map((text, i) => make('td', { class: i > 0 && i < 8 ? 'n' : '' }, text)));
  });
  document.querySelector('#comparison-table tbody').replaceChildren(...rows);
}

function showHot(jobs) {
  const rows = [];
  for (const job of jobs) for (const node of job.nodes || []) for (const hot of node.server && node.server.hot || []) rows.push({ job, node, hot, times: hot.mean > 0 ? hot.touched / hot.mean : 0 });
  rows.sort((a, b) => b.times - a.times);
  document.getElementById('hot').hidden = !rows.length;
  document.querySelector('#hot-table tbody').replaceChildren(...rows.slice(0, 12).map(({ job, node, hot, times }) => {
    const cells = [[hot.table, ''], [(jobs.length > 1 ? job.name + ' ' : '') + node.id, ''], [String(hot.shard), 'n'], [count(hot.touched), 'n'], [times.toFixed(1) + ' ×', 'n']];
    return make('tr', { class: times >= 3 ? 'awaited' : '' }, ...cells.map(([text, kind]) => make('td', { class: kind }, text)));
  }));
}

function progressOf(head) {
  if (head.stopped) return 1;
  if (!head.passes || head.pass === null) return 0;
  const inside = head.batches ? Math.min(1, (head.batch || 0) / head.batches) : 0;
  return Math.min(1, (head.pass + inside) / head.passes);
}

function showNodes(jobs) {
  const body = document.querySelector('#node-table tbody');
  const several = jobs.length > 1;
  const rows = [];
  let awaited = 0, all = 0;
  jobs.forEach((job, index) => {
    for (const node of job.nodes || []) {
      all += 1;
      if (node.awaited) awaited += 1;
      rows.push({ id: index + '/' + node.id, job, index, node });
    }
  });
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, i) => {
    const tr = body.rows[i] || body.insertRow();
    if (!tr.cells.length) for (let c = 0; c < 11; c += 1) tr.insertCell().className = c >= 3 && c <= 9 ? 'n' : c === 10 ? 'wrap' : '';
    tr.className = row.node.awaited ? 'awaited' : '';
    fillNode(tr, row, several);
  });
  const text = awaited ? awaited === 1 ? 'the other nodes wait for one node' : 'the other nodes wait for ' + awaited + ' nodes' : all ? all + (all === 1 ? ' node' : ' nodes') : '';
  setText(document.getElementById('nodes-summary'), text);
}

function fillNode(tr, { id, job, index, node }, several) {
  const trainer = node.trainer, server = node.server, cells = tr.cells;
  const name = (several ? job.name + ' ' : '') + node.id;
  if (tr.dataset.node !== id) {
    tr.dataset.node = id;
    const link = make('a', { class: 'rowlink', href: '#logs', title: 'show its log' }, name);
    link.addEventListener('click', () => logs.choose(index, node.id));
    cells[0].replaceChildren(link);
  }
  pill(cells[1], trainer);
  pill(cells[2], server);
  setText(cells[3], trainer && trainer.batch !== null ? count(trainer.pass) + ' / ' + count(trainer.batch) : '–');
  setText(cells[4], trainer && trainer.speed !== null ? count(trainer.speed) : '–');
  setText(cells[5], server && server.traffic ? bytes(server.traffic[0]) : '–');
  setText(cells[6], server && server.traffic ? bytes(server.traffic[1]) : '–');
  setText(cells[7], trainer && trainer.waiting !== null ? percent(trainer.waiting) : '–');
  setText(cells[8], bytes((trainer ? trainer.memory : 0) + (server ? server.memory : 0)));
  setText(cells[9], String((trainer ? trainer.restarts : 0) + (server ? server.restarts : 0)));
  setText(cells[10], node.sentence);
}

function pill(cell, process) {
  if (!process) { cell.replaceChildren(make('span', { class: 'dim' }, '–')); return; }
  let span = cell.firstElementChild;
  if (!span) { span = make('span'); cell.replaceChildren(span); }
  span.className = 'pill ' + process.state;
  span.title = process.place;
  setText(span, process.state);
}

function showPasses(jobs) {
  const table = document.getElementById('pass-table');
  const rows = [];
  const metrics = new Set();
  for (const job of jobs) {
    for (const pass of [...job.passes.values()].sort((a, b) => b.pass - a.pass)) {
      rows.push([job, pass]);
      for (const name of Object.keys(pass.evaluators)) metrics.add(name);
    }
  }
  const names = [...metrics].slice(0, 6);
  const columns = [...(jobs.length > 1 ? ['job'] : []), 'pass', 'cost', ...names, 'test cost', ...names.map(name => 'test ' + name), 'samples', 'time', 'waited'];
  const head = table.tHead;
  if (head.dataset.columns !== columns.join('|')) {
    head.dataset.columns = columns.join('|');
    head.replaceChildren(make('tr', {}, ...columns.map(name => make('th', { scope: 'col', class: name === 'job' ? '' : 'n', title: name }, pretty(name)))));
  }
  const body = rows.slice(0, 300).map(([job, pass]) => {
    const test = pass.test || { cost: null, evaluators: {} };
    const values = [...(jobs.length > 1 ? [job.name] : []), String(pass.pass), figure(pass.cost), ...names.map(name => figure(pass.evaluators[name])),
      figure(test.cost), ...names.map(name => figure(test.evaluators[name])), count(pass.samples), span(pass.seconds), percent(pass.seconds ? Math.min(1, pass.waited / pass.seconds) : null)];
    return make('tr', {}, ...values.map((value, i) => make('td', { class: jobs.length > 1 && i === 0 ? '' : 'n' }, value)));
  });
  if (!body.length) body.push(make('tr', {}, make('td', { class: 'dim', colSpan: columns.length }, 'no finished pass yet')));
  table.tBodies[0].replaceChildren(...body);
}

function showEvents(jobs) {
  const list = document.getElementById('event-list');
  const all = [];
  for (const job of jobs) for (const mark of job.marks) all.push([job, mark]);
  all.sort((a, b) => (b[0].began + b[1].t) - (a[0].began + a[1].t));
  const items = all.slice(0, 200).map(([job, mark]) => make('li', {},
    make('time', {}, clock(mark.t)),
    make('span', { class: 'sign ' + mark.kind, title: mark.kind.replace('_', ' ') }, SIGNS[mark.kind] || '·'),
    make('span', { class: 'text' }, (jobs.length > 1 ? job.name + ': ' : '') + mark.text)));
  if (!items.length) items.push(make('li', {}, make('span', { class: 'dim' }, 'no events yet')));
  list.replaceChildren(...items);
}

// Parameters and network are those of the first job; with several, the heading says which that is.
function ofFirst(jobs) {
  return jobs.length > 1 ? ' of ' + jobs[0].name : '';
}

class Parameters {
  constructor() {
    this.slider = document.getElementById('parameter-pass');
    this.follow = true;
    this.slider.addEventListener('input', () => {
      this.follow = this.slider.value === this.slider.max;
      this.show();
    });
  }

  update(jobs) {
    this.jobs = jobs;
    setText(document.getElementById('parameters-title'), 'Parameters' + ofFirst(jobs));
    const passes = [...jobs[0].parameters.keys()].sort((a, b) => a - b);
    if (passes.length) {
      this.slider.min = passes[0];
      this.slider.max = passes[passes.length - 1];
      if (this.follow) this.slider.value = this.slider.max;
    }
    return this.show();
  }

  async show() {
    const job = this.jobs[0], pass = Number(this.slider.value);
    const known = job.parameters.get(pass);
    setText(document.getElementById('parameter-pass-value'), known ? String(pass) : '');
    const body = document.querySelector('#parameter-table tbody');
    if (!known) {
      body.replaceChildren(make('tr', {}, make('td', { class: 'dim', colSpan: 9 }, 'statistics are computed at the end of each pass')));
      return;
    }
    const wanted = job.index + '/' + job.incarnation + '/' + pass;
    if (this.shown === wanted) { this.sparks(job); return; }
    this.shown = wanted;
    const answer = await ask(job, 'histograms?pass=' + pass);
    if (this.shown !== wanted) return;
    if (!answer) { this.shown = null; return; }
    const list = answer.parameters || [];
    const rows = list.slice(0, 400).map(parameter => {
      const spark = make('canvas', { class: 'spark' }), bins = make('canvas', { class: 'histogram', role: 'img' });
      bins.setAttribute('aria-label', 'histogram from ' + figure(parameter.min) + ' to ' + figure(parameter.max));
      bins.title = 'bar heights are square roots of the counts';
      spark.dataset.name = parameter.name;
      const row = make('tr', {}, make('td', { class: 'name-cell', title: parameter.name }, parameter.name), ...[count(parameter.count), figure(parameter.mean), figure(parameter.std)].map(text => make('td', { class: 'n' }, text)),
        make('td', {}, spark), ...[percent(parameter.zeros), figure(parameter.min), figure(parameter.max)].map(text => make('td', { class: 'n' }, text)), make('td', {}, bins));
      row.bins = [bins, parameter.histogram];
      return row;
    });
    body.replaceChildren(...rows);
    for (const row of rows) histogram(...row.bins);
    this.sparks(job);
  }

  sparks(job) {
    const passes = [...job.parameters.keys()].sort((a, b) => a - b);
    for (const canvas of document.querySelectorAll('#parameter-table canvas.spark')) {
      const values = passes.map(pass => job.parameters.get(pass).get(canvas.dataset.name)).filter(value => value !== undefined);
      canvas.title = 'standard deviation over passes';
      sparkline(canvas, values, 'c0');
    }
  }

  redraw() { this.shown = null; if (this.jobs) this.show(); }
}

class Logs {
  constructor() {
    this.job = document.getElementById('log-job');
    this.node = document.getElementById('log-node');
    this.search = document.getElementById('log-search');
    this.text = document.getElementById('log-text');
    this.state = document.getElementById('log-state');
    this.role = 'trainer';
    for (const select of [this.job, this.node]) select.addEventListener('change', () => this.reset());
    for (const radio of document.getElementsByName('log-role')) radio.addEventListener('change', () => { this.role = radio.value; this.reset(); });
    let timer = 0;
    this.search.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(() => this.reset(), 250); });
    document.getElementById('log-older').addEventListener('click', () => this.older());
    this.lines = [];
    this.turn = 0;
  }

  update(jobs) {
    this.jobs = jobs;
    document.getElementById('log-job-field').hidden = jobs.length < 2;
    options(this.job, jobs.map((job, i) => [String(i), job.name]));
    const job = jobs[Number(this.job.value) || 0];
    options(this.node, (job.nodes || []).map(node => [String(node.id), String(node.id)]));
    if (!this.begun && job.nodes && job.nodes.length) { this.begun = true; this.reset(); }
  }

  choose(job, node) {
    this.job.value = String(job);
    this.update(this.jobs);
    this.node.value = String(node);
    this.reset();
  }

  question(more) {
    const role = this.role === 'server' ? 'server' : 'trainer';
    return 'log?node=' + encodeURIComponent(this.node.value || '0') + '&role=' + role + '&search=' + encodeURIComponent(this.search.value) + more;
  }

  source() { return this.jobs[Number(this.job.value) || 0]; }

  async reset() {
    const turn = this.turn += 1;
    const part = await ask(this.source(), this.question(''));
    if (turn !== this.turn || !part) return;
    this.lines = part.lines;
    this.from = part.from;
    this.to = part.to;
    this.size = part.size;
    this.show(true);
  }

  async older() {
    if (!this.from) return;
    const turn = this.turn += 1;
    const part = await ask(this.source(), this.question('&before=' + this.from));
    if (turn !== this.turn || !part) return;
    this.lines = part.lines.concat(this.lines).slice(0, 5000);
    this.from = part.from;
    this.show(false);
    this.text.scrollTop = 0;
  }

  async further() {
    if (!this.begun || this.to === undefined) return;
    const turn = this.turn;
    const part = await ask(this.source(), this.question('&after=' + this.to));
    if (turn !== this.turn || !part) return;
    if (part.size < this.to) { this.reset(); return; }
    this.size = part.size;
    this.to = part.to;
    if (!part.lines.length) return;
    const end = this.text.scrollTop + this.text.clientHeight > this.text.scrollHeight - 30;
    this.lines = this.lines.concat(part.lines).slice(-5000);
    this.show(end);
  }

  show(toEnd) {
    const wanted = this.search.value.toLowerCase();
    const nodes = [];
    for (const line of this.lines) {
      const kind = /^\.*[EF]\d{4} /.test(line) ? 'log-error' : /^\.*W\d{4} /.test(line) ? 'log-warning' : '';
      const row = make('span', { class: kind });
      highlight(row, line, wanted);
      nodes.push(row, '\n');
    }
    this.text.replaceChildren(...nodes);
    if (toEnd) this.text.scrollTop = this.text.scrollHeight;
    const what = wanted ? this.lines.length + ' lines contain “' + this.search.value + '”' : this.lines.length + ' lines';
    setText(this.state, this.size ? what + (this.from ? '; older lines exist' : '') + ' · ' + bytes(this.size) + ' in total' : 'this process has no log here');
    document.getElementById('log-older').disabled = !this.from;
  }
}

function highlight(row, line, wanted) {
  if (!wanted) { row.append(line); return; }
  const lower = line.toLowerCase();
  let at = 0;
  for (let found = lower.indexOf(wanted); found >= 0 && lower.length === line.length; found = lower.indexOf(wanted, at)) {
    row.append(line.slice(at, found), make('mark', {}, line.slice(found, found + wanted.length)));
    at = found + wanted.length;
  }
  row.append(line.slice(at));
}

function options(select, wanted) {
  const key = wanted.map(([value, text]) => value + '=' + text).join('|');
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  const before = select.value;
  select.replaceChildren(...wanted.map(([value, text]) => make('option', { value }, text)));
  if (wanted.some(([value]) => value === before)) select.value = before;
}

async function showNetwork(jobs) {
  const job = jobs[0];
  setText(document.getElementById('network-title'), 'Network' + ofFirst(jobs));
  const image = document.getElementById('network-image');
  if (image.dataset.shown === String(job.incarnation)) return;
  const address = '/api/jobs/' + job.index + '/network.svg';
  const answer = await fetch(address).catch(() => null);
  if (!answer || answer.status !== 200) return;
  image.dataset.shown = String(job.incarnation);
  image.src = address + '?' + job.incarnation;
  image.hidden = false;
  document.getElementById('network-none').hidden = true;
  const config = await ask(job, 'config');
  if (config) setText(document.getElementById('config-text'), config.text);
}

// One chart: curves of one metric on a canvas, with a shared cursor, zoom, smoothing and marks.

const SIGNS = { snapshot: '▽', saved: '▼', died: '✕', restarted: '↻', rolled_back: '↩', recovery: '↻', note: '!', end: '■' };
const MARK_COLOURS = { snapshot: 'faint', saved: 'accent', died: 'bad', restarted: 'warn', rolled_back: 'bad', recovery: 'warn', note: 'warn', end: 'good' };

function niceStep(span, most) {
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const factor of [1, 2, 2.5, 5, 10]) if (rough <= factor * power) return factor * power;
  return 10 * power;
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

function smoothed(values, weight) {
  if (weight <= 0 || values.length < 3) return values;
  const out = new Array(values.length);
  let sum = 0, mass = 0;
  for (let i = 0; i < values.length; i += 1) {
    sum = sum * weight + values[i] * (1 - weight);
    mass = mass * weight + (1 - weight);
    out[i] = sum / mass;
  }
  return out;
}

function lowerBound(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

class Chart {
  // view: what all charts have in common (axis, range, cursor, smoothing, log); curves(): what to draw.
  constructor(parent, title, view, curves, marks) {
    this.view = view;
    this.curves = curves;
    this.marks = marks;
    this.latest = make('span', { class: 'latest' });
    this.canvas = make('canvas', { tabIndex: 0, role: 'img' });
    this.tip = make('div', { class: 'tip', hidden: true });
    this.title = title;
    this.box = make('div', { class: 'chart' }, make('h3', { title }, pretty(title), this.latest), this.canvas, this.tip);
    parent.append(this.box);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener('pointermove', event => {
      const rect = canvas.getBoundingClientRect();
      this.view.pointer = { chart: this, px: event.clientX - rect.left };
      this.view.setCursor(this.valueAt(event.clientX - rect.left), this);
    });
    canvas.addEventListener('pointerleave', () => { if (!this.drag) this.view.setCursor(null, this); });
    canvas.addEventListener('pointerdown', event => {
      if (event.button !== 0) return;
      const rect = canvas.getBoundingClientRect();
      this.drag = { from: this.valueAt(event.clientX - rect.left), px: event.clientX };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointerup', event => {
      const drag = this.drag;
      this.drag = null;
      if (!drag || Math.abs(event.clientX - drag.px) < 6) { this.draw(); return; }
      const to = this.valueAt(event.clientX - canvas.getBoundingClientRect().left);
      this.view.zoom([Math.min(drag.from, to), Math.max(drag.from, to)]);
    });
    canvas.addEventListener('dblclick', () => this.view.zoom(null));
    canvas.addEventListener('keydown', event => this.key(event));
    canvas.addEventListener('blur', () => this.view.setCursor(null, this));
  }

  key(event) {
    const [from, to] = this.xRange();
    const width = to - from;
    const at = this.view.cursor === null ? to : this.view.cursor;
    const step = width / (event.shiftKey ? 10 : 100);
    if (event.key === 'ArrowLeft') this.view.setCursor(Math.max(from, at - step), this, true);
    else if (event.key === 'ArrowRight') this.view.setCursor(Math.min(to, at + step), this, true);
    else if (event.key === 'Home') this.view.setCursor(from, this, true);
    else if (event.key === 'End') this.view.setCursor(to, this, true);
    else if (event.key === '+' || event.key === '=') this.view.zoom([at - width / 4, at + width / 4]);
    else if (event.key === '-') this.view.zoom([from - width / 2, to + width / 2]);
    else if (event.key === '0' || event.key === 'Escape') this.view.zoom(null);
    else return;
    event.preventDefault();
  }

  axis(curve) { return this.view.axis === 'time' ? curve.t : curve.x; }

  xRange() {
    if (this.view.range) return this.view.range;
    let to = 0;
    for (const curve of this.curves()) {
      const xs = this.axis(curve);
      if (xs.length) to = Math.max(to, xs[xs.length - 1]);
    }
    return [0, to || 1];
  }

  valueAt(px) {
    const [from, to] = this.xRange();
    const { left, right } = this.frame || { left: 0, right: 1 };
    return from + (to - from) * Math.min(1, Math.max(0, (px - left) / Math.max(1, right - left)));
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width || !height) return;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const g = this.canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = '11px system-ui, sans-serif';
    const [from, to] = this.xRange();
    const parts = this.curves().map(curve => this.part(curve, from, to)).filter(part => part);
    const [low, high] = this.yRange(parts);
    this.frame = { left: 46, right: width - 10, top: this.marks().length && this.view.showMarks ? 16 : 6, bottom: height - 34 };
    const f = this.frame;
    const useLog = this.view.log && low > 0;
    const [bottom, top] = useLog ? [Math.log(low), Math.log(high)] : [low, high];
    const X = value => f.left + (value - from) / (to - from || 1) * (f.right - f.left);
    const Y = value => f.bottom - ((useLog ? Math.log(Math.max(value, low)) : value) - bottom) / (top - bottom || 1) * (f.bottom - f.top);
    this.scales = { X, Y };
    this.grid(g, from, to, low, high, X, Y, useLog);
    g.save();
    g.beginPath();
    g.rect(f.left - 4, 0, f.right - f.left + 8, height - 31);
    g.clip();
    if (this.view.showMarks) this.drawMarks(g, from, to, X);
    for (const part of parts) this.line(g, part, X, Y);
    this.dragBox(g, X);
    g.restore();
    this.cursor(g, parts, X, Y);
    this.describe(parts);
  }

  // The visible points of a curve, plus one on either side.
  part(curve, from, to) {
    const xs = this.axis(curve);
    if (!xs.length) return null;
    const first = Math.max(0, lowerBound(xs, from) - 1);
    const last = Math.min(xs.length, lowerBound(xs, to) + 1);
    const weight = curve.test || xs.length < 100 ? 0 : this.view.smoothing;
    const start = Math.max(0, first - (weight > 0 ? 200 : 0));
    const raw = curve.v.slice(first, last);
    const smooth = weight > 0 ? smoothed(curve.v.slice(start, last), weight).slice(first - start) : raw;
    return { curve, xs: xs.slice(first, last), raw, smooth };
  }

  yRange(parts) {
    let low = Infinity, high = -Infinity;
    for (const part of parts) {
      const busy = part.smooth !== part.raw && part.raw.length > 50;
      const values = busy ? trimmedRange(part.raw) : part.raw;
      for (const value of values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
      for (const value of busy ? part.smooth : []) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    }
    if (low > high) return [0, 1];
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    const bottom = low >= 0 && low - room < 0 ? (this.view.log ? low : 0) : low - room;
    return [this.view.log && low > 0 ? low * 0.96 : bottom, high + room];
  }

  grid(g, from, to, low, high, X, Y, useLog) {
    const f = this.frame;
    g.strokeStyle = colour('hair');
    g.fillStyle = colour('faint');
    g.lineWidth = 1;
    g.textBaseline = 'middle';
    g.textAlign = 'right';
    const ticks = useLog ? logTicks(low, high) : linearTicks(low, high, Math.max(2, Math.floor((f.bottom - f.top) / 42)));
    for (const value of ticks) {
      const y = Math.round(Y(value)) + 0.5;
      if (y < f.top - 2 || y > f.bottom + 1) continue;
      g.beginPath(); g.moveTo(f.left, y); g.lineTo(f.right, y); g.stroke();
      g.fillText(figure(value), f.left - 6, y);
    }
    g.textBaseline = 'top';
    g.textAlign = 'center';
    const most = Math.max(2, Math.floor((f.right - f.left) / 90));
    const time = this.view.axis === 'time';
    const step = time ? TIME_STEPS.find(step => (to - from) / step <= most) || 604800 : niceStep(to - from, most);
    for (let value = Math.ceil(from / step) * step; value <= to; value += step) {
      const x = X(value);
      if (x > f.right - 8 && x < f.right + 1) g.textAlign = 'right'; else g.textAlign = 'center';
      g.fillText(time ? clock(value) : short(value), x, f.bottom + 6);
    }
    g.textAlign = 'center';
    g.fillText(time ? 'time since the start' : 'samples of all trainers', (f.left + f.right) / 2, f.bottom + 20);
    g.strokeStyle = colour('line');
    g.beginPath(); g.moveTo(f.left, f.bottom + 0.5); g.lineTo(f.right, f.bottom + 0.5); g.stroke();
  }

  drawMarks(g, from, to, X) {
    const f = this.frame;
    g.textAlign = 'center';
    g.textBaseline = 'top';
    const lastX = {};
    for (const mark of this.marks()) {
      const at = this.view.axis === 'time' ? mark.t : mark.x;
      if (at < from || at > to) continue;
      const x = Math.round(X(at)) + 0.5;
      const minor = mark.kind === 'snapshot' || mark.kind === 'saved';
      if (lastX[mark.kind] !== undefined && x - lastX[mark.kind] < (minor ? 34 : 9)) continue;
      lastX[mark.kind] = x;
      g.strokeStyle = g.fillStyle = colour(MARK_COLOURS[mark.kind] || 'faint');
      g.globalAlpha = minor ? 0.35 : 0.9;
      g.setLineDash(minor ? [1, 3] : [3, 3]);
      g.beginPath(); g.moveTo(x, f.top); g.lineTo(x, f.bottom); g.stroke();
      g.setLineDash([]);
      g.globalAlpha = minor ? 0.65 : 1;
      g.fillText(SIGNS[mark.kind] || '·', x, 2);
      g.globalAlpha = 1;
    }
  }

  line(g, part, X, Y) {
    const { curve, xs, raw, smooth } = part;
    g.strokeStyle = g.fillStyle = curve.colour;
    g.lineJoin = 'round';
    const stroke = (values, width, alpha) => {
      g.globalAlpha = alpha;
      g.lineWidth = width;
      g.beginPath();
      let pen = false;
      for (let i = 0; i < xs.length; i += 1) {
        if (!Number.isFinite(values[i])) { pen = false; continue; }
        if (pen) g.lineTo(X(xs[i]), Y(values[i])); else g.moveTo(X(xs[i]), Y(values[i]));
        pen = true;
      }
      g.stroke();
      g.globalAlpha = 1;
    };
    if (smooth !== raw) stroke(raw, 1, curve.thin ? 0.08 : 0.22);
    if (curve.dashed) g.setLineDash([5, 3]);
    stroke(smooth, curve.thin ? 1 : 1.8, curve.thin ? 0.55 : 1);
    g.setLineDash([]);
    if (xs.length <= 60 && (curve.test || xs.length < 8)) {
      for (let i = 0; i < xs.length; i += 1) { g.beginPath(); g.arc(X(xs[i]), Y(raw[i]), 2.4, 0, 7); g.fill(); }
    }
  }

  dragBox(g, X) {
    if (!this.drag || this.view.cursor === null) return;
    const a = X(this.drag.from), b = X(this.view.cursor);
    g.fillStyle = colour('accent');
    g.globalAlpha = 0.12;
    g.fillRect(Math.min(a, b), this.frame.top, Math.abs(b - a), this.frame.bottom - this.frame.top);
    g.globalAlpha = 1;
  }

  cursor(g, parts, X, Y) {
    const at = this.view.cursor;
    if (at === null) { this.tip.hidden = true; return; }
    const f = this.frame, x = X(at);
    if (x < f.left - 1 || x > f.right + 1) { this.tip.hidden = true; return; }
    g.strokeStyle = colour('faint');
    g.lineWidth = 1;
    g.beginPath(); g.moveTo(Math.round(x) + 0.5, f.top); g.lineTo(Math.round(x) + 0.5, f.bottom); g.stroke();
    const found = [];
    for (const part of parts) {
      let i = lowerBound(part.xs, at);
      if (i > 0 && (i === part.xs.length || at - part.xs[i - 1] < part.xs[i] - at)) i -= 1;
      if (i >= part.xs.length || !Number.isFinite(part.raw[i])) continue;
      g.fillStyle = part.curve.colour;
      g.beginPath(); g.arc(X(part.xs[i]), Y(part.smooth[i]), 3.2, 0, 7); g.fill();
      found.push({ part, i });
    }
    if (this.view.cursorOwner === this) this.showTip(found, at, x); else this.tip.hidden = true;
  }

  showTip(found, at, x) {
    const time = this.view.axis === 'time';
    const rows = [make('div', { class: 'where' }, time ? 'after ' + clock(at) : count(at) + ' samples')];
    const close = found.slice().sort((a, b) => (a.part.curve.thin ? 1 : 0) - (b.part.curve.thin ? 1 : 0)).slice(0, 10);
    for (const { part, i } of close) {
      const key = make('span', { class: part.curve.dashed ? 'key dashed' : 'key' });
      key.style.borderTopColor = part.curve.colour;
      const value = part.smooth !== part.raw ? figure(part.smooth[i]) + ' (' + figure(part.raw[i]) + ')' : figure(part.raw[i]);
      rows.push(make('div', { class: 'row' }, key, make('span', {}, part.curve.label), make('b', {}, value)));
    }
    if (found.length > close.length) rows.push(make('div', { class: 'where' }, 'and ' + (found.length - close.length) + ' more'));
    const [from, to] = this.xRange();
    const near = (to - from) / Math.max(1, this.frame.right - this.frame.left) * 6;
    const marks = this.view.showMarks ? this.marks().filter(mark => Math.abs((time ? mark.t : mark.x) - at) < near).slice(-4) : [];
    for (const mark of marks) rows.push(make('div', { class: 'mark' }, (SIGNS[mark.kind] || '·') + ' ' + mark.text));
    this.tip.replaceChildren(...rows);
    this.tip.hidden = false;
    const width = this.tip.offsetWidth, room = this.canvas.clientWidth;
    this.tip.style.left = Math.max(0, x + 14 + width > room ? x - 14 - width : x + 14) + 'px';
    this.tip.style.top = this.canvas.offsetTop + 18 + 'px';
    this.spokenText = pretty(this.title) + ' at ' + rows.map(row => row.textContent).join(', ');
  }

  describe(parts) {
    const last = parts.filter(part => !part.curve.thin).slice(0, 4).map(part => {
      const all = part.curve.v;
      return part.curve.label + ' ' + figure(all[all.length - 1]);
    });
    setText(this.latest, last.join(' · '));
    this.canvas.setAttribute('aria-label', pretty(this.title) + (last.length ? ', now ' + last.join(', ') : ', no values yet'));
  }
}

// Without the lowest and highest percent, so that a few outliers do not flatten the curve.
function trimmedRange(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const cut = Math.floor(sorted.length / 100);
  return sorted.length ? [sorted[cut], sorted[sorted.length - 1 - cut]] : [];
}

function linearTicks(low, high, most) {
  const step = niceStep(high - low, most);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) ticks.push(Math.abs(value) < step * 1e-6 ? 0 : Number(value.toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  const wide = Math.log10(high / low) > 2;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of wide ? [1] : [1, 2, 3, 5, 7]) {
      const value = Number((factor * 10 ** power).toPrecision(6));
      if (value >= low && value <= high) ticks.push(value);
    }
  }
  return ticks;
}

function sparkline(canvas, values, name) {
  const [g, width, height] = prepared(canvas);
  if (values.length < 2) return;
  const low = Math.min(...values), high = Math.max(...values);
  g.strokeStyle = colour(name);
  g.lineWidth = 1.4;
  g.beginPath();
  values.forEach((value, i) => {
    const x = 1 + i / (values.length - 1) * (width - 2);
    const y = high > low ? height - 3 - (value - low) / (high - low) * (height - 6) : height / 2;
    if (i) g.lineTo(x, y); else g.moveTo(x, y);
  });
  g.stroke();
}

function histogram(canvas, bins) {
  const [g, width, height] = prepared(canvas);
  const most = Math.max(1, ...bins);
  const step = width / bins.length;
  g.fillStyle = colour('c0');
  bins.forEach((number, i) => {
    const tall = number ? Math.max(1, Math.sqrt(number / most) * (height - 3)) : 0;
    g.fillRect(i * step, height - 1 - tall, Math.max(1, step - 1), tall);
  });
  g.fillStyle = colour('line');
  g.fillRect(0, height - 1, width, 1);
}

function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 110, height = canvas.clientHeight || 22;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return [g, width, height];
}

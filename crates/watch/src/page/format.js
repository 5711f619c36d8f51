'use strict';
// Numbers, times and small pieces of the document. Text from a job becomes text nodes, never markup.

// Makes invisible characters, and those that change the direction of text, visible.
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, '\ufffd');
}

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === 'class') element.className = value;
    else if (name.startsWith('aria-') || name === 'role' || name === 'scope') element.setAttribute(name, value);
    else element[name] = name === 'title' ? visible(value) : value;
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(typeof child === 'string' ? visible(child) : child);
  return element;
}

function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

const grouped = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });

function count(value) {
  return value === null || value === undefined ? '–' : grouped.format(value);
}

function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (size >= limit) {
      const scaled = value / (unit === 'k' ? 1e3 : limit);
      return trimmed(scaled, scaled >= 100 ? 0 : 1) + unit;
    }
  }
  return size >= 100 ? grouped.format(value) : trimmed(value, 1);
}

function trimmed(value, digits) {
  return value.toFixed(digits).replace(/\.0+$/, '');
}

function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace('e+', 'e');
  return String(Number(value.toPrecision(4)));
}

function bytes(value) {
  if (value === null || value === undefined) return '–';
  let unit = 0;
  while (value >= 1000 && unit < 4) { value /= 1000; unit += 1; }
  return (value >= 100 || unit === 0 ? value.toFixed(0) : value.toFixed(1)) + ' ' + ['B', 'kB', 'MB', 'GB', 'TB'][unit];
}

function percent(value) {
  return value === null || value === undefined ? '–' : (100 * value).toFixed(value < 0.095 ? 1 : 0) + ' %';
}

function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–';
  if (seconds < 1) return (1000 * seconds).toFixed(0) + ' ms';
  if (seconds < 60) return (seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)) + ' s';
  const whole = Math.round(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (h >= 48) return Math.round(h / 24) + ' days';
  return h > 0 ? h + ' h ' + String(m).padStart(2, '0') + ' min' : m + ' min ' + String(s).padStart(2, '0') + ' s';
}

function clock(seconds) {
  const whole = Math.floor(Math.max(0, seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = number => String(number).padStart(2, '0');
  return h > 0 ? h + ':' + two(m) + ':' + two(s) : m + ':' + two(s);
}

function timeOfDay(unix) {
  const date = new Date(unix * 1000);
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  return today ? time : date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' }) + ' ' + time;
}

function pretty(metric) {
  return metric.replace(/^_+|_+$/g, '').replace(/_evaluator(_\d+)?$/, '').replaceAll('_', ' ') || metric;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

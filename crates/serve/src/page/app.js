'use strict';

const get = (id) => document.getElementById(id);

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function headers() {
  const token = get('token').value.trim();
  return token ? { Authorization: 'Bearer ' + token } : {};
}

async function describe() {
  const reply = await fetch('model', { headers: headers() });
  if (reply.status === 401) {
    get('token-label').hidden = false;
    return;
  }
  const model = await reply.json();
  get('pass').textContent = 'serving ' + model.pass;
  const inputs = get('inputs');
  inputs.textContent = '';
  for (const input of model.inputs) {
    const label = element('label', input.name);
    const area = element('textarea');
    area.name = input.name;
    area.dataset.words = input.words;
    label.append(element('small', (input.words ? 'words, or ' : '') + input.takes), area);
    inputs.append(label);
  }
}

function value(area) {
  const text = area.value.trim();
  try {
    return JSON.parse(text);
  } catch (_) {
    return text;
  }
}

function show(prediction) {
  const result = get('result');
  for (const [name, output] of Object.entries(prediction)) {
    result.append(element('h2', name));
    if (output && output.label !== undefined) {
      result.append(element('p', String(output.label)));
      const table = element('table');
      const scores = Object.entries(output.scores).sort((a, b) => b[1] - a[1]).slice(0, 20);
      for (const [label, score] of scores) {
        const row = element('tr');
        const meter = element('meter');
        meter.value = score;
        const bar = element('td');
        bar.append(meter);
        row.append(element('td', label), element('td', score.toFixed(4), 'number'), bar);
        table.append(row);
      }
      result.append(table);
    } else {
      result.append(element('pre', JSON.stringify(output, null, 1)));
    }
  }
}

get('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const result = get('result');
  if (!get('inputs').children.length) {
    await describe();
    return;
  }
  const sample = {};
  for (const area of get('inputs').querySelectorAll('textarea')) sample[area.name] = value(area);
  result.textContent = '';
  try {
    const reply = await fetch('predict', { method: 'POST', headers: headers(), body: JSON.stringify(sample) });
    const body = await reply.json();
    if (body.error) {
      result.append(element('p', body.error, 'error'));
    } else {
      get('pass').textContent = 'serving ' + body.pass;
      show(body.prediction);
    }
  } catch (error) {
    result.append(element('p', String(error), 'error'));
  }
});

describe();

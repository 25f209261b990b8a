'use strict';
// Draws what the page's data hold: curves of runs, memory of plans. No library, nothing is fetched.

const data = JSON.parse(document.getElementById('data').textContent);
const PALETTE = ['#3b7dd8', '#e0762f', '#3a9d5d', '#b84fa5', '#c9a227', '#2aa5a0', '#d1495b', '#7a6fd0', '#8a8f98'];
const SVG = 'http://www.w3.org/2000/svg';

/// An element with attributes and children; texts become text nodes, so that names from files stay text.
function element(tag, attributes = {}, ...children) {
  const made = tag.startsWith('svg:') ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    name in made && typeof value === 'function' ? (made[name] = value) : made.setAttribute(name, value);
  made.append(...children.flat().map(child => child ?? ''));
  return made;
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; count >= 1023.5 && unit + 1 < units.length; ++unit)
    count /= 1024;
  return `${unit ? count.toPrecision(3) : count} ${units[unit]}`;
}

function count(value) {
  for (const [size, name] of [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
    if (Math.abs(value) >= size)
      return `${(value / size).toPrecision(3)} ${name}`;
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

function number(value) {
  if (value === null || value === undefined)
    return '–';
  return Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(3) : String(+value.toPrecision(5));
}

function seconds(value) {
  if (value < 1)
    return `${(value * 1e3).toPrecision(3)} ms`;
  if (value < 60)
    return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  const two = x => String(x).padStart(2, '0');
  return whole < 3600 ? `${Math.floor(whole / 60)}m${two(whole % 60)}s` : `${Math.floor(whole / 3600)}h${two(Math.floor(whole / 60) % 60)}m`;
}

/// Round numbers between `low` and `high`.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step)
    found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

const WIDTH = 560, LEFT = 62, RIGHT = 10, TOP = 8, BOTTOM = 24;

/// The empty chart: axes over the two ranges, and functions from values to places.
function axes(range, options) {
  const width = options.wide ? 2 * WIDTH : WIDTH, height = options.height ?? 230;
  const svg = element('svg:svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': options.title});
  const scale = options.log ? Math.log10 : value => value;
  const low = scale(range.low), high = scale(range.high);
  const x = value => LEFT + (value - range.first) / (range.last - range.first || 1) * (width - LEFT - RIGHT);
  const y = value => height - BOTTOM - (scale(value) - low) / (high - low || 1) * (height - TOP - BOTTOM);
  const unit = options.show === bytes ? 1024 ** Math.floor(Math.log(Math.max(range.high, 1)) / Math.log(1024)) : 1;
  const marks = options.log ? ticks(low, high, 4).map(exponent => 10 ** exponent) : ticks(range.low / unit, range.high / unit, 5).map(mark => mark * unit);
  for (const mark of marks) {
    svg.append(element('svg:line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(mark), y2: y(mark)}));
    svg.append(element('svg:text', {x: LEFT - 6, y: y(mark) + 4, 'text-anchor': 'end'}, (options.show ?? number)(mark)));
  }
  for (const mark of ticks(range.first, range.last, options.wide ? 12 : 6))
    svg.append(element('svg:text', {x: x(mark), y: height - 8, 'text-anchor': 'middle'}, options.showX ? options.showX(mark) : count(mark)));
  return {svg, x, y, width, height};
}

/// Calls `at` with the place along the x axis that the pointer is over, in units of the axis.
function follow(chart, range, at, leave) {
  const cursor = element('svg:line', {class: 'cursor', y1: TOP, y2: chart.height - BOTTOM, visibility: 'hidden'});
  chart.svg.append(cursor);
  chart.svg.onpointermove = event => {
    const box = chart.svg.getBoundingClientRect();
    const place = (event.clientX - box.left) / box.width * chart.width;
    const value = range.first + (place - LEFT) / (chart.width - LEFT - RIGHT) * (range.last - range.first);
    const inside = Math.min(range.last, Math.max(range.first, value));
    cursor.setAttribute('x1', chart.x(inside));
    cursor.setAttribute('x2', chart.x(inside));
    cursor.setAttribute('visibility', 'visible');
    at(inside);
  };
  chart.svg.onpointerleave = () => { cursor.setAttribute('visibility', 'hidden'); leave(); };
}

function legendEntry(color, name, value) {
  return element('span', {}, element('i', {style: `background:${color}`}), name, value === undefined ? '' : element('b', {}, ` ${value}`));
}

/// Index of the point that is nearest to `value`; `points` ascend.
function nearest(points, value) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    points[middle] < value ? (low = middle + 1) : (high = middle);
  }
  return low > 0 && value - points[low - 1] < points[low] - value ? low - 1 : low;
}

/// Curves of several series {name, color, x, y, dashed}, with a logarithmic axis on request.
function lines(parent, title, series, options = {}) {
  series = series.filter(one => one.y.some(value => value !== null));
  if (!series.length)
    return;
  const figure = element('figure', options.wide ? {class: 'wide'} : {});
  let log = false;
  const draw = () => {
    const range = {first: Infinity, last: -Infinity, low: Infinity, high: -Infinity};
    for (const one of series)
      one.y.forEach((value, i) => {
        if (value === null || (log && value <= 0))
          return;
        range.first = Math.min(range.first, one.x[i]);
        range.last = Math.max(range.last, one.x[i]);
        range.low = Math.min(range.low, value);
        range.high = Math.max(range.high, value);
      });
    if (!log) {
      const margin = (range.high - range.low) * 0.05 || Math.abs(range.high) * 0.05 || 1;
      range.low = range.low >= 0 ? Math.max(0, range.low - margin) : range.low - margin;
      range.high += margin;
    }
    const chart = axes(range, {...options, title, log});
    for (const one of series) {
      let path = '', open = false;
      one.y.forEach((value, i) => {
        const drawn = value !== null && (!log || value > 0);
        if (drawn)
          path += `${open ? 'L' : 'M'}${chart.x(one.x[i]).toFixed(1)} ${chart.y(value).toFixed(1)}`;
        open = drawn;
      });
      chart.svg.append(element('svg:path', {d: path, fill: 'none', stroke: one.color, 'stroke-width': 1.5, 'stroke-dasharray': one.dashed ? '5 3' : 'none'}));
      if (one.dashed || one.x.length === 1)
        one.y.forEach((value, i) => value !== null && chart.svg.append(element('svg:circle', {cx: chart.x(one.x[i]), cy: chart.y(value), r: 2.5, fill: one.color})));
    }
    const legend = element('div', {class: 'legend'});
    const tell = at => legend.replaceChildren(...series.map(one => {
      const i = at === undefined ? one.y.length - 1 : nearest(one.x, at);
      return legendEntry(one.color, one.name, `${(options.show ?? number)(one.y[i])}${at === undefined ? '' : ` at ${one.x[i]}`}`);
    }));
    follow(chart, range, tell, () => tell());
    tell();
    const button = element('button', {'aria-pressed': log, title: 'logarithmic axis', onclick: () => { log = !log; draw(); }}, 'log');
    figure.replaceChildren(element('figcaption', {}, title, button), chart.svg, legend);
  };
  draw();
  parent.append(figure);
}

/// Live bytes by class over the steps of the programs.
function memoryTimeline(parent, plan) {
  const {programs, live} = plan.timeline;
  const range = {first: 0, last: live.length, low: 0, high: Math.max(plan.arena_bytes, 1) * 1.04};
  const chart = axes(range, {wide: true, height: 300, show: bytes, title: 'memory timeline'});
  const used = plan.classes.map((_, c) => live.some(moment => moment[c]));
  const floor = live.map(() => 0);
  plan.classes.forEach((name, c) => {
    if (!used[c])
      return;
    let above = '', below = '';
    live.forEach((moment, i) => {
      const from = floor[i], to = floor[i] = from + moment[c];
      above += `${i ? 'L' : 'M'}${chart.x(i).toFixed(1)} ${chart.y(to).toFixed(1)}L${chart.x(i + 1).toFixed(1)} ${chart.y(to).toFixed(1)}`;
      below = `L${chart.x(i + 1).toFixed(1)} ${chart.y(from).toFixed(1)}L${chart.x(i).toFixed(1)} ${chart.y(from).toFixed(1)}${below}`;
    });
    chart.svg.append(element('svg:path', {d: `${above}${below}Z`, fill: PALETTE[c % PALETTE.length], opacity: 0.85}));
  });
  chart.svg.append(element('svg:line', {x1: LEFT, x2: chart.width - RIGHT, y1: chart.y(plan.arena_bytes), y2: chart.y(plan.arena_bytes), stroke: 'var(--text)', 'stroke-dasharray': '6 3'}));
  for (const {program, begin} of programs) {
    chart.svg.append(element('svg:line', {class: 'cursor', x1: chart.x(begin), x2: chart.x(begin), y1: TOP, y2: chart.height - BOTTOM}));
    // The name of a short last program would end beyond the picture.
    const isLeft = chart.x(begin) + 4 + 7 * program.length > chart.width - RIGHT;
    chart.svg.append(element('svg:text', {x: chart.x(begin) + (isLeft ? -4 : 4), y: TOP + (isLeft ? 36 : 22), 'text-anchor': isLeft ? 'end' : 'start'}, program));
  }
  const legend = element('div', {class: 'legend'});
  const tell = at => {
    const moment = at === undefined ? undefined : live[Math.min(live.length - 1, Math.floor(at))];
    const entries = plan.classes.map((name, c) => used[c] && legendEntry(PALETTE[c % PALETTE.length], name, moment && bytes(moment[c]))).filter(Boolean);
    const all = moment && moment.reduce((sum, value) => sum + value, 0);
    legend.replaceChildren(...entries, element('span', {}, moment ? `together ${bytes(all)}` : `dashed: the arena, ${bytes(plan.arena_bytes)}, which is allocated once`));
  };
  follow(chart, range, tell, () => tell());
  tell();
  parent.append(element('figure', {class: 'wide'}, element('figcaption', {}, `Memory of one rank, step by step${plan.shape ? `: ${plan.shape}` : ''}`), chart.svg, legend));
}

/// A table that is sorted by a click on a column. columns: {name, value(row), show(value), number}.
function table(parent, columns, rows) {
  const body = element('tbody');
  const fill = () => body.replaceChildren(...rows.map(row => element('tr', {}, columns.map(column => {
    const value = column.value(row);
    return element('td', {class: column.number ? 'number' : column.wrap ? 'wrap' : ''}, value === undefined || value === null ? '' : String((column.show ?? (x => x))(value)));
  }))));
  let sorted, down = true;
  const head = element('tr', {}, columns.map(column => element('th', {class: column.number ? 'number' : '', onclick: () => {
    down = sorted === column ? !down : column.number;
    sorted = column;
    rows.sort((a, b) => {
      const [x, y] = [column.value(a) ?? '', column.value(b) ?? ''];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    fill();
  }}, column.name)));
  fill();
  parent.append(element('div', {class: 'scroll'}, element('table', {}, element('thead', {}, head), body)));
}

function heading(text, note) {
  document.body.append(element('h2', {}, text));
  if (note)
    document.body.append(element('p', {}, note));
}

function showRuns(runs) {
  heading(runs.length > 1 ? 'Runs' : 'The run');
  const field = (name, value, more = {}) => ({name, value, ...more});
  const numeric = {number: true};
  document.body.append(element('div'));
  table(document.body.lastChild, [
    field('run', run => run.name),
    field('model', run => run.header.model),
    field('precision', run => run.header.precision),
    field('ranks', run => run.header.world, numeric),
    field('steps', run => run.steps.step.length ? run.steps.step[run.steps.step.length - 1] + 1 : 0, numeric),
    field('last loss', run => run.steps.loss[run.steps.loss.length - 1], {...numeric, show: number}),
    field('best held-out', run => run.evals.length ? Math.min(...run.evals[0].loss) : undefined, {...numeric, show: number}),
    field('tokens/s', run => run.summary?.tokens_per_second ?? median(run.steps.tokens_per_second), {...numeric, show: count}),
    field('time', run => run.summary?.seconds, {...numeric, show: seconds}),
    field('peak', run => run.header.allocated_bytes, {...numeric, show: bytes}),
    field('largest rate', run => run.header.optimizer?.lr, {...numeric, show: number}),
    field('schedule', run => run.header.optimizer?.schedule),
    field('id', run => run.header.run),
  ], runs);
  const charts = element('div', {class: 'charts', style: 'margin-top:16px'});
  document.body.append(charts);
  const curves = key => runs.map((run, i) => ({name: run.name, color: PALETTE[i % PALETTE.length], x: run.steps.step, y: run.steps[key]}));
  const held = runs.flatMap((run, i) => run.evals.map((set, k) => ({
    name: `${run.name}, held-out${set.name ? ` ${set.name}` : ''}`, color: PALETTE[(i + k * runs.length + (runs.length > 1 ? 0 : 1)) % PALETTE.length], dashed: true,
    x: set.step, y: set.loss})));
  lines(charts, 'Loss', [...curves('loss'), ...held], {wide: true, height: 320});
  lines(charts, 'Gradient norm, before clipping', curves('grad_norm'));
  lines(charts, 'Learning rate', curves('lr'));
  lines(charts, 'Tokens per second', curves('tokens_per_second'), {show: count});
  lines(charts, 'Bytes sent per rank and step', curves('sent_bytes').filter(one => one.y.some(Boolean)), {show: bytes});
  lines(charts, 'Loss scale', curves('loss_scale'));
  for (const run of runs)
    if (run.summary)
      showTime(run);
  for (const run of runs)
    if (run.profile?.kernels)
      showProfile(run);
}

function median(values) {
  const sorted = values.filter(value => value !== null).sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

/// Where the wall-clock time of a run went.
function showTime(run) {
  const parts = [['steps', 'step_seconds'], ['evaluation', 'eval_seconds'], ['checkpoints', 'save_seconds'], ['loading', 'loading_seconds'], ['export', 'export_seconds'], ['other', 'other_seconds']]
    .map(([name, key], i) => ({name, value: run.summary[key] ?? 0, color: PALETTE[i]})).filter(part => part.value > 0);
  const svg = element('svg:svg', {viewBox: '0 0 1120 26', role: 'img', 'aria-label': 'wall-clock time'});
  let at = 0;
  for (const part of parts) {
    const width = part.value / run.summary.seconds * 1120;
    svg.append(element('svg:rect', {x: at, y: 3, width, height: 20, fill: part.color}));
    at += width;
  }
  const legend = element('div', {class: 'legend'}, parts.map(part => legendEntry(part.color, part.name, seconds(part.value))));
  document.body.append(element('figure', {style: 'margin-top:16px'}, element('figcaption', {}, `Wall-clock time of ${run.name}: ${seconds(run.summary.seconds)}`), svg, legend));
}

function showPlan(plan) {
  heading(plan.title, plan.note);
  const charts = element('div', {class: 'charts'});
  document.body.append(charts);
  memoryTimeline(charts, plan);
  heading(`At the peak: ${bytes(plan.arena_bytes)} in ${plan.peak_program}`, 'Every byte, by tensor: the largest first.');
  table(document.body, [
    {name: 'bytes', value: row => row.bytes, show: value => value.toLocaleString('en'), number: true},
    {name: 'share', value: row => row.bytes / plan.arena_bytes, show: value => `${(100 * value).toFixed(2)} %`, number: true},
    {name: 'class', value: row => row.class},
    {name: 'block', value: row => row.layer < 0 ? undefined : row.layer, number: true},
    {name: 'tensor', value: row => row.tensor},
    {name: 'why it is there', value: row => row.reason, wrap: true},
  ], plan.peak);
  if (plan.kernels?.length)
    showKernels(plan);
  if (plan.sent) {
    heading('Communication', 'Bytes that each rank sends per optimizer step.');
    table(document.body, [
      {name: 'collective', value: row => row[0]},
      {name: 'bytes', value: row => row[1], show: value => value.toLocaleString('en'), number: true},
    ], Object.entries(plan.sent));
  }
}

/// Seconds that the work would take at the device's limits, of which a profile knows two: copying and products.
function atLimit(work, limits) {
  const copy = work.bytes / limits.copy_bytes_per_second;
  return work.is_product ? Math.max(copy, work.flops / limits.matmul_flops_per_second) : copy;
}

/// Kernels and library calls of a plan.
function showKernels(plan) {
  const limits = plan.limits;
  heading('Kernels and library calls', `Bytes and operations of one micro-step and one update.${limits ? '' : ' The log of a run with --profile adds the limits of its device.'}`);
  const columns = [
    {name: 'kernel or call', value: row => row.name, wrap: true},
    {name: 'launches', value: row => row.launches, number: true},
    {name: 'bytes', value: row => row.bytes, show: bytes, number: true},
    {name: 'flops', value: row => row.flops, show: count, number: true},
  ];
  if (limits)
    columns.push({name: 'at the limit', value: row => atLimit(row, limits), show: seconds, number: true});
  table(document.body, columns, plan.kernels);
}

/// What a run's --profile has measured.
function showProfile(run) {
  const profile = run.profile, hasLimits = profile.copy_bytes_per_second > 0 && profile.matmul_flops_per_second > 0;
  heading(`Kernels of ${run.name}, as measured`, `Of one step of ${seconds(profile.step_ms / 1e3)}.${hasLimits ? ` The limits of the device: copies at ${bytes(profile.copy_bytes_per_second)}/s, products at ${count(profile.matmul_flops_per_second)}flop/s.` : ''}`);
  const percent = value => `${(100 * value).toFixed(1)} %`;
  const columns = [
    {name: 'kernel or call', value: row => row.name, wrap: true},
    {name: 'calls', value: row => row.calls, show: number, number: true},
    {name: 'time', value: row => row.seconds, show: seconds, number: true},
    {name: 'share', value: row => row.seconds / (profile.step_ms / 1e3), show: percent, number: true},
    {name: 'bytes', value: row => row.bytes, show: bytes, number: true},
    {name: 'flops', value: row => row.flops, show: count, number: true},
  ];
  if (hasLimits)
    columns.push({name: 'of the limit', value: row => row.seconds > 0 ? atLimit(row, profile) / row.seconds : undefined, show: percent, number: true});
  table(document.body, columns, profile.kernels);
}

document.title = data.title;
document.body.append(element('h1', {}, data.title));
if (data.note)
  document.body.append(element('p', {}, data.note));
if (data.runs.length)
  showRuns(data.runs);
data.plans.forEach(showPlan);
document.body.dataset.drawn = 'yes';

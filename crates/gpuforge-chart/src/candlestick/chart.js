// Axis ticks, calendar labels, candle aggregation and M4 downsampling for the visible bars: the JavaScript counterpart of
// value_axis.rs, time_axis.rs, aggregate.rs and downsample.rs. Tests run it in node and compare.
'use strict';
const DAY = 86400, CANDLE = 4, LARGEST = 1e300;
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
// Months are negative, 0 is a week, the rest are seconds; from coarse to fine.
const UNITS = [-1200, -600, -240, -120, -60, -24, -12, -3, -1, 0, DAY, 43200, 21600, 10800, 3600, 1800, 900, 300, 60, 15, 5, 1];
const drawable = v => Math.abs(v) <= LARGEST;

function roomy(low, high) {
  const span = high - low, size = Math.max(Math.abs(low), Math.abs(high));
  const room = span > size * 1e-14 ? span * 0.05 : size > 1 / LARGEST ? size * 0.05 : 1;
  return [low - room, high + room];
}

function ticks(low, high, most) {
  const raw = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * (1 - 1e-9));
  if (!(step > 1e-307)) return { step: 0, values: [] };
  const first = Math.ceil(low / step), last = Math.floor(high / step);
  const values = [];
  for (let n = first; n <= last && values.length <= most; n++) values.push(step < 1 ? n / Math.round(1 / step) : n * step);
  return { step, values };
}

const places = step => step > 0 ? Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))) : 0;

// Number format of this magnitude in which values a step apart differ.
function format(size, step, most = 20) {
  const digits = (v, p) => (Math.abs(v) >= 1e21 ? String(v) : v.toFixed(p)).replace(/^-(0(\.0*)?)$/, '$1');
  const plain = places(step), power = Math.floor(Math.log10(size));
  if ((size >= 1e15 || plain > 6 && size < 1e-3) && isFinite(power)) {
    const unit = 10 ** power, p = places(step / unit);
    return v => v === 0 ? '0' : digits(v / unit, p) + 'e' + power;
  }
  const unit = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']].find(u => size >= 1e5 && size >= u[0]);
  if (unit && places(step / unit[0]) <= 3) return v => digits(v / unit[0], places(step / unit[0])) + unit[1];
  return v => digits(v, Math.min(plain, most));
}

const whole = s => Math.floor(Math.max(-1e12, Math.min(1e12, s)));
const two = n => String(n).padStart(2, '0');
const date = s => new Date(whole(s) * 1000);

function unitOf(unit, s) {
  if (unit > 0) return Math.floor(whole(s) / unit);
  const d = date(s), month = d.getUTCFullYear() * 12 + d.getUTCMonth();
  return unit < 0 ? Math.floor(month / -unit) : Math.floor((Math.floor(whole(s) / DAY) + 3) / 7) + month;
}

const ofDay = (d, fine) => two(d.getUTCHours()) + ':' + two(d.getUTCMinutes()) + (fine ? ':' + two(d.getUTCSeconds()) : '');

function unitLabel(unit, before, time) {
  const was = date(before), now = date(time), year = String(now.getUTCFullYear());
  const rank = was.getUTCFullYear() !== now.getUTCFullYear() ? 3 : was.getUTCMonth() !== now.getUTCMonth() ? 2
    : was.getUTCDate() !== now.getUTCDate() ? 1 : 0;
  const month = MONTHS[now.getUTCMonth()], day = now.getUTCDate() + ' ' + month;
  const large = unit <= 0 || unit === DAY;
  const text = unit <= -12 || large && rank === 3 ? year : large ? rank === 2 ? month : day
    : rank === 3 ? day + ' ' + year : rank ? day : ofDay(now, unit < 60);
  return { text, rank, bold: unit > -12 && rank >= (unit < 0 ? 3 : 2) };
}

// Bars of [from, to) at which a period starts; null for more than `most`.
function starts(time, from, to, unit, most) {
  const found = [];
  for (let bar = from; bar < to;) {
    const here = unitOf(unit, time[bar]);
    let low = bar + 1, high = to;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (unitOf(unit, time[middle]) === here) low = middle + 1; else high = middle;
    }
    bar = low;
    if (bar < to) found.push(bar);
    if (found.length > most) return null;
  }
  return found;
}

// Labels of the bars [from, to), highest rank first.
function timeLabels(data, from, to, most) {
  if (data.clock !== 'calendar') {
    const step = Math.max(1, Math.floor(ticks(0, to - from, most).step)), labels = [];
    for (let bar = Math.ceil(from / step) * step; bar < to; bar += step) labels.push({ bar, text: full(data, bar), rank: 0 });
    return labels;
  }
  let best = { unit: 1, bars: [] };
  for (const unit of UNITS) {
    // One bar earlier, so that a period that starts at the first bar is found.
    const bars = starts(data.t, Math.max(0, from - 1), Math.min(to, data.t.length), unit, most);
    if (!bars) break;
    if (bars.length > best.bars.length) best = { unit, bars };
  }
  const labels = best.bars.map(bar => ({ bar, ...unitLabel(best.unit, data.t[bar - 1], data.t[bar]) }));
  return labels.sort((a, b) => b.rank - a.rank || a.bar - b.bar);
}

function full(data, bar) {
  if (data.clock === 'index') return String(bar);
  if (!(bar < data.t.length)) return '';
  if (data.clock === 'count') return String(data.t[bar]);
  const d = date(data.t[bar]);
  const day = String(d.getUTCFullYear()).padStart(4, '0') + '-' + two(d.getUTCMonth() + 1) + '-' + two(d.getUTCDate());
  return data.daily ? day : day + ' ' + ofDay(d, d.getUTCSeconds() !== 0);
}

// The bars [from, to) as one candle and the sum of their volumes.
function candle(data, from, to) {
  const { o, h, l, c, v } = data;
  let open = NaN, close = NaN, high = -Infinity, low = Infinity, volume = NaN, lastOpen = NaN;
  const see = p => { if (p > high) high = p; if (p < low) low = p; };
  for (let i = from; i < to; i++) {
    if (o && drawable(o[i])) { see(lastOpen = o[i]); if (isNaN(open)) open = o[i]; }
    if (h && drawable(h[i])) see(h[i]);
    if (l && drawable(l[i])) see(l[i]);
    if (c && drawable(c[i])) see(close = c[i]);
    if (v && drawable(v[i])) volume = isNaN(volume) ? v[i] : volume + v[i];
  }
  if (isNaN(close)) close = isNaN(lastOpen) ? low : lastOpen;
  if (isNaN(open)) open = close;
  return { from, to, open, high, low, close, volume, priced: high >= low };
}

// Formats a duration.
function span(seconds) {
  if (seconds < 1) return Math.round(seconds * 1e6) / 1e3 + ' ms';
  const s = Math.round(Math.min(1e15, seconds)), d = Math.floor(s / DAY), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  if (d) return d + (d === 1 ? ' day' : ' days') + (h + m ? ' ' + two(h) + ':' + two(m) : '');
  if (h) return h + ' h' + (m ? ' ' + m + ' min' : '');
  return m ? m + ' min' + (s % 60 ? ' ' + s % 60 + ' s' : '') : s + ' s';
}

// How many bars a candle stands for; empty where each bar has its own.
const merged = (data, per) => per < 2 ? '' : '1 candle = ' + per + ' bars' + (data.step ? ' (' + span(data.step * per) + ')' : '');

// Every `per` bars of [from, to) as one candle; aligned to multiples, so that panning does not change them.
function candles(data, from, to, per) {
  const all = [];
  for (let i = from - from % per; i < to; i += per) all.push(candle(data, i, Math.min(i + per, data.n)));
  return all;
}

// M4 downsampling: calls move or line for first, minimum, maximum and last value of each pixel column.
function thinLine(values, from, to, pixels, move, line) {
  let at = -1, last = -1, missed = false, any = false, low = 0, high = 0, first = 0, run = 0;
  const end = () => {
    const points = [first, low, high, last].sort((a, b) => a - b);
    let before = -1;
    for (const p of points) {
      if (p === before) continue;
      if (run++ === 0) move(p); else line(p);
      before = p;
    }
  };
  for (let i = from; i < to; i++) {
    const v = values[i];
    if (!drawable(v)) { missed = true; continue; }
    const column = Math.floor(i * pixels);
    if (any && missed && (i - last) * pixels >= 1) { end(); any = false; run = 0; }
    if (any && column === at) {
      if (v < values[low]) low = i;
      if (v > values[high]) high = i;
    } else {
      if (any) end();
      at = column; first = low = high = i; any = true;
    }
    last = i; missed = false;
  }
  if (any) end();
}

// JSON to typed arrays: times are delta-encoded, missing is null.
function unpack(data) {
  let sum = 0;
  const column = a => Float64Array.from(a, v => v === null ? NaN : v);
  data.t = Float64Array.from(data.t, v => (sum += v) / data.per);
  for (const key of 'ohlcv') if (data[key]) data[key] = column(data[key]);
  for (const pane of data.panes) for (const line of pane.lines) line.v = line.v ? column(line.v) : data.c || data.o || data.h || data.l;
  return data;
}

// Minimum and maximum of a pane over [from, to), or null.
function paneRange(data, pane, from, to, bars) {
  if (pane.bounds) return pane.bounds;
  let low = Infinity, high = -Infinity, stands = pane.kind === 'volume';
  const see = v => { if (drawable(v)) { if (v < low) low = v; if (v > high) high = v; } };
  if (pane.kind === 'candles') for (const c of bars) if (c.priced) { see(c.low); see(c.high); }
  if (stands) for (const c of bars) see(c.volume);
  for (const line of pane.lines) {
    if (line.off) continue;
    for (let i = from, end = Math.min(to, line.v.length); i < end; i++) see(line.v[i]);
    if (line.mark === 'bars') stands = true;
  }
  if (low > high) return null;
  if (stands) see(0);
  pane.levels.concat(pane.band || []).forEach(see);
  const range = roomy(low, high);
  return stands && low === 0 ? [0, range[1]] : range;
}

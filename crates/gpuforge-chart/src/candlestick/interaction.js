// Canvas renderer, crosshair, and pointer, wheel and keyboard input.
function start() {
  const data = unpack(JSON.parse(document.getElementById('data').textContent));
  const $ = id => document.getElementById(id), make = (tag, into, cls) => {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    return into.appendChild(e);
  };
  const main = $('chart'), box = $('panes'), n = data.n;
  const view = { from: 0, to: Math.max(1, n) };
  let axis = 60, cursor = -1, mouse = null, waiting = false, colours = {}, per = 1;
  main.hidden = false;

  const panes = data.panes.map(pane => {
    const section = make('section', box), head = make('div', section, 'head'), plot = make('div', section, 'plot');
    section.style.flex = pane.share + ' 1 ' + (pane.least + 24) + 'px';
    plot.style.minHeight = pane.least + 'px';
    if (pane.title) make('b', head).textContent = pane.title;
    if (pane.kind) { pane.note = make('em', head); pane.says = make('span', head); }
    for (const line of pane.lines) {
      const button = make('button', head), mark = make('i', button, line.mark);
      button.append(line.name);
      button.type = 'button';
      button.title = 'show or hide';
      button.setAttribute('aria-pressed', 'true');
      mark.style.color = 'var(--' + line.ink + ')';
      line.says = make('em', button);
      button.onclick = () => { line.off = !line.off; button.setAttribute('aria-pressed', String(!line.off)); redraw(); };
    }
    return Object.assign(pane, { plot, canvas: make('canvas', plot) });
  });
  const foot = make('div', box, 'plot');
  foot.id = 'times';
  const times = make('canvas', foot);
  const [down, across, ytag, xtag] = ['down', 'across', 'ytag', 'xtag'].map(id => {
    const e = make('div', box, id.endsWith('tag') ? 'cross tag' : 'cross');
    e.id = id;
    return e;
  });

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const names = 'back text soft rule up down upsoft downsoft band l0 l1 l2 l3 l4 l5 l6 l7'.split(' ');
    colours = Object.fromEntries(names.map(name => [name, style.getPropertyValue('--' + name).trim()]));
    redraw();
  }

  const width = () => Math.max(40, box.clientWidth - axis);
  const spacing = () => width() / (view.to - view.from);
  const x = bar => (bar + 0.5 - view.from) * spacing();
  const shown = () => [Math.max(0, Math.floor(view.from)), Math.min(n, Math.ceil(view.to))];

  function look(from, to) {
    const span = Math.max(Math.min(n, 5), Math.min(n, to - from)) || 1;
    const middle = (from + to) / 2;
    view.from = Math.max(0, Math.min(Math.max(1, n) - span, middle - span / 2));
    view.to = view.from + span;
    redraw();
  }
  function zoom(factor, at) {
    look(at - (at - view.from) * factor, at + (view.to - at) * factor);
  }
  const pan = bars => look(view.from + bars, view.to + bars);

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  // A canvas in device pixels, cleared.
  function pen(canvas) {
    const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    const g = canvas.getContext('2d');
    g.setTransform(canvas.width / w || 1, 0, 0, canvas.height / h || 1, 0, 0);
    g.font = '11px system-ui,sans-serif';
    g.textBaseline = 'middle';
    return g;
  }

  function draw() {
    const [from, to] = shown();
    per = Math.max(1, Math.ceil(CANDLE / spacing() - 1e-9));
    // Lines keep every extreme (M4): only candles, volume and histograms are aggregated.
    if (!panes.some(p => p.kind || p.lines.some(l => l.mark === 'bars'))) per = 1;
    const bars = panes.some(p => p.kind) ? candles(data, from, to, per) : [];
    let widest = 24;
    for (const pane of panes) {
      const g = pane.g = pen(pane.canvas), tall = pane.canvas.clientHeight;
      pane.range = paneRange(data, pane, from, to, bars);
      if (!pane.range) continue;
      const [low, high] = pane.range, size = Math.max(Math.abs(low), Math.abs(high));
      const found = ticks(low, high, Math.max(3, Math.floor(tall / 34)));
      pane.ticks = found.values;
      const plain = format(size, found.step);
      pane.format = pane.kind !== 'candles' ? format(size, found.step / 100)
        : data.digits <= 4 ? format(size, 10 ** -data.digits) : format(size, found.step / 100, data.digits);
      pane.numbers = pane.levels.map(v => [v, String(v)]).concat(found.values.map(v => [v, plain(v)]));
      pane.y = v => tall * (1 - Math.max(-10, Math.min(11, (v - low) / (high - low))));
      pane.tags = tags(pane, from, to);
      for (const label of pane.numbers.concat(pane.tags)) widest = Math.max(widest, g.measureText(label[1]).width);
    }
    if (Math.abs(axis - widest - 16) > 1) { axis = widest + 16; }
    const labels = drawTimes(from, to);
    for (const pane of panes) drawPane(pane, labels, from, to, per, bars);
    read();
  }

  function tags(pane, from, to) {
    const last = values => { for (let i = Math.min(to, values.length) - 1; i >= from; i--) if (drawable(values[i])) return i; return -1; };
    const found = [];
    const add = (values, ink) => {
      const i = last(values), v = values[i];
      if (i >= 0 && v >= pane.range[0] && v <= pane.range[1]) found.push([v, pane.format(v), ink(i)]);
    };
    if (pane.kind === 'candles') add(data.c, i => data.c[i] < data.o[i] ? 'down' : 'up');
    for (const line of pane.lines) if (!line.off) add(line.v, i => line.mark !== 'bars' ? line.ink : line.v[i] < 0 ? 'down' : 'up');
    return found;
  }

  function drawTimes(from, to) {
    const g = pen(times), w = width(), taken = [], placed = [];
    g.textAlign = 'center';
    for (const label of timeLabels(data, from, to, Math.floor(w / 72))) {
      g.font = (label.bold ? '600 ' : '') + '11px system-ui,sans-serif';
      const middle = x(label.bar), half = g.measureText(label.text).width / 2;
      if (middle - half < 0 || middle + half > w || taken.some(t => middle + half + 14 > t[0] && t[1] + 14 > middle - half)) continue;
      taken.push([middle - half, middle + half]);
      placed.push(label);
      g.fillStyle = colours.soft;
      g.fillText(label.text, middle, 11);
    }
    if (!placed.length && n) {
      g.textAlign = 'left';
      g.fillStyle = colours.soft;
      g.fillText(full(data, from), 0, 11);
    }
    return placed;
  }

  const crisp = v => Math.floor(v) + 0.5;

  function drawPane(pane, labels, from, to, per, bars) {
    const { g, y } = pane, w = width(), tall = pane.canvas.clientHeight;
    g.save();
    g.beginPath(); g.rect(0, 0, w, tall); g.clip();
    if (pane.range && pane.band) {
      g.fillStyle = colours.band;
      g.fillRect(0, y(Math.max(...pane.band)), w, y(Math.min(...pane.band)) - y(Math.max(...pane.band)));
    }
    g.lineWidth = 1; g.strokeStyle = colours.rule; g.beginPath();
    for (const label of labels) { g.moveTo(crisp(x(label.bar)), 0); g.lineTo(crisp(x(label.bar)), tall); }
    if (pane.range) for (const v of pane.ticks) { g.moveTo(0, crisp(y(v))); g.lineTo(w, crisp(y(v))); }
    g.stroke();
    if (pane.range) {
      g.strokeStyle = colours.soft; g.setLineDash([4, 4]); g.beginPath();
      for (const v of pane.levels) { g.moveTo(0, crisp(y(v))); g.lineTo(w, crisp(y(v))); }
      g.stroke(); g.setLineDash([]);
      if (pane.kind) drawBars(pane, bars, per);
      const order = pane.lines.filter(l => !l.off).sort((a, b) => (b.mark === 'bars') - (a.mark === 'bars'));
      for (const line of order) drawLine(pane, line, from, to, per);
    } else {
      g.fillStyle = colours.soft; g.textAlign = 'center'; g.fillText('no values', w / 2, tall / 2);
    }
    g.restore();
    g.strokeStyle = colours.rule; g.lineWidth = 1; g.strokeRect(0.5, 0.5, w - 1, tall - 1);
    if (pane.range) drawAxis(pane, w, tall);
  }

  // Candles or volume; up candles are hollow.
  function drawBars(pane, bars, per) {
    const { g, y } = pane, room = spacing() * per;
    let body = Math.floor(Math.min(25, room * 0.75));
    body = Math.max(1, body % 2 ? body : body - 1);
    const stand = Math.max(1, Math.floor(Math.min(25, room * 0.7)));
    for (const c of bars) {
      const middle = x((c.from + c.to) / 2 - 0.5), fell = c.close < c.open;
      if (pane.kind === 'volume') {
        if (!drawable(c.volume) || c.volume === 0) continue;
        g.fillStyle = fell ? colours.downsoft : colours.upsoft;
        const top = Math.min(y(c.volume), y(0) - 1);
        g.fillRect(Math.round(middle - stand / 2), top, stand, y(0) - top);
        continue;
      }
      if (!c.priced) continue;
      const at = Math.floor(middle) + 0.5, top = y(Math.max(c.open, c.close)), bottom = Math.max(y(Math.min(c.open, c.close)), top + 1);
      g.strokeStyle = g.fillStyle = fell ? colours.down : colours.up;
      g.beginPath(); g.moveTo(at, y(c.high)); g.lineTo(at, y(c.low)); g.stroke();
      if (fell || body < 3) { g.fillRect(at - body / 2, top, body, bottom - top); continue; }
      g.fillStyle = colours.back;
      g.fillRect(at - body / 2, top, body, bottom - top);
      g.strokeRect(at - body / 2 + 0.5, top + 0.5, body - 1, Math.max(0, bottom - top - 1));
    }
  }

  function drawLine(pane, line, from, to, per) {
    const { g, y } = pane, v = line.v, end = Math.min(to + 1, v.length), begin = Math.max(0, from - 1);
    if (line.mark === 'bars') {
      const wide = Math.max(1, Math.floor(Math.min(25, spacing() * per * 0.7)));
      for (let i = from - from % per; i < end; i += per) {
        let low = 0, high = 0;
        const stop = Math.min(i + per, v.length);
        for (let k = i; k < stop; k++) if (drawable(v[k])) { low = Math.min(low, v[k]); high = Math.max(high, v[k]); }
        const left = Math.round(x((i + stop) / 2 - 0.5) - wide / 2);
        g.fillStyle = colours.upsoft;
        if (high > 0) g.fillRect(left, Math.min(y(high), y(0) - 1), wide, Math.max(1, y(0) - y(high)));
        g.fillStyle = colours.downsoft;
        if (low < 0) g.fillRect(left, y(0), wide, Math.max(1, y(low) - y(0)));
      }
      return;
    }
    g.strokeStyle = g.fillStyle = colours[line.ink];
    if (line.mark === 'dots') {
      const half = Math.max(0.6, Math.min(1.5, spacing() * 0.3));
      const dot = i => g.fillRect(x(i) - half, y(v[i]) - half, 2 * half, 2 * half);
      thinLine(v, begin, end, spacing(), dot, dot);
      return;
    }
    g.lineWidth = spacing() < 1 ? 1 : 1.6; g.lineJoin = 'round'; g.setLineDash(line.dash); g.beginPath();
    // A single value is a short stroke.
    const move = i => { g.moveTo(x(i) - 1, y(v[i])); g.lineTo(x(i), y(v[i])); g.lineTo(x(i) + 1, y(v[i])); g.moveTo(x(i), y(v[i])); };
    thinLine(v, begin, end, spacing(), move, i => g.lineTo(x(i), y(v[i])));
    g.stroke(); g.setLineDash([]);
  }

  function drawAxis(pane, w, tall) {
    const { g, y } = pane, most = Math.floor(tall / 15);
    const tags = pane.tags.slice(0, most).map(t => ({ at: y(t[0]), text: t[1], ink: t[2] })).sort((a, b) => a.at - b.at);
    let least = 7.5, last = tall - 7.5;
    for (const t of tags) { t.at = Math.max(t.at, least); least = t.at + 15; }
    for (const t of tags.slice().reverse()) { t.at = Math.min(t.at, last); last = t.at - 15; }
    const taken = tags.map(t => t.at);
    g.textAlign = 'left';
    g.fillStyle = colours.soft;
    for (const [v, text] of pane.numbers) {
      const at = y(v);
      if (at < 4 || at > tall - 2 || taken.some(t => Math.abs(t - at) < 12)) continue;
      taken.push(at);
      g.fillText(text, w + 6, at);
    }
    for (const t of tags) {
      g.fillStyle = colours[t.ink];
      g.fillRect(w + 2, t.at - 7.5, g.measureText(t.text).width + 8, 14);
      g.fillStyle = colours.back;
      g.fillText(t.text, w + 6, t.at);
    }
  }

  const number = (v, digits) => !drawable(v) ? '–' : v !== 0 && (Math.abs(v) < 1e-6 || Math.abs(v) >= 1e15) ? v.toPrecision(7)
    : v.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

  // The candle that a bar is aggregated into.
  const group = bar => candle(data, bar - bar % per, Math.min(bar - bar % per + per, n));

  // Legend values: at the cursor, else of the last visible bar. An aggregated candle shows its time range; series show the
  // value at its end.
  function read() {
    const all = n ? group(cursor >= 0 ? cursor : shown()[1] - 1) : { to: 0 }, bar = all.to - 1;
    for (const pane of panes) {
      if (pane.kind === 'candles') {
        pane.says.replaceChildren();
        for (const [key, value] of [['O', all.open], ['H', all.high], ['L', all.low], ['C', all.close]]) {
          make('i', pane.says).textContent = key;
          pane.says.append(number(all.priced ? value : NaN, data.digits));
        }
        pane.note.textContent = merged(data, per);
      }
      if (pane.kind === 'volume') {
        pane.says.textContent = number(all.volume, data.volumeDigits);
        pane.note.textContent = per > 1 ? 'sums of ' + per + ' bars' : '';
      }
      for (const line of pane.lines) line.says.textContent = number(line.v[bar], line.digits);
    }
    const [first, to] = shown();
    $('says').textContent = !n ? 'no bars' : cursor < 0
      ? range(first, to) + ', ' + (to - first) + ' of ' + n + ' bars' + (per > 1 ? ', ' + merged(data, per) : '')
      : all.to - all.from < 2 ? when(bar) + ', bar ' + (bar + 1) + ' of ' + n
      : range(all.from, all.to) + ', ' + (all.to - all.from) + ' bars, ' + (all.from + 1) + ' to ' + all.to + ' of ' + n;
    cross(all);
  }
  const when = bar => full(data, bar) + (data.zone ? ' ' + data.zone : '');
  const range = (from, to) => full(data, from) + ' to ' + when(to - 1);

  function cross(all) {
    const on = cursor >= view.from - 0.5 && cursor < view.to && n > 0 && cursor >= 0;
    const at = on ? x((all.from + all.to) / 2 - 0.5) : 0, show = (e, yes) => { e.style.visibility = yes ? 'visible' : 'hidden'; };
    show(down, on); show(xtag, on);
    if (on) {
      down.style.left = at + 'px';
      xtag.textContent = full(data, all.from) + (all.to - all.from > 1 ? ' to ' + full(data, all.to - 1) : '');
      xtag.style.left = Math.max(0, Math.min(width() - xtag.offsetWidth, at - xtag.offsetWidth / 2)) + 'px';
      xtag.style.bottom = '4px';
    }
    const pane = on && mouse && panes.find(p => p.range && mouse.y >= p.plot.offsetTop && mouse.y < p.plot.offsetTop + p.plot.clientHeight);
    show(across, pane); show(ytag, pane);
    if (!pane) return;
    const [low, high] = pane.range, share = 1 - (mouse.y - pane.plot.offsetTop) / pane.plot.clientHeight;
    across.style.top = mouse.y + 'px';
    across.style.width = width() + 'px';
    ytag.textContent = pane.format(low + share * (high - low));
    ytag.style.left = width() + 2 + 'px';
    ytag.style.top = mouse.y - 7 + 'px';
  }

  const place = e => { const r = box.getBoundingClientRect(); return { x: e.clientX - r.left, y: e.clientY - r.top }; };
  const barAt = px => view.from + px / spacing();
  const point = p => {
    mouse = p;
    cursor = p.x > width() || !n ? -1 : Math.max(0, Math.min(n - 1, Math.floor(barAt(p.x))));
    read();
  };

  const held = new Map();
  box.addEventListener('pointerdown', e => {
    if (e.target.closest('button') || e.button > 0) return;
    held.set(e.pointerId, place(e));
    if (e.isTrusted) box.setPointerCapture(e.pointerId);
    if (e.pointerType === 'touch') point(place(e));
  });
  box.addEventListener('pointermove', e => {
    const now = place(e), before = held.get(e.pointerId);
    if (before) {
      const other = [...held].find(h => h[0] !== e.pointerId);
      if (other) {
        const was = Math.abs(before.x - other[1].x), is = Math.abs(now.x - other[1].x);
        if (was > 10 && is > 10) zoom(was / is, barAt((now.x + other[1].x) / 2));
      } else {
        box.classList.add('drag');
        pan((before.x - now.x) / spacing());
      }
      held.set(e.pointerId, now);
    }
    point(now);
  });
  const release = e => { held.delete(e.pointerId); if (!held.size) box.classList.remove('drag'); };
  box.addEventListener('pointerup', release);
  box.addEventListener('pointercancel', release);
  box.addEventListener('pointerleave', e => { if (!held.size) { cursor = -1; mouse = null; read(); } release(e); });
  box.addEventListener('dblclick', e => { if (!e.target.closest('button')) look(0, n); });
  box.addEventListener('wheel', e => {
    // Outside the plot the page scrolls.
    if (place(e).x > width()) return;
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 16 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) * lines / spacing());
    else zoom(Math.exp(Math.max(-300, Math.min(300, e.deltaY * lines)) * 0.002), barAt(Math.min(width(), place(e).x)));
  }, { passive: false });

  function step(by) {
    cursor = Math.max(0, Math.min(n - 1, (cursor < 0 ? shown()[1] - 1 : cursor) + by * per));
    if (cursor < view.from || cursor >= view.to - 0.5) pan(cursor < view.from ? cursor - view.from : cursor + 1 - view.to);
    else read();
  }
  const tenth = () => (view.to - view.from) / 10, centre = () => cursor >= 0 ? cursor + 0.5 : (view.from + view.to) / 2;
  const keys = {
    ArrowLeft: e => e.shiftKey ? step(-1) : pan(-tenth()), ArrowRight: e => e.shiftKey ? step(1) : pan(tenth()),
    ArrowUp: () => zoom(0.8, centre()), ArrowDown: () => zoom(1.25, centre()),
    '+': () => zoom(0.8, centre()), '=': () => zoom(0.8, centre()), '-': () => zoom(1.25, centre()),
    Home: () => look(0, view.to - view.from), End: () => look(n - (view.to - view.from), n),
    0: () => look(0, n), Escape: () => { cursor = -1; mouse = null; read(); },
  };
  document.addEventListener('keydown', e => {
    const act = !e.ctrlKey && !e.metaKey && !e.altKey && keys[e.key];
    if (act) { e.preventDefault(); act(e); }
  });

  new ResizeObserver(redraw).observe(box);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', theme);
  theme();
}
if (typeof document !== 'undefined') start();

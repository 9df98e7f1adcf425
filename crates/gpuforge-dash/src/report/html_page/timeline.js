// Timeline canvas: a track per thread and device, a lane per depth; only the visible range is drawn.
(() => {
  const packed = forge.data && forge.data.timeline;
  const view = document.getElementById("timeline");
  if (!packed || !view) return;
  const says = document.getElementById("timeline-says");
  const HEAD = 22, LABEL = 18, LANE = 17, GAP = 6;

  const n = packed.boxes;
  const start = Float64Array.from(forge.numbers(packed.start));
  const duration = Float64Array.from(forge.numbers(packed.duration));
  const kind = forge.numbers(packed.kind);
  const lane = forge.numbers(packed.lane);
  const bytes = forge.sparse(packed.bytes);
  const merged = forge.sparse(packed.merged);
  const trackOf = new Uint32Array(n);

  // Tracks from top to bottom; each lane lists its boxes by time.
  const strips = [];
  let y = HEAD, at = 0;
  packed.tracks.forEach((track, position) => {
    const lanes = Array.from({ length: track.lanes }, () => []);
    let last = 0;
    for (let i = 0; i < track.boxes; i++, at++) {
      last += start[at];
      start[at] = last;
      trackOf[at] = position;
      lanes[lane[at]].push(at);
    }
    strips.push({ track, lanes, y });
    y += LABEL + track.lanes * LANE + GAP;
  });
  view.querySelector(".tall").style.height = `${y}px`;

  const wall = Math.max(packed.wall, 1);
  const nameOf = (i) => packed.names[packed.kinds[kind[i]][0]];
  const kindOf = (i) => forge.KINDS[packed.kinds[kind[i]][1]];
  let from = 0, to = wall, chosen = -1, over = -1, mark = "";

  const firstAt = (list, time) => {
    // Binary search for the first box that ends after `time`; boxes of a lane do not overlap, so ends are sorted.
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[list[middle]] + duration[list[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const ticks = (context, width, colours) => {
    const span = to - from;
    const rough = span / Math.max(2, width / 110);
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || rough;
    context.fillStyle = colours.panel;
    context.fillRect(0, 0, width, HEAD);
    context.fillStyle = colours.soft;
    context.strokeStyle = colours.line;
    context.beginPath();
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = Math.round(((t - from) / span) * width) + 0.5;
      context.moveTo(x, 0);
      context.lineTo(x, HEAD);
      if (x < width - 50) context.fillText(forge.time(Math.abs(t)), x + 4, 15);
    }
    context.moveTo(0, HEAD - 0.5);
    context.lineTo(width, HEAD - 0.5);
    context.stroke();
  };

  const box = (context, colours, i, x, w, top, narrow) => {
    const name = nameOf(i);
    const hit = mark && name.toLowerCase().includes(mark);
    context.globalAlpha = mark && !hit ? 0.25 : merged.has(i) ? 0.55 : 1;
    context.fillStyle = colours[kindOf(i)];
    context.fillRect(x, top, w, LANE - 2);
    context.globalAlpha = 1;
    if (i === chosen || i === over || hit) {
      context.strokeStyle = i === chosen ? colours.focus : colours.text;
      context.lineWidth = i === chosen ? 2 : 1;
      context.strokeRect(x + 0.5, top + 0.5, Math.max(w - 1, 1), LANE - 3);
      context.lineWidth = 1;
    }
    if (!narrow) {
      const left = Math.max(x, 0);
      const text = forge.fit(context, merged.has(i) ? `${merged.get(i)} × ${name}` : name, Math.min(x + w, context.canvas.width) - left - 6);
      if (text) {
        context.fillStyle = colours.back;
        context.fillText(text, left + 3, top + 11.5);
      }
    }
  };

  const draw = forge.surface(view, (context, width, height, scrolled) => {
    const colours = forge.inks();
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    const scale = width / (to - from);
    for (const strip of strips) {
      const bottom = strip.y + LABEL + strip.lanes.length * LANE;
      if (bottom < scrolled || strip.y > scrolled + height) continue;
      context.fillStyle = colours.text;
      const lost = strip.track.dropped ? ` (${strip.track.dropped} records lost)` : "";
      context.fillText(`${strip.track.kind === "device" ? "device: " : ""}${strip.track.name}${lost}`, 6, strip.y - scrolled + 13);
      strip.lanes.forEach((list, depth) => {
        const top = strip.y + LABEL + depth * LANE - scrolled;
        if (top > height || top + LANE < 0) return;
        let painted = -1;
        for (let p = firstAt(list, from); p < list.length && start[list[p]] <= to; p++) {
          const i = list[p];
          const x = (start[i] - from) * scale;
          const w = Math.max(duration[i] * scale, 1);
          // One box per pixel is enough, unless it matches the search.
          if (w <= 1 && Math.floor(x) === painted && i !== chosen && !mark) continue;
          painted = Math.floor(x);
          box(context, colours, i, x, w > 3 ? w - 0.5 : w, top, w < 24);
        }
      });
      context.fillStyle = colours.line;
      context.fillRect(0, bottom + GAP / 2 - scrolled, width, 1);
    }
    ticks(context, width, colours);
    view.dataset.from = String(from);
    view.dataset.to = String(to);
    view.dataset.boxes = String(n);
    view.dataset.drawn = "yes";
  });

  const show = (a, b) => {
    const least = Math.min(wall, 10);
    const span = Math.min(Math.max(b - a, least), wall);
    from = Math.min(Math.max(a, 0), wall - span);
    to = from + span;
    draw();
  };
  const zoom = (factor, share = 0.5) => {
    const middle = from + (to - from) * share;
    show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  const move = (share) => {
    const by = (to - from) * share;
    show(from + by, to + by);
  };
  const describe = (i) => {
    if (i < 0) return "\u00a0";
    const many = merged.get(i);
    const moved = bytes.has(i) ? `, ${forge.size(bytes.get(i))}` : "";
    const track = packed.tracks[trackOf[i]].name;
    const what = many ? `${many} short spans, mostly ${nameOf(i)}: within ${forge.time(duration[i])}` : `${nameOf(i)}: ${forge.time(duration[i])}`;
    return `${what} (${kindOf(i)}${moved}), ${forge.time(start[i])} after the start, on ${track}`;
  };
  const choose = (i) => {
    chosen = i;
    says.textContent = describe(i);
    view.dataset.chosen = i < 0 ? "" : nameOf(i);
    if (i >= 0) {
      const strip = strips[trackOf[i]];
      const top = strip.y + LABEL + lane[i] * LANE;
      if (top < view.scrollTop + HEAD || top + LANE > view.scrollTop + view.clientHeight) view.scrollTop = Math.max(0, top - 60);
      if (start[i] + duration[i] < from || start[i] > to) show(start[i] - (to - from) / 2, start[i] + (to - from) / 2);
    }
    draw();
  };
  const lookAt = (i) => {
    if (i >= 0) show(start[i] - duration[i] * 0.1, start[i] + Math.max(duration[i], 1) * 1.1);
  };

  const under = (event) => {
    const area = view.getBoundingClientRect();
    const px = event.clientX - area.left - view.clientLeft;
    const py = event.clientY - area.top - view.clientTop + view.scrollTop;
    const strip = strips.find((s) => py >= s.y + LABEL && py < s.y + LABEL + s.lanes.length * LANE);
    if (!strip || event.clientY - area.top < HEAD) return -1;
    const list = strip.lanes[Math.floor((py - strip.y - LABEL) / LANE)];
    const perPixel = (to - from) / view.clientWidth;
    const time = from + px * perPixel;
    const i = list[firstAt(list, time - perPixel)];
    return i !== undefined && start[i] <= time + perPixel ? i : -1;
  };

  let dragging = null;
  view.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    dragging = { x: event.clientX, from, to, moved: false, pointer: event.pointerId };
  });
  view.addEventListener("pointermove", (event) => {
    if (dragging) {
      const by = event.clientX - dragging.x;
      if (!dragging.moved && Math.abs(by) > 3) {
        dragging.moved = true;
        view.setPointerCapture(dragging.pointer);
        view.classList.add("drag");
      }
      if (dragging.moved) {
        const time = (by / view.clientWidth) * (dragging.to - dragging.from);
        show(dragging.from - time, dragging.to - time);
      }
      return;
    }
    const i = under(event);
    if (i !== over) {
      over = i;
      says.textContent = describe(i >= 0 ? i : chosen);
      draw();
    }
  });
  const end = (event) => {
    if (dragging && !dragging.moved && event.type === "pointerup") choose(under(event));
    dragging = null;
    view.classList.remove("drag");
  };
  view.addEventListener("pointerup", end);
  view.addEventListener("pointercancel", end);
  view.addEventListener("pointerleave", () => {
    over = -1;
    draw();
  });
  view.addEventListener("dblclick", (event) => lookAt(under(event)));
  view.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const area = view.getBoundingClientRect();
      zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), (event.clientX - area.left) / area.width);
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      move(event.deltaX / view.clientWidth);
    }
  }, { passive: false });

  const neighbour = (step) => {
    if (chosen < 0) {
      const first = strips.flatMap((s) => s.lanes[0].filter((i) => start[i] + duration[i] >= from && start[i] <= to))[0];
      choose(first === undefined ? (n ? 0 : -1) : first);
      return;
    }
    const list = strips[trackOf[chosen]].lanes[lane[chosen]];
    const next = list[list.indexOf(chosen) + step];
    if (next !== undefined) choose(next);
  };
  const keys = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
    ArrowUp: () => { view.scrollTop -= 40; }, ArrowDown: () => { view.scrollTop += 40; },
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": () => show(0, wall), Home: () => show(0, wall),
    n: () => neighbour(1), p: () => neighbour(-1), Enter: () => lookAt(chosen), Escape: () => choose(-1),
  };
  view.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  });
  document.getElementById("in").addEventListener("click", () => zoom(0.5));
  document.getElementById("out").addEventListener("click", () => zoom(2));
  document.getElementById("all").addEventListener("click", () => show(0, wall));
  document.getElementById("mark").addEventListener("input", (event) => {
    mark = event.target.value.toLowerCase();
    draw();
  });
  draw();
})();

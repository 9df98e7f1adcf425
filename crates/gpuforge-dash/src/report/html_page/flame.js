// Flame graph canvas (icicle layout): box width is total time, callees below callers.
(() => {
  const packed = forge.data && forge.data.flame;
  const view = document.getElementById("flame");
  if (!packed || !view) return;
  const says = document.getElementById("flame-says");
  const ROW = 19;

  const nodes = packed.nodes.map(([parent, name, kind, total, self, count]) =>
    ({ parent: parent - 1, name: packed.names[name], kind: forge.KINDS[kind], total, self, count, calls: [], filled: 0, x: 0, depth: 0 }));
  const tops = [];
  let whole = 0;
  nodes.forEach((node, i) => {
    const up = nodes[node.parent];
    if (up) {
      // Callers precede callees: their position is known.
      node.x = up.x + up.filled;
      up.filled += node.total;
      node.depth = up.depth + 1;
      up.calls.push(i);
    } else {
      node.x = whole;
      whole += node.total;
      tops.push(i);
    }
  });
  const deepest = nodes.reduce((most, node) => Math.max(most, node.depth), 0);
  view.querySelector(".tall").style.height = `${(deepest + 1) * ROW + 4}px`;
  let inside = -1, chosen = -1, over = -1;
  const range = () => (inside < 0 ? [0, Math.max(whole, 1)] : [nodes[inside].x, Math.max(nodes[inside].total, 1)]);

  const draw = forge.surface(view, (context, width, height, scrolled) => {
    const colours = forge.inks();
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    const [left, span] = range();
    const scale = width / span;
    nodes.forEach((node, i) => {
      const top = node.depth * ROW - scrolled;
      const x = Math.max((node.x - left) * scale, 0);
      const w = Math.min((node.x + node.total - left) * scale, width) - x;
      if (w < 0.3 || top > height || top + ROW < 0) return;
      const caller = inside >= 0 && node.depth < nodes[inside].depth;
      context.globalAlpha = caller ? 0.5 : 1;
      context.fillStyle = colours[node.kind];
      context.fillRect(x, top + 1, Math.max(w - 0.7, 0.4), ROW - 2);
      context.globalAlpha = 1;
      if (i === chosen || i === over) {
        context.strokeStyle = i === chosen ? colours.focus : colours.text;
        context.lineWidth = 2;
        context.strokeRect(x + 1, top + 2, Math.max(w - 2.7, 1), ROW - 4);
      }
      const text = forge.fit(context, node.name, w - 6);
      if (text) {
        context.fillStyle = caller ? colours.text : colours.back;
        context.fillText(text, x + 4, top + 13.5);
      }
    });
    view.dataset.nodes = String(nodes.length);
    view.dataset.inside = inside < 0 ? "" : nodes[inside].name;
    view.dataset.drawn = "yes";
  });

  const describe = (i) => {
    if (i < 0) return "\u00a0";
    const node = nodes[i];
    const share = ((100 * node.total) / Math.max(whole, 1)).toFixed(1);
    return `${node.name}: ${forge.time(node.total)} (${share} %), itself ${forge.time(node.self)}, ${node.count} calls, ${node.kind}`;
  };
  const choose = (i) => {
    chosen = i;
    says.textContent = describe(i);
    view.dataset.chosen = i < 0 ? "" : nodes[i].name;
    if (i >= 0) {
      const top = nodes[i].depth * ROW;
      if (top < view.scrollTop || top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = Math.max(0, top - 60);
    }
    draw();
  };
  const look = (i) => {
    inside = i;
    choose(i);
  };
  const under = (event) => {
    const area = view.getBoundingClientRect();
    const [left, span] = range();
    const at = left + ((event.clientX - area.left - view.clientLeft) / view.clientWidth) * span;
    const depth = Math.floor((event.clientY - area.top - view.clientTop + view.scrollTop) / ROW);
    return nodes.findIndex((node) => node.depth === depth && at >= node.x && at < node.x + node.total);
  };
  view.addEventListener("pointermove", (event) => {
    const i = under(event);
    if (i !== over) {
      over = i;
      says.textContent = describe(i >= 0 ? i : chosen);
      draw();
    }
  });
  view.addEventListener("pointerleave", () => {
    over = -1;
    draw();
  });
  view.addEventListener("click", (event) => {
    const i = under(event);
    look(i >= 0 && i === inside ? nodes[i].parent : i);
  });
  const beside = (step) => {
    if (chosen < 0) return choose(tops.length ? tops[0] : -1);
    const up = nodes[nodes[chosen].parent];
    const list = up ? up.calls : tops;
    const next = list[list.indexOf(chosen) + step];
    if (next !== undefined) choose(next);
  };
  const keys = {
    ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
    ArrowUp: () => { if (chosen >= 0 && nodes[chosen].parent >= 0) choose(nodes[chosen].parent); },
    ArrowDown: () => { choose(chosen < 0 ? (tops.length ? tops[0] : -1) : (nodes[chosen].calls.length ? nodes[chosen].calls[0] : chosen)); },
    Enter: () => look(chosen), Escape: () => look(-1),
  };
  view.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  });
  draw();
})();

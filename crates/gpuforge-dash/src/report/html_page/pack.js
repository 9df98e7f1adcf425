"use strict";
// Shared by timeline and flame graph: column decoding (base64, varint), units, colours, a canvas that follows scrolling.
const forge = (() => {
  const KINDS = ["cpu", "gpu", "transfer", "wait", "overhead"];

  const bytes = (text) => {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  };

  // Varint decoding; multiplication instead of shifts, which are limited to 32 bits.
  const numbers = (text) => {
    const from = bytes(text);
    const out = [];
    for (let at = 0; at < from.length;) {
      let value = 0, scale = 1, more = true;
      while (more && at < from.length) {
        const byte = from[at++];
        value += (byte & 127) * scale;
        scale *= 128;
        more = byte > 127;
      }
      out.push(value);
    }
    return out;
  };

  const sparse = (text) => {
    const flat = numbers(text);
    const out = new Map();
    for (let i = 0, at = 0; i + 1 < flat.length; i += 2) {
      at += flat[i];
      out.set(at, flat[i + 1]);
    }
    return out;
  };

  const three = (x) => (x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2));
  const time = (ns) => {
    const unit = [["s", 1e9], ["ms", 1e6], ["µs", 1e3]].find(([, size]) => ns >= size);
    return unit ? `${three(ns / unit[1])} ${unit[0]}` : `${Math.round(ns)} ns`;
  };
  const size = (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (n >= 1024 && at + 1 < units.length) { n /= 1024; at++; }
    return `${at ? three(n) : n} ${units[at]}`;
  };

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const inks = () => Object.fromEntries(["back", "panel", "text", "soft", "line", "focus", ...KINDS].map((n) => [n, ink(n)]));

  // Repaints at most once per animation frame; `draw(context, width, height, scrolled)` in CSS pixels.
  const surface = (view, draw) => {
    const canvas = view.querySelector("canvas");
    const context = canvas.getContext("2d");
    let asked = false;
    const paint = () => {
      asked = false;
      const [width, height, dots] = [view.clientWidth, view.clientHeight, window.devicePixelRatio || 1];
      const [w, h] = [Math.max(1, Math.round(width * dots)), Math.max(1, Math.round(height * dots))];
      if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
        canvas.style.height = `${height}px`;
      }
      context.setTransform(dots, 0, 0, dots, 0, 0);
      draw(context, width, height, view.scrollTop);
    };
    const ask = () => {
      if (!asked) {
        asked = true;
        requestAnimationFrame(paint);
      }
    };
    view.addEventListener("scroll", ask);
    new ResizeObserver(ask).observe(view);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ask);
    return ask;
  };

  // Truncates a text to a width; characters are assumed equally wide.
  const fit = (context, text, width) => {
    const letter = 6.2;
    const most = Math.floor(width / letter);
    if (most < 3) return "";
    return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
  };

  const element = document.getElementById("data");
  const data = element ? JSON.parse(element.textContent) : null;
  return { KINDS, numbers, sparse, time, size, inks, surface, fit, data };
})();

"use strict";
// The picture: runs of leaves, drawn for the part of the address space that is in view. All places are pages from the base
// of the page table, which numbers hold exactly; addresses are BigInt, and exist in text alone.

const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const view = by("view");
const ROWS = 200; // of the table of leaves
const LABEL = 90; // pixels that a run needs for words
const DIFFERS = ["differs: is gone", "differs: has come", "differs: is mapped otherwise"];
let shown = null; // the page table that is drawn
let from = 0, to = 1; // what is in view

// ---- what the report holds

function* numbers(text) {
  const bytes = atob(text);
  let value = 0, weight = 1;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes.charCodeAt(at);
    value += (byte & 127) * weight;
    weight *= 128;
    if (byte < 128) { yield value; value = 0; weight = 1; }
  }
}

function runsOf(drawing) {
  if (!drawing) return [];
  const runs = [], all = numbers(drawing.runs);
  let at = 0, distance = 0;
  for (let next = all.next(); !next.done; next = all.next()) {
    const head = next.value, flags = head % 4, style = data.styles[(head - flags) / 4];
    const start = at + all.next().value, count = all.next().value;
    if (!(flags & 2)) { const off = all.next().value; distance += off % 2 ? -(off + 1) / 2 : off / 2; }
    at = start + count * style.pages;
    runs.push({ start, end: at, count, style, leaf: style.pages, output: start + distance, repeats: flags & 1 });
  }
  return runs;
}

function differencesOf(text) {
  const runs = [], all = numbers(text || "");
  let at = 0;
  for (let next = all.next(); !next.done; next = all.next()) {
    const start = at + all.next().value, pages = all.next().value;
    at = start + pages;
    runs.push({ start, end: at, count: 1, leaf: pages, style: { differs: DIFFERS[next.value] } });
  }
  return runs;
}

// A page table is decoded when it is first shown.
function show(number) {
  const table = data.tables[number], drawing = table.before || table.after;
  table.number = number;
  table.pages = 2 ** (drawing.bits - drawing.shift);
  table.base = BigInt(drawing.base);
  table.shift = BigInt(drawing.shift);
  table.strips ??= ["before", "after"].map((name) => [name, runsOf(table[name])])
    .concat([["differs", differencesOf(table.differs)]]).filter(([name]) => by(name));
  // Those that are told in words: the last that there are.
  table.runs = table.strips.find(([name]) => name === (table.after ? "after" : "before"))[1];
  shown = table;
  by("table").value = number;
}

// ---- places and words

const hex = (address) => "0x" + BigInt.asUintN(64, address).toString(16).padStart(16, "0");
const address = (page) => hex(shown.base + (BigInt(Math.floor(page)) << shown.shift));
const bytes = (pages) => {
  let value = pages * 2 ** Number(shown.shift), unit = 0;
  while (value >= 1024 && unit < 6) { value /= 1024; unit++; }
  return (Number.isInteger(value) ? value : value.toFixed(1)) + ["B", "K", "M", "G", "T", "P", "E"][unit];
};

// The page of an address, or nothing where the page table does not translate it.
function pageOf(text) {
  const digits = text.trim().replaceAll("_", "");
  if (!/^(0x[0-9a-f]+|[0-9]+)$/i.test(digits)) return null;
  const page = Number((BigInt.asUintN(64, BigInt(digits) - shown.base)) >> shown.shift);
  return page <= shown.pages ? page : null;
}

function rangeOf(text) {
  const [start, end] = text.split("-");
  if (end === undefined) return null;
  const first = pageOf(start);
  // The end of the upper half is 0, which is as far above its base as it is large.
  const last = pageOf(end);
  return first !== null && last !== null && first < last ? [first, last] : null;
}

function look(start, end) {
  const length = Math.min(Math.max(end - start, 1), shown.pages);
  from = Math.min(Math.max(start, 0), shown.pages - length);
  to = from + length;
  draw();
}

function zoom(factor, around = (from + to) / 2) {
  look(around - (around - from) * factor, around + (to - around) * factor);
}

// The first run that ends behind a place.
function firstAfter(runs, page) {
  let low = 0, high = runs.length;
  while (low < high) { const middle = (low + high) >> 1; if (runs[middle].end > page) high = middle; else low = middle + 1; }
  return low;
}

// ---- drawing

const keyOf = (style) => style.differs || style[by("colour").value];
let colours = new Map();

// The same words have the same colour throughout a page table.
function choose() {
  const names = new Set();
  for (const [name, runs] of shown.strips) if (name !== "differs") for (const run of runs) names.add(keyOf(run.style));
  colours = new Map([...names].sort().map((name, place) => [name, "--c" + (place % 8)]));
  if (by("differs")) DIFFERS.forEach((name, place) => colours.set(name, ["--danger", "--come", "--risk"][place]));
  by("legend").replaceChildren(...[...colours].map(([name, colour]) => {
    const item = document.createElement("li"), swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = `var(${colour})`;
    item.append(swatch, name);
    return item;
  }));
}

function strip(canvas, runs) {
  const box = canvas.parentElement, width = box.clientWidth, height = box.clientHeight, ratio = devicePixelRatio;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d"), looks = getComputedStyle(document.documentElement);
  pen.scale(ratio, ratio);
  const scale = width / (to - from), labels = [];
  const paint = new Map([...colours].map(([name, colour]) => [name, looks.getPropertyValue(colour)]));
  const ground = looks.getPropertyValue("--ground");
  let last = -1;
  for (let at = firstAfter(runs, from); at < runs.length && runs[at].start < to; at++) {
    const run = runs[at], left = Math.max(0, (run.start - from) * scale), right = Math.min(width, (run.end - from) * scale);
    // Where many runs share a pixel, the first is drawn.
    if (right - left < 1 && Math.floor(left) === last) continue;
    last = Math.floor(left);
    pen.fillStyle = paint.get(keyOf(run.style));
    pen.fillRect(left, 0, Math.max(1, right - left), height);
    const step = run.leaf * scale;
    if (step >= 4) {
      pen.fillStyle = ground;
      for (let leaf = Math.floor((Math.max(from, run.start) - run.start) / run.leaf); leaf <= run.count; leaf++) {
        const x = (run.start + leaf * run.leaf - from) * scale;
        if (x > right) break;
        pen.fillRect(x, 0, 1, height);
      }
    }
    if (right - left >= LABEL && labels.length < 40) {
      const label = document.createElement("span");
      label.style.left = left + "px";
      label.style.maxWidth = right - left + "px";
      label.textContent = `${keyOf(run.style)} · ${bytes(run.end - run.start)}`;
      labels.push(label);
    }
  }
  canvas.nextElementSibling.replaceChildren(...labels);
}

function draw() {
  for (const [name, runs] of shown.strips) strip(by(name), runs);
  const ticks = [0, 0.25, 0.5, 0.75].map((part) => address(from + (to - from) * part));
  view.querySelector(".axis").replaceChildren(...ticks.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
  const last = Math.ceil(to), whole = `${address(from)}-${address(last)}`;
  const field = by("range");
  if (document.activeElement !== field) field.value = whole;
  field.removeAttribute("aria-invalid");
  list(whole);
}

// The same in words, for those who do not see the picture.
function list(whole) {
  const runs = shown.runs, rows = [];
  let count = 0, mapped = 0;
  for (let at = firstAfter(runs, from); at < runs.length && runs[at].start < to; at++) {
    const run = runs[at];
    count++;
    mapped += Math.min(run.end, to) - Math.max(run.start, from);
    if (rows.length < ROWS) rows.push(run);
  }
  by("leaves").tBodies[0].replaceChildren(...rows.map((run) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = address(run.start);
    row.append(head);
    const output = "0x" + (BigInt(run.output) << shown.shift).toString(16) + (run.repeats ? ", all of them" : "");
    for (const text of [address(run.end), output, `${run.count} of ${run.style.size}`, `${run.style.permission} (${run.style.words})`, run.style.memory, run.style.owner]) {
      row.insertCell().textContent = text;
    }
    return row;
  }));
  const more = count > rows.length ? `, the first ${rows.length} of them in the table below` : "";
  by("state").textContent = `${whole}: ${bytes(Math.ceil(to) - Math.floor(from))} in view, ${bytes(Math.round(mapped))} mapped, ${count} runs of leaves${more}.`;
}

// ---- hands

function step(forward) {
  const runs = shown.runs, middle = (from + to) / 2;
  const at = firstAfter(runs, middle);
  const here = at < runs.length && runs[at].start <= middle;
  const run = forward ? runs[at + (here ? 1 : 0)] ?? runs[0] : runs[at - 1] ?? runs.at(-1);
  if (run) look(run.start - (run.end - run.start) / 8, run.end + (run.end - run.start) / 8);
}

const acts = {
  whole: () => look(0, shown.pages),
  in: () => zoom(0.5),
  out: () => zoom(2),
  left: () => look(from - (to - from) / 4, to - (to - from) / 4),
  right: () => look(from + (to - from) / 4, to + (to - from) / 4),
  next: () => step(true),
  previous: () => step(false),
};
const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "whole", n: "next", p: "previous" };
for (const name of Object.keys(acts)) by(name).addEventListener("click", acts[name]);
view.addEventListener("keydown", (event) => {
  if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  acts[keys[event.key]]();
});
const pageAt = (event) => {
  const box = view.querySelector(".frame").getBoundingClientRect();
  return from + (to - from) * Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
};
view.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.deltaY) {
    zoom(event.deltaY < 0 ? 0.7 : 1 / 0.7, pageAt(event));
  } else {
    const off = (to - from) * Math.sign(event.deltaX) / 10;
    look(from + off, to + off);
  }
}, { passive: false });
let held = null;
view.addEventListener("pointerdown", (event) => { if (event.target.tagName !== "SPAN") held = pageAt(event); });
// A finger that moves up or down scrolls the page, and is heard of no more.
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { held = null; });
addEventListener("pointermove", (event) => {
  if (held === null) return;
  const off = held - pageAt(event);
  look(from + off, to + off);
});

by("controls").addEventListener("submit", (event) => event.preventDefault());
by("range").addEventListener("change", () => {
  const range = rangeOf(by("range").value);
  if (range) look(...range); else by("range").setAttribute("aria-invalid", "true");
});
by("colour").addEventListener("change", () => { choose(); draw(); });
by("table").addEventListener("change", () => { show(Number(by("table").value)); choose(); everything(); });

// At first that is in view which most is mapped for, and not the holes around it.
function everything() {
  const owners = new Map();
  for (const [name, runs] of shown.strips) if (name !== "differs") for (const run of runs) {
    const of = owners.get(run.style.owner) || { pages: 0, start: Infinity, end: 0 };
    of.pages += run.end - run.start;
    [of.start, of.end] = [Math.min(of.start, run.start), Math.max(of.end, run.end)];
    owners.set(run.style.owner, of);
  }
  const [most] = [...owners.values()].sort((one, other) => other.pages - one.pages);
  if (most) look(most.start, most.end); else look(0, shown.pages);
}

// `#TABLE:START-END`, as findings link.
function follow() {
  const link = /^#(\d+):(.*)$/.exec(location.hash);
  if (!link || !data.tables[link[1]]) return false;
  show(Number(link[1]));
  choose();
  const range = rangeOf(link[2]);
  if (!range) return false;
  look(range[0] - (range[1] - range[0]) / 8, range[1] + (range[1] - range[0]) / 8);
  view.scrollIntoView({ block: "center" });
  view.focus({ preventScroll: true });
  return true;
}

data.tables.forEach((table, number) => {
  by("table").add(new Option((table.before || table.after).name + (table.fate ? `, ${table.fate}` : ""), number));
});
addEventListener("hashchange", follow);
// A second click on the same link changes no hash.
document.querySelector("main").addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) follow();
});
addEventListener("resize", draw);
addEventListener("beforeprint", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
if (!follow()) { show(0); choose(); everything(); }

// Acts on a report as a person does: on each of its page tables.
"use strict";
const key = (name) => view.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const wheel = (deltaY, deltaX = 0) => view.dispatchEvent(new WheelEvent("wheel", { deltaX, deltaY, clientX: 500, clientY: 300, bubbles: true, cancelable: true }));
const extent = () => to - from;
const near = (one, other) => Math.abs(one - other) <= 1e-9 * shown.pages;
const type = (id, value) => { by(id).value = value; by(id).dispatchEvent(new Event("change")); };
// Pixels that are not the colour of holes.
const drawn = (canvas) => {
  const { data: points } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 3; at < points.length; at += 4) count += points[at] > 0;
  return count;
};
const strips = () => ["before", "after"].filter((name) => shown[name]);

function moves() {
  key("Home"); hold("Home shows all", from === 0 && to === shown.pages, `${from} ${to}`);
  key("+"); hold("+ zooms in", extent() === shown.pages / 2, extent());
  const [start, length] = [from, extent()];
  key("ArrowRight"); hold("the right arrow moves up by a quarter", near(from, start + length / 4) && near(extent(), length), `${start} ${from}`);
  key("ArrowLeft"); hold("the left arrow moves back", near(from, start) && near(extent(), length), `${start} ${from}`);
  wheel(-1); hold("the wheel zooms in", near(extent(), length * 0.7) && from > start, `${length} ${extent()}`);
  wheel(1); hold("the wheel zooms out", near(extent(), length) && near(from, start), `${length} ${extent()}`);
  wheel(0, 1); hold("a wheel sideways moves up", near(extent(), length) && from > start, `${start} ${from}`);
  wheel(0, -1); hold("and down", near(extent(), length) && near(from, start), `${start} ${from}`);
  key("-"); hold("- zooms out", extent() === shown.pages, extent());
  for (let times = 0; times < 60; times++) key("+");
  hold("one page is the least", extent() === 1, extent());
  const page = from;
  key("ArrowRight"); hold("an arrow moves one page in view", from > page && extent() === 1, `${page} ${from}`);
  key("Home"); key("n"); hold("n goes to a run", extent() < shown.pages && by("leaves").tBodies[0].rows.length > 0);
  hold("a run fills the view", strips().every((name) => drawn(by(name)) > 1000), strips().map((name) => drawn(by(name))).join());
}

function ranges() {
  const range = `${address(shown.pages / 2)}-${address(shown.pages / 2 + 512)}`;
  type("range", range);
  hold("a range is shown", from === shown.pages / 2 && extent() === 512 && by("state").textContent.startsWith(range), `${range} ${from}`);
  type("range", "nonsense");
  hold("nonsense is refused", by("range").getAttribute("aria-invalid") === "true");
}

function paints() {
  acts.whole();
  for (const option of by("colour").options) {
    type("colour", option.value);
    const names = new Set(shown.runs.map((run) => run.style[option.value]));
    const told = [...by("legend").children].map((item) => item.textContent);
    hold(`coloured by ${option.text}`, names.size > 0 && [...names].every((name) => told.includes(name)) && strips().every((name) => drawn(by(name)) > 0), [...names].join());
  }
}

for (const option of by("table").options) {
  type("table", option.value);
  hold(`page table ${option.text}`, shown.number === Number(option.value) && option.text.includes(`${data.tables[option.value].fate ?? ""}`));
  hold("something is drawn", strips().length > 0 && strips().every((name) => drawn(by(name)) > 0), strips().map((name) => drawn(by(name))).join());
  moves();
  ranges();
  paints();
  for (const button of document.querySelectorAll("#controls button")) button.click();
  hold("every button acts", errors.length === 0, errors.join());
  if (by("differs") && (shown.differs || shown.fate)) hold("the difference is drawn", (acts.whole(), drawn(by("differs")) > 0));
}
const links = [...document.querySelectorAll("main a")];
location.hash = links.at(-1).getAttribute("href");
follow();
const [first, last] = rangeOf(links.at(-1).textContent);
hold("a link shows its place", from <= first && to >= last, `${from} ${to}`);
acts.whole(); links.at(-1).click();
hold("a link shows its place again", from <= first && to >= last && extent() < shown.pages, `${from} ${to}`);
hold("leaves are told in words", by("leaves").tBodies[0].rows.length > 0
  && [...by("leaves").tBodies[0].rows].every((row) => row.cells[0].matches("th[scope=row]")) && by("state").textContent.includes("in view"));
hold("every field has a name", [...document.querySelectorAll("select, input, button")].every((one) => one.labels?.length || one.textContent));
const tables = [...document.querySelectorAll("table")];
hold("tables have heads for a screen reader", tables.length > 2 && tables.every((table) => table.tHead.querySelectorAll("th").length > 0
  && table.tHead.querySelectorAll("th:not([scope=col])").length === 0));
getSelection().selectAllChildren(document.querySelector("section[aria-labelledby^=sums] table"));
hold("text can be selected", getSelection().toString().includes("Share"));
getSelection().removeAllRanges();
hold("a finger scrolls the page", getComputedStyle(view).touchAction.includes("pan-y"), getComputedStyle(view).touchAction);
standsOut();

// Acts on a report as a person does.
"use strict";
const key = (name) => view.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const extent = () => to - from;
const type = (id, value) => { by(id).value = value; by(id).dispatchEvent(new Event("change")); };
// Pixels that are not the colour of holes.
const drawn = (canvas) => {
  const { data: points } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 3; at < points.length; at += 4) count += points[at] > 0;
  return count;
};

hold("something is drawn", drawn(by("before")) > 1000, drawn(by("before")));
const start = extent();
key("+"); hold("+ zooms in", extent() === start / 2, `${start} ${extent()}`);
key("-"); hold("- zooms out", extent() === start, extent());
key("Home"); hold("Home shows all", from === 0 && to === shown.pages, `${from} ${to}`);
for (let times = 0; times < 60; times++) key("+");
hold("one page is the least", extent() === 1, extent());
key("ArrowRight"); key("ArrowLeft"); hold("arrows move", Number.isFinite(from) && extent() === 1);
key("Home"); key("n"); hold("n goes to a run", extent() < shown.pages && by("leaves").tBodies[0].rows.length > 0);
view.dispatchEvent(new WheelEvent("wheel", { deltaY: 1, clientX: 500, clientY: 300, bubbles: true, cancelable: true }));
hold("the wheel zooms", extent() > 0);
type("range", "0xffff000000000000-0xffff000000200000");
hold("a range is shown", address(from) === "0xffff000000000000" && shown.pages > extent(), address(from));
type("range", "nonsense");
hold("nonsense is refused", by("range").getAttribute("aria-invalid") === "true");
for (const option of by("colour").options) {
  type("colour", option.value);
  const last = shown.strips.find(([name]) => name === "before")[1];
  const names = new Set(last.map((run) => run.style[option.value]));
  const told = [...by("legend").children].map((item) => item.textContent);
  hold(`coloured by ${option.text}`, [...names].every((name) => told.includes(name)) && drawn(by("before")) > 0, [...names].join());
}
for (const option of by("table").options) { type("table", option.value); hold(`page table ${option.text}`, shown.number === Number(option.value)); }
for (const button of document.querySelectorAll("#controls button")) button.click();
hold("every button acts", errors.length === 0, errors.join());
const links = [...document.querySelectorAll("main a")];
location.hash = links.at(-1).getAttribute("href");
follow();
const [first, last] = rangeOf(links.at(-1).textContent);
hold("a link shows its place", from <= first && to >= last, `${from} ${to}`);
hold("leaves are told in words", by("leaves").tBodies[0].rows.length > 0 && by("state").textContent.includes("in view"));
if (by("differs")) hold("the difference is drawn", (acts.whole(), drawn(by("differs")) > 0));
hold("every field has a name", [...document.querySelectorAll("select, input, button")].every((one) => one.labels?.length || one.textContent));
standsOut();

// Acts on a report as a person does, and says in one line each what came of it.
"use strict";
const opened = performance.now(); // the page has been drawn
const lines = [];
const hold = (name, is, why = "") => lines.push(`${is ? "ok" : "FAILED"} ${name}${is ? "" : `: ${why}`}`);
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

// Contrast of text by WCAG 2: 4.5 for words, 3 for what is drawn.
const light = (colour) => {
  const [red, green, blue] = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\)$|transparent/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
const worst = [...document.querySelectorAll("body *")].filter((element) => !element.closest(".labels, script, noscript, .skip, option")
  && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
  .map((element) => [contrast(getComputedStyle(element).color, ground(element)), element]).sort(([one], [other]) => one - other)[0];
hold("words stand out", worst[0] >= 4.5, `${worst[0].toFixed(2)} of ${worst[1].tagName}: ${worst[1].textContent.slice(0, 40)}`);
const probe = document.body.appendChild(document.createElement("i"));
const resolve = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
const drawnWorst = Math.min(...[...Array(8).keys()].map((place) => contrast(resolve(`--c${place}`), resolve("--hole"))));
hold("what is drawn stands out", drawnWorst >= 3, drawnWorst.toFixed(2));
const labelWorst = Math.min(...[...Array(8).keys()].map((place) => contrast(resolve(`--c${place}`), resolve("--on-colour"))));
hold("words on colours stand out", labelWorst >= 4.5, labelWorst.toFixed(2));
hold("the console is silent", errors.length === 0, errors.join());
lines.push(`worst contrast ${worst[0].toFixed(2)}, open after ${Math.round(opened)} ms`);
lines.push(lines.some((line) => line.startsWith("FAILED")) ? "something is wrong" : "all is well");
document.body.append(Object.assign(document.createElement("pre"), { id: "came", textContent: lines.join("\n") }));

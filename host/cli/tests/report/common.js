// What is held of every page, and how it is told: one line each.
"use strict";
const opened = performance.now(); // the page has been drawn
const lines = [];
const hold = (name, is, why = "") => lines.push(`${is ? "ok" : "FAILED"} ${name}${is ? "" : `: ${why}`}`);

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

// The last that is called.
function standsOut() {
  const worst = [...document.querySelectorAll("body *")].filter((element) => !element.closest(".labels, script, noscript, .skip, option")
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .map((element) => [contrast(getComputedStyle(element).color, ground(element)), element]).sort(([one], [other]) => one - other)[0];
  hold("words stand out", worst[0] >= 4.5, `${worst[0].toFixed(2)} of ${worst[1].tagName}: ${worst[1].textContent.slice(0, 40)}`);
  const probe = document.body.appendChild(document.createElement("i"));
  const resolve = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
  const colours = [...Array(8).keys()].map((place) => `--c${place}`).filter((name) => getComputedStyle(document.documentElement).getPropertyValue(name));
  const drawnWorst = Math.min(...colours.flatMap((name) => ["--hole", "--ground"].map((behind) => contrast(resolve(name), resolve(behind)))));
  hold("what is drawn stands out", drawnWorst >= 3, drawnWorst.toFixed(2));
  const labelWorst = Math.min(...colours.map((name) => contrast(resolve(name), resolve("--on-colour"))));
  hold("words on colours stand out", labelWorst >= 4.5, labelWorst.toFixed(2));
  hold("the console is silent", errors.length === 0, errors.join());
  lines.push(`worst contrast ${worst[0].toFixed(2)}, open after ${Math.round(opened)} ms`);
  lines.push(lines.some((line) => line.startsWith("FAILED")) ? "something is wrong" : "all is well");
  document.body.append(Object.assign(document.createElement("pre"), { id: "came", textContent: lines.join("\n") }));
}

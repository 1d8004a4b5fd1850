// Looks at the page of a plan.
"use strict";
const plots = [...document.querySelectorAll("svg.plot")];
hold("each plot has a role and a name", plots.length > 2 && plots.every((plot) => plot.getAttribute("role") === "img" && plot.getAttribute("aria-label")), plots.length);
const bars = [...document.querySelectorAll("svg rect")];
hold("every bar can be seen", bars.length > 0 && bars.every((bar) => bar.getBBox().width >= 1), bars.length);
hold("curves go up", [...document.querySelectorAll("polyline")].every((curve) => curve.points.length === 100 && curve.points[0].y > curve.points[99].y && curve.points[0].x <= curve.points[99].x));
// Text that leaves its plot is cut off.
const cut = [...document.querySelectorAll("svg text")].filter((text) => {
  const box = text.getBBox(), all = text.ownerSVGElement.viewBox.baseVal;
  return box.x < 0 || box.y < 0 || box.x + box.width > all.width || box.y + box.height > all.height;
});
hold("no words are cut off", cut.length === 0, cut.map((text) => text.textContent).join());
const tables = [...document.querySelectorAll("#figures table")];
hold("tables have heads for a screen reader", tables.length > 0 && tables.every((table) => table.querySelectorAll("thead th[scope=col]").length > 0
  && [...table.tBodies[0].rows].every((row) => row.cells[0].matches("th[scope=row]"))));
hold("each section has a name", [...document.querySelectorAll("section")].every((section) => document.getElementById(section.getAttribute("aria-labelledby"))?.textContent));
// A window that has no focus yet, as on a busy host, matches no `:focus`: what that rule says is given to the link itself.
const skip = document.querySelector(".skip");
skip.focus();
skip.style.cssText = [...document.styleSheets[0].cssRules].find((rule) => rule.selectorText === ".skip:focus").style.cssText;
hold("the first key leads past the plots", document.activeElement === skip && skip.getBoundingClientRect().left >= 0 && document.querySelector(skip.getAttribute("href")));
skip.style.cssText = "";
skip.blur();
getSelection().selectAllChildren(tables[0]);
hold("text can be selected", getSelection().toString().includes("TLB entries"));
getSelection().removeAllRanges();
standsOut();

"use strict";
// Theme, copying, sorting, and when Plotly draws what. All else on the page needs no script.

const root = document.documentElement;
const each = (selector, task, within = document) => within.querySelectorAll(selector).forEach(task);

// ---- theme: the system's until the switch is used; then what was chosen, as long as the browser remembers
const dark = matchMedia("(prefers-color-scheme: dark)");
const remembered = (() => { try { return localStorage.getItem("damoos-theme"); } catch { return null; } })();
const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");

function show(name) {
  if (name) root.dataset.theme = name;
  each("#theme", (button) => {
    button.setAttribute("aria-pressed", String(theme() === "dark"));
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${theme() === "dark" ? "light" : "dark"} colours`);
  });
  each(".plot.drawn", recolour);
}

each("#theme", (button) => button.addEventListener("click", () => {
  show(theme() === "dark" ? "light" : "dark");
  try { localStorage.setItem("damoos-theme", root.dataset.theme); } catch { /* it holds for this page only */ }
}));
dark.addEventListener("change", () => show());

// ---- figures: drawn when they come into view, in the colours of the page
function recolour(plot) {
  return Plotly.relayout(plot, { "font.color": getComputedStyle(plot).color });
}

function draw(plot) {
  if (plot.classList.contains("drawn")) return;
  plot.classList.add("drawn");
  const figure = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
  plot.textContent = "";
  Plotly.newPlot(plot, figure.data, figure.layout, { responsive: true, displaylogo: false, displayModeBar: false })
    .then(() => recolour(plot));
}

const near = new IntersectionObserver((seen) => seen.forEach((one) => {
  if (one.isIntersecting) { near.unobserve(one.target); draw(one.target); }
}), { rootMargin: "400px" });
each(".plot", (plot) => near.observe(plot));

// ---- print: everything drawn, in light, as wide as the paper and not as high as on the screen
let before;
addEventListener("beforeprint", () => {
  before = root.dataset.theme || "";
  show("light");
  each(".plot", (plot) => { draw(plot); Plotly.relayout(plot, { width: 680, height: Math.round(0.75 * plot.layout.height) }); });
});
addEventListener("afterprint", () => {
  if (before) root.dataset.theme = before; else delete root.dataset.theme;
  each(".plot.drawn", (plot) => Plotly.relayout(plot, { width: null, height: parseInt(plot.style.minHeight), autosize: true }));
  show();
});

// ---- copying
each("button[data-copy]", (button) => button.addEventListener("click", async () => {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch { // an older browser, or one that asks and was refused
    getSelection().selectAllChildren(source);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}));

// ---- sorting: by numbers where there are numbers; what has no value stays at the end
const words = new Intl.Collator("en", { numeric: true });

function key(cell) {
  const value = cell.dataset.value ?? cell.textContent;
  return cell.dataset.value === "" ? null : cell.classList.contains("numbers") ? Number(value) : value;
}

function compare(a, b, way) {
  if (a === null || b === null) return (a === null) - (b === null);
  return way * (typeof a === "number" ? a - b : words.compare(a, b));
}

function sort(header) {
  const table = header.closest("table"), body = table.tBodies[0], column = header.cellIndex;
  const first = header.classList.contains("numbers") ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = header.getAttribute("aria-sort") === first ? other : first;
  each("th", (one) => one.setAttribute("aria-sort", "none"), table);
  header.setAttribute("aria-sort", order);
  const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
  rows.sort(([a], [b]) => compare(a, b, order === "ascending" ? 1 : -1));
  body.append(...rows.map(([, row]) => row));
}

each("th button", (button) => button.addEventListener("click", () => sort(button.closest("th"))));

show(remembered);

"use strict";
// The reject threshold, prevalence and costs act on the held-out probabilities embedded in the page.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

// p(c | x) under new prevalences: p_new(c) / p_train(c) re-weights, then rows are normalised.
function reweigh(row, prior) {
  const weighted = row.map((p, c) => (p * prior[c]) / data.priors[c]);
  const total = weighted.reduce((a, b) => a + b, 0);
  return weighted.map((w) => w / total);
}

function decide() {
  const threshold = Number($("reject").value);
  const raw = data.classes.map((_, c) => Number($(`prior-${c}`).value));
  const total = raw.reduce((a, b) => a + b, 0);
  const prior = raw.map((p) => p / total);
  const abstainCost = Number($("abstain-cost").value);
  const counts = Array.from({ length: data.classes.length + 1 }, () => data.classes.map(() => 0));
  let decided = 0, right = 0, cost = 0, weight = 0;
  data.probabilities.forEach((row, i) => {
    const p = reweigh(row, prior), truth = data.truth[i];
    const best = p.indexOf(Math.max(...p));
    const action = p[best] < threshold ? data.classes.length : best;
    const w = prior[truth] / data.priors[truth];  // scans stand for the new population
    counts[action][truth] += 1;
    weight += w;
    if (action === data.classes.length) { cost += w * abstainCost; return; }
    decided += w;
    if (action === truth) right += w; else cost += w;
  });
  $("reject-out").textContent = threshold.toFixed(2);
  prior.forEach((p, c) => { $(`prior-out-${c}`).textContent = p.toFixed(2); });
  $("coverage").textContent = (decided / weight).toFixed(3);
  $("decided-accuracy").textContent = decided > 0 ? (right / decided).toFixed(3) : "–";
  $("mean-cost").textContent = (cost / weight).toFixed(3);
  [...$("confusion").tBodies[0].rows].forEach((tr, a) => {
    [...tr.querySelectorAll("td")].forEach((td, c) => {
      td.textContent = counts[a][c];
      const column = counts.reduce((sum, row) => sum + row[c], 0);
      td.style.setProperty("--share", column ? counts[a][c] / column : 0);
    });
  });
}

function sortBy(table, column, header) {
  const up = header.getAttribute("aria-sort") !== "ascending";
  table.tHead.querySelectorAll("th").forEach((th) => th.setAttribute("aria-sort", "none"));
  header.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = (tr) => tr.cells[column].textContent;
  const order = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b)));
  table.tBodies[0].append(...rows);
}

if ($("confusion")) {
  document.querySelectorAll(".controls input").forEach((input) => input.addEventListener("input", decide));
  $("reset").addEventListener("click", () => {
    document.querySelectorAll(".controls input").forEach((input) => { input.value = input.defaultValue; });
    decide();
  });
  decide();
}
document.querySelectorAll("table.sortable").forEach((table) => {
  table.tHead.querySelectorAll("th").forEach((th, column) => {
    th.firstElementChild.addEventListener("click", () => sortBy(table, column, th));
  });
});

"use strict";
// The reject threshold, prevalence and costs act on the held-out probabilities embedded in the page.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const told = (value) => (Number.isFinite(value) ? value.toFixed(3) : "–");

// p(c | x) under new prevalences: p_new(c) / p_tested(c) re-weights, then rows are normalised.
function reweigh(row, prior) {
  const weighted = row.map((p, c) => (data.priors[c] > 0 ? (p * prior[c]) / data.priors[c] : 0));
  const total = weighted.reduce((a, b) => a + b, 0);
  return weighted.map((w) => w / total);
}

function prevalences() {
  if (data.positive !== null && data.positive !== undefined) {
    const q = Number($(`prior-${data.positive}`).value);
    return data.positive === 1 ? [1 - q, q] : [q, 1 - q];
  }
  const raw = data.classes.map((_, c) => Number($(`prior-${c}`).value));
  const total = raw.reduce((a, b) => a + b, 0);
  return raw.map((p) => p / total);
}

function decide() {
  const threshold = Number($("reject").value);
  const prior = prevalences();
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
  prior.forEach((p, c) => { const out = $(`prior-out-${c}`); if (out) out.textContent = p.toFixed(p < 0.1 ? 3 : 2); });
  $("coverage").textContent = told(decided / weight);
  $("decided-accuracy").textContent = told(right / decided);
  $("mean-cost").textContent = told(cost / weight);
  if ($("ppv")) clinic(counts, prior);
  fillConfusion(counts);
}

// Of the scans that were decided; predictive values at the prevalence that is set.
function clinic(counts, prior) {
  const yes = data.positive, no = 1 - yes, q = prior[yes];
  const s = counts[yes][yes] / (counts[yes][yes] + counts[no][yes]);
  const t = counts[no][no] / (counts[no][no] + counts[yes][no]);
  $("sensitivity").textContent = told(s);
  $("specificity").textContent = told(t);
  $("ppv").textContent = told((s * q) / (s * q + (1 - t) * (1 - q)));
  $("npv").textContent = told((t * (1 - q)) / (t * (1 - q) + (1 - s) * q));
}

function fillConfusion(counts) {
  [...$("confusion").tBodies[0].rows].forEach((tr, a) => {
    [...tr.querySelectorAll("td")].forEach((td, c) => {
      td.textContent = counts[a][c];
      const column = counts.reduce((sum, row) => sum + row[c], 0);
      td.style.setProperty("--share", column ? counts[a][c] / column : 0);
      td.classList.toggle("zero", counts[a][c] === 0);
    });
  });
}

if ($("confusion")) {
  const inputs = document.querySelectorAll(".controls input");
  inputs.forEach((input) => input.addEventListener("input", decide));
  $("reset").addEventListener("click", () => {
    inputs.forEach((input) => { input.value = input.defaultValue; });
    decide();
  });
  decide();
}

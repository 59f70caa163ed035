// Predictions: filtered, sorted, shown some at a time, and downloaded as they are shown.
{
  const { columns, rows } = data.predictions;
  const body = $("rows").tBodies[0], PART = 200;
  const right = columns.indexOf("right");
  let sorted = null, up = true, limit = PART;

  const order = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);

  function chosen() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const which = $("which") ? $("which").value : "";
    const kept = rows.filter((row) => {
      if (which && row[right] !== which) return false;
      const text = row.join("\t").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (sorted !== null) kept.sort((a, b) => (up ? 1 : -1) * order(a[sorted], b[sorted]));
    return kept;
  }

  function show() {
    const kept = chosen();
    body.replaceChildren(...kept.slice(0, limit).map((row) => {
      const tr = document.createElement("tr");
      row.forEach((value, c) => {
        const cell = document.createElement(c ? "td" : "th");
        if (!c) cell.scope = "row";
        cell.textContent = value;
        tr.append(cell);
      });
      if (row[right] === "no") tr.className = "wrong";
      return tr;
    }));
    const visible = Math.min(limit, kept.length);
    $("shown").textContent = `${visible} of ${kept.length} rows`;
    $("more").hidden = visible === kept.length;
  }

  document.querySelectorAll("#rows thead th").forEach((th, column) => {
    th.firstElementChild.addEventListener("click", () => {
      up = sorted === column ? !up : true;
      sorted = column;
      document.querySelectorAll("#rows thead th").forEach((other) => other.setAttribute("aria-sort", "none"));
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      show();
    });
  });
  ["filter", "which"].forEach((id) => $(id) && $(id).addEventListener("input", () => { limit = PART; show(); }));
  $("more").addEventListener("click", () => { limit += PART; show(); });
  $("download").addEventListener("click", () => {
    const clean = (value) => value.replace(/[\t\r\n]/g, " ");
    const text = [columns, ...chosen()].map((row) => row.map(clean).join("\t")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/tab-separated-values" }));
    link.download = "predictions.tsv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  show();
}

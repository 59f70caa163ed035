// Interactive viewers: three planes of a volume, or a turning surface, drawn from packed bytes.
{
  const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

  async function unpack(text) {
    const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  function slider(box, id, label, min, max, value, listener) {
    const name = document.createElement("label"), input = document.createElement("input");
    const out = document.createElement("output");
    name.htmlFor = input.id = id;
    name.append(`${label} `, out);
    Object.assign(input, { type: "range", min, max, step: "any", value });
    if (Number.isInteger(min) && Number.isInteger(max)) input.step = 1;
    input.addEventListener("input", listener);
    box.append(name, input);
    return { input, out };
  }

  function frame(details, label) {
    const box = details.querySelector(".stage"), canvas = document.createElement("canvas");
    const controls = document.createElement("div");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    controls.className = "controls";
    box.append(canvas, controls);
    return { canvas, controls };
  }

  // One byte to a value, a colour and an opacity.
  function scale(map) {
    const colors = fromBase64(map.colors), span = map.high - map.low;
    const far = Math.max(Math.abs(map.low), Math.abs(map.high));
    const near = map.low <= 0 && map.high >= 0 ? 0 : Math.min(Math.abs(map.low), Math.abs(map.high));
    const value = (byte) => map.low + ((byte - 1) / 254) * span;
    const strength = (byte) => Math.min(1, Math.max(0, (Math.abs(value(byte)) - near) / (far - near || 1)));
    return { colors, value, strength };
  }

  function mix(pixels, at, byte, ground, map, hidden) {
    const s = byte ? map.strength(byte) : 0;
    const alpha = byte && s >= hidden ? 0.15 + 0.85 * Math.pow(s, 0.7) : 0;
    const c = 3 * Math.round(((byte - 1) / 254) * 255);
    for (let k = 0; k < 3; k++) pixels[at + k] = alpha * (byte ? map.colors[c + k] : 0) + (1 - alpha) * ground;
    pixels[at + 3] = ground || alpha ? 255 : 0;
  }

  async function volumeViewer(details, stage, entry, title) {
    const [nx, ny, nz] = stage.shape, map = scale(entry);
    const ground = new Uint8Array(await unpack(stage.ground)), bytes = new Uint8Array(await unpack(entry.data));
    const { canvas, controls } = frame(details, `Three planes through ${title}`);
    const at = (x, y, z) => (x * ny + y) * nz + z, size = stage.step.map(Math.abs);
    const planes = [  // across, up, and which voxel a pixel is
      { w: ny, h: nz, a: 1, b: 2, voxel: (p, q, [x]) => at(x, p, q) },
      { w: nx, h: nz, a: 0, b: 2, voxel: (p, q, [, y]) => at(p, y, q) },
      { w: nx, h: ny, a: 0, b: 1, voxel: (p, q, [, , z]) => at(p, q, z) },
    ];
    const width = planes.reduce((sum, one) => sum + one.w * size[one.a], 0);
    const tallest = Math.max(...planes.map((one) => one.h * size[one.b]));
    const zoom = 900 / width;
    canvas.width = 900; canvas.height = Math.ceil(tallest * zoom);
    const brush = canvas.getContext("2d"), id = details.dataset.map;
    const names = ["Left to right", "Back to front", "Bottom to top"];
    const moves = names.map((name, axis) => slider(controls, `move-${id}-${axis}`, name, 0, stage.shape[axis] - 1, entry.start[axis], draw));
    const hide = slider(controls, `hide-${id}`, "Hide what is weaker than", 0, 1.0001, 0, draw);
    const reading = document.createElement("p");
    reading.setAttribute("role", "status");
    details.querySelector(".stage").append(reading);

    function draw() {
      const here = moves.map((one) => Number(one.input.value)), hidden = Number(hide.input.value);
      brush.clearRect(0, 0, canvas.width, canvas.height);
      let left = 0;
      for (const one of planes) {
        const image = new ImageData(one.w, one.h);
        for (let p = 0; p < one.w; p++) for (let q = 0; q < one.h; q++) {
          const v = one.voxel(p, q, here);
          mix(image.data, 4 * ((one.h - 1 - q) * one.w + p), bytes[v], ground[v], map, hidden);
        }
        const sheet = new OffscreenCanvas(one.w, one.h);
        sheet.getContext("2d").putImageData(image, 0, 0);
        const w = one.w * size[one.a] * zoom, h = one.h * size[one.b] * zoom, top = canvas.height - h;
        Object.assign(one, { left, top, width: w, height: h });
        brush.imageSmoothingEnabled = false;
        brush.drawImage(sheet, left, top, w, h);
        brush.strokeStyle = "#2f9e44";
        const px = left + ((here[one.a] + 0.5) / one.w) * w, py = top + h - ((here[one.b] + 0.5) / one.h) * h;
        brush.beginPath();
        brush.moveTo(px, top); brush.lineTo(px, top + h);
        brush.moveTo(left, py); brush.lineTo(left + w, py);
        brush.stroke();
        left += w;
      }
      const place = here.map((i, axis) => stage.first[axis] + i * stage.step[axis]);
      moves.forEach((one, axis) => { one.out.textContent = `${place[axis].toFixed(0)}${stage.unit}`; });
      hide.out.textContent = `${Math.round(100 * Math.min(1, hidden))} % of the strongest`;
      const byte = bytes[at(...here)];
      reading.textContent = `At (${place.map((p) => p.toFixed(0)).join(", ")})${stage.unit}: ${byte ? map.value(byte).toPrecision(2) : "nothing"}`;
    }

    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const x = ((event.clientX - box.x) / box.width) * canvas.width, y = ((event.clientY - box.y) / box.height) * canvas.height;
      const one = planes.find((plane) => x >= plane.left && x < plane.left + plane.width && y >= plane.top);
      if (!one) return;
      moves[one.a].input.value = Math.floor(((x - one.left) / one.width) * one.w);
      moves[one.b].input.value = Math.floor(((one.top + one.height - y) / one.height) * one.h);
      draw();
    });
    draw();
  }

  async function meshViewer(details, stage, entry, title) {
    const points = new Int16Array(await unpack(stage.points)), faces = new Uint32Array(await unpack(stage.faces));
    const folds = new Uint8Array(await unpack(stage.ground)), bytes = new Uint8Array(await unpack(entry.data));
    const map = scale(entry), { canvas, controls } = frame(details, `Inflated surface with ${title}`);
    canvas.width = 900; canvas.height = 520;
    const brush = canvas.getContext("2d"), id = details.dataset.map, count = faces.length / 3;
    const turn = slider(controls, `turn-${id}`, "Turn", -180, 180, 90, draw);
    const tilt = slider(controls, `tilt-${id}`, "Tilt", -90, 90, 0, draw);
    const seen = new Float32Array(points.length), pixel = new Uint8ClampedArray(4);
    const depth = new Float32Array(count), order = Array.from({ length: count }, (_, f) => f);

    function draw() {
      const a = (Number(turn.input.value) * Math.PI) / 180, b = (Number(tilt.input.value) * Math.PI) / 180;
      turn.out.textContent = `${Math.round(turn.input.value)}°`;
      tilt.out.textContent = `${Math.round(tilt.input.value)}°`;
      for (let i = 0; i < points.length; i += 3) {
        const x = points[i] / 32000, y = points[i + 1] / 32000, z = points[i + 2] / 32000;
        const across = x * Math.cos(a) + y * Math.sin(a), away = -x * Math.sin(a) + y * Math.cos(a);
        seen[i] = 450 + 230 * across;
        seen[i + 1] = 260 - 230 * (z * Math.cos(b) + away * Math.sin(b));
        seen[i + 2] = away * Math.cos(b) - z * Math.sin(b);
      }
      for (let f = 0; f < count; f++) depth[f] = seen[3 * faces[3 * f] + 2] + seen[3 * faces[3 * f + 1] + 2] + seen[3 * faces[3 * f + 2] + 2];
      order.sort((f, g) => depth[g] - depth[f]);
      brush.clearRect(0, 0, canvas.width, canvas.height);
      for (const f of order) {
        const [i, j, k] = [3 * faces[3 * f], 3 * faces[3 * f + 1], 3 * faces[3 * f + 2]];
        mix(pixel, 0, bytes[i / 3], folds[i / 3], map, 0);
        brush.fillStyle = brush.strokeStyle = `rgb(${pixel[0]},${pixel[1]},${pixel[2]})`;
        brush.beginPath();
        brush.moveTo(seen[i], seen[i + 1]); brush.lineTo(seen[j], seen[j + 1]); brush.lineTo(seen[k], seen[k + 1]);
        brush.closePath();
        brush.fill(); brush.stroke();
      }
    }
    draw();
  }

  document.querySelectorAll("details.viewer").forEach((details) => {
    details.addEventListener("toggle", () => {
      if (!details.open || details.dataset.drawn) return;
      details.dataset.drawn = "yes";
      const title = details.closest("figure").querySelector("h3").textContent;
      const show = data.stage.kind === "mesh" ? meshViewer : volumeViewer;
      show(details, data.stage, data.viewers[Number(details.dataset.map)], title);
    });
  });
}

/* The explorer of a matrix on a mesh of GPUs: who holds which part, and what an all-gather brings.
   Tests compare it with phasebit/chapters/two_gpus/meshes.py (tests/site/test_grids.py). */

(() => {
  "use strict";

  const { number, many, escaped, svg, kind } = window.phasebitParts;
  const HUES = window.phasebitHues ?? ["blue"];
  const MOST = 16; // GPUs
  const DIRECTION = ["down", "across"];

  /* Part `at` of `count` equal ones of a range; where they cannot be equal the last have less. */
  function cut([from, to], count, at) {
    const each = Math.ceil((to - from) / count);
    return [Math.min(from + at * each, to), Math.min(from + (at + 1) * each, to)];
  }

  const long = ([from, to]) => to - from;
  const size = (part) => long(part.rows) * long(part.columns);

  /* What each GPU holds, line by line of the mesh. `along`: for each axis of the mesh "rows",
     "columns", "copies", or "at 2", the offset. */
  function held(shape, mesh, along) {
    return Array.from({ length: mesh[0] * mesh[1] }, (_, gpu) => {
      const place = [Math.floor(gpu / mesh[1]), gpu % mesh[1]];
      const part = { rows: [0, shape[0]], columns: [0, shape[1]] };
      let here = true;
      along.forEach((does, axis) => {
        if (does in part) part[does] = cut(part[does], mesh[axis], place[axis]);
        else if (does !== "copies") here &&= does === `at ${place[axis]}`;
      });
      return { gpu, place, ...(here && size(part) ? part : { rows: [0, 0], columns: [0, 0] }) };
    });
  }

  const same = (a, b) => size(a) === size(b) && a.rows[0] === b.rows[0] && a.columns[0] === b.columns[0];

  /* The parts that there are, each once, with the GPUs that hold it. */
  function distinct(holders) {
    const found = [];
    for (const one of holders) {
      const known = found.find((part) => same(part, one));
      if (known) known.gpus.push(one.gpu);
      else if (size(one)) found.push({ rows: one.rows, columns: one.columns, gpus: [one.gpu] });
    }
    return found;
  }

  function bytesOf(count) {
    const step = [30, 20, 10].find((bits) => count >= 2 ** bits);
    return step ? `${Number((count / 2 ** step).toPrecision(3))} ${{ 30: "GiB", 20: "MiB", 10: "KiB" }[step]}` : many(count, "byte");
  }

  const range = ([from, to], whole, what) => (to - from === whole ? `all ${what}s` : to - from === 1 ? `${what} ${from}` : `${what}s ${from} to ${to - 1}`);

  function mesh({ rows, columns, bytes, down, across, divdown, divacross, gather }) {
    const gpus = [down, across], along = [divdown, divacross], axis = DIRECTION.indexOf(gather);
    if (down * across > MOST) return `${down} × ${across} are ${down * across} GPUs: ${MOST} at most are drawn`;
    for (const k of [0, 1]) {
      const at = /^at (\d)$/.exec(along[k])?.[1];
      if (at >= gpus[k]) return `${DIRECTION[k]} there ${gpus[k] > 1 ? `are the numbers 0 to ${gpus[k] - 1}` : "is the number 0 alone"}: nothing lies at ${at}`;
    }
    const holders = held([rows, columns], gpus, along);
    for (const one of holders) {
      one.line = one.place[1 - axis];
      const line = holders.filter((other) => other.place[1 - axis] === one.line);
      one.bytes = size(one) * bytes;
      one.brought = (distinct(line).reduce((sum, part) => sum + size(part), 0) - size(one)) * bytes;
    }
    const parts = distinct(holders), full = holders.filter((one) => one.bytes);
    const most = full.reduce((best, one) => (one.bytes > best.bytes ? one : best));
    const equal = full.length === holders.length && full.every((one) => one.bytes === most.bytes);
    const sum = (what) => holders.reduce((all, one) => all + one[what], 0);
    const moved = sum("brought");
    return {
      said: `The matrix has ${bytesOf(rows * columns * bytes)}. ` +
        (equal ? `Each of ${many(holders.length, "GPU")} holds ` : `${full.length} of ${many(holders.length, "GPU")} ${full.length === 1 ? "holds" : "hold"} ${full.length === 1 ? "" : "at most "}`) +
        `${long(most.rows)} × ${long(most.columns)} numbers, ${bytesOf(most.bytes)}; together they hold ${bytesOf(sum("bytes"))}. ` +
        (moved ? `An all-gather ${gather} the mesh moves ${bytesOf(moved)}, at most ${bytesOf(Math.max(...holders.map((one) => one.brought)))} to a GPU.` : `An all-gather ${gather} the mesh moves nothing.`),
      cells: [], gpus: holders, parts, shape: [rows, columns], mesh: gpus, gather,
    };
  }

  /* -- the picture: each GPU with its part, and the matrix with all parts -------------- */

  const clamp = (value, least, most) => Math.max(least, Math.min(value, most));
  const box = (x, y, w, h) => `M${x.toFixed(1)} ${y.toFixed(1)}h${w.toFixed(1)}v${h.toFixed(1)}h${(-w).toFixed(1)}z`;
  const label = (x, y, anchor, text) => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" class="pb-x-axis">${escaped(text)}</text>`;
  const hue = (index) => `style="--hue:var(--pb-${index < 0 ? "grey" : HUES[index % 7]})"`;

  function told(one, { shape, gather }) {
    const where = `GPU ${one.gpu}, (${one.place.join(", ")}) of the mesh`;
    const holds = one.bytes ? `${range(one.rows, shape[0], "row")}, ${range(one.columns, shape[1], "column")}: ${bytesOf(one.bytes)}` : "nothing";
    return `${where}, holds ${holds}. The all-gather ${gather} brings it ${one.brought ? `${bytesOf(one.brought)}, from the GPUs with a dashed frame` : "nothing"}.`;
  }

  /* Numbers at the bounds of the parts, where there is room for them; the last one always. */
  function bounds(parts, which, whole, step, room) {
    const all = [...new Set(parts.flatMap((part) => part[which]))].sort((a, b) => a - b);
    const kept = [];
    for (const value of all) {
      if (value === whole) while (kept.length > 1 && (value - kept.at(-1)) * step < room(value)) kept.pop();
      if (!kept.length || value === whole || (value - kept.at(-1)) * step >= room(value)) kept.push(value);
    }
    return kept;
  }

  function drawn(made, room) {
    const { gpus, parts, shape, mesh: [down, across], said } = made;
    const ratio = clamp(shape[1] / shape[0], 0.4, 2.5), beside = room >= 560;
    const step = Math.min(84, Math.floor((beside ? room / 2 - 20 : room - 4) / across));
    const high = Math.min(56, Math.min(step - 10, 64) / ratio), wide = high * ratio, pitch = high + 28;
    const out = [label(2, 12, "start", "the GPUs, and what each holds")];
    const place = (part, x, y, w, h) => box(x + (part.columns[0] / shape[1]) * w, y + (part.rows[0] / shape[0]) * h, (long(part.columns) / shape[1]) * w, (long(part.rows) / shape[0]) * h);
    for (const one of gpus) {
      const x = 4 + one.place[1] * step, y = 38 + one.place[0] * pitch, index = parts.findIndex((part) => part.gpus.includes(one.gpu));
      out.push(`<g class="pb-x-cell" data-at="${one.place}" data-same="${index < 0 ? `nothing-${one.gpu}` : `part-${index}`} line-${one.line}"><title>${escaped(told(one, made))}</title>` +
        `<path d="${box(x, y, wide, high)}" class="pb-x-faint" ${hue(-1)}/>` +
        (index < 0 ? "" : `<path d="${place(one, x, y, wide, high)}" class="pb-x-asked" ${hue(index)}/>`) +
        `<rect x="${x}" y="${y}" width="${wide.toFixed(1)}" height="${high.toFixed(1)}" class="pb-x-free"/>${label(x, y - 6, "start", step < 52 ? one.gpu : `GPU ${one.gpu}`)}</g>`);
    }
    const bottom = 38 + down * pitch;
    const left = (beside ? Math.max(4 + across * step + 24, 210) : 0) + 46, top = (beside ? 0 : bottom) + 38;
    const w = clamp(240 * Math.sqrt(ratio), 120, Math.min(320, room - left - 24)), h = clamp(w / ratio, 60, 260);
    out.push(label(left - 44, top - 26, "start", "the matrix, and which GPUs hold a part"));
    parts.forEach((part, index) => {
      const [x, y] = [left + (part.columns[0] / shape[1]) * w, top + (part.rows[0] / shape[0]) * h];
      const [wideHere, highHere] = [(long(part.columns) / shape[1]) * w, (long(part.rows) / shape[0]) * h];
      const fits = highHere < 15 ? undefined : [part.gpus.join(", "), `${part.gpus.length} of them`].find((text) => text.length * 6.6 + 6 < wideHere);
      const lines = [...new Set(part.gpus.map((gpu) => `line-${gpus[gpu].line}`))].join(" ");
      const which = `${part.gpus.length > 1 ? "GPUs" : "GPU"} ${part.gpus.join(", ")}`;
      out.push(`<g class="pb-x-cell" data-at="part,${index}" data-same="part-${index} ${lines}"><title>${escaped(`The part with ${range(part.rows, shape[0], "row")}, ${range(part.columns, shape[1], "column")} lies on ${which}.`)}</title>` +
        `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${wideHere.toFixed(1)}" height="${highHere.toFixed(1)}" class="pb-x-asked" ${hue(index)}/>` +
        (fits === undefined ? "" : `<text x="${(x + wideHere / 2).toFixed(1)}" y="${(y + highHere / 2 + 4).toFixed(1)}" text-anchor="middle" class="pb-x-lane">${escaped(fits)}</text>`) + "</g>");
    });
    for (const row of bounds(parts, "rows", shape[0], h / shape[0], () => 14)) out.push(label(left - 5, top + (row / shape[0]) * h + 4, "end", row));
    for (const column of bounds(parts, "columns", shape[1], w / shape[1], (value) => String(value).length * 7 + 6)) out.push(label(left + (column / shape[1]) * w, top - 7, "middle", column));
    return svg(Math.min(room, Math.max(left + w + 24, left + 196, 4 + across * step)), Math.max(bottom, top + h + 10), said, out.join(""));
  }

  const WAYS = [["rows", "by rows"], ["columns", "by columns"], "copies", ...Array.from({ length: 8 }, (_, at) => [`at ${at}`, `only at ${at}`])];
  const COUNTS = ["1", "2", "4", "8"];

  kind("mesh", {
    title: "Explorer: a matrix on a mesh of GPUs", work: mesh, draw: drawn, follow: true,
    fields: [number("rows", "rows of the matrix", 8192, 1, 65536), number("columns", "columns of the matrix", 8192, 1, 65536),
      { name: "bytes", label: "bytes a number", value: "2", options: ["1", "2", "4", "8"] },
      { name: "gather", label: "all-gather", options: DIRECTION },
      { name: "down", label: "GPUs down", value: "2", options: COUNTS }, { name: "divdown", label: "laid down", options: WAYS },
      { name: "across", label: "GPUs across", value: "2", options: COUNTS }, { name: "divacross", label: "laid across", value: "columns", options: WAYS }],
    /* One GPU is chosen from the beginning, and where the chosen one is gone. */
    beside(explorer) {
      if (!explorer.picture.querySelector(`.pb-x-cell[data-at="${explorer.at}"]`)) explorer.at = "0,0";
    },
  });
})();

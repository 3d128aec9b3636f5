/* Explorers of what engines fetch, count and hold: fragments of a matrix, boxes of a tensor, a barrier
   that counts bytes, the blocks of a cluster, scales in tensor memory. The tables are the emulator's;
   tests compare the rest with it (tests/site/test_grids.py). */

(() => {
  "use strict";

  const { number, many, picture, svg, kind } = window.phasebitParts;
  const HUES = window.phasebitHues ?? ["blue"];
  const FRAGMENTS = window.phasebitFragments ?? {}, SCALES = window.phasebitScales ?? {};

  /* -- fragments: phasebit/emulator/numbers/fragments.py ------------------------ */

  function fragment({ matrix, lane }) {
    const { shape: [rows, columns], row, column, packed } = FRAGMENTS[matrix];
    if (lane >= row.length) return row.length > 32 ? "a warp group has threads 0 to 127" : "a warp has lanes 0 to 31";
    const who = row.length > 32 ? "thread" : "lane";
    const cells = Array.from({ length: rows }, () => new Array(columns).fill(null));
    row.forEach((line, t) => line.forEach((r, k) => {
      const register = Math.floor(k / packed);
      cells[r][column[t][k]] = {
        text: t, hue: HUES[register % HUES.length], faint: t !== lane, same: [`lane-${t}`, `register-${register}`], set: { lane: t },
        title: `row ${r}, column ${column[t][k]}: ${who} ${t}${row.length > 32 ? `, lane ${t % 32} of warp ${Math.floor(t / 32)}` : ""}, register ${register}`,
      };
    }));
    const held = row[lane].map((r, k) => `(${r}, ${column[lane][k]})`);
    return {
      said: `${who === "lane" ? "Lane" : "Thread"} ${lane} holds ${held.length} elements in ${held.length / packed} registers; (row, column): ${held.join(" ")}.`,
      down: "row", across: `column; in the cells the ${who}, coloured by its register${rows > 32 ? `; the rows of warp ${Math.floor(lane / 32)}` : ""}`, cells,
      ...(rows > 32 ? { rows: [16 * Math.floor(lane / 32), 16 * Math.floor(lane / 32) + 16] } : {}), width: 26, least: 20,
    };
  }

  /* -- boxes: what cp.async.bulk.tensor fetches ---------------------------------- */

  const TENSOR = [16, 6, 3]; // elements along x, y, z
  const BYTES = { f32: 4, f64: 8 };
  const SPANS = { none: 16, "32B": 32, "64B": 64, "128B": 128 };
  const LINE = 128;

  function box(v) {
    const bytes = BYTES[v.type], span = SPANS[v.swizzle];
    const edge = [v.width, v.height, v.depth], corner = [v.x, v.y, v.z], step = [1, v.stepy, v.stepz];
    const [wide, tall, deep] = edge.map((one, k) => Math.ceil(one / step[k]));
    const row = wide * bytes;
    if (row % 16) return `the inner edge has ${row} bytes, and must have a multiple of 16`;
    if ((v.x * bytes) % 16) return `the box begins at byte ${v.x * bytes} of a row, and must begin at a multiple of 16`;
    if (span > 16 && row > span) return `the inner edge has ${row} bytes; swizzle ${v.swizzle} allows ${span}`;
    /* Rows begin a multiple of the swizzle's span apart, and some bits of the address move. */
    const pitch = span > 16 ? Math.ceil(row / span) * span : row;
    const mask = 0x70 & (span - 16);
    const place = (number) => {
      const byte = Math.floor(number / wide) * pitch + (number % wide) * bytes;
      return byte ^ ((byte >> 3) & mask);
    };
    const numbers = Array.from({ length: TENSOR[2] }, () => Array.from({ length: TENSOR[1] }, () => new Array(TENSOR[0]).fill(-1)));
    const lines = Math.ceil((tall * deep * pitch) / LINE);
    const memory = Array.from({ length: lines }, () => new Array(LINE / bytes).fill(null));
    const fill = v.outside === "zeros" ? "0" : "NaN";
    let inside = 0;
    for (let number = 0; number < wide * tall * deep; number++) {
      const index = [number % wide, Math.floor(number / wide) % tall, Math.floor(number / wide / tall)];
      const [x, y, z] = index.map((one, k) => corner[k] + one * step[k]);
      const within = [x, y, z].every((one, k) => one >= 0 && one < TENSOR[k]);
      const byte = place(number);
      if (within) {
        numbers[z][y][x] = number;
        inside++;
      }
      memory[Math.floor(byte / LINE)][(byte % LINE) / bytes] = {
        text: within ? number : fill, hue: HUES[Math.max(index[2], 0) % HUES.length], faint: !within, number, byte, same: [`element-${number}`],
        title: `byte ${byte}: element ${number} of the box, ` + (within ? `x ${x}, y ${y}, z ${z}` : `outside of the tensor: ${fill}`),
      };
    }
    const cells = numbers.flatMap((slice, z) => [...(z ? [[]] : []), ...slice.map((line, y) => line.map((number, x) => number < 0 ? null : {
      text: number, hue: HUES[Math.floor((z - corner[2]) / step[2]) % HUES.length], same: [`element-${number}`],
      title: `x ${x}, y ${y}, z ${z}: element ${number} of the box, byte ${place(number)}`,
    }))]);
    const total = wide * tall * deep * bytes, outside = wide * tall * deep - inside;
    const what = fill === "0" ? (outside > 1 ? "zeros" : "zero") : fill;
    return {
      said: `The barrier gets ${total} bytes` + (outside ? `: ${inside} elements of the tensor, and ${outside} ${what} for what lies outside.` : ", all from the tensor."),
      down: "y", across: "x; below each other z = 0, 1, 2", cells, numbers, memory, width: 24, least: 17, solid: placed(v),
      names: numbers.flatMap((slice, z) => [...(z ? [""] : []), ...slice.map((_, y) => y)]),
      more: { said: "The box in shared memory", down: "byte", across: "lines of 128 bytes of shared memory", bare: true, width: bytes === 4 ? 22 : 30, least: bytes === 4 ? 17 : 17, cells: memory, names: memory.map((_, k) => k * LINE) },
    };
  }

  /* Where a box lies, in elements of the tensor: also of one that cannot be fetched. */
  function placed({ x, y, z, width, height, depth }) {
    return { from: [x, y, z], size: [width, height, depth] };
  }

  /* The tensor as a solid, and the box in it: what sticks out is dashed. z goes back, to the upper
     right. */
  function solid({ from, size }, room) {
    const low = from.map((one) => Math.min(one, 0)), high = from.map((one, k) => Math.max(one + size[k], TENSOR[k]));
    const spans = high.map((one, k) => one - low[k]);
    const unit = Math.min(22, (Math.min(room, 560) - 70) / (spans[0] + 0.55 * spans[2]));
    const place = ([x, y, z]) => [50 + (x - low[0]) * unit + (z - low[2]) * 0.55 * unit, 26 + (y - low[1]) * unit + (high[2] - z) * 0.45 * unit];
    const corners = (at, edge) => [0, 1, 2, 3, 4, 5, 6, 7].map((k) => place(at.map((one, axis) => one + ((k >> axis) & 1) * edge[axis])));
    const path = (points, ...order) => `M${order.map((k) => points[k].map((n) => n.toFixed(1)).join(" ")).join("L")}`;
    const faces = (points) => ["0,1,3,2,0", "1,5,7,3,1", "0,1,5,4,0"].map((order) => path(points, ...order.split(",").map(Number)));
    const hidden = (points) => [path(points, 4, 6, 2), path(points, 6, 7)];
    const inner = from.map((one) => Math.max(one, 0)), outer = from.map((one, k) => Math.min(one + size[k], TENSOR[k]));
    const inside = inner.every((one, k) => one < outer[k]);
    const whole = corners([0, 0, 0], TENSOR), box = corners(from, size);
    const cut = inside ? corners(inner, outer.map((one, k) => one - inner[k])) : null;
    const [, bottom] = place([low[0], high[1], low[2]]), [right] = place([high[0], low[1], high[2]]);
    const label = (point, text, dx, dy, anchor) => `<text x="${point[0] + dx}" y="${point[1] + dy}" text-anchor="${anchor}" class="pb-x-axis">${text}</text>`;
    return svg(right + 20, bottom + 26, "the box in the tensor", [
      ...[...faces(whole), ...hidden(whole)].map((d) => `<path d="${d}" class="pb-x-solid"/>`),
      ...(cut ? faces(cut).map((d) => `<path d="${d}" class="pb-x-inside"/>`) : []),
      ...[...faces(box), ...hidden(box)].map((d) => `<path d="${d}" class="pb-x-box"/>`),
      label(whole[2], "y", -8, 4, "end"), label(whole[3], "x", 0, 16, "end"), label(whole[5], "z", 8, 0, "start"), label(whole[0], "(0, 0, 0)", -6, 4, "end"),
      label(box[2], `(${from.join(", ")}) and ${size.join(" × ")}`, 0, 14, "start"),
    ].join(""));
  }

  /* -- a barrier that counts arrivals and bytes: phasebit/mbarrier.py ------------------- */

  const MOST = (1 << 20) - 1;
  const EVENTS = /^(arrive|expect|bytes)(?:\s+(\d+))?$/;

  function barrier({ count, events }) {
    const steps = events.split(/[,;]/).map((one) => one.trim()).filter(Boolean);
    if (steps.length > 24) return "24 events at most are drawn";
    let [phase, pending, tx] = [0, count, 0];
    const states = [{ name: `init ${count}`, phase, pending, tx }];
    for (const step of steps) {
      const [, what, given] = EVENTS.exec(step) ?? [];
      const number = Number(given ?? 1);
      if (!what || (what !== "arrive" && given === undefined))
        return `"${step}" is no event: write arrive, arrive 2, expect 4096 (an arrival that announces bytes) or bytes 4096 (a copy has brought them)`;
      const arrivals = what === "arrive" ? number : what === "expect" ? 1 : 0;
      if (what === "arrive" && !number) return "an arrival counts at least 1";
      if (number > MOST) return `a count lies between 0 and ${MOST}`;
      if (arrivals > pending) return `"${step}": only ${pending} ${pending === 1 ? "arrival is" : "arrivals are"} missing in phase ${phase}`;
      tx += what === "expect" ? number : what === "bytes" ? -number : 0;
      if (Math.abs(tx) > MOST) return `"${step}": the bytes under way must lie between -${MOST} and ${MOST}`;
      pending -= arrivals;
      const done = !pending && !tx;
      if (done) [phase, pending] = [phase + 1, count];
      states.push({ name: step, phase, pending, tx, done });
    }
    const { phase: now, pending: missing, tx: under } = states.at(-1);
    const cell = (text, hue, title, faint = true) => ({ text, hue, title, faint });
    return {
      said: `${now || "No"} ${now > 1 ? "phases are" : "phase is"} complete, and phase ${now} is open: ${missing} of ${count} arrivals are missing, and ${under} bytes.`,
      down: "", across: "", heads: ["phase", "parity", "arrivals", "bytes", "wait(0)", "wait(1)"], names: states.map((one) => one.name), wide: 96, width: 66, states,
      cells: states.map((one) => {
        const hue = one.phase % 2 ? "cyan" : "pink", over = (parity) => parity !== one.phase % 2;
        return [
          cell(one.phase, hue, `phase ${one.phase} is open${one.done ? ": the one before it has just ended" : ""}`, !one.done),
          cell(one.phase % 2, hue, `parity ${one.phase % 2}`, !one.done),
          cell(one.pending, "blue", `${one.pending} arrivals are missing`), cell(one.tx, "orange", `${one.tx} bytes are missing`),
          ...[0, 1].map((parity) => cell(over(parity) ? "goes on" : "waits", over(parity) ? "green" : "grey", `who waits with parity ${parity} ${over(parity) ? "goes on" : "waits"}`, !over(parity))),
        ];
      }),
    };
  }

  /* -- clusters: who shares which tile, and whom a multicast reaches ---------------- */

  const SIDE = 8; // tiles of C down, and across

  const powers = (n) => [1, 2, 4, 8].includes(n);

  /* The ranks of a mask, as a number in binary. */
  const mask = (ranks) => ranks.reduce((bits, rank) => bits | (1 << rank), 0);
  const binary = (bits, digits) => `0b${bits.toString(2).padStart(digits, "0")}`;

  function cluster({ down, across, row, column, m, n, depth }) {
    const size = down * across;
    if (![down, across].every(powers) || size > 8) return "a cluster has 1, 2, 4 or 8 blocks; more than 8 are not portable";
    if (row >= SIDE || column >= SIDE) return `the picture has rows and columns 0 to ${SIDE - 1}`;
    if (m % across || n % down) return `${m} rows of A in ${across} parts, ${n} rows of B in ${down}: the parts must be whole rows`;
    const [top, left] = [row - (row % down), column - (column % across)];
    const rank = (r, c) => (r % down) + (c % across) * down;
    const mine = rank(row, column);
    /* Blocks of one row of tiles need the same rows of A, those of one column the same of B. */
    const ofA = Array.from({ length: across }, (_, c) => rank(row, left + c));
    const ofB = Array.from({ length: down }, (_, r) => rank(top + r, column));
    const a = { part: column % across, parts: across, ranks: ofA, mask: mask(ofA) };
    const b = { part: row % down, parts: down, ranks: ofB, mask: mask(ofB) };
    const slot = (m + n) * depth * 2;
    const alone = slot * size, shared = (down * m + across * n) * depth * 2;
    const piece = ({ part, parts }, rows) => parts > 1
      ? `rows ${(part * rows) / parts} to ${((part + 1) * rows) / parts - 1} of its ${rows}` : `all ${rows} rows`;
    const told = (which, rows, ranks, bits) =>
      `of ${which} it fetches ${piece(bits, rows)}, for ${ranks.length > 1 ? `ranks ${ranks.join(", ")} (mask ${binary(bits.mask, size)})` : "itself alone"}`;
    const hears = new Set([...ofA, ...ofB]).size;
    const cells = Array.from({ length: SIDE }, (_, r) => Array.from({ length: SIDE }, (_, c) => {
      const here = r - (r % down) === top && c - (c % across) === left;
      const gets = [here && r === row ? "A" : "", here && c === column ? "B" : ""].join("");
      const number = Math.floor(r / down) + Math.floor(c / across) * (SIDE / down);
      return {
        text: `${rank(r, c)}${gets && ` ${gets}`}`, hue: HUES[(Math.floor(r / down) + 3 * Math.floor(c / across)) % HUES.length], faint: !here,
        strong: r === row && c === column, rank: rank(r, c), cluster: number, same: [`cluster-${number}`], set: { row: r, column: c },
        title: `block (${r}, ${c}): rank ${rank(r, c)} of cluster ${number}` +
          (gets ? `; gets ${[...gets].map((one) => `a part of ${one}`).join(" and ")} from block (${row}, ${column})` : ""),
      };
    }));
    return {
      said: `Block (${row}, ${column}) has rank ${mine} of ${size}: ${told("A", m, ofA, a)}; ${told("B", n, ofB, b)}. ` +
        `Each full barrier counts ${slot.toLocaleString("en")} bytes; the cluster fetches ${shared.toLocaleString("en")} for a step` +
        (shared < alone ? `, instead of ${alone.toLocaleString("en")}` : "") + `. Its slot is empty when warps of ${hears} ${hears > 1 ? "blocks" : "block"} have read.`,
      down: "along m", across: "tiles of C along n", wide: 58, width: 44, least: 32, cells, a, b, slot, shared, alone, hears, mine,
    };
  }

  /* -- scales of blocks: phasebit/emulator/tensor_core/block_scales.py -------------- */

  const QUARTER = 32; // lanes; a row's scales are in lane row % 32 of column row / 32

  function scales({ kind, row, k }) {
    const { depth, rows: perRow, ids } = SCALES[kind];
    const block = depth / perRow, number = Math.floor(k / block);
    const atom = Math.floor(number / 4), byte = number % 4;
    const step = Math.floor(k / depth), id = ids[Math.floor(byte / perRow)];
    const lane = row % QUARTER, column = Math.floor(row / QUARTER);
    const place = 16 * lane + 4 * column + byte;
    const cells = Array.from({ length: QUARTER }, (_, line) => Array.from({ length: 16 }, (_, across) => {
      const [word, part] = [Math.floor(across / 4), across % 4];
      const r = QUARTER * word + line, scale = 4 * atom + part;
      return {
        text: r, hue: HUES[part], faint: part < id || part >= id + perRow, strong: r === row && part === byte, row: r, scale, same: [`row-${r}`], set: { row: r, k: Math.min(255, scale * block) },
        title: `lane ${line}, column ${4 * atom + word}, byte ${part}: scale ${scale} of row ${r}, for k ${scale * block} to ${(scale + 1) * block - 1}`,
      };
    }));
    return {
      said: `Row ${row}, k = ${k}: scale ${number} of the row, for k ${number * block} to ${(number + 1) * block - 1}. In shared memory byte ${place} of atom ${atom}; ` +
        `in tensor memory lane ${lane}, column ${4 * atom + column}, byte ${byte}, and the same in the other three quarters. Instruction ${step} of the slice (k ${step * depth} to ${(step + 1) * depth - 1}) reads the coloured bytes: scale factor id ${id}.`,
      wide: 34, least: 21, down: "lane", across: `bytes 0 to 3 of columns ${4 * atom} to ${4 * atom + 3}; in each the row whose scale it is`, bare: true, cells,
      place, lane, column: 4 * atom + column, byte, atom, id, step,
    };
  }

  const SCALED = Object.keys(SCALES);

  kind("fragment", {
    title: "Explorer: which lane holds which element", wide: true, work: fragment,
    tell: "Click a cell, or go to it with the arrow keys and press Enter: what its lane holds.",
    fields: [{ name: "matrix", label: "matrix", options: Object.keys(FRAGMENTS) }, number("lane", "lane, or thread of a warp group", 5, 0, 127)],
  });
  kind("box", {
    title: "Explorer: a box of a tensor of 16 × 6 × 3", work: box, draw: (made, room) => solid(made.solid, room) + picture(made, room) + picture(made.more, room),
    refused: (values, room) => solid(placed(values), room),
    tell: "Choose an element, by click or with the arrow keys: where it lies in shared memory stands out.",
    fields: [number("x", "corner x", 4, -16, 16), number("y", "corner y", 1, -8, 8), number("z", "corner z", 1, -8, 8),
      number("width", "box along x", 8, 1, 32), number("height", "box along y", 3, 1, 8), number("depth", "box along z", 2, 1, 8),
      number("stepy", "element stride along y", 1, 1, 8), number("stepz", "element stride along z", 1, 1, 8),
      { name: "type", label: "elements", options: Object.keys(BYTES) }, { name: "swizzle", label: "swizzle", options: Object.keys(SPANS) },
      { name: "outside", label: "what lies outside", options: ["zeros", "NaN"] }],
  });
  kind("barrier", {
    title: "Explorer: what a barrier counts", wide: true, work: barrier,
    tell: "Choose a cell, by click or with the arrow keys.",
    fields: [number("count", "arrivals of a phase", 1, 1, 1024), { name: "events", label: "events", text: "expect 4096, bytes 2048, bytes 2048", long: true }],
  });
  kind("cluster", {
    title: "Explorer: who fetches what for whom", work: cluster,
    tell: "Click a block, or go to it with the arrow keys and press Enter: what it fetches, and for whom.",
    fields: [{ name: "down", label: "cluster along m", options: ["1", "2", "4", "8"] }, { name: "across", label: "cluster along n", options: ["1", "2", "4", "8"] },
      number("row", "block along m", 3, 0, SIDE - 1), number("column", "block along n", 2, 0, SIDE - 1),
      number("m", "tile: rows of A", 128, 8, 256), number("n", "tile: rows of B", 256, 8, 256), number("depth", "numbers along k", 64, 8, 256)],
  });
  kind("scales", {
    title: "Explorer: where a scale lies", wide: true, work: scales,
    tell: "Click a byte, or go to it with the arrow keys and press Enter: whose scale it is.",
    fields: [{ name: "kind", label: "kind", options: SCALED }, number("row", "row", 37, 0, 127), number("k", "element along k", 100, 0, 255)],
  });
})();

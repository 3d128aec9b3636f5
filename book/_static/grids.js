/* Explorers whose picture is a grid of cells: a layout, and one cut into tiles; the law of a pipeline;
   who holds which element of a matrix; what fits on a multiprocessor; a box of a tensor, and where it
   lies in shared memory; a barrier that counts bytes; the blocks of a cluster; scales in tensor memory. Each kind says its fields, and makes of their numbers a sentence and cells; or a
   sentence that says what is wrong. The tables are the emulator's (explorer_tables.js); tests compare
   the rest with the package (tests/site/test_grids.py). */

(() => {
  "use strict";

  const HUES = window.phasebitHues ?? ["blue"];
  const LIMITS = window.phasebitLimits ?? {}, FRAGMENTS = window.phasebitFragments ?? {};
  const SCALES = window.phasebitScales ?? {};
  const COLOUR = { producers: "blue", slots: "orange", consumers: "green" };

  function element(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties))
      if (name in node) node[name] = value;
      else node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  /* -- layouts, as tensor-layouts has them ------------------------------------ */

  /* "(4, (2, 4))" -> nested lists of whole numbers, or null. */
  function tuple(text) {
    const json = text.replaceAll("(", "[").replaceAll(")", "]").replace(/,\s*\]/g, "]");
    if (!/^[[\]\d,\s]+$/.test(json)) return null;
    try { return JSON.parse(json); } catch { return null; }
  }
  const size = (shape) => Array.isArray(shape) ? shape.reduce((all, one) => all * size(one), 1) : shape;
  const alike = (a, b) => Array.isArray(a)
    ? Array.isArray(b) && a.length === b.length && a.every((one, k) => alike(one, b[k])) : !Array.isArray(b);

  /* The offset of coordinate `at` of one mode: the first of nested modes counts fastest. */
  function offset(shape, stride, at) {
    if (!Array.isArray(shape)) return at * stride;
    let sum = 0;
    shape.forEach((one, k) => {
      const here = size(one);
      sum += offset(one, stride[k], k === shape.length - 1 ? at : at % here);
      at = Math.floor(at / here);
    });
    return sum;
  }

  /* A layout of two modes from a text: its shape, strides and offsets, or what is wrong. */
  function read(text) {
    const [shape, stride, more] = text.split(":").map((part) => tuple(part.trim()));
    if (!Array.isArray(shape) || !Array.isArray(stride) || shape.length !== 2 || more !== undefined)
      return "give a shape of two modes and its strides, such as (4, 8) : (8, 1) or (4, (2, 4)) : (2, (1, 8))";
    if (!alike(shape, stride)) return "shape and strides must be nested alike";
    const [rows, columns] = shape.map(size);
    if (!rows || !columns) return "a mode has at least one element";
    if (rows > 64 || columns > 64) return `${rows} × ${columns} cells are too many to draw: 64 × 64 at most`;
    const offsets = Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) =>
      offset(shape[0], stride[0], row) + offset(shape[1], stride[1], column)));
    return { shape, stride, rows, columns, offsets };
  }

  function layout({ layout: text }) {
    const found = read(text);
    if (typeof found === "string") return found;
    const { rows, columns, offsets } = found;
    const met = new Set(offsets.flat());
    const last = Math.max(...met);
    const often = new Map();
    for (const place of offsets.flat()) often.set(place, (often.get(place) || 0) + 1);
    const twice = [...often.values()].reduce((sum, many) => sum + (many > 1 ? many : 0), 0);
    return {
      said: `${rows} × ${columns} elements lie in ${last + 1} places` +
        (twice ? `; ${twice} of them share a place with another.` : last + 1 > met.size ? `; ${last + 1 - met.size} places stay free.` : ", each in its own."),
      down: "row", across: "column",
      cells: offsets.map((line, row) => line.map((value, column) => (
        { text: value, hue: HUES[Math.floor(value / 8) % HUES.length], title: `row ${row}, column ${column}: offset ${value}` }))),
      offsets,
    };
  }

  /* -- layouts cut into tiles: zipped_divide -------------------------------------- */

  const flat = (one) => Array.isArray(one) ? one.flatMap(flat) : [one];
  const written = (one) => Array.isArray(one) ? `(${one.map(written).join(", ")})` : String(one);

  /* `count` steps of `step` coordinates through a mode, as a mode of its own; null where they do not
     fit the lengths of its parts. */
  function through(shape, stride, count, step) {
    const parts = flat(shape), jumps = flat(stride), made = [];
    let skip = step, left = count;
    parts.forEach((length, k) => {
      const last = k === parts.length - 1;
      if (left === 1 || left === null) return;
      if (!last && length % skip && skip % length) return (left = null);
      const here = last ? left : Math.min(left, Math.ceil(length / skip));
      if (here > 1 && left % here) return (left = null);
      if (here > 1) made.push([here, skip * jumps[k]]);
      left /= here;
      skip = Math.ceil(skip / length);
    });
    if (left !== 1) return null;
    const [shapes, strides] = [0, 1].map((which) => made.map((one) => one[which]));
    if (!made.length) return { shape: 1, stride: 0 };
    return made.length === 1 ? { shape: shapes[0], stride: strides[0] } : { shape: shapes, stride: strides };
  }

  /* One mode cut into tiles of `count` coordinates, `step` apart: what is within a tile, and the tiles. */
  function cut(shape, stride, count, step) {
    const all = size(shape);
    if (!count || !step || all % (count * step)) return `tiles of ${count} elements${step > 1 ? `, ${step} apart,` : ""} do not cut ${all} into whole ones`;
    const within = through(shape, stride, count, step);
    const rest = [through(shape, stride, step, 1), through(shape, stride, all / count / step, count * step)];
    if (!within || rest.includes(null)) return `this tiler does not fit the parts of ${written(shape)}`;
    const parts = rest.filter((part) => size(part.shape) > 1);
    const tiles = parts.length === 1 ? parts[0] : parts.length ? { shape: parts.map((p) => p.shape), stride: parts.map((p) => p.stride) } : { shape: 1, stride: 0 };
    return {
      within, tiles, inner: count, outer: all / count,
      place: (at) => [Math.floor(at / step) % count, (at % step) + step * Math.floor(at / (step * count))],
    };
  }

  function divide({ layout: text, tiler }) {
    const found = read(text);
    if (typeof found === "string") return found;
    const sizes = tiler.replace(/[()\s]/g, "").split(",").map((part) => part.split(":").map(Number));
    if (sizes.length !== 2 || sizes.some((one) => one.length > 2 || one.some((n) => !Number.isInteger(n))))
      return "give the tiler as two lengths, such as 2, 4; or with distances, such as 4:2, 4";
    const { shape, stride, rows, columns, offsets } = found;
    const [down, across] = sizes.map(([count, step = 1], k) => cut(shape[k], stride[k], count, step));
    for (const one of [down, across]) if (typeof one === "string") return one;
    const both = (which, part) => `(${written(down[which][part])}, ${written(across[which][part])})`;
    const whole = ["shape", "stride"].map((part) => `(${both("within", part)}, ${both("tiles", part)})`).join(" : ");
    const places = offsets.map((line, row) => line.map((_, column) => {
      const [[a, p], [b, q]] = [down.place(row), across.place(column)];
      return { within: a + down.inner * b, tile: p + down.outer * q, at: [a, b, p, q] };
    }));
    return {
      said: `zipped_divide makes ${whole}: ${down.outer * across.outer} tiles of ${down.inner} × ${across.inner}. The colour of a cell says its tile, its number the offset.`,
      down: "row", across: "column", whole, places,
      cells: offsets.map((line, row) => line.map((value, column) => {
        const { at: [a, b, p, q], tile, within } = places[row][column];
        return {
          text: value, hue: HUES[tile % HUES.length],
          title: `row ${row}, column ${column}: element (${a}, ${b}) of tile (${p}, ${q}), number ${within} of tile ${tile}; offset ${value}`,
        };
      })),
      offsets,
    };
  }

  /* -- the law: phasebit/pipeline/law.py --------------------------------------- */

  function law(v) {
    const { produce, consume, handoff, consumers } = v;
    const cells = Array.from({ length: 8 }, (_, k) => Array.from({ length: 16 }, (_, n) => {
      const bounds = { producers: (k + 1) / produce, slots: (n + 1) / (produce + consume + handoff), consumers: consumers / consume };
      const rate = Math.min(...Object.values(bounds));
      const limits = Object.keys(bounds).filter((name) => bounds[name] === rate);
      return {
        text: Math.round(100 * rate), hue: limits.length > 1 ? "grey" : COLOUR[limits[0]], limits, rate,
        title: `${k + 1} producers, ${n + 1} slots: ${rate.toFixed(3)} jobs a clock, limited by the ${limits.join(" and the ")}`,
      };
    }));
    const best = Math.min(8 / produce, consumers / consume);
    return {
      said: `${consumers} consumers allow ${(100 * consumers / consume).toFixed(1)} jobs in 100 clocks. ` +
        `Blue: the producers limit; orange: the slots; green: the consumers; grey: more than one of them. The best of this picture is ${(100 * Math.min(best, 16 / (produce + consume + handoff))).toFixed(1)}.`,
      down: "producers", across: "slots", first: 1, wide: 78, cells,
    };
  }

  /* -- occupancy: phasebit/occupancy.py ---------------------------------------- */

  const up = (value, unit) => Math.ceil(value / unit) * unit;

  function occupancy({ gpu, registers, shared, threads }) {
    const own = LIMITS[gpu];
    if (threads < 1 || threads > own.block_threads) return `a block has 1 to ${own.block_threads} threads`;
    if (shared > own.block_shared) return `a block has at most ${own.block_shared} bytes of shared memory`;
    if (registers < 1 || registers > 255) return "a thread has 1 to 255 registers";
    const warps = Math.ceil(threads / 32);
    const fits = { blocks: own.blocks, threads: Math.floor(own.warps / warps) };
    fits.registers = Math.floor((Math.floor(Math.floor(own.registers / own.files) / up(registers * 32, own.register_unit)) * own.files) / warps);
    const taken = up(shared + own.reserved_shared, own.shared_unit);
    if (taken) fits["shared memory"] = Math.floor(own.shared / taken);
    const blocks = Math.min(...Object.values(fits));
    const limited = Object.keys(fits).filter((name) => fits[name] === blocks);
    return {
      blocks, fits,
      said: `${blocks} ${blocks === 1 ? "block" : "blocks"}, ${blocks * warps} of ${own.warps} warps: occupancy ${Math.round((100 * blocks * warps) / own.warps)} %, limited by ${limited.join(" and ")}.`,
      down: "", across: "blocks that each resource allows", first: 1, names: Object.keys(fits), wide: 118,
      cells: Object.entries(fits).map(([name, most]) => Array.from({ length: 32 }, (_, k) => k < most
        ? { text: "", hue: k < blocks ? "blue" : "cyan", faint: k >= blocks, title: `${name}: ${most} blocks` } : null)),
    };
  }

  /* -- fragments: phasebit/emulator/numbers/fragments.py ------------------------ */

  function fragment({ matrix, lane }) {
    const { shape: [rows, columns], row, column, packed } = FRAGMENTS[matrix];
    if (lane >= row.length) return row.length > 32 ? "a warp group has threads 0 to 127" : "a warp has lanes 0 to 31";
    const who = row.length > 32 ? "thread" : "lane";
    const cells = Array.from({ length: rows }, () => new Array(columns).fill(null));
    row.forEach((line, t) => line.forEach((r, k) => {
      const register = Math.floor(k / packed);
      cells[r][column[t][k]] = {
        text: t, hue: HUES[register % HUES.length], faint: t !== lane,
        title: `row ${r}, column ${column[t][k]}: ${who} ${t}${row.length > 32 ? `, lane ${t % 32} of warp ${Math.floor(t / 32)}` : ""}, register ${register}`,
      };
    }));
    const held = row[lane].map((r, k) => `(${r}, ${column[lane][k]})`);
    return {
      said: `${who === "lane" ? "Lane" : "Thread"} ${lane} holds ${held.length} elements in ${held.length / packed} registers; (row, column): ${held.join(" ")}.`,
      down: "row", across: "column", cells,
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
        text: within ? number : fill, hue: HUES[Math.max(index[2], 0) % HUES.length], faint: !within, number, byte,
        title: `byte ${byte}: element ${number} of the box, ` + (within ? `x ${x}, y ${y}, z ${z}` : `outside of the tensor: ${fill}`),
      };
    }
    const cells = numbers.flatMap((slice, z) => [...(z ? [[]] : []), ...slice.map((line, y) => line.map((number, x) => number < 0 ? null : {
      text: number, hue: HUES[Math.floor((z - corner[2]) / step[2]) % HUES.length],
      title: `x ${x}, y ${y}, z ${z}: element ${number} of the box, byte ${place(number)}`,
    }))]);
    const total = wide * tall * deep * bytes, outside = wide * tall * deep - inside;
    const what = fill === "0" ? (outside > 1 ? "zeros" : "zero") : fill;
    return {
      said: `The barrier gets ${total} bytes` + (outside ? `: ${inside} elements of the tensor, and ${outside} ${what} for what lies outside.` : ", all from the tensor."),
      down: "y", across: "x; below each other z = 0, 1, 2", cells, numbers, memory,
      names: numbers.flatMap((slice, z) => [...(z ? [""] : []), ...slice.map((_, y) => y)]),
      more: { said: "The box in shared memory", down: "byte", across: "lines of 128 bytes of shared memory", bare: true, width: bytes === 4 ? 22 : 30, cells: memory, names: memory.map((_, k) => k * LINE) },
    };
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
      down: "", across: "", heads: ["phase", "parity", "arrivals", "bytes", "wait(0)", "wait(1)"], names: states.map((one) => one.name), wide: 110, width: 66, states,
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
        strong: r === row && c === column, rank: rank(r, c), cluster: number,
        title: `block (${r}, ${c}): rank ${rank(r, c)} of cluster ${number}` +
          (gets ? `; gets ${[...gets].map((one) => `a part of ${one}`).join(" and ")} from block (${row}, ${column})` : ""),
      };
    }));
    return {
      said: `Block (${row}, ${column}) has rank ${mine} of ${size}: ${told("A", m, ofA, a)}; ${told("B", n, ofB, b)}. ` +
        `Each full barrier counts ${slot.toLocaleString("en")} bytes; the cluster fetches ${shared.toLocaleString("en")} for a step` +
        (shared < alone ? `, instead of ${alone.toLocaleString("en")}` : "") + `. Its slot is empty when warps of ${hears} ${hears > 1 ? "blocks" : "block"} have read.`,
      down: "along m", across: "tiles of C along n", wide: 58, width: 33, cells, a, b, slot, shared, alone, hears, mine,
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
        text: r, hue: HUES[part], faint: part < id || part >= id + perRow, strong: r === row && part === byte, row: r, scale,
        title: `lane ${line}, column ${4 * atom + word}, byte ${part}: scale ${scale} of row ${r}, for k ${scale * block} to ${(scale + 1) * block - 1}`,
      };
    }));
    return {
      said: `Row ${row}, k = ${k}: scale ${number} of the row, for k ${number * block} to ${(number + 1) * block - 1}. In shared memory byte ${place} of atom ${atom}; ` +
        `in tensor memory lane ${lane}, column ${4 * atom + column}, byte ${byte}, and the same in the other three quarters. Instruction ${step} of the slice (k ${step * depth} to ${(step + 1) * depth - 1}) reads the coloured bytes: scale factor id ${id}.`,
      down: "lane", across: `bytes 0 to 3 of columns ${4 * atom} to ${4 * atom + 3}; in each the row whose scale it is`, bare: true, cells,
      place, lane, column: 4 * atom + column, byte, atom, id, step,
    };
  }

  /* -- the form and the picture --------------------------------------------------- */

  const number = (name, label, value, least, most) => ({ name, label, value, least, most });
  const KINDS = {
    layout: {
      title: "Explorer: where each element lies", work: layout, wide: true,
      fields: [{ name: "layout", label: "shape : strides", text: "(4, (2, 4)) : (2, (1, 8))" }],
    },
    divide: {
      title: "Explorer: a layout cut into tiles", work: divide, wide: true,
      fields: [{ name: "layout", label: "shape : strides", text: "(8, 8) : (8, 1)" }, { name: "tiler", label: "tiler", text: "2, 4" }],
    },
    law: {
      title: "Explorer: jobs in 100 clocks, and what limits them", work: law,
      fields: [number("produce", "clocks to produce", 4, 1, 99), number("consume", "clocks to consume", 6, 1, 99),
        number("handoff", "hand-off, both ways", 0, 0, 99), number("consumers", "consumers", 6, 1, 32)],
    },
    occupancy: {
      title: "Explorer: how many blocks fit", work: occupancy,
      fields: [{ name: "gpu", label: "GPU", options: Object.keys(LIMITS) }, number("threads", "threads a block", 256, 1, 1024),
        number("registers", "registers a thread", 128, 1, 255), number("shared", "shared bytes a block", 16384, 0, 240000)],
    },
    fragment: {
      title: "Explorer: which lane holds which element", work: fragment, wide: true,
      fields: [{ name: "matrix", label: "matrix", options: Object.keys(FRAGMENTS) }, number("lane", "lane, or thread of a warp group", 5, 0, 127)],
    },
    box: {
      title: "Explorer: a box of a tensor of 16 × 6 × 3", work: box,
      fields: [number("x", "corner x", 4, -16, 16), number("y", "corner y", 1, -8, 8), number("z", "corner z", 1, -8, 8),
        number("width", "box along x", 8, 1, 32), number("height", "box along y", 3, 1, 8), number("depth", "box along z", 2, 1, 8),
        number("stepy", "element stride along y", 1, 1, 8), number("stepz", "element stride along z", 1, 1, 8),
        { name: "type", label: "elements", options: Object.keys(BYTES) }, { name: "swizzle", label: "swizzle", options: Object.keys(SPANS) },
        { name: "outside", label: "what lies outside", options: ["zeros", "NaN"] }],
    },
    barrier: {
      title: "Explorer: what a barrier counts", work: barrier, wide: true,
      fields: [number("count", "arrivals of a phase", 1, 1, 1024),
        { name: "events", label: "events", text: "expect 4096, bytes 2048, bytes 2048" }],
    },
    cluster: {
      title: "Explorer: who fetches what for whom", work: cluster,
      fields: [{ name: "down", label: "cluster along m", options: ["1", "2", "4", "8"] }, { name: "across", label: "cluster along n", options: ["1", "2", "4", "8"] },
        number("row", "block along m", 3, 0, SIDE - 1), number("column", "block along n", 2, 0, SIDE - 1),
        number("m", "tile: rows of A", 128, 8, 256), number("n", "tile: rows of B", 256, 8, 256), number("depth", "numbers along k", 64, 8, 256)],
    },
    scales: {
      title: "Explorer: where a scale lies", work: scales, wide: true,
      fields: [{ name: "kind", label: "kind", options: Object.keys(SCALES) }, number("row", "row", 37, 0, 127), number("k", "element along k", 100, 0, 255)],
    },
  };

  class Grid {
    constructor(box, index) {
      const kind = KINDS[box.dataset.explorer];
      this.work = kind.work;
      this.fields = {};
      const id = (name) => `grid-${index}-${name}`;
      const labels = kind.fields.map((field) => {
        const input = field.options
          ? element("select", {}, ...field.options.map((one) => element("option", { value: one }, one)))
          : field.text ? element("input", { spellcheck: false, autocomplete: "off" })
            : element("input", { type: "number", min: field.least, max: field.most, step: 1, inputMode: "numeric" });
        input.id = id(field.name);
        input.value = box.dataset[field.name] ?? field.text ?? field.value ?? field.options[0];
        this.fields[field.name] = { ...field, input };
        return element("label", { htmlFor: input.id }, field.label, input);
      });
      const form = element("form", { className: `pb-lab-fields${kind.wide ? " pb-wide-fields" : ""}` }, ...labels);
      this.said = element("p", { role: "status", className: "pb-lab-numbers" });
      this.error = element("p", { role: "alert", className: "pb-lab-error" });
      const chosen = Object.entries(box.dataset).filter(([name]) => name !== "explorer").map(([, value]) => value);
      const label = [kind.title, ...chosen].join(", "); // two explorers of a page must differ
      this.picture = element("div", { className: "pb-picture", tabIndex: 0, role: "region", "aria-label": label });
      const title = element("p", { className: "pb-lab-title", id: id("title") }, kind.title);
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", label);
      box.replaceChildren(title, form, this.error, this.said, this.picture);
      form.addEventListener("submit", (event) => event.preventDefault());
      form.addEventListener("input", () => this.draw());
      this.draw();
    }

    /* What the fields say, or a sentence that says what is wrong with them. */
    values() {
      const found = {};
      for (const { name, label, input, least, most, text, options } of Object.values(this.fields)) {
        const given = input.value.trim();
        found[name] = text || (options && !/^\d+$/.test(given)) ? given : Number(given);
        if (least !== undefined && (given === "" || !Number.isInteger(found[name]) || found[name] < least || found[name] > most))
          return `${label}: give a whole number from ${least} to ${most}`;
      }
      return found;
    }

    draw() {
      const given = this.values();
      const made = typeof given === "string" ? given : this.work(given);
      this.error.textContent = typeof made === "string" ? made : "";
      if (typeof made === "string") return;
      this.said.textContent = made.said;
      this.picture.innerHTML = picture(made) + (made.more ? picture(made.more) : "");
    }
  }

  function picture({ cells, down, across, said, names, heads, first = 0, bare = false, wide = 46, width = 26 }) {
    const height = 20, left = wide, top = 40;
    const columns = Math.max(...cells.map((line) => line.length));
    const out = [`<text x="${left}" y="12" class="pb-x-axis">${across}</text>`];
    if (!bare)
      for (let column = 0; column < columns; column += columns > 16 ? 4 : 1)
        out.push(`<text x="${left + (column + 0.5) * width}" y="${top - 8}" text-anchor="middle" class="pb-x-axis">${heads?.[column] ?? column + first}</text>`);
    if (down) out.push(`<text x="${left - 8}" y="${top - 8}" text-anchor="end" class="pb-x-axis">${down}</text>`);
    const strong = []; // over its neighbours
    cells.forEach((line, row) => {
      const y = top + row * height;
      out.push(`<text x="${left - 8}" y="${y + 14}" text-anchor="end" class="pb-x-axis">${names?.[row] ?? row + first}</text>`);
      line.forEach((cell, column) => {
        if (cell === undefined) return;
        const x = left + column * width;
        if (!cell) out.push(`<rect x="${x}" y="${y}" width="${width}" height="${height}" class="pb-x-free"/>`);
        else out.push(`<g><title>${cell.title}</title><rect x="${x}" y="${y}" width="${width}" height="${height}" class="${cell.faint ? "pb-x-faint" : "pb-x-asked"}" style="--hue:var(--pb-${cell.hue})"/>` +
          `<text x="${x + width / 2}" y="${y + 14}" text-anchor="middle" class="${cell.faint ? "pb-x-plain" : "pb-x-lane"}">${cell.text}</text></g>`);
        if (cell?.strong) strong.push(`<rect x="${x}" y="${y}" width="${width}" height="${height}" class="pb-x-strong"/>`);
      });
    });
    const total = left + columns * width + 4;
    return `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 ${total} ${top + cells.length * height + 6}" style="width:${total}px;min-width:${total * 0.92}px">` +
      `<title>${said}</title>${[...out, ...strong].join("")}</svg>`;
  }

  window.phasebitGrids = Object.fromEntries(Object.entries(KINDS).map(([name, { work }]) => [name, work]));
  document.querySelectorAll(".phasebit-explorer").forEach((box, index) => {
    if (box.dataset.explorer in KINDS) new Grid(box, index); // others: explorers.js
  });
})();

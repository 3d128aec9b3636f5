/* Explorers of banks, descriptors and tensor memory. The arithmetic is that of the emulator; tests
   compare the two (tests/site/test_explorers.py, which calls window.phasebitExplorers). */

(() => {
  "use strict";

  const { element, escaped, number, kind } = window.phasebitParts;
  const LANES = 32, BANKS = 32, WORD = 4, LINE = BANKS * WORD;
  const HUES = window.phasebitHues ?? ["blue"];  // a lane has that of its number modulo 8

  /* -- banks: phasebit/emulator/numbers/swizzle.py and checker/traffic.py ---- */

  /* Where the byte of an unswizzled address lies: bits from `low` on are XORed with those above. */
  function swizzle(address, bits, low, shift) {
    return address ^ ((address >> shift) & (((1 << bits) - 1) << low));
  }

  /* How a warp's lanes are spread over the tile: lane, number in a row -> (row, byte in the row). */
  const WAYS = {
    column: { label: "a column", at: (lane, v) => [lane, v.column * v.size] },
    row: { label: "along a row", at: (lane, v) => [Math.floor((lane * v.size) / v.row), (lane * v.size) % v.row] },
    matrices: { label: "as ldmatrix does", at: (lane, v) => [lane % 8, (Math.floor(lane / 8) * v.size + v.column * v.size) % v.row] },
  };

  function addresses(v) {
    return Array.from({ length: LANES }, (_, lane) => {
      const [row, byte] = WAYS[v.way].at(lane, v);
      return swizzle(row * v.row + (byte % v.row), v.bits, v.low, v.shift);
    });
  }

  /* Whether a load serves these lanes, two parts of a warp, in one go. */
  function merges(lanes) {
    return [1, 2].some((flip) => lanes.every((address, k) => address === lanes[k ^ flip]));
  }

  /* The parts of a warp that are served one after the other, each [first lane, last lane + 1]. */
  function parts(lanes, size) {
    const together = (LANES * WORD) / Math.max(size, WORD);
    const cut = [];
    for (let first = 0; first < LANES; first += together) cut.push([first, first + together]);
    if (cut.length === 1) return cut;
    const joined = [];
    for (let k = 0; k < cut.length; k += 2) {
      const [[first, middle], [, last]] = [cut[k], cut[k + 1]];
      joined.push(...(merges(lanes.slice(first, last)) ? [[first, last]] : [[first, middle], [middle, last]]));
    }
    return joined;
  }

  /* For each part its wavefronts: the most words that one bank must give. */
  function wavefronts(lanes, size) {
    return parts(lanes, size).map(([first, last]) => {
      const words = new Set();
      for (const address of lanes.slice(first, last))
        for (let k = 0; k < size; k += WORD) words.add((address + k) >> 2);
      const load = new Array(BANKS).fill(0);
      for (const word of words) load[word % BANKS] += 1;
      return { first, last, load, count: Math.max(...load) };
    });
  }

  const PRESETS = { none: [0, 4, 3], "32B": [1, 4, 3], "64B": [2, 4, 3], "128B": [3, 4, 3] };

  function banks(v) {
    if (v.bits && v.shift < v.bits) return "the bits that move must lie below those that they are XORed with: shift at least as many as move";
    if (v.low < Math.log2(v.size)) return `a lane's ${v.size} bytes must stay together: let bits from ${Math.log2(v.size)} on move`;
    if (v.row % v.size) return `a row of ${v.row} bytes does not hold whole pieces of ${v.size}, which begin at multiples of ${v.size}`;
    if (v.way === "column" && (v.column + 1) * v.size > v.row) return `a row of ${v.row} bytes has elements 0 to ${v.row / v.size - 1}`;
    const lanes = addresses(v);
    const served = wavefronts(lanes, v.size);
    const total = served.reduce((sum, { count }) => sum + count, 0);
    const chosen = served[Number(v.part) || 0] ?? served[0];
    return {
      said: `${total} ${total === 1 ? "wavefront" : "wavefronts"} for 32 lanes of ${v.size} bytes; ${served.length} would do without conflicts.`,
      lanes, served, ...memory(lanes, v.size, chosen),
    };
  }

  /* Lines of 128 bytes, a column for each bank; what the chosen lanes ask for, by lane. */
  function memory(lanes, size, { first, last, load, count }) {
    const asked = new Map();
    for (let lane = first; lane < last; lane += 1)
      for (let k = 0; k < size; k += WORD) {
        const word = (lanes[lane] + k) >> 2;
        asked.set(word, [...(asked.get(word) ?? []), lane]);
      }
    const lines = [...new Set([...asked.keys()].map((word) => Math.floor(word / BANKS)))].sort((a, b) => a - b);
    const cells = lines.map((line) => Array.from({ length: BANKS }, (_, bank) => {
      const here = asked.get(line * BANKS + bank);
      return here ? {
        text: here.length > 1 ? "+" : here[0], hue: HUES[here[0] % HUES.length],
        same: [`lane-${here.join("-")}`, `bank-${bank}`],
        title: `${here.length > 1 ? "Lanes" : "Lane"} ${here.join(", ")}: byte ${(line * BANKS + bank) * WORD}, bank ${bank}, which must give ${load[bank]} ${load[bank] === 1 ? "word" : "words"}`,
      } : null;
    }));
    cells.push(load.map((n) => (n ? { text: n, ink: n > 1 ? "pb-x-many" : "pb-x-axis" } : undefined)));
    return {
      words: `Lanes ${first} to ${last - 1} ask for ${asked.size} words; the busiest bank must give ${count}.`,
      down: "byte", across: "bank; in the cells the lane, below how many words the bank must give",
      cells, names: [...lines.map((line) => line * LINE), "words"], wide: 44, width: 22, least: 17,
    };
  }

  kind("banks", {
    title: "Explorer: which lane asks which bank",
    tell: "Choose a cell, by click or with the arrow keys: its lane and its bank stand out.",
    fields: [
      { name: "mode", label: "swizzle", options: [...Object.keys(PRESETS), ["own", "own bits"]] },
      number("bits", "bits that move", 0, 0, 5), number("low", "first of them", 4, 0, 8), number("shift", "shift to the others", 3, 0, 6),
      { name: "row", label: "bytes a row", value: "128", options: [32, 64, 128, 132, 144, 256, 512].map(String) },
      { name: "size", label: "bytes a lane", value: "16", options: ["4", "8", "16"] },
      { name: "way", label: "a warp reads", options: Object.entries(WAYS).map(([key, way]) => [key, way.label]) },
      number("column", "element of the row", 2, 0, 127),
      { name: "part", label: "lanes served together", options: [["0", "all"]] },
    ],
    changed(fields, field) {
      if (field === fields.mode && field.value in PRESETS)
        ["bits", "low", "shift"].forEach((name, k) => { fields[name].value = PRESETS[field.value][k]; });
      else if ([fields.bits, fields.low, fields.shift].includes(field)) fields.mode.value = "own";
      if (field !== fields.part) fields.part.selectedIndex = 0;
    },
    work: banks,
    draw: (made, room) => window.phasebitParts.picture({ ...made, said: made.words }, room),
    beside({ fields: { part } }, { served }) {
      const before = part.selectedIndex;
      part.replaceChildren(...served.map(({ first, last }, k) => element("option", { value: k }, `${first} to ${last - 1}`)));
      part.selectedIndex = Math.max(0, Math.min(before, served.length - 1));
    },
  });

  /* -- descriptors: tables of phasebit/emulator/tensor_core, in explorer_tables.js -- */

  const VIEWS = window.phasebitDescriptors ?? {};

  /* Each field of a descriptor with its number, in words; and the bits that stand in none. */
  function fields(view, bits) {
    let rest = bits;
    const found = VIEWS[view].fields.map(([low, width, name, meaning]) => {
      const mask = (1n << BigInt(width)) - 1n;
      const value = Number((bits >> BigInt(low)) & mask);
      rest &= ~(mask << BigInt(low));
      const words = typeof meaning === "number" ? String(value * meaning) : meaning[value] ?? "none such";
      return { low, width, name, value, words, known: typeof meaning === "number" || value in meaning };
    });
    const stray = [];
    for (let bit = 0; bit < VIEWS[view].bits; bit += 1) if ((rest >> BigInt(bit)) & 1n) stray.push(bit);
    return { found, stray };
  }

  /* What tcgen05.mma would make of an instruction descriptor: in words, or what is wrong. */
  function verdict(view, bits) {
    const { rules } = VIEWS[view];
    const { found, stray } = fields(view, bits);
    const said = Object.fromEntries(found.map((field) => [field.name, field]));
    const is = (name) => said[name].value !== 0;
    const unknown = found.find((field) => !field.known);
    if (unknown) return { groups: [], words: `${unknown.name}: there is no number ${unknown.value}` };
    if (stray.length) return { groups: [], words: `bits that must be 0: ${stray.join(", ")}` };
    const banned = rules.zero.find(is);
    if (banned) return { groups: [], words: `${banned}: not with this instruction` };
    const [a, b, d] = ["type of A", "type of B", "type of D"].map((name) => said[name].words);
    const [m, n] = [Number(said.M.words), Number(said.N.words)];
    const step = is("B is N-major") && rules.bytes.includes(b) ? 16 : 1;
    const groups = ["1", "2"].filter((group) => rules.shapes[group][m]?.includes(n) && n % (step * group) === 0);
    if (!groups.length) return { groups, words: `no cta_group takes M = ${m} with N = ${n}` };
    const operand = (name, type, major, along) =>
      `${is(`negate ${name}`) ? "-" : ""}${name} ${type}, ${is(major) ? along : "K"}-major`;
    return {
      groups,
      words: `D ${d} (${m} × ${n}) = ${operand("A", a, "A is M-major", "M")} · ${operand("B", b, "B is N-major", "N")}; ` +
        `k = ${rules.k}${is("saturate") ? ", saturated" : ""}`,
    };
  }

  function descriptor({ view, bits: text }) {
    const plain = text.replaceAll("_", "");
    const { bits } = VIEWS[view];
    if (!/^(0x[0-9a-f]+|\d+)$/i.test(plain) || BigInt(plain) >> BigInt(bits))
      return `a whole number of at most ${bits} bits, such as 0x${"4".padEnd(bits / 4, "0")}`;
    const value = BigInt(plain);
    const { found, stray } = fields(view, value);
    let said = "";
    if (VIEWS[view].rules) {
      const { groups, words } = verdict(view, value);
      said = groups.length ? `${words}; with ${groups.map((group) => `cta_group::${group}`).join(" or ")}` : `refused: ${words}`;
    }
    return { said, found, stray, value, bits };
  }

  /* The bits, the last one first as they are written, each of the colour of its field: a click turns
     it. Sixteen stand in a line. */
  function written({ found, stray, value, bits }, room) {
    const of = (bit) => found.findIndex(({ low, width }) => bit >= low && bit < low + width);
    const cells = Array.from({ length: bits / 16 }, (_, line) => Array.from({ length: 16 }, (_, k) => {
      const bit = bits - 1 - 16 * line - k, field = found[of(bit)];
      const flipped = `0x${(value ^ (1n << BigInt(bit))).toString(16).padStart(bits / 4, "0")}`;
      return {
        text: (value >> BigInt(bit)) & 1n, hue: field ? HUES[of(bit) % 7] : stray.includes(bit) ? "wrong" : "grey",
        faint: !((value >> BigInt(bit)) & 1n), same: [field ? `field-${of(bit)}` : `bit-${bit}`], set: { bits: flipped },
        title: `Bit ${bit}${field ? `, of ${field.name}: ${field.words}` : ", which must be 0"}`,
      };
    }));
    const names = cells.map((_, line) => `bits ${bits - 1 - 16 * line} to ${bits - 16 - 16 * line}`);
    return window.phasebitParts.picture({ cells, said: "the bits of the descriptor", names, bare: true, wide: 96, width: 22, least: 13 }, room);
  }

  kind("descriptor", {
    title: "Explorer: what the bits say", wide: true,
    tell: "Click a bit to turn it; with the arrow keys go to one, and press Enter.",
    fields: [{ name: "view", label: "descriptor", options: Object.keys(VIEWS) }, { name: "bits", label: "its bits, as a number", text: "0x0" }],
    work: descriptor,
    draw: written,
    beside({ box, error, told }, { found, stray }) {
      error.textContent = stray.length ? `bit${stray.length > 1 ? "s" : ""} ${stray.join(", ")} must be 0` : "";
      const head = element("tr", {}, ...["bits", "field", "number", "that is"].map((name) => element("th", { scope: "col" }, name)));
      const rows = found.map(({ low, width, name, value, words, known }, k) => element("tr", {},
        element("td", {}, width > 1 ? `${low}–${low + width - 1}` : String(low)),
        element("th", { scope: "row" }, element("span", { className: "pb-x-swatch", style: `--hue:var(--pb-${HUES[k % 7]})` }), name),
        element("td", {}, element("code", {}, value.toString(2).padStart(width, "0"))),
        element("td", { className: known ? "" : "pb-step-wrong" }, words)));
      box.querySelector("table")?.remove();
      told.after(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
    },
  });

  /* -- tensor memory: phasebit/emulator/ops/tcgen05_access.py ---------------- */

  /* Of each shape: lanes, registers of .x1, and the cell that register j of thread t holds. */
  const SHAPES = {
    "32x32b": { lanes: 32, registers: 1, at: (t, j) => [t, j] },
    "16x64b": { lanes: 16, registers: 1, at: (t, j) => [(t >> 2) + 8 * (t & 1), ((t >> 1) & 1) + 2 * j] },
    "16x128b": { lanes: 16, registers: 2, at: (t, j) => [(t >> 2) + 8 * (j & 1), (t & 3) + 4 * (j >> 1)] },
    "16x256b": { lanes: 16, registers: 4, at: (t, j) => [(t >> 2) + 8 * ((j >> 1) & 1), 2 * (t & 3) + (j & 1) + 8 * (j >> 2)] },
    "16x32bx2": { lanes: 16, registers: 1, at: (t, j, apart) => [t & 15, j + apart * (t >> 4)] },
  };

  /* For each thread and register the cells that it holds, [lane, column] from the address on. */
  function cells(shape, times, apart, pack) {
    const { registers, at } = SHAPES[shape];
    return Array.from({ length: LANES }, (_, t) => Array.from({ length: registers * times }, (_, j) => {
      const [lane, column] = at(t, j, apart);
      return pack ? [[lane, 2 * column], [lane, 2 * column + 1]] : [[lane, column]];
    }));
  }

  const DRAWN = 32; // columns

  function tensor(v) {
    const { registers, lanes } = SHAPES[v.shape];
    if (registers * v.times > 128) return `${v.shape}.x${v.times} has ${registers * v.times} registers a thread, and there are 128 at most`;
    const first = 32 * (v.warp % 4) + (lanes === 16 ? v.half : 0);
    const held = cells(v.shape, v.times, v.apart, v.pack !== "no");
    const wide = Math.max(...held.flat(2).map(([, column]) => column)) + 1;
    if (v.column + wide > 512) return `columns ${v.column} to ${v.column + wide - 1}: there are 512`;
    const shown = Math.min(wide, DRAWN);
    const drawn = Array.from({ length: lanes }, () => new Array(shown).fill(null));
    held.forEach((line, thread) => line.forEach((places, register) => places.forEach(([lane, column]) => {
      if (column < shown) drawn[lane][column] = {
        text: thread, hue: HUES[register % 8], same: [`thread-${thread}`, `register-${register}`],
        title: `lane ${first + lane}, column ${v.column + column}: register ${register} of thread ${thread}`,
      };
    })));
    return {
      said: `Address 0x${((first << 16) | v.column).toString(16).padStart(8, "0")}: warp ${v.warp} gets lanes ${first} to ` +
        `${first + lanes - 1}, ${registers * v.times} ${registers * v.times === 1 ? "register" : "registers"} a thread` +
        (wide > DRAWN ? `; drawn are ${DRAWN} of ${wide} columns.` : "."),
      down: "lane", across: "column; in the cells the thread, coloured by its register", cells: drawn, width: 22, least: 17,
      names: drawn.map((_, lane) => first + lane), heads: Array.from({ length: shown }, (_, k) => (k % 4 ? "" : v.column + k)),
    };
  }

  kind("tensor", {
    title: "Explorer: which thread gets which cell",
    tell: "Choose a cell, by click or with the arrow keys: what its thread gets stands out.",
    fields: [
      { name: "shape", label: "shape", options: Object.keys(SHAPES) },
      { name: "times", label: "repeated", value: "4", options: [1, 2, 4, 8, 16, 32, 64, 128].map((n) => [String(n), `.x${n}`]) },
      { name: "pack", label: "halves", options: ["no", ".pack::16b"] },
      number("warp", "warp of the block", 0, 0, 31),
      { name: "half", label: "lanes of the quarter", options: [["0", "first 16"], ["16", "last 16"]] },
      number("column", "first column", 0, 0, 511), number("apart", "columns to the second half", 8, 0, 511),
    ],
    work: tensor,
  });

  const shown = (view, hex) => fields(view, BigInt(hex));
  const judged = (view, hex) => verdict(view, BigInt(hex));
  window.phasebitExplorers = { swizzle, addresses, wavefronts, fields: shown, verdict: judged, cells };
})();

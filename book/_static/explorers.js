/* Explorers: machines small enough to be worked out in the page. A box,

     <div class="phasebit-explorer" data-explorer="banks">fallback</div>

   becomes a form and a picture that follows it. The arithmetic is that of the emulator; tests
   compare the two (tests/site/test_explorers.py, which calls window.phasebitExplorers). */

(() => {
  "use strict";

  const LANES = 32, BANKS = 32, WORD = 4, LINE = BANKS * WORD;
  const HUES = window.phasebitHues ?? ["blue"];  // a lane has that of its number modulo 8

  function element(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties))
      if (name in node) node[name] = value;
      else node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

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

  const PRESETS = {
    none: [0, 4, 3], "32B": [1, 4, 3], "64B": [2, 4, 3], "128B": [3, 4, 3],
  };

  class Banks {
    constructor(box, index) {
      this.fields = {};
      const id = (name) => `explorer-${index}-${name}`;
      const choose = (name, label, options, value) => {
        const field = element("select", { id: id(name) }, ...options.map(([key, text]) => element("option", { value: key }, text)));
        field.value = value;
        this.fields[name] = field;
        return element("label", { htmlFor: id(name) }, label, field);
      };
      const count = (name, label, max, value) => {
        const field = element("input", { id: id(name), type: "number", min: 0, max, step: 1, value, inputMode: "numeric" });
        this.fields[name] = field;
        return element("label", { htmlFor: id(name) }, label, field);
      };
      const data = box.dataset;
      const form = element("form", { className: "pb-lab-fields" },
        choose("mode", "swizzle", [...Object.keys(PRESETS).map((key) => [key, key]), ["own", "own bits"]], data.mode ?? "none"),
        count("bits", "bits that move", 5, 0), count("low", "first of them", 8, 4), count("shift", "shift to the others", 6, 3),
        choose("row", "bytes a row", [32, 64, 128, 132, 144, 256, 512].map((n) => [n, String(n)]), data.row ?? "128"),
        choose("size", "bytes a lane", [4, 8, 16].map((n) => [n, String(n)]), data.size ?? "16"),
        choose("way", "a warp reads", Object.entries(WAYS).map(([key, way]) => [key, way.label]), data.way ?? "column"),
        count("column", "element of the row", 127, data.column ?? 2));
      this.part = element("select", { id: id("part") });
      this.said = element("p", { role: "status", className: "pb-lab-numbers" });
      this.error = element("p", { role: "alert", className: "pb-lab-error" });
      this.picture = element("div", { className: "pb-picture", tabIndex: 0, role: "region", "aria-label": "shared memory, a line for each 128 bytes" });
      const title = element("p", { className: "pb-lab-title", id: id("title") }, "Explorer: which lane asks which bank");
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", title.id);
      box.replaceChildren(title, form, this.error, this.said,
        element("label", { htmlFor: this.part.id, className: "pb-explorer-part" }, "lanes served together ", this.part), this.picture);
      form.addEventListener("submit", (event) => event.preventDefault());
      form.addEventListener("input", (event) => this.changed(event.target));
      this.part.addEventListener("change", () => this.draw());
      this.changed(this.fields.mode);
    }

    changed(field) {
      if (field === this.fields.mode && field.value in PRESETS)
        ["bits", "low", "shift"].forEach((name, k) => { this.fields[name].value = PRESETS[field.value][k]; });
      else if ([this.fields.bits, this.fields.low, this.fields.shift].includes(field)) this.fields.mode.value = "own";
      this.part.replaceChildren();
      this.draw();
    }

    /* The numbers of the form, or a sentence that says what is wrong with them. */
    values() {
      const v = { way: this.fields.way.value };
      for (const name of ["bits", "low", "shift", "row", "size", "column"]) {
        v[name] = Number(this.fields[name].value);
        if (!Number.isInteger(v[name]) || v[name] < 0) return `${name}: give a whole number from 0 on`;
      }
      if (v.bits && v.shift < v.bits) return "the bits that move must lie below those that they are XORed with: shift at least as many as move";
      if (v.low < Math.log2(v.size)) return `a lane's ${v.size} bytes must stay together: let bits from ${Math.log2(v.size)} on move`;
      if (v.row % v.size) return `a row of ${v.row} bytes does not hold whole pieces of ${v.size}, which begin at multiples of ${v.size}`;
      if (v.way === "column" && (v.column + 1) * v.size > v.row) return `a row of ${v.row} bytes has elements 0 to ${v.row / v.size - 1}`;
      return v;
    }

    draw() {
      const v = this.values();
      this.error.textContent = typeof v === "string" ? v : "";
      if (typeof v === "string") return;
      const lanes = addresses(v);
      const served = wavefronts(lanes, v.size);
      if (!this.part.options.length)
        served.forEach(({ first, last }, k) => this.part.append(element("option", { value: k }, `${first} to ${last - 1}`)));
      const total = served.reduce((sum, { count }) => sum + count, 0);
      this.said.textContent = `${total} ${total === 1 ? "wavefront" : "wavefronts"} for 32 lanes of ${v.size} bytes; ${served.length} would do without conflicts.`;
      const chosen = served[Number(this.part.value)];
      this.picture.innerHTML = picture(lanes, v.size, chosen);
    }
  }

  /* Lines of 128 bytes, a column for each bank; what the chosen lanes ask for, by lane. */
  function picture(lanes, size, { first, last, load, count }) {
    const width = 22, height = 20, left = 64, top = 26;
    const asked = new Map();
    for (let lane = first; lane < last; lane += 1)
      for (let k = 0; k < size; k += WORD) {
        const word = (lanes[lane] + k) >> 2;
        asked.set(word, [...(asked.get(word) ?? []), lane]);
      }
    const lines = [...new Set([...asked.keys()].map((word) => Math.floor(word / BANKS)))].sort((a, b) => a - b);
    const bottom = top + lines.length * height;
    const out = [];
    const words = `Lanes ${first} to ${last - 1} ask for ${asked.size} words; the busiest bank must give ${count}.`;
    for (let bank = 0; bank < BANKS; bank += 1)
      if (bank % 4 === 0) out.push(`<text x="${left + bank * width + 2}" y="${top - 8}" class="pb-x-axis">${bank}</text>`);
    lines.forEach((line, k) => {
      const y = top + k * height;
      out.push(`<text x="${left - 8}" y="${y + 14}" text-anchor="end" class="pb-x-axis">${line * LINE}</text>`);
      for (let bank = 0; bank < BANKS; bank += 1) {
        const here = asked.get(line * BANKS + bank);
        const x = left + bank * width;
        if (!here) out.push(`<rect x="${x}" y="${y}" width="${width}" height="${height}" class="pb-x-free"/>`);
        else {
          const hue = `var(--pb-${HUES[here[0] % HUES.length]})`;
          out.push(`<g><title>lane ${here.join(", ")}: byte ${(line * BANKS + bank) * WORD}, bank ${bank}</title>` +
            `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${hue}" class="pb-x-asked"/>` +
            `<text x="${x + width / 2}" y="${y + 14}" text-anchor="middle" class="pb-x-lane">${here.length > 1 ? "+" : here[0]}</text></g>`);
        }
      }
    });
    load.forEach((n, bank) => {
      if (n) out.push(`<text x="${left + bank * width + width / 2}" y="${bottom + 16}" text-anchor="middle" class="${n > 1 ? "pb-x-many" : "pb-x-axis"}">${n}</text>`);
    });
    out.push(`<text x="${left - 8}" y="${bottom + 16}" text-anchor="end" class="pb-x-axis">words</text>`);
    out.push(`<text x="${left - 8}" y="${top - 8}" text-anchor="end" class="pb-x-axis">bank</text>`);
    const wide = left + BANKS * width + 4;
    return `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 ${wide} ${bottom + 24}" style="min-width:${wide * 0.92}px">` +
      `<title>${words}</title>${out.join("")}</svg>`;
  }

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
    for (const [name, type, major] of [["A", a, "A is M-major"], ["B", b, "B is N-major"]])
      if (is(major) && rules.straight.includes(type)) return { groups: [], words: `${name} of ${type} must be K-major` };
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

  class Descriptor {
    constructor(box, index) {
      const id = (name) => `explorer-${index}-${name}`;
      this.view = element("select", { id: id("view") }, ...Object.keys(VIEWS).map((name) => element("option", { value: name }, name)));
      this.hex = element("input", { id: id("hex"), spellcheck: false, autocomplete: "off" });
      this.view.value = box.dataset.view ?? Object.keys(VIEWS)[0];
      this.hex.value = box.dataset.bits ?? "0x0";
      this.error = element("p", { role: "alert", className: "pb-lab-error" });
      this.said = element("p", { className: "pb-lab-numbers" });
      this.table = element("div", { role: "status" });
      const title = element("p", { className: "pb-lab-title", id: id("title") }, "Explorer: what the bits say");
      const form = element("form", { className: "pb-lab-fields pb-wide-fields" },
        element("label", { htmlFor: id("view") }, "descriptor", this.view),
        element("label", { htmlFor: id("hex") }, "its bits, as a number", this.hex));
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", title.id);
      box.replaceChildren(title, form, this.error, this.said, this.table);
      form.addEventListener("submit", (event) => event.preventDefault());
      form.addEventListener("input", () => this.draw());
      this.draw();
    }

    draw() {
      const text = this.hex.value.trim().replaceAll("_", "");
      const { bits } = VIEWS[this.view.value];
      if (!/^(0x[0-9a-f]+|\d+)$/i.test(text) || BigInt(text) >> BigInt(bits)) {
        this.error.textContent = `a whole number of at most ${bits} bits, such as 0x${"4".padEnd(bits / 4, "0")}`;
        return;
      }
      const { found, stray } = fields(this.view.value, BigInt(text));
      this.error.textContent = stray.length ? `bit${stray.length > 1 ? "s" : ""} ${stray.join(", ")} must be 0` : "";
      this.said.textContent = "";
      if (VIEWS[this.view.value].rules) {
        const { groups, words } = verdict(this.view.value, BigInt(text));
        this.said.textContent = groups.length ? `${words}; with ${groups.map((group) => `cta_group::${group}`).join(" or ")}` : `refused: ${words}`;
      }
      const head = element("tr", {}, ...["bits", "field", "number", "that is"].map((name) => element("th", { scope: "col" }, name)));
      const rows = found.map(({ low, width, name, value, words, known }) => element("tr", {},
        element("td", {}, width > 1 ? `${low}–${low + width - 1}` : String(low)),
        element("th", { scope: "row" }, name),
        element("td", {}, element("code", {}, value.toString(2).padStart(width, "0"))),
        element("td", { className: known ? "" : "pb-step-wrong" }, words)));
      this.table.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
    }
  }

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

  class Tensor {
    constructor(box, index) {
      const id = (name) => `explorer-${index}-${name}`;
      const data = box.dataset;
      this.fields = {};
      const put = (name, label, field, value) => {
        field.id = id(name);
        field.value = value;
        this.fields[name] = field;
        return element("label", { htmlFor: id(name) }, label, field);
      };
      const choose = (name, label, options, value) =>
        put(name, label, element("select", {}, ...options.map(([key, text]) => element("option", { value: key }, text))), value);
      const count = (name, label, max, value) =>
        put(name, label, element("input", { type: "number", min: 0, max, step: 1, inputMode: "numeric" }), value);
      const form = element("form", { className: "pb-lab-fields" },
        choose("shape", "shape", Object.keys(SHAPES).map((name) => [name, name]), data.shape ?? "32x32b"),
        choose("times", "repeated", [1, 2, 4, 8, 16, 32, 64, 128].map((n) => [n, `.x${n}`]), data.times ?? "4"),
        choose("pack", "halves", [["", "no"], ["16", ".pack::16b"]], ""),
        count("warp", "warp of the block", 31, data.warp ?? "0"),
        choose("half", "lanes of the quarter", [["0", "first 16"], ["16", "last 16"]], "0"),
        count("column", "first column", 511, data.column ?? "0"),
        count("apart", "columns to the second half", 511, data.apart ?? "8"));
      this.said = element("p", { role: "status", className: "pb-lab-numbers" });
      this.error = element("p", { role: "alert", className: "pb-lab-error" });
      this.picture = element("div", { className: "pb-picture", tabIndex: 0, role: "region", "aria-label": "tensor memory, a line for each lane" });
      const title = element("p", { className: "pb-lab-title", id: id("title") }, "Explorer: which thread gets which cell");
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", title.id);
      box.replaceChildren(title, form, this.error, this.said, this.picture);
      form.addEventListener("submit", (event) => event.preventDefault());
      form.addEventListener("input", () => this.draw());
      this.draw();
    }

    /* The numbers of the form, or a sentence that says what is wrong with them. */
    values() {
      const v = { shape: this.fields.shape.value, pack: this.fields.pack.value !== "" };
      for (const name of ["times", "warp", "half", "column", "apart"]) {
        v[name] = Number(this.fields[name].value);
        if (!Number.isInteger(v[name]) || v[name] < 0) return `${name}: give a whole number from 0 on`;
      }
      const { registers, lanes } = SHAPES[v.shape];
      if (registers * v.times > 128) return `${v.shape}.x${v.times} has ${registers * v.times} registers a thread, and there are 128 at most`;
      if (v.warp > 31) return "a block has warps 0 to 31";
      v.first = 32 * (v.warp % 4) + (lanes === 16 ? v.half : 0);
      v.cells = cells(v.shape, v.times, v.apart, v.pack);
      const wide = Math.max(...v.cells.flat(2).map(([, column]) => column)) + 1;
      if (v.column + wide > 512) return `columns ${v.column} to ${v.column + wide - 1}: there are 512`;
      return { ...v, wide };
    }

    draw() {
      const v = this.values();
      this.error.textContent = typeof v === "string" ? v : "";
      if (typeof v === "string") return;
      const { registers, lanes } = SHAPES[v.shape];
      this.said.textContent = `Address 0x${((v.first << 16) | v.column).toString(16).padStart(8, "0")}: warp ${v.warp} gets lanes ${v.first} to ` +
        `${v.first + lanes - 1}, ${registers * v.times} ${registers * v.times === 1 ? "register" : "registers"} a thread` +
        (v.wide > DRAWN ? `; drawn are ${DRAWN} of ${v.wide} columns.` : ".");
      this.picture.innerHTML = memory(v, lanes);
    }
  }

  /* Lanes downwards, columns across; in each cell the thread that gets it, coloured by register. */
  function memory(v, lanes) {
    const width = 24, height = 18, left = 60, top = 26;
    const shown = Math.min(v.wide, DRAWN), bottom = top + lanes * height;
    const out = [];
    for (let column = 0; column < shown; column += 4)
      out.push(`<text x="${left + column * width + 2}" y="${top - 8}" class="pb-x-axis">${v.column + column}</text>`);
    for (let lane = 0; lane < lanes; lane += 1)
      out.push(`<text x="${left - 8}" y="${top + lane * height + 13}" text-anchor="end" class="pb-x-axis">${v.first + lane}</text>`);
    v.cells.forEach((line, thread) => line.forEach((held, register) => held.forEach(([lane, column]) => {
      if (column >= shown) return;
      const x = left + column * width, y = top + lane * height;
      out.push(`<g><title>lane ${v.first + lane}, column ${v.column + column}: register ${register} of thread ${thread}</title>` +
        `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="var(--pb-${HUES[register % 8]})" class="pb-x-asked"/>` +
        `<text x="${x + width / 2}" y="${y + 13}" text-anchor="middle" class="pb-x-lane">${thread}</text></g>`);
    })));
    out.push(`<text x="${left - 8}" y="${top - 8}" text-anchor="end" class="pb-x-axis">column</text>`);
    const wide = left + shown * width + 4;
    return `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 ${wide} ${bottom + 8}" style="min-width:${wide * 0.92}px">` +
      `<title>Which thread of warp ${v.warp} gets which cell, by ${v.shape}.x${v.times}.</title>${out.join("")}</svg>`;
  }

  const shown = (view, hex) => fields(view, BigInt(hex));
  const judged = (view, hex) => verdict(view, BigInt(hex));
  window.phasebitExplorers = { swizzle, addresses, wavefronts, fields: shown, verdict: judged, cells };

  const KINDS = { banks: Banks, descriptor: Descriptor, tensor: Tensor };
  document.querySelectorAll(".phasebit-explorer").forEach((box, index) => {
    const Kind = KINDS[box.dataset.explorer];
    if (Kind) new Kind(box, index); // an unknown one keeps its fallback
  });
})();

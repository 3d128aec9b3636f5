/* Explorers of an order in which a product is made: the blocks of a grid and what the first of them
   need, and the loops around a tile, with the parts of the matrices that each of them fixes. Tests
   compare them with the package (tests/site/test_grids.py). */

(() => {
  "use strict";

  const { number, many, svg, kind } = window.phasebitParts;

  /* -- orders of blocks: chapters/block_order/orders.py --------------------------------- */

  const ORDERS = {
    "row by row": (rows, columns) => bands(rows, columns, 1),
    "super-rows": bands,
    "Hilbert's curve": (rows, columns) => {
      let side = 1;
      while (side < Math.max(rows, columns)) side *= 2;
      return Array.from({ length: side * side }, (_, step) => onCurve(side, step)).filter(([row, column]) => row < rows && column < columns);
    },
  };

  /* Bands of so many rows, each walked column by column; of one row, along it. */
  function bands(rows, columns, high) {
    const order = [];
    for (let first = 0; first < rows; first += high)
      for (let column = 0; column < columns; column += 1)
        for (let row = first; row < Math.min(first + high, rows); row += 1) order.push([row, column]);
    return order;
  }

  function onCurve(side, step) {
    let [x, y] = [0, 0];
    for (let size = 1; size < side; size *= 2, step = Math.floor(step / 4)) {
      const across = (step >> 1) & 1, up = (step ^ (step >> 1)) & 1;
      if (!up) {
        if (across) [x, y] = [size - 1 - x, size - 1 - y];
        [x, y] = [y, x];
      }
      x += size * across;
      y += size * up;
    }
    return [x, y];
  }

  function order({ order: name, rows, columns, high, resident, wave }) {
    const parts = ORDERS[name](rows, columns, high);
    const first = wave * resident, now = parts.slice(first, first + resident);
    if (!now.length) return `there are ${many(Math.ceil(parts.length / resident), "wave")}: give 0 to ${Math.ceil(parts.length / resident) - 1}`;
    const [ofA, ofB] = [0, 1].map((side) => new Set(now.map((part) => part[side])));
    const cells = Array.from({ length: rows }, () => new Array(columns));
    parts.forEach(([row, column], block) => {
      const its = Math.floor(block / resident);
      cells[row][column] = {
        text: block, hue: its === wave ? "orange" : ofA.has(row) || ofB.has(column) ? "blue" : "grey", faint: its !== wave, same: [`wave-${its}`], set: { wave: its },
        title: `Block ${block} makes part (${row}, ${column}) of C, in wave ${its}`,
      };
    });
    return {
      said: `Wave ${wave}: ${many(now.length, "block")} need ${many(ofA.size, "row")} of tiles of A and ${many(ofB.size, "column")} of tiles of B, ${ofA.size + ofB.size} in all; ` +
        `each block by itself would fetch 2. The fewest for so many is ${Math.ceil(2 * Math.sqrt(now.length))}.`,
      down: "row", across: "column of tiles of C; in the cells the block, orange: this wave", cells, parts, ofA: [...ofA], ofB: [...ofB], width: 34, least: 26,
    };
  }

  /* -- five loops around a tile: chapters/gemm/view.py ------------------------------------- */

  /* From the outermost in: who steps, by what; what is fixed from there on, and where it lives. */
  const LOOPS = [
    ["p0", "kc", "a strip of A, of B; all of C"], ["i0", "mc", "a block of A, for L3"], ["j0", "nc", "a block of B, for L2"],
    ["i", "MR", "a panel of A, for L1"], ["j", "NR", "a tile of C, for registers; a panel of B passes by"],
  ];

  /* A range of `step` from the round-th step on, not beyond `end`. */
  const range = (round, step, begin, end) => {
    const from = begin + step * (round % Math.max(1, Math.ceil((end - begin) / step)));
    return [from, Math.min(from + step, end)];
  };

  function loops({ m, n, k, mc, nc, kc, mr, nr, loop, round, bytes }) {
    const depth = Number(loop), all = { m: [0, m], n: [0, n], k: [0, k] };
    const deep = range(depth === 0 ? round : 0, kc, 0, k);
    const below = range(depth === 1 ? round : 0, mc, 0, m), across = range(depth === 2 ? round : 0, nc, 0, n);
    const few = range(depth === 3 ? round : 0, mr, ...below), some = range(depth === 4 ? round : 0, nr, ...across);
    const rows = depth < 1 ? all.m : depth < 3 ? below : few, columns = depth < 2 ? all.n : depth < 4 ? across : some;
    const long = ([from, to]) => to - from;
    const parts = { A: [rows, deep], B: [deep, columns], C: [rows, columns] };
    const size = (name) => long(parts[name][0]) * long(parts[name][1]) * bytes;
    const rounds = [Math.ceil(k / kc), Math.ceil(m / mc), Math.ceil(n / nc), Math.ceil(long(below) / mr), Math.ceil(long(across) / nr)];
    const kib = (name) => `${name} ${long(parts[name][0])} × ${long(parts[name][1])}, ${(size(name) / 1024).toPrecision(3)} KiB`;
    return {
      said: `Inside loop ${LOOPS[depth][0]} (by ${LOOPS[depth][1]}, ${many(rounds[depth], "round")}): ${["A", "B", "C"].map(kib).join("; ")}. It fixes ${LOOPS[depth][2]}.`,
      parts, sizes: Object.fromEntries(["A", "B", "C"].map((name) => [name, size(name)])), rounds, whole: { A: [m, k], B: [k, n], C: [m, n] }, cells: [],
    };
  }

  const HUE = { A: "orange", B: "green", C: "blue" };

  function matrices({ parts, whole, said }, room) {
    const gap = 30, scale = Math.min(150, (Math.min(room, 620) - 4 * gap) / 3) / Math.max(...Object.values(whole).flat());
    let x = gap;
    const out = [];
    for (const [name, [high, wide]] of Object.entries(whole)) {
      const [rows, columns] = parts[name];
      out.push(`<text x="${x - 6}" y="20" text-anchor="end" class="pb-x-axis">${name}</text>`,
        `<rect x="${x}" y="8" width="${wide * scale}" height="${high * scale}" class="pb-x-free"/>`,
        `<rect x="${x + columns[0] * scale}" y="${8 + rows[0] * scale}" width="${Math.max((columns[1] - columns[0]) * scale, 1.5)}" height="${Math.max((rows[1] - rows[0]) * scale, 1.5)}" class="pb-x-part" style="--hue:var(--pb-${HUE[name]})"/>`);
      x += wide * scale + gap;
    }
    return svg(x, 16 + Math.max(...Object.values(whole).map(([high]) => high)) * scale, said, out.join(""));
  }

  kind("order", {
    title: "Explorer: which blocks run together, and what they need", work: order,
    tell: "Click a block, or go to it with the arrow keys and press Enter: its wave.",
    fields: [{ name: "order", label: "order", options: Object.keys(ORDERS) }, number("rows", "rows of tiles", 8, 1, 32), number("columns", "columns of tiles", 12, 1, 32),
      number("high", "rows of a super-row", 4, 1, 32), number("resident", "blocks at once", 16, 1, 512), number("wave", "wave", 0, 0, 1023)],
  });
  kind("loops", {
    title: "Explorer: what each loop holds still", work: loops, draw: matrices, tell: "",
    fields: [number("m", "rows of A", 1024, 1, 8192), number("n", "columns of B", 1024, 1, 8192), number("k", "depth", 1024, 1, 8192),
      number("mc", "mc", 256, 1, 8192), number("nc", "nc", 512, 1, 8192), number("kc", "kc", 256, 1, 8192),
      number("mr", "MR", 8, 1, 64), number("nr", "NR", 16, 1, 64), { name: "bytes", label: "bytes a number", value: "4", options: ["1", "2", "4", "8"] },
      { name: "loop", label: "inside the loop", value: "2", options: LOOPS.map(([name, step], k) => [String(k), `${name} by ${step}`]) }, number("round", "its round", 0, 0, 9999)],
  });
})();

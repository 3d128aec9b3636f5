/* Explorers of layouts: one, one cut into tiles, and who of a block holds which element of its tile.
   Tests compare them with the library tensor-layouts (tests/site/test_grids.py). */

(() => {
  "use strict";

  const { number, kind } = window.phasebitParts;
  const HUES = window.phasebitHues ?? ["blue"];

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
        { text: value, hue: HUES[Math.floor(value / 8) % HUES.length], same: [`place-${value}`], title: `row ${row}, column ${column}: offset ${value}` }))),
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
          text: value, hue: HUES[tile % HUES.length], same: [`tile-${tile}`, `within-${within}`],
          title: `row ${row}, column ${column}: element (${a}, ${b}) of tile (${p}, ${q}), number ${within} of tile ${tile}; offset ${value}`,
        };
      })),
      offsets,
    };
  }

  /* -- who holds what of a block's tile: warps, and in each 32 lanes, row by row ------- */

  function tiles({ blockm, blockn, warpm, warpn, threadm, threadn, thread }) {
    const cut = (outer, inner, what) => (outer % inner ? `${what}: ${inner} does not divide ${outer}` : "");
    const wrong = cut(blockm, warpm, "warp tiles along m") || cut(blockn, warpn, "warp tiles along n") ||
      cut(warpm, threadm, "thread tiles along m") || cut(warpn, threadn, "thread tiles along n");
    if (wrong) return wrong;
    const [warpsDown, warpsAcross] = [blockm / warpm, blockn / warpn], [down, across] = [warpm / threadm, warpn / threadn];
    if (down * across !== 32) return `a warp tile of ${warpm} × ${warpn} holds ${down * across} tiles of ${threadm} × ${threadn}: a warp has 32 lanes`;
    const threads = 32 * warpsDown * warpsAcross;
    if (threads > 1024) return `that takes ${threads} threads: a block has at most 1024`;
    if (thread >= threads) return `the block has threads 0 to ${threads - 1}`;
    const place = (one) => {
      const warp = Math.floor(one / 32), lane = one % 32;
      return [Math.floor(warp / warpsAcross) * down + Math.floor(lane / across), (warp % warpsAcross) * across + (lane % across)];
    };
    const cells = Array.from({ length: warpsDown * down }, () => new Array(warpsAcross * across));
    for (let one = 0; one < threads; one += 1) {
      const [row, column] = place(one), warp = Math.floor(one / 32);
      cells[row][column] = {
        text: one, hue: HUES[warp % HUES.length], faint: one !== thread, same: [`thread-${one}`, `warp-${warp}`], set: { thread: one },
        title: `Thread ${one}, lane ${one % 32} of warp ${warp}: rows ${row * threadm} to ${(row + 1) * threadm - 1}, columns ${column * threadn} to ${(column + 1) * threadn - 1}`,
      };
    }
    const [row, column] = place(thread);
    return {
      said: `${threads} threads, ${threads / 32} warps. Thread ${thread} is lane ${thread % 32} of warp ${Math.floor(thread / 32)}: it holds rows ${row * threadm} to ${(row + 1) * threadm - 1} ` +
        `and columns ${column * threadn} to ${(column + 1) * threadn - 1}, ${threadm * threadn} sums. For each k it reads ${threadm} numbers of A and ${threadn} of B: ${((threadm * threadn) / (threadm + threadn)).toFixed(1)} multiply-adds for each number read.`,
      threads, row: row * threadm, column: column * threadn, down: "row", across: "column of the tile; in the cells the thread",
      names: cells.map((_, k) => k * threadm), heads: Array.from({ length: warpsAcross * across }, (_, k) => k * threadn), cells, width: 34, least: 26,
    };
  }

  kind("layout", {
    title: "Explorer: where each element lies", wide: true, work: layout,
    fields: [{ name: "layout", label: "shape : strides", text: "(4, (2, 4)) : (2, (1, 8))" }],
  });
  kind("divide", {
    title: "Explorer: a layout cut into tiles", wide: true, work: divide,
    tell: "Choose a cell, by click or with the arrow keys: its tile stands out, and the same place of each other tile.",
    fields: [{ name: "layout", label: "shape : strides", text: "(8, 8) : (8, 1)" }, { name: "tiler", label: "tiler", text: "2, 4" }],
  });
  kind("tiles", {
    title: "Explorer: who holds what of a block's tile", work: tiles,
    tell: "Choose a cell, by click or with the arrow keys: its warp stands out.",
    fields: [number("blockm", "block tile along m", 64, 8, 256), number("blockn", "block tile along n", 64, 8, 256),
      number("warpm", "warp tile along m", 32, 4, 256), number("warpn", "warp tile along n", 32, 4, 256),
      number("threadm", "thread tile along m", 8, 1, 16), number("threadn", "thread tile along n", 4, 1, 16), number("thread", "thread", 37, 0, 1023)],
  });
})();

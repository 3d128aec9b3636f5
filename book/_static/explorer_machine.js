/* Explorers of a machine: the law of a pipeline, what fits on a multiprocessor, where a thread is, the
   sets of a cache, the roof above a product. Tests compare them with the package
   (tests/site/test_grids.py). */

(() => {
  "use strict";

  const { number, many, picture, svg, kind } = window.phasebitParts;
  const HUES = window.phasebitHues ?? ["blue"];
  const LIMITS = window.phasebitLimits ?? {}, ROOF = window.phasebitRoof ?? { bandwidth: 1000, rates: { f32: 10 } };
  const COLOUR = { producers: "blue", slots: "orange", consumers: "green" };


  /* -- the law, as a surface: phasebit/pipeline/law.py ---------------------------------- */

  function law({ produce, consume, handoff, consumers, producers = 1, slots = 1 }) {
    const at = (p, n) => {
      const bounds = { producers: p / produce, slots: n / (produce + consume + handoff), consumers: consumers / consume };
      const rate = Math.min(...Object.values(bounds));
      return { rate, limits: Object.keys(bounds).filter((name) => bounds[name] === rate) };
    };
    const best = at(8, 16).rate, here = at(producers, slots);
    const words = ({ rate, limits }) => `${rate.toFixed(3)} jobs a clock, limited by the ${limits.join(" and the ")}`;
    return {
      said: `With ${many(producers, "producer")}, ${many(slots, "slot")} and ${many(consumers, "consumer")}: ${words(here)}. ` +
        "The stronger the colour, the more jobs. Blue: the producers limit; orange: the slots; green: the consumers; grey: more than one of them.",
      down: "producers", across: "slots", first: 1, wide: 78, width: 40, least: 14,
      cells: Array.from({ length: 8 }, (_, k) => Array.from({ length: 16 }, (_, n) => {
        const { rate, limits } = at(k + 1, n + 1);
        return {
          text: "", hue: limits.length > 1 ? "grey" : COLOUR[limits[0]], level: 0.08 + (0.85 * rate) / best, limits, rate,
          strong: k + 1 === producers && n + 1 === slots, set: { producers: k + 1, slots: n + 1 },
          title: `${many(k + 1, "producer")}, ${many(n + 1, "slot")}: ${words({ rate, limits })}`,
        };
      })),
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
      down: "", across: "blocks that each resource allows", first: 1, names: Object.keys(fits), wide: 100, width: 20, least: 6,
      cells: Object.entries(fits).map(([name, most]) => Array.from({ length: 32 }, (_, k) => k < most
        ? { text: "", hue: k < blocks ? "blue" : "cyan", faint: k >= blocks, same: [`of-${name.replace(" ", "-")}`], title: `${name}: ${many(most, "block")}` } : null)),
    };
  }

  /* -- where a thread is: grid, cluster, block, warp, lane, and the multiprocessor ------- */

  const DRAWN = 64; // blocks of a grid

  function thread({ gpu, blocks, cluster, threads, registers, shared, block, warp, lane }) {
    const fit = occupancy({ gpu, registers, shared, threads });
    if (typeof fit === "string") return fit;
    const own = LIMITS[gpu], warps = Math.ceil(threads / 32), index = 32 * warp + lane;
    if (cluster > 1 && Number(gpu.slice(3)) < 90) return `${gpu} has no clusters: give 1 block a cluster`;
    if (blocks % cluster) return `${blocks} blocks are no whole number of clusters of ${cluster}`;
    if (block >= blocks) return `the grid has blocks 0 to ${blocks - 1}`;
    if (warp >= warps) return `the block has warps 0 to ${warps - 1}`;
    if (index >= threads) return `warp ${warp} has lanes 0 to ${threads - 32 * warp - 1}: the block ends there`;
    if (!fit.blocks) return "no block of this kernel fits on a multiprocessor";
    const part = (one) => one % own.files;
    const grid = Array.from({ length: Math.ceil(Math.min(blocks, DRAWN) / 16) }, (_, line) => Array.from({ length: Math.min(16, Math.min(blocks, DRAWN) - 16 * line) }, (_, k) => {
      const number = 16 * line + k, mine = Math.floor(number / cluster);
      return {
        text: number, hue: HUES[mine % HUES.length], faint: number !== block, set: { block: number }, same: [`cluster-${mine}`],
        title: `Block ${number}${cluster > 1 ? `, rank ${number % cluster} of cluster ${mine}` : ""}`,
      };
    }));
    const rows = Math.ceil((warps * fit.blocks) / own.files);
    const inside = Array.from({ length: Math.max(...[rows, 1]) }, (_, row) => Array.from({ length: own.files }, (_, file) => {
      const number = row * own.files + file, of = Math.floor(number / warps), mine = number % warps;
      if (number >= warps * fit.blocks) return null;
      return {
        text: of ? `+${of}: ${mine}` : mine, hue: of ? "grey" : HUES[file], faint: of > 0 || mine !== warp, same: [of ? `block-${of}` : `warp-${mine}`], ...(of ? {} : { set: { warp: mine, lane: 0 } }),
        title: of ? `Warp ${mine} of another block that fits beside it, at scheduler ${file}` : `Warp ${mine} of block ${block}: its instructions are issued by scheduler ${file}`,
      };
    }));
    const lanes = [0, 16].map((from) => Array.from({ length: 16 }, (_, k) => (32 * warp + from + k < threads ? {
      text: from + k, hue: "blue", faint: from + k !== lane, set: { lane: from + k },
      title: `Lane ${from + k} of warp ${warp}: threadIdx.x = ${32 * warp + from + k}`,
    } : null)));
    return {
      said: `blockIdx.x = ${block}, threadIdx.x = ${index}: lane ${lane} of warp ${warp}${cluster > 1 ? `, in rank ${block % cluster} of cluster ${Math.floor(block / cluster)}` : ""}; thread ${block * threads + index} of ${(blocks * threads).toLocaleString("en")}. ` +
        `Warp ${warp} is issued by scheduler ${part(warp)} of its multiprocessor, beside a register file of ${(own.registers / own.files).toLocaleString("en")} registers, of which the warp has ${up(registers * 32, own.register_unit).toLocaleString("en")}. ` +
        `${many(fit.blocks, "block")} of this kernel fit there at once: ${fit.blocks * warps} of ${own.warps} warps.`,
      fit: fit.blocks, index, part: part(warp), cells: inside, grid, lanes, files: own.files, warps,
    };
  }

  function levels({ grid, cells, lanes, files }, room) {
    return picture({ cells: grid, said: "the grid", across: `the grid: its first ${DRAWN} blocks at most, coloured by their cluster`, names: grid.map((_, k) => 16 * k), wide: 40, width: 30, least: 26, bare: true }, room) +
      picture({ cells, said: "the multiprocessor", across: "the block's multiprocessor: under each scheduler the warps of the block, grey those of blocks beside it",
        heads: Array.from({ length: files }, (_, k) => `scheduler ${k}`), names: cells.map(() => ""), wide: 40, width: 80, least: 70 }, room) +
      picture({ cells: lanes, said: "the warp", across: "the warp: its lanes", names: ["", ""], wide: 40, width: 30, least: 17, bare: true }, room);
  }

  /* -- the sets of a cache: phasebit/caches ----------------------------------------------- */

  function sets({ address, line, sets: count, ways, stride, steps }) {
    const power = (n) => n > 0 && (n & (n - 1)) === 0;
    if (!power(line) || !power(count)) return "bytes of a line and sets are powers of two: then bits of the address choose the place";
    const at = (byte) => ({ tag: Math.floor(byte / line / count), set: Math.floor(byte / line) % count, byte: byte % line });
    const kept = Array.from({ length: count }, () => []); // lines by their last use, the newest last
    let misses = 0;
    const turns = [];
    for (let k = 0; k < steps; k += 1) {
      const number = Math.floor((address + k * stride) / line), here = kept[number % count];
      const found = here.indexOf(number);
      if (found < 0) misses += 1;
      if (found >= 0) here.splice(found, 1);
      else if (here.length === ways) here.shift();
      here.push(number);
      turns.push({ line: number, set: number % count, missed: found < 0 });
    }
    const asked = at(address), bits = Math.max(16, Math.ceil(Math.log2(address + steps * stride + 2)));
    const offset = Math.log2(line), middle = Math.log2(count);
    const part = (bit) => (bit < offset ? ["orange", "byte of the line"] : bit < offset + middle ? ["green", "set"] : ["blue", "tag"]);
    const written = Array.from({ length: bits }, (_, k) => {
      const bit = bits - 1 - k, one = Math.floor(address / 2 ** bit) % 2;
      return { text: one, hue: part(bit)[0], faint: !one, same: [part(bit)[1].replaceAll(" ", "-")], set: { address: address + (one ? -1 : 1) * 2 ** bit }, title: `Bit ${bit}: ${part(bit)[1]}` };
    });
    const used = [...new Set(turns.map((turn) => turn.set))].sort((a, b) => a - b).slice(0, 16);
    return {
      said: `Byte ${address} is byte ${asked.byte} of a line in set ${asked.set}, with tag ${asked.tag}. ${many(steps, "access", "accesses")} ${stride} bytes apart touch ${many(new Set(turns.map((turn) => turn.set)).size, "set")} of ${count}: ${misses} of them miss.`,
      ...asked, misses, turns, cells: [written],
      kept: used.map((set) => Array.from({ length: ways }, (_, way) => kept[set].at(-1 - way)).map((number) => (number === undefined ? null : {
        text: number, hue: HUES[Math.floor(number / count) % HUES.length], faint: set !== asked.set, same: [`line-${number}`],
        title: `Set ${set}: line ${number}, bytes ${number * line} to ${(number + 1) * line - 1}`,
      }))),
      used, bits,
    };
  }

  function cache({ cells, kept, used, said, bits }, room) {
    return picture({ cells, said, across: "the bits of the address, the highest first: blue the tag, green the set, orange the byte of the line", heads: Array.from({ length: bits }, (_, k) => ((bits - 1 - k) % 4 ? "" : bits - 1 - k)), names: [""], wide: 40, width: 24, least: 13 }, room) +
      picture({ cells: kept, said: "the sets that were used", down: "set", across: "the lines that are kept at the end, the one used last on the left", names: used, bare: true, wide: 40, width: 52, least: 34 }, room);
  }

  /* -- a roof: measure.place and measure.roofline ------------------------------------------- */

  function roof({ m, n, k, bytes, bandwidth, rate }) {
    const flop = 2 * m * n * k, moved = bytes * (m * k + k * n + m * n);
    const intensity = flop / moved, corner = rate / (bandwidth / 1000);
    const memory = intensity < corner, most = Math.min(rate, (intensity * bandwidth) / 1000);
    return {
      said: `${flop.toLocaleString("en")} operations for ${moved.toLocaleString("en")} bytes, each moved once: ${intensity.toPrecision(4)} operations a byte. ` +
        `At most ${most.toPrecision(4)} TFLOP/s, limited by ${memory ? "memory" : "the arithmetic"}; the roof bends at ${corner.toPrecision(4)}. It takes at least ${((flop / most) * 1e-6).toPrecision(4)} µs.`,
      intensity, most, corner, limit: memory ? "memory" : "arithmetic", bandwidth: bandwidth / 1000, rate, cells: [],
    };
  }

  function roofline({ intensity, most, corner, bandwidth, rate, said }, room) {
    const width = Math.min(room, 620), height = 250, left = 58, bottom = height - 40, top = 24;
    const [low, high] = [Math.min(0.1, intensity / 2), Math.max(10 * corner, 2 * intensity)];
    const x = (value) => left + ((Math.log10(value) - Math.log10(low)) / (Math.log10(high) - Math.log10(low))) * (width - left - 16);
    const floor = bandwidth * low, ceiling = 2 * rate;
    const y = (value) => bottom - ((Math.log10(value) - Math.log10(floor)) / (Math.log10(ceiling) - Math.log10(floor))) * (bottom - top);
    const tens = (from, to) => Array.from({ length: Math.floor(Math.log10(to)) - Math.ceil(Math.log10(from)) + 1 }, (_, k) => 10 ** (Math.ceil(Math.log10(from)) + k));
    const out = [
      ...tens(low, high).map((value) => `<path d="M${x(value)} ${top}V${bottom}" class="pb-x-line"/><text x="${x(value)}" y="${bottom + 16}" text-anchor="middle" class="pb-x-axis">${Number(value.toPrecision(3))}</text>`),
      ...tens(floor, ceiling).map((value) => `<path d="M${left} ${y(value)}H${width - 16}" class="pb-x-line"/><text x="${left - 8}" y="${y(value) + 4}" text-anchor="end" class="pb-x-axis">${Number(value.toPrecision(3))}</text>`),
      `<path d="M${x(low)} ${y(floor)}L${x(corner)} ${y(rate)}H${x(high)}" class="pb-x-roof"/>`,
      `<path d="M${x(intensity)} ${bottom}V${y(most)}" class="pb-x-drop"/><circle cx="${x(intensity)}" cy="${y(most)}" r="6" class="pb-x-point"/>`,
      `<text x="${left}" y="12" class="pb-x-axis">TFLOP/s</text><text x="${width - 16}" y="${height - 6}" text-anchor="end" class="pb-x-axis">operations for each byte</text>`,
    ];
    return svg(width, height, said, out.join(""));
  }

  kind("law", {
    title: "Explorer: jobs a clock, and what limits them", work: law,
    tell: "Click a cell, or go to it with the arrow keys and press Enter: so many producers, so many slots.",
    fields: [number("produce", "clocks to produce", 4, 1, 99), number("consume", "clocks to consume", 6, 1, 99),
      number("handoff", "hand-off, both ways", 0, 0, 99), number("consumers", "consumers", 6, 1, 32),
      number("producers", "producers", 2, 1, 8), number("slots", "slots", 4, 1, 16)],
  });
  kind("occupancy", {
    title: "Explorer: how many blocks fit", work: occupancy,
    tell: "Choose a bar, by click or with the arrow keys: how many blocks this resource allows.",
    fields: [{ name: "gpu", label: "GPU", value: "sm_90", options: Object.keys(LIMITS) }, number("threads", "threads a block", 256, 1, 1024),
      number("registers", "registers a thread", 128, 1, 255), number("shared", "shared bytes a block", 16384, 0, 240000)],
  });
  kind("thread", {
    title: "Explorer: where a thread is", work: thread, draw: levels,
    tell: "Click a block, a warp or a lane; or go to it with the arrow keys and press Enter.",
    fields: [{ name: "gpu", label: "GPU", value: "sm_90", options: Object.keys(LIMITS) }, number("blocks", "blocks of the grid", 32, 1, 65535),
      { name: "cluster", label: "blocks of a cluster", options: ["1", "2", "4", "8"] }, number("threads", "threads a block", 256, 1, 1024),
      number("registers", "registers a thread", 64, 1, 255), number("shared", "shared bytes a block", 32768, 0, 240000),
      number("block", "block", 5, 0, 65534), number("warp", "warp of the block", 2, 0, 31), number("lane", "lane of the warp", 7, 0, 31)],
  });
  kind("sets", {
    title: "Explorer: where an address lies in a cache", work: sets, draw: cache,
    tell: "Click a bit of the address to turn it; or go to it with the arrow keys and press Enter.",
    fields: [number("address", "address, a byte", 4660, 0, 1048575), number("line", "bytes of a line", 64, 1, 1024), number("sets", "sets", 64, 1, 4096),
      number("ways", "ways", 8, 1, 16), number("stride", "bytes from access to access", 4096, 0, 1048576), number("steps", "accesses", 12, 1, 4096)],
  });
  kind("roof", {
    title: "Explorer: a product under the roof", work: roof, draw: roofline, tell: "",
    fields: [number("m", "rows of A", 512, 1, 65536), number("n", "columns of B", 512, 1, 65536), number("k", "depth", 64, 1, 65536),
      { name: "bytes", label: "bytes a number", value: "4", options: ["1", "2", "4", "8"] }, number("bandwidth", "memory, GB/s", ROOF.bandwidth, 1, 100000),
      { name: "rate", label: "arithmetic, TFLOP/s", options: Object.entries(ROOF.rates).map(([name, rate]) => [String(rate), `${name}: ${rate}`]) }],
  });
})();

/* What a replay shows of a run, each part by itself: rows over time, the source, the barriers, the
   banks. Each is drawn once for a run (load), and then follows a moment (show); replay.js tells
   them when. */

(() => {
  "use strict";

  const element = window.phasebitElement;
  const SVG = "http://www.w3.org/2000/svg";
  const HUES = ["blue", "orange", "green", "pink", "cyan", "red"];
  const KEY = { run: "executes", wait: "waits", copy: "a copy under way", product: "products under way", filling: "being filled", full: "full", draining: "being read", early: "read before it is full" };

  const BENEATH = 0.08; // of the clock: a number as near to a flag as this is covered by it on a phone

  function drawn(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  /* The number of the last entry that began at or before a moment; -1 for none. */
  function last(entries, at, moment = (entry) => entry[0]) {
    let [low, high] = [0, entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (moment(entries[middle]) <= at) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  const warps = (row) => row.name.replace(/^warps? /, "");

  function chip(row, number) {
    return element("span", { className: "pb-replay-chip", style: `--hue: var(--pb-${HUES[number % HUES.length]})`, title: row.name }, warps(row));
  }

  /* What the marks of all rows take beside each other, in rem: at the kernel's first line all stand
     together. No more than leaves the code its place. */
  function room(rows) {
    const wide = rows.reduce((sum, row) => sum + 0.43 * warps(row).length + 0.28, 0.2);
    return Math.min(Math.max(wide, 3.6), 6).toFixed(2);
  }

  /* Round numbers, at most `most` steps from one to the next, up to an end. */
  function ticks(end, most) {
    const power = 10 ** Math.floor(Math.log10(end / most || 1));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => end / one <= most);
    return Array.from({ length: Math.floor(end / step) + 1 }, (_, k) => k * step);
  }

  /* A row for each group of warps, each engine and each slot; who is pressed on a row asks for its
     moment by `go`, and on a name for its line by `follow`. */
  class Rows {
    constructor(go, follow) {
      Object.assign(this, { go, follow });
      this.node = element("div", { className: "pb-replay-rows" });
      this.key = element("p", { className: "pb-replay-key", "aria-hidden": "true" }); // the rows say it in words
    }

    load(run) {
      const { end, rows, engines, slots, findings } = run;
      this.end = end;
      this.bars = [];
      this.names = rows.map((row, k) => {
        const name = element("button", { type: "button", className: "pb-replay-name", title: "keep its line in view" },
          chip(row, k), ` ${row.name}`, ...(row.role ? [element("small", {}, row.role)] : []));
        name.addEventListener("click", () => this.follow(k));
        return name;
      });
      const plain = (name) => element("span", { className: "pb-replay-name" }, name);
      this.node.replaceChildren(
        this.axis(findings),
        ...rows.map((row, k) => this.bar(this.spansOf(row), this.names[k], findings)),
        ...engines.map(({ name, spans }) => this.bar(
          spans.map(([from, to]) => [from, to, name === "tensor core" ? "product" : "copy"]), plain(name), findings)),
        ...slots.map(({ name, history }) => this.bar(
          history.map(([from, what, job], k) => [from, history[k + 1]?.[0] ?? end, what, job]).filter(([, , what]) => what !== "empty"),
          plain(name), findings)));
      this.key.replaceChildren(...Object.entries(KEY).filter(([kind]) => this.node.querySelector(`.pb-replay-${kind}`)).map(([kind, text]) => {
        const swatch = drawn("svg", { viewBox: "0 0 20 10" });
        swatch.append(this.rect(0, 20, kind));
        return element("span", {}, swatch, ` ${text}`);
      }));
    }

    /* Nothing where a warp neither executes nor waits: the emulator runs others. */
    spansOf(row) {
      return [
        ...row.ran.map(([from, to]) => [from, to, "run"]),
        ...row.waits.map(([from, to]) => [from, to < 0 ? this.end : to, "wait"]),
      ];
    }

    rect(x, width, kind) {
      const [y, height] = kind === "wait" ? [4, 2] : [1, 8];
      return drawn("rect", { x, y, width, height, class: `pb-replay-${kind}` });
    }

    share(moment) {
      return `${this.end ? (100 * moment) / this.end : 0}%`;
    }

    /* The numbers of the clock, and a flag where something is found; no number beneath a flag. */
    axis(findings) {
      const flags = [...new Set(findings.map(({ at }) => at))];
      const numbers = (this.end ? ticks(this.end, 6) : []).filter((at) => !at || flags.every((flag) => Math.abs(flag - at) > BENEATH * this.end));
      const line = element("div", { className: "pb-replay-axis", "aria-hidden": "true" },
        ...numbers.map((at) => element("span", { style: `left:${this.share(at)}` }, at.toLocaleString("en"))),
        ...flags.map((at) => element("b", { style: `left:${this.share(at)}` }, "✗")));
      line.addEventListener("click", (event) => event.target.tagName === "B" && this.go(findings[0].at));
      return element("div", { className: "pb-replay-row pb-replay-clock" }, element("span", { className: "pb-replay-name" }, "instruction"), line, element("span"));
    }

    bar(spans, name, findings) {
      const { end } = this;
      const svg = drawn("svg", { viewBox: `0 0 ${end || 1} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
      const least = end / 300;
      for (const [from, to, kind] of spans) svg.append(this.rect(from, Math.max(to - from, least), kind));
      for (const { at } of findings)
        svg.append(drawn("line", { x1: Math.min(at, end * 0.997), x2: Math.min(at, end * 0.997), y1: 0, y2: 10, class: "pb-replay-mark" }));
      const cursor = drawn("line", { y1: 0, y2: 10, class: "pb-timeline-cursor" });
      svg.append(cursor);
      const jobs = spans.filter(([, , what, job]) => job !== undefined && what !== "full").map(([from, to, , job]) =>
        element("i", { style: `left:${this.share(from)};width:${this.share(to - from)}` }, element("span", {}, String(job))));
      const place = element("div", { className: "pb-replay-bar" }, svg, ...jobs);
      const drag = (event) => {
        if (event.type === "pointermove" && !event.buttons) return;
        const box = place.getBoundingClientRect();
        this.go(Math.round(Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * end));
      };
      place.addEventListener("pointerdown", drag);
      place.addEventListener("click", drag); // else a browser gives what a finger touches to the button above
      place.addEventListener("pointermove", drag);
      const state = element("span", { className: "pb-replay-doing" });
      this.bars.push({ cursor, state });
      return element("div", { className: "pb-replay-row" }, name, place, state);
    }

    /* `states`: what each row does, in words. */
    show(at, states, followed) {
      this.bars.forEach(({ cursor, state }, k) => {
        cursor.setAttribute("x1", at);
        cursor.setAttribute("x2", at);
        if (state.textContent !== states[k]) state.textContent = states[k];
      });
      this.names.forEach((name, k) => name.setAttribute("aria-pressed", String(k === followed)));
    }
  }

  /* A line of HTML that may go on below after a bracket, a comma, a colon or a dot. */
  function breakable(html) {
    return html.replace(/(<[^>]*>)|([(,:.[])(?=\w)/g, (_, tag, sign) => tag ?? `${sign}<wbr>`);
  }

  /* The source; marks in front of a line say who executes it. */
  class Code {
    constructor() {
      this.pre = element("pre", { tabIndex: 0, "aria-label": "the kernel; marks in front of a line say who executes it" });
      this.node = element("div", { className: "highlight pb-replay-code" }, this.pre);
    }

    load(source, rows) {
      this.rows = rows;
      this.pre.style.setProperty("--pb-marks", `${room(rows)}rem`);
      this.lines = source.map((html, k) => {
        const marks = element("span", { className: "pb-replay-marks" });
        const text = element("span", { className: "pb-line" });
        const indent = /^ */.exec(html)[0];
        text.innerHTML = `<span class="pb-indent">${indent}</span>${breakable(html.slice(indent.length)) || " "}`;
        text.style.setProperty("--in", indent.length);
        const node = element("span", { className: "pb-replay-line" }, marks, element("span", { className: "pb-replay-number", "aria-hidden": "true" }, String(k + 1)), text);
        return { node, marks, seen: "" };
      });
      this.pre.replaceChildren(...this.lines.map((line) => line.node));
    }

    /* `marks`: line -> rows that are there; `wrong`: lines of what was found. */
    show(marks, wrong, followed) {
      this.lines.forEach((line, k) => {
        const here = marks.get(k + 1) ?? [];
        const seen = `${here}${wrong.has(k + 1) ? "!" : ""}`;
        if (seen === line.seen) return;
        line.seen = seen;
        line.marks.replaceChildren(...here.map((row) => chip(this.rows[row], row)));
        line.node.classList.toggle("pb-step-here", here.length > 0);
        line.node.classList.toggle("pb-replay-wrong", wrong.has(k + 1));
      });
      this.scroll([...marks].find(([, here]) => here.includes(followed))?.[0]);
    }

    /* The line of whom the reader follows stays in view. */
    scroll(line) {
      if (!line) return;
      const place = this.lines[line - 1].node.getBoundingClientRect();
      const frame = this.pre.getBoundingClientRect();
      if (place.top < frame.top || place.bottom > frame.bottom)
        this.pre.scrollTop += place.top - frame.top - frame.height / 3;
    }
  }

  /* The barriers: a table for each name, with a line for each number in brackets. */
  class Barriers {
    constructor() {
      this.node = element("div", { className: "pb-replay-barriers" });
    }

    load(barriers, called, end) {
      Object.assign(this, { barriers, end });
      const groups = new Map();
      called.forEach((name, number) => {
        const base = name.replace(/\[\d+\]$/, "");
        groups.set(base, [...(groups.get(base) ?? []), number]);
      });
      this.lines = [];
      this.node.replaceChildren(...[...groups].map(([base, numbers]) => {
        const counts = numbers.some((number) => barriers[number].some((state) => state[4]));
        const head = [base, "phase", "missing", ...(counts ? ["bytes"] : [])].map((text) => element("th", { scope: "col" }, text));
        const body = numbers.map((number) => {
          const cells = head.slice(1).map(() => element("td"));
          const line = element("tr", {}, element("th", { scope: "row", "aria-label": called[number] }, called[number].slice(base.length) || "–"), ...cells);
          this.lines.push({ number, line, cells });
          return line;
        });
        return element("table", { "aria-label": `barriers ${base}` }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
      }));
    }

    show(at) {
      for (const { number, line, cells } of this.lines) {
        const states = this.barriers[number];
        const now = states[last(states, at)];
        const texts = now ? [`${now[1]}, bit ${now[1] % 2}`, `${now[2]} of ${now[3]}`, now[4].toLocaleString("en")] : ["–", "–", "–"];
        cells.forEach((cell, k) => {
          if (cell.textContent !== texts[k]) cell.textContent = texts[k];
        });
        line.className = now && at - now[0] < this.end / 60 ? "pb-replay-new" : "";
      }
    }
  }

  /* What the first warp of the row that the reader follows has asked of the banks last. */
  class Banks {
    constructor() {
      this.words = element("p");
      this.cells = Array.from({ length: 32 }, () => element("span"));
      this.node = element("div", { className: "pb-replay-banks" }, this.words,
        element("div", { className: "pb-replay-cells", "aria-hidden": "true" }, ...this.cells));
    }

    /* `touches`: of each row moments and patterns, `patterns`: what a pattern asks. */
    load(rows, touches, patterns) {
      Object.assign(this, { rows, touches, patterns });
      this.node.hidden = touches.every((one) => !one.length);
    }

    show(at, followed) {
      const row = this.rows[followed];
      if (!row || this.node.hidden) return;
      const touches = this.touches[followed];
      const who = `warp ${warps(row).split(/\D/)[0]}`;
      const [, pattern] = touches[last(touches, at)] ?? [];
      const [load, size, wavefronts, lost, words] = this.patterns[pattern] ?? [1, 0, 0, 0, "0".repeat(32)];
      const nothing = touches.length ? `${who} has loaded and stored nothing yet` : `${who} loads and stores nothing there`;
      const cost = `${wavefronts} wavefront${wavefronts > 1 ? "s" : ""}, ${lost ? `${lost} of them lost to conflicts` : "no conflict"}`;
      this.words.textContent = `The 32 banks of shared memory: ${pattern === undefined ? nothing : `${who} last ${load ? "loaded" : "stored"} ${size} byte${size > 1 ? "s" : ""} a lane, ${cost}`}.`;
      this.node.classList.toggle("pb-replay-conflicts", lost > 0);
      this.cells.forEach((cell, bank) => {
        const count = parseInt(words[bank], 36);
        cell.textContent = count || "";
        cell.className = count ? "pb-replay-asked" : "";
      });
    }
  }

  window.phasebitReplayViews = { Rows, Code, Barriers, Banks, element, last };
})();

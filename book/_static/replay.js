/* Replays. A box in a page,

     <div class="phasebit-replay" data-kernel="chain">words</div>

   gets a button. When the reader presses it the trace of a run is loaded (a script of its own,
   recorded on the emulator when the book was built: book/_ext/phasebit_book/replays.py) and shown:
   the source with the line of each warp, rows for warps, copies and products, slots, barriers,
   and the banks that a warp has asked last. Of several kernels the reader chooses one. */

(() => {
  "use strict";

  const STATIC = new URL(".", document.currentScript.src);
  const SECONDS = 24; // how long a whole run plays
  const PAUSE = 550; // ms between two events where motion is not wanted
  const SVG = "http://www.w3.org/2000/svg";
  const HUES = ["blue", "orange", "green", "pink", "cyan", "red"];
  const WORDS = { filling: "is being filled", full: "is full", draining: "is being read", empty: "is empty", early: "is read before it is full" };

  const KEY = { run: "executes", wait: "waits", copy: "a copy under way", product: "products under way", filling: "being filled", full: "full", draining: "being read", early: "read before it is full" };

  function element(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties))
      if (name in node) node[name] = value;
      else node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

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

  /* Of a row: from when on which line. */
  function lines(row, blocks) {
    const found = [];
    const steps = pairs(row.steps);
    steps.forEach(([at, block], k) => {
      const until = steps[k + 1]?.[0] ?? Infinity;
      let moment = at;
      for (let n = 0; n < blocks[block].length && moment < until; n += 2) {
        const line = blocks[block][n];
        if (line && line !== found.at(-1)?.[1]) found.push([moment, line]);
        moment += blocks[block][n + 1];
      }
    });
    return found;
  }

  /* Moments, each given as the distance from the one before, and numbers in turn: as pairs. */
  function pairs(flat) {
    const found = [];
    for (let k = 0, at = 0; k < flat.length; k += 2) found.push([(at += flat[k]), flat[k + 1]]);
    return found;
  }

  class Replay {
    constructor(box, data) {
      this.box = box;
      this.at = 0;
      this.timer = 0;
      const label = `replay-of-${box.dataset.kernel.split(" ")[0]}`;
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", label);
      const kernels = box.dataset.kernel.split(" ");
      this.kernel = this.choice("Kernel", kernels, JSON.parse(box.dataset.titles));
      this.kernel.select.addEventListener("change", async () => {
        const asked = this.kernel.select.value;
        try {
          const data = await trace(asked);
          if (asked === this.kernel.select.value) this.showKernel(data);
        } catch (reason) {
          this.said.textContent = `It could not be loaded (${reason.message}). Choose it again to try once more.`;
        }
      });
      this.program = this.choice("Program", [], [], () => this.load());
      this.block = this.choice("Block", [], [], () => this.load());
      this.schedule = this.choice("Schedule", [], [], () => this.load());
      this.playing = this.button("Play", () => (this.timer ? this.stop() : this.play()));
      this.back = this.button("Step back", () => this.step(-1));
      this.next = this.button("Step", () => this.step(1));
      this.jump = this.button("To the finding", () => this.go(this.run.findings[0].at));
      this.slider = element("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "moment, in cycles of the emulator" });
      this.slider.addEventListener("input", () => {
        this.stop();
        this.go(Number(this.slider.value));
      });
      this.said = element("p", { className: "pb-replay-said", role: "status" });
      this.found = element("p", { className: "pb-replay-found", role: "alert" });
      this.rows = element("div", { className: "pb-replay-rows" });
      this.key = element("p", { className: "pb-replay-key", "aria-hidden": "true" }); // the rows say it in words
      this.code = element("pre", { tabIndex: 0, "aria-label": "the kernel; marks in front of a line say who executes it" });
      this.slots = element("ul", { className: "pb-step-slots", "aria-label": "slots" });
      this.barriers = element("div", { className: "pb-replay-barriers" });
      this.title = element("p", { className: "pb-lab-title", id: label });
      this.size = element("p", { className: "pb-replay-size" });
      this.bankWords = element("p");
      this.bankCells = Array.from({ length: 32 }, () => element("span"));
      this.banks = element("div", { className: "pb-replay-banks" }, this.bankWords,
        element("div", { className: "pb-replay-cells", "aria-hidden": "true" }, ...this.bankCells));
      box.replaceChildren(
        this.title, this.size,
        element("div", { className: "pb-step-controls" }, this.kernel.node, this.program.node, this.block.node, this.schedule.node,
          this.playing, this.back, this.next, this.jump, this.slider),
        this.said, this.found, this.rows, this.key,
        element("div", { className: "pb-replay-below" },
          element("div", { className: "highlight pb-replay-code" }, this.code),
          element("div", { className: "pb-replay-state" }, this.slots, this.barriers)),
        this.banks);
      this.showKernel(data);
      this.playing.focus({ preventScroll: true });
    }

    showKernel(data) {
      const schedules = data.programs.some((one) => Object.keys(one.runs).length > 1);
      this.data = data;
      this.title.textContent = `Replay: ${data.title}`;
      this.size.textContent = `Recorded on the emulator; ${data.size}. Its clock counts instructions, so the picture shows order, not times of a GPU.${schedules ? " What is asked for ends at once (eager), when all who wait for it have come (late), or now and then (random)." : ""}`;
      this.offer(this.program, [...new Set(data.programs.map((one) => one.name))]);
      this.offer(this.block, [...new Set(data.programs.map((one) => one.block))]);
      this.at = 0;
      this.load();
    }

    button(text, does) {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", () => {
        if (made !== this.playing) this.stop();
        does();
      });
      return made;
    }

    choice(text, values, names = values, does = () => {}) {
      const select = element("select");
      const node = element("label", {}, `${text} `, select);
      select.addEventListener("change", () => {
        this.stop();
        does();
      });
      const made = { node, select };
      this.offer(made, values, names);
      return made;
    }

    offer(choice, values, names = values) {
      const before = choice.select.value;
      choice.select.replaceChildren(...values.map((value, k) => element("option", { value }, names[k])));
      if (values.includes(before)) choice.select.value = before;
      choice.node.hidden = values.length < 2;
    }

    /* -- a run ------------------------------------------------------------- */

    load() {
      const program = this.data.programs.find((one) => one.name === this.program.select.value && one.block === this.block.select.value);
      const whole = this.data.programs.find((one) => one.name === program.name); // of its first block
      const schedules = Object.keys(program.runs);
      this.offer(this.schedule, schedules);
      this.run = program.runs[this.schedule.select.value] ?? program.runs[schedules[0]];
      this.called = program.barriers;
      this.where = this.run.rows.map((row) => lines(row, whole.blocks));
      this.touches = this.run.rows.map((row) => pairs(row.touches));
      this.banks.hidden = this.touches.every((one) => !one.length);
      this.follow = this.where.reduce((most, one, k) => (one.length > this.where[most].length ? k : most), 0);
      this.slider.max = this.run.end;
      this.jump.hidden = !this.run.findings.length;
      this.events = this.happens();
      this.drawCode(whole.source);
      this.drawRows();
      this.go(Math.min(this.at, this.run.end));
    }

    barrier(number) {
      if (number >= 0) return this.called[number];
      if (number === -100) return "the cluster's barrier";
      return number < -1 ? `barrier ${-1 - number}` : "__syncthreads()";
    }

    /* All moments at which something happens: [moment, sentences]. */
    happens() {
      const at = new Map();
      const say = (moment, text) => at.set(moment, [...(at.get(moment) ?? []), text]);
      for (const finding of this.run.findings) say(finding.at, "something is found");
      for (const row of this.run.rows) {
        for (const [from, to, barrier] of row.waits) {
          say(from, `${row.name} ${this.many(row) ? "wait" : "waits"} for ${this.barrier(barrier)}`);
          if (to >= 0) say(to, `${row.name} ${this.many(row) ? "go" : "goes"} on`);
        }
        if (row.left >= 0) say(row.left, `${row.name} ${this.many(row) ? "have" : "has"} left the kernel`);
      }
      for (const engine of this.run.engines)
        for (const [from, to, what] of engine.spans) {
          say(from, `${engine.name}: ${what}${to > from ? " begin" : ", done at once"}`);
          if (to > from) say(to, `${engine.name}: ${what} are done`);
        }
      this.run.barriers.forEach((states, number) => states.forEach(([moment, phase, pending, expected, bytes], k) => {
        const before = states[k - 1];
        const name = this.called[number];
        if (!before) say(moment, `${name}: made for ${expected} arrivals`);
        else if (phase !== before[1]) say(moment, `${name}: phase ${before[1]} is complete`);
        else say(moment, `${name}: ${pending} of ${expected} arrivals are missing${bytes ? `, and ${bytes.toLocaleString("en")} bytes` : ""}`);
      }));
      for (const slot of this.run.slots)
        for (const [moment, what, job] of slot.history) say(moment, `${slot.name} ${WORDS[what]}${what === "filling" ? ` with ${job}` : ""}`);
      return [...at].sort((a, b) => a[0] - b[0]);
    }

    many(row) {
      return row.name.startsWith("warps");
    }

    /* -- moving ------------------------------------------------------------ */

    stop() {
      clearTimeout(this.timer);
      this.timer = 0;
      this.playing.textContent = "Play";
      this.said.setAttribute("aria-live", "polite");
    }

    play() {
      if (this.at >= this.run.end) this.go(0);
      this.said.setAttribute("aria-live", "off"); // it would be read without an end
      this.playing.textContent = "Pause";
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const start = performance.now() - (this.at / this.run.end) * SECONDS * 1000;
      const stops = this.run.findings.map((one) => one.at).filter((moment) => moment > this.at);
      const tick = () => {
        const next = calm ? this.following(1) : ((performance.now() - start) / SECONDS / 1000) * this.run.end;
        const until = Math.min(this.run.end, ...stops);
        this.go(Math.min(Math.floor(next), until));
        if (this.at >= until) return this.stop(); // at the end, and where something is found
        this.timer = setTimeout(tick, calm ? PAUSE : 40);
      };
      this.timer = setTimeout(tick, 0);
    }

    /* The moment of the next event, or of the one before. */
    following(direction) {
      const number = last(this.events, direction > 0 ? this.at : this.at - 1) + (direction > 0);
      if (number < 0) return 0;
      return this.events[number]?.[0] ?? this.run.end;
    }

    step(direction) {
      this.go(this.following(direction));
    }

    go(moment) {
      this.at = moment;
      this.show();
    }

    /* -- what is drawn once ------------------------------------------------ */

    drawCode(source) {
      this.lines = source.map((html, k) => {
        const marks = element("span", { className: "pb-replay-marks" });
        const text = element("span", { className: "pb-replay-text" });
        text.innerHTML = html || " ";
        const node = element("span", { className: "pb-replay-line" }, marks, element("span", { className: "pb-replay-number", "aria-hidden": "true" }, String(k + 1)), text);
        return { node, marks, seen: "" };
      });
      this.code.replaceChildren(...this.lines.map((line) => line.node));
    }

    drawRows() {
      const { end, rows, engines, slots } = this.run;
      const bars = [];
      const bar = (name, spans, mark) => {
        const svg = drawn("svg", { viewBox: `0 0 ${end} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
        const least = end / 300;
        for (const [from, to, kind] of spans)
          svg.append(drawn("rect", { x: from, y: kind === "wait" ? 4 : 1, width: Math.max(to - from, least), height: kind === "wait" ? 2 : 8, class: `pb-replay-${kind}` }));
        for (const finding of this.run.findings)
          svg.append(drawn("line", { x1: finding.at, x2: finding.at, y1: 0, y2: 10, class: "pb-replay-mark" }));
        const cursor = drawn("line", { y1: 0, y2: 10, class: "pb-timeline-cursor" });
        svg.append(cursor);
        const drag = (event) => {
          if (event.type === "pointermove" && !event.buttons) return;
          const place = svg.getBoundingClientRect();
          this.stop();
          this.go(Math.round(Math.max(0, Math.min(1, (event.clientX - place.left) / place.width)) * end));
        };
        svg.addEventListener("pointerdown", drag);
        svg.addEventListener("click", drag); // else a browser gives what a finger touches to the button above
        svg.addEventListener("pointermove", drag);
        const state = element("span", { className: "pb-replay-doing" });
        bars.push({ cursor, state });
        return element("div", { className: "pb-replay-row" }, mark, svg, state);
      };
      this.names = rows.map((row, k) => {
        const chip = element("span", { className: "pb-replay-chip", style: `--hue: var(--pb-${HUES[k % HUES.length]})` }, this.chip(row));
        const name = element("button", { type: "button", className: "pb-replay-name", title: "keep its line in view" }, chip, ` ${row.name}`, ...(row.role ? [element("small", {}, row.role)] : []));
        name.addEventListener("click", () => {
          this.follow = k;
          this.show();
        });
        return name;
      });
      this.rows.replaceChildren(
        ...rows.map((row, k) => {
          const spans = [];
          let at = 0;
          for (const [from, to] of row.waits) {
            const until = to < 0 ? end : to;
            spans.push([at, from, "run"], [from, until, "wait"]);
            at = until;
          }
          spans.push([at, row.left < 0 ? end : row.left, "run"]);
          return bar(row.name, spans.filter(([from, to]) => to > from), this.names[k]);
        }),
        ...engines.map((engine) => bar(engine.name, engine.spans.map(([from, to]) => [from, to, engine.name === "tensor core" ? "product" : "copy"]), element("span", { className: "pb-replay-name" }, engine.name))),
        ...slots.map((slot) => bar(slot.name, slot.history.map(([from, what], k) => [from, slot.history[k + 1]?.[0] ?? end, what]).filter(([, , what]) => what !== "empty"), element("span", { className: "pb-replay-name" }, slot.name))));
      this.bars = bars;
      this.key.replaceChildren(...Object.entries(KEY).filter(([kind]) => this.rows.querySelector(`.pb-replay-${kind}`)).map(([kind, text]) => {
        const swatch = drawn("svg", { viewBox: "0 0 20 10" });
        swatch.append(drawn("rect", { x: 0, y: kind === "wait" ? 4 : 1, width: 20, height: kind === "wait" ? 2 : 8, class: `pb-replay-${kind}` }));
        return element("span", {}, swatch, ` ${text}`);
      }));
    }

    chip(row, short = false) {
      const warps = row.name.replace(/^warps? /, "");
      return short ? warps.split(/\D/)[0] : warps;
    }

    /* -- what changes with the moment -------------------------------------- */

    show() {
      const { rows, engines, slots, findings, end } = this.run;
      const { at } = this;
      this.slider.value = at;
      this.slider.setAttribute("aria-valuetext", `cycle ${at} of ${end}`);
      const marks = new Map();
      const states = rows.map((row, k) => {
        if (row.left >= 0 && at >= row.left) return "has left";
        const line = this.where[k][last(this.where[k], at)]?.[1];
        if (line) marks.set(line, [...(marks.get(line) ?? []), k]);
        const wait = row.waits.find(([from, to]) => from <= at && (to < 0 || at < to));
        if (wait) return `waits for ${this.barrier(wait[2])}`;
        return line ? `line ${line}` : "";
      });
      for (const engine of engines) {
        const now = engine.spans.filter(([from, to]) => from <= at && (at < to || (at === from && to === from)));
        states.push(now.length > 1 ? `${now.length} under way` : now[0]?.[2] ?? "idle");
      }
      const jobs = slots.map((slot) => slot.history[last(slot.history, at)] ?? [0, "empty", 0]);
      states.push(...jobs.map(([, what, job]) => (what === "empty" ? "empty" : `${WORDS[what].replace("is ", "")}: ${job}`)));
      this.bars.forEach(({ cursor, state }, k) => {
        cursor.setAttribute("x1", at);
        cursor.setAttribute("x2", at);
        state.textContent = states[k];
      });
      this.names.forEach((name, k) => name.setAttribute("aria-pressed", String(k === this.follow)));

      const past = findings.filter((one) => one.at <= at);
      const wrong = new Set(past.flatMap((one) => one.lines));
      this.lines.forEach((line, k) => {
        const here = marks.get(k + 1) ?? [];
        const seen = `${here}${wrong.has(k + 1) ? "!" : ""}`;
        if (seen === line.seen) return;
        line.seen = seen;
        line.marks.replaceChildren(...here.map((row) => element("span", { className: "pb-replay-chip", style: `--hue: var(--pb-${HUES[row % HUES.length]})`, title: rows[row].name }, this.chip(rows[row], here.length > 1))));
        line.node.classList.toggle("pb-step-here", here.length > 0);
        line.node.classList.toggle("pb-replay-wrong", wrong.has(k + 1));
      });
      this.scroll([...marks].find(([, here]) => here.includes(this.follow))?.[0]);

      this.slots.hidden = !slots.length;
      this.barriers.hidden = !this.run.barriers.length;
      this.slots.replaceChildren(...slots.map((slot, k) => {
        const [, what, job] = jobs[k];
        const kind = { filling: "filling", full: "full", draining: "reading", early: "early", empty: "read" }[what];
        return element("li", { className: `pb-slot pb-slot-${kind}` }, element("b", {}, slot.name),
          element("span", {}, what === "empty" ? "empty" : `${job}: ${WORDS[what].replace("is ", "")}`));
      }));
      this.drawBarriers();
      this.drawBanks();

      const [moment, happened] = this.events[last(this.events, at)] ?? [0, ["The kernel begins"]];
      const shown = happened.slice(0, 4).join("; ") + (happened.length > 4 ? `; and ${happened.length - 4} more` : "");
      this.said.textContent = `Cycle ${at} of ${end}. ${moment < at ? `Last, at ${moment}` : "Now"}: ${shown}.`.replace("..", ".");
      const words = past.map((one) => `Found at cycle ${one.at}. ${one.text}`).join(" ");
      if (this.found.textContent !== words) this.found.textContent = words;
      this.back.disabled = at <= 0;
      this.next.disabled = at >= end;
    }

    /* The line of whom the reader follows stays in view. */
    scroll(line) {
      if (!line) return;
      const place = this.lines[line - 1].node.getBoundingClientRect();
      const frame = this.code.getBoundingClientRect();
      if (place.top < frame.top || place.bottom > frame.bottom)
        this.code.scrollTop += place.top - frame.top - frame.height / 3;
    }

    /* What the first warp of the row that the reader follows has asked of the banks last. */
    drawBanks() {
      const row = this.run.rows[this.follow];
      if (!row || this.banks.hidden) return;
      const touches = this.touches[this.follow];
      const who = `warp ${this.chip(row, true)}`;
      const [, pattern] = touches[last(touches, this.at)] ?? [];
      const [load, size, wavefronts, lost, words] = this.data.banks[pattern] ?? [1, 0, 0, 0, "0".repeat(32)];
      const nothing = touches.length ? `${who} has loaded and stored nothing yet` : `${who} loads and stores nothing there`;
      const cost = `${wavefronts} wavefront${wavefronts > 1 ? "s" : ""}, ${lost ? `${lost} of them lost to conflicts` : "no conflict"}`;
      this.bankWords.textContent = `The 32 banks of shared memory: ${pattern === undefined ? nothing : `${who} last ${load ? "loaded" : "stored"} ${size} byte${size > 1 ? "s" : ""} a lane, ${cost}`}.`;
      this.banks.classList.toggle("pb-replay-conflicts", lost > 0);
      this.bankCells.forEach((cell, bank) => {
        const count = parseInt(words[bank], 36);
        cell.textContent = count || "";
        cell.className = count ? "pb-replay-asked" : "";
      });
    }

    drawBarriers() {
      const head = ["barrier", "phase", "missing", "bytes"].map((text) => element("th", { scope: "col" }, text));
      const body = this.run.barriers.map((states, number) => {
        const now = states[last(states, this.at)];
        const cells = now ? [`${now[1]}, parity ${now[1] % 2}`, `${now[2]} of ${now[3]}`, now[4].toLocaleString("en")] : ["–", "–", "–"];
        const changed = now && this.at - now[0] < this.run.end / 60 ? "pb-replay-new" : "";
        return element("tr", { className: changed }, element("th", { scope: "row" }, this.called[number]),
          ...cells.map((text) => element("td", {}, text)));
      });
      this.barriers.replaceChildren(element("table", { "aria-label": "barriers" },
        element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
    }
  }

  /* -- loading --------------------------------------------------------------- */

  const waiting = new Map(); // kernel -> who waits for its trace
  window.phasebitReplay = (name, data) => waiting.get(name)?.forEach((answer) => answer(data));

  const traces = new Map();
  function trace(name) {
    if (!traces.has(name))
      traces.set(name, new Promise((loaded, failed) => {
        waiting.set(name, [loaded]);
        const script = element("script", { src: new URL(`replays/${name}.js`, STATIC).href });
        script.addEventListener("error", () => {
          traces.delete(name);
          failed(new Error("the trace did not come"));
        });
        document.head.append(script);
      }));
    return traces.get(name);
  }

  document.querySelectorAll(".phasebit-replay[data-ready]").forEach((box) => {
    const status = element("p", { role: "status" });
    const start = element("button", { type: "button", className: "pb-replay-start" }, "Replay");
    start.addEventListener("click", async () => {
      start.disabled = true;
      status.textContent = "Loading the run …";
      try {
        new Replay(box, await trace(box.dataset.kernel.split(" ")[0]));
      } catch (reason) {
        start.disabled = false;
        status.textContent = `It could not be loaded (${reason.message}). Press again to try once more.`;
      }
    });
    box.prepend(start, status);
  });
})();

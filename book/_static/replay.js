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
  const WORDS = { filling: "is being filled", full: "is full", draining: "is being read", empty: "is empty", early: "is read before it is full" };
  const ENDS = { late: "late: what is asked for ends when all wait for it", eager: "eager: it ends at once", random: "random: it ends now and then" };
  const { Rows, Code, Barriers, Banks, element, last } = window.phasebitReplayViews;

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
      this.slider = element("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "moment, in instructions of the emulator" });
      this.slider.addEventListener("input", () => {
        this.stop();
        this.go(Number(this.slider.value));
      });
      this.said = element("p", { className: "pb-replay-said", role: "status" });
      this.found = element("p", { className: "pb-replay-found", role: "alert" });
      this.rows = new Rows((moment) => { this.stop(); this.go(moment); }, (row) => { this.follow = row; this.show(); });
      this.code = new Code();
      this.barriers = new Barriers();
      this.banks = new Banks();
      this.title = element("p", { className: "pb-lab-title", id: label });
      this.size = element("p", { className: "pb-replay-size" });
      box.replaceChildren(
        this.title, this.size,
        element("div", { className: "pb-step-controls" }, this.kernel.node, this.program.node, this.block.node, this.schedule.node),
        element("div", { className: "pb-replay-moving" },
          element("div", { className: "pb-step-controls" }, this.playing, this.back, this.next, this.jump, this.slider), this.said),
        this.found,
        element("div", { className: "pb-replay-parts" },
          element("div", { className: "pb-replay-over" }, this.rows.node, this.rows.key), this.code.node, this.barriers.node),
        this.banks.node);
      this.showKernel(data);
      this.playing.focus({ preventScroll: true });
    }

    showKernel(data) {
      this.data = data;
      this.title.textContent = `Replay: ${data.title}`;
      this.size.textContent = `On the emulator: ${data.size}. Its clock counts instructions: it shows order, not times of a GPU. Where the row of a warp is blank, the emulator runs other threads first.`;
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
      this.offer(this.schedule, schedules, schedules.map((one) => ENDS[one]));
      this.run = program.runs[this.schedule.select.value] ?? program.runs[schedules[0]];
      this.called = program.barriers;
      this.where = this.run.rows.map((row) => lines(row, whole.blocks));
      this.follow = this.where.reduce((most, one, k) => (one.length > this.where[most].length ? k : most), 0);
      this.slider.max = this.run.end;
      this.jump.hidden = !this.run.findings.length;
      this.events = this.happens();
      this.code.load(whole.source, this.run.rows);
      this.rows.load(this.run);
      this.barriers.load(this.run.barriers, this.called, this.run.end);
      this.banks.load(this.run.rows, this.run.rows.map((row) => pairs(row.touches)), this.data.banks);
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

    /* -- what changes with the moment -------------------------------------- */

    show() {
      const { rows, engines, slots, findings, end } = this.run;
      const { at } = this;
      this.slider.value = at;
      this.slider.setAttribute("aria-valuetext", `instruction ${at} of ${end}`);
      const marks = new Map();
      const states = rows.map((row, k) => {
        if (row.left >= 0 && at >= row.left) return "has left";
        const line = this.where[k][last(this.where[k], at)]?.[1];
        if (line) marks.set(line, [...(marks.get(line) ?? []), k]);
        const wait = row.waits.find(([from, to]) => from <= at && (to < 0 || at < to));
        if (wait) return `waits for ${this.barrier(wait[2])}`;
        if (at < end && !row.ran.some(([from, to]) => from <= at && at < to)) return "not scheduled";
        return line ? `line ${line}` : "";
      });
      for (const engine of engines) {
        const now = engine.spans.filter(([from, to]) => from <= at && (at < to || (at === from && to === from)));
        states.push(now.length > 1 ? `${now.length} under way` : now[0]?.[2] ?? "idle");
      }
      const jobs = slots.map((slot) => slot.history[last(slot.history, at)] ?? [0, "empty", 0]);
      states.push(...jobs.map(([, what, job]) => (what === "empty" ? "empty" : `${WORDS[what].replace("is ", "")}: ${job}`)));
      const past = findings.filter((one) => one.at <= at);
      this.rows.show(at, states, this.follow);
      this.code.show(marks, new Set(past.flatMap((one) => one.lines)), this.follow);
      this.barriers.show(at);
      this.banks.show(at, this.follow);

      const [moment, happened] = this.events[last(this.events, at)] ?? [0, ["The kernel begins"]];
      const shown = happened.slice(0, 4).join("; ") + (happened.length > 4 ? `; and ${happened.length - 4} more` : "");
      this.said.textContent = `Instruction ${at} of ${end}. ${moment < at ? `Last, at ${moment}` : "Now"}: ${shown}.`.replace("..", ".");
      const words = past.map((one) => `Found at instruction ${one.at}. ${one.text}`).join(" ");
      if (this.found.textContent !== words) this.found.textContent = words;
      this.back.disabled = at <= 0;
      this.next.disabled = at >= end;
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

/* The ring at a glance: threads, their slots, and the bits that order them. A box,

     <div class="phasebit-ring" data-ring="right: two slots">fallback</div>

   becomes a picture in which the reader moves the threads, and the copy engine where there is one.
   What can happen was worked out when the book was built (phasebit/pipeline/walk.py), as for the
   stepper; here it is shown in fewer words. data-end is a sentence for the end of the run;
   data-barriers="no" leaves the barriers out, for a page that does not know them yet. */

(() => {
  "use strict";

  const element = window.phasebitElement;
  const RINGS = window.phasebitRings ?? {};
  const HUES = window.phasebitHues ?? ["blue", "orange", "green", "pink", "cyan", "red"];
  const PAUSE = 700; // ms between the steps of a run that plays
  const COUNTS = ["no", "one", "two", "three", "four", "five", "six"];

  const many = (n, what) => `${COUNTS[n] ?? n} ${what}${n === 1 ? "" : "s"}`;
  const sentence = (text) => text[0].toUpperCase() + text.slice(1);

  /* A step of the walk in plain words; `may`: it can be taken now. */
  function plain(words, may) {
    const slot = /\[(\d+)\]|slot (\d+)/.exec(words)?.slice(1).find(Boolean);
    if (words.startsWith("wait empty")) return may ? `slot ${slot} is empty: go on` : `waits: slot ${slot} is not empty`;
    if (words.startsWith("wait full")) return may ? `slot ${slot} is full: go on` : `waits: slot ${slot} is not full`;
    if (words.startsWith("arrive_expect_tx")) return `arrive, and expect ${words.split(" ").at(-2)} bytes for slot ${slot}`;
    if (words.startsWith("arrive")) return `arrive: ${/full/.test(words) ? `slot ${slot} is full` : `slot ${slot} may be filled again`}`;
    if (words.startsWith("fill")) return `write item ${words.split(" ").at(-1)}`;
    if (words.startsWith("start copy")) return `start the copy of item ${/item (\d+)/.exec(words)[1]}`;
    if (words.startsWith("read")) return `read slot ${slot}`;
    if (words.includes("lands")) return words;
    return `done with slot ${slot}`;
  }

  class Glance {
    constructor(box, index) {
      this.box = box;
      this.ring = RINGS[box.dataset.ring];
      const id = `ring-${index}`;
      this.threads = this.ring.threads.map((thread, number) => this.mover(thread.name, number));
      const copies = this.ring.states.some(([, , , flight]) => flight.length);
      this.engine = copies ? this.engineOf(this.ring.slots) : null;
      const plainly = box.dataset.barriers === "no";
      this.slots = Array.from({ length: this.ring.slots }, (_, k) => {
        const what = element("span", { className: "pb-ring-what" });
        const [full, empty] = ["full", "empty"].map((name) => this.barrier(name));
        return { what, full, empty, node: element("li", {}, element("b", {}, `slot ${k}`), what, ...(plainly ? [] : [full.node, empty.node])) };
      });
      this.said = element("p", { role: "status", className: "pb-ring-said" });
      this.playing = this.button("Play", () => (this.timer ? this.stop() : this.play()));
      this.again = this.button("Start over", () => { this.stop(); this.restart(); });
      const who = `${many(this.threads.length, "thread")}${copies ? " and the copy engine" : ""}`;
      const title = element("p", { className: "pb-lab-title", id }, `${sentence(who)}, ${many(this.ring.slots, "slot")}. You say who moves.`);
      box.classList.toggle("pb-ring-copies", copies);
      const list = element("ul", { "aria-label": "slots, and their barriers" }, ...this.slots.map(({ node }) => node));
      const [producer, ...consumers] = this.threads.map(({ node }) => node);
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", id);
      box.replaceChildren(title,
        element("div", { className: "pb-ring-picture" },
          element("div", { className: "pb-ring-side" }, producer, ...(copies ? [this.engine.node] : [])), list,
          element("div", { className: "pb-ring-side" }, ...consumers)),
        this.said, element("div", { className: "pb-ring-controls" }, this.playing, this.again));
      this.restart();
    }

    mover(name, number) {
      const step = element("button", { type: "button", className: "pb-ring-move" });
      step.addEventListener("click", () => { this.stop(); this.take(number); });
      return { name, step, node: element("div", { className: "pb-ring-thread" }, element("b", {}, name), step) };
    }

    /* A button for the copy into each slot: copies land in any order. */
    engineOf(slots) {
      const steps = Array.from({ length: slots }, (_, slot) => {
        const step = element("button", { type: "button", className: "pb-ring-move" });
        step.addEventListener("click", () => { this.stop(); this.take(-1 - this.copyInto(slot)); });
        return step;
      });
      return { steps, node: element("div", { className: "pb-ring-thread pb-ring-engine" }, element("b", {}, "copy engine"), ...steps) };
    }

    /* The number of the copy under way into a slot, -1 for none. */
    copyInto(slot) {
      return this.ring.states[this.state][3].findIndex((copy) => copy.endsWith(`slot ${slot}`));
    }

    button(text, does) {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", does);
      return made;
    }

    barrier(name) {
      const numbers = this.ring.barriers.flatMap((one, number) => (one.startsWith(name) ? [number] : []));
      const counts = this.ring.states.some(([, states]) => numbers.some((number) => states[number][2] > 1 || states[number][3]));
      const value = element("span", { className: "pb-ring-bit" }, "0");
      const missing = counts ? element("small") : ""; // where there is always one, its bit says all
      return { value, missing, node: element("span", { className: "pb-ring-barrier" }, `barrier ${name}: bit `, value, missing) };
    }

    restart() {
      Object.assign(this, { state: 0, taken: 0, last: -1, broken: "" });
      this.show();
    }

    moves() {
      return new Map(this.broken ? [] : this.ring.moves[this.state]);
    }

    take(mover) {
      const target = this.moves().get(mover);
      if (target === undefined) return;
      if (typeof target === "string") this.broken = target;
      else this.state = target;
      this.taken += 1;
      this.last = this.order(mover);
      this.show();
    }

    /* The threads in turn, and then the copy engine. */
    order(mover) {
      return mover < 0 ? this.threads.length - 1 - mover : mover;
    }

    /* Everybody in turn, until the end. */
    play() {
      if (!this.moves().size) this.restart();
      const can = [...this.moves().keys()].sort((a, b) => this.order(a) - this.order(b));
      this.take(can.find((mover) => this.order(mover) > this.last) ?? can[0]);
      if (!this.moves().size) return this.stop();
      this.timer = setTimeout(() => this.play(), PAUSE);
      this.playing.textContent = "Pause";
    }

    stop() {
      clearTimeout(this.timer);
      this.timer = 0;
      this.playing.textContent = "Play";
    }

    show() {
      const [at, barriers, parts, flight] = this.ring.states[this.state];
      const may = this.moves();
      const pending = this.ring.threads.map((thread, number) => thread.steps[at[number]]?.[1] ?? "");
      this.threads.forEach(({ step, node }, number) => {
        step.textContent = pending[number] ? plain(pending[number], may.has(number)) : "has done all";
        step.disabled = !may.has(number);
        node.classList.toggle("pb-ring-waits", Boolean(pending[number]) && !may.has(number));
        node.classList.toggle("pb-ring-next", !this.taken && may.has(number));
      });
      if (this.engine) {
        this.engine.steps.forEach((step, slot) => {
          const copy = this.copyInto(slot);
          step.textContent = copy < 0 ? `slot ${slot}: –` : flight[copy].replace(/(.*) in (.*)/, "$2: $1");
          step.disabled = copy < 0 || !may.has(-1 - copy);
        });
      }
      this.slots.forEach(({ what, full, empty, node }, k) => {
        const [item, filled, unread] = parts[k * this.ring.parts];
        const kind = item < 0 ? "new" : !filled ? "written" : pending.includes(`slot ${k} read`) ? "reading" : unread ? "full" : "read";
        node.dataset.kind = kind;
        node.style.setProperty("--hue", `var(--pb-${HUES[Math.max(item, 0) % HUES.length]})`);
        what.textContent = { new: "nothing yet", written: `item ${item}, being written`, full: `item ${item}`, reading: `item ${item}, being read`, read: `item ${item}, read` }[kind];
        for (const [shown, place] of [[full, `full[${k}]`], [empty, `empty[${k}]`]])
          this.showBarrier(shown, barriers[this.ring.barriers.indexOf(place)]);
      });
      this.said.textContent = this.sentence(pending, may);
    }

    showBarrier({ value, missing }, [phase, arrivals, , bytes]) {
      const wanted = [arrivals ? `${arrivals} arrival${arrivals > 1 ? "s" : ""}` : "", bytes ? `${bytes} bytes` : ""].filter(Boolean);
      if (missing) missing.textContent = `missing: ${wanted.join(" and ")}`;
      const bit = String(phase % 2);
      if (value.textContent === bit) return;
      value.textContent = bit;
      value.classList.remove("pb-ring-flips");
      void value.offsetWidth; // so that the animation begins again
      value.classList.toggle("pb-ring-flips", this.taken > 0);
    }

    withoutBits(writes, reads, may) {
      if (!this.taken) return "Press producer until it must wait.";
      if (writes && !may.has(0)) return "The producer must wait: its next slot has not been read.";
      if (reads.every((words, k) => !words || !may.has(k + 1))) return "The consumer waits for its next slot to be full.";
      return "Both may move, in any order.";
    }

    /* What to see, or to try next. */
    sentence([writes, ...reads], may) {
      if (this.broken || this.ring.ends[this.state]) return `It fails: ${this.broken || this.ring.ends[this.state]}.`;
      if (!writes && !reads.some(Boolean) && !may.size) {
        const items = this.ring.threads[1].steps.filter(([, words]) => words.startsWith("read")).length;
        return `All ${items} items went through, each read once and in order. ${this.box.dataset.end ?? ""}`.trim();
      }
      if (this.box.dataset.barriers === "no") return this.withoutBits(writes, reads, may);
      if (!this.taken) return "Press producer until it must wait. It does not know how far the consumer is: it looks at a phase bit, of its slot's empty barrier.";
      if (writes && !may.has(0)) return "The producer must wait: its next slot has not been read. Let the consumer move until the phase bit of that slot's empty barrier flips.";
      if (this.ring.states[this.state][3].length && !reads.some((_, k) => may.has(k + 1))) return "The consumer waits for bytes that are under way: the barrier counts them, and no thread waits for the copy. Let the copy engine move.";
      if (reads.every((words, k) => !words || !may.has(k + 1))) return "The consumer waits for its next slot to be full. The producer may run ahead, by as many slots as there are.";
      return "Who may move, may do so in any order. A phase bit flips when its barrier completes a phase. A thread that waits looks at that bit only.";
    }
  }

  document.querySelectorAll(".phasebit-ring").forEach((box, index) => {
    if (box.dataset.ring in RINGS) new Glance(box, index);
  });
})();

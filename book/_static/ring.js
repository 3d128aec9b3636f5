/* The ring at a glance: two threads, their slots, and the bits that order them. A box,

     <div class="phasebit-ring" data-ring="right: two slots">fallback</div>

   becomes a picture in which the reader moves the threads. What can happen was worked out when the
   book was built (phasebit/pipeline/walk.py, in stepper_rings.js), as for the stepper; here it is
   shown in fewer words. */

(() => {
  "use strict";

  const RINGS = window.phasebitRings ?? {};
  const HUES = window.phasebitHues ?? ["blue", "orange", "green", "pink", "cyan", "red"];
  const PAUSE = 700; // ms between the steps of a run that plays

  function element(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties))
      if (name in node) node[name] = value;
      else node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  /* A step of the walk in plain words; `may`: it can be taken now. */
  function plain(words, may) {
    const slot = /\[(\d+)\]|slot (\d+)/.exec(words)?.slice(1).find(Boolean);
    if (words.startsWith("wait empty")) return may ? `slot ${slot} is empty: go on` : `waits: slot ${slot} is not empty`;
    if (words.startsWith("wait full")) return may ? `slot ${slot} is full: go on` : `waits: slot ${slot} is not full`;
    if (words.startsWith("arrive")) return `arrive: slot ${slot} is ${/full/.test(words) ? "full" : "empty"}`;
    if (words.startsWith("fill")) return `write item ${words.split(" ").at(-1)}`;
    if (words.startsWith("read")) return `read slot ${slot}`;
    return `done with slot ${slot}`;
  }

  class Glance {
    constructor(box, index) {
      this.ring = RINGS[box.dataset.ring];
      const id = `ring-${index}`;
      this.threads = this.ring.threads.map((thread, number) => {
        const step = element("button", { type: "button", className: "pb-ring-move" });
        step.addEventListener("click", () => { this.stop(); this.take(number); });
        return { name: thread.name, step, node: element("div", { className: "pb-ring-thread" }, element("b", {}, thread.name), step) };
      });
      this.slots = Array.from({ length: this.ring.slots }, (_, k) => {
        const [what, full, empty] = [element("span", { className: "pb-ring-what" }), this.bit("full"), this.bit("empty")];
        return { what, full, empty, node: element("li", {}, element("b", {}, `slot ${k}`), what, full.node, empty.node) };
      });
      this.said = element("p", { role: "status", className: "pb-ring-said" });
      this.playing = this.button("Play", () => (this.timer ? this.stop() : this.play()));
      this.again = this.button("Start over", () => { this.stop(); this.restart(); });
      const title = element("p", { className: "pb-lab-title", id }, "Two threads, two slots. You say who moves.");
      const list = element("ul", { "aria-label": "slots, and the phase bits of their barriers" }, ...this.slots.map(({ node }) => node));
      const [producer, consumer] = this.threads.map(({ node }) => node);
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", id);
      box.replaceChildren(title, element("div", { className: "pb-ring-picture" }, producer, list, consumer), this.said,
        element("div", { className: "pb-ring-controls" }, this.playing, this.again));
      this.restart();
    }

    button(text, does) {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", does);
      return made;
    }

    bit(name) {
      const value = element("span", { className: "pb-ring-bit" }, "0");
      return { value, node: element("span", { className: "pb-ring-barrier" }, `${name} `, value) };
    }

    restart() {
      this.state = 0;
      this.taken = 0;
      this.last = -1;
      this.show();
    }

    moves() {
      return new Map(this.ring.moves[this.state]);
    }

    take(mover) {
      const target = this.moves().get(mover);
      if (target === undefined) return;
      this.state = target;
      this.taken += 1;
      this.last = mover;
      this.show();
    }

    /* Everybody in turn, until the end. */
    play() {
      if (!this.moves().size) this.restart();
      const can = [...this.moves().keys()];
      this.take(can.find((mover) => mover > this.last) ?? can[0]);
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
      const [at, barriers, parts] = this.ring.states[this.state];
      const may = this.moves();
      const pending = this.ring.threads.map((thread, number) => thread.steps[at[number]]?.[1] ?? "");
      this.threads.forEach(({ step, node }, number) => {
        step.textContent = pending[number] ? plain(pending[number], may.has(number)) : "has done all";
        step.disabled = !may.has(number);
        node.classList.toggle("pb-ring-waits", Boolean(pending[number]) && !may.has(number));
        node.classList.toggle("pb-ring-next", !this.taken && may.has(number));
      });
      this.slots.forEach(({ what, full, empty, node }, k) => {
        const [item, filled, unread] = parts[k];
        const kind = item < 0 ? "empty" : !filled ? "written" : pending.includes(`slot ${k} read`) ? "reading" : unread ? "full" : "read";
        node.dataset.kind = kind;
        node.style.setProperty("--hue", `var(--pb-${HUES[Math.max(item, 0) % HUES.length]})`);
        what.textContent = { empty: "empty", written: `item ${item}, being written`, full: `item ${item}`, reading: `item ${item}, being read`, read: "read" }[kind];
        for (const [shown, place] of [[full, `full[${k}]`], [empty, `empty[${k}]`]]) {
          const bit = String(barriers[this.ring.barriers.indexOf(place)][0] % 2);
          if (shown.value.textContent === bit) continue;
          shown.value.textContent = bit;
          shown.value.classList.remove("pb-ring-flips");
          void shown.value.offsetWidth; // so that the animation begins again
          shown.value.classList.toggle("pb-ring-flips", this.taken > 0);
        }
      });
      this.said.textContent = this.sentence(pending, may);
    }

    /* What to see, or to try next. */
    sentence(pending, may) {
      const [writes, reads] = pending;
      if (!writes && !reads) return `All ${this.ring.threads[0].steps.length / 4} items went through, each read once and in order. Four phase bits saw to that. Below you can break it.`;
      if (!this.taken) return "Press producer until it must wait. It does not know how far the consumer is: it looks at a phase bit, of its slot's empty barrier.";
      if (writes && !may.has(0)) return "The producer must wait: its next slot has not been read. Let the consumer move until the phase bit of that slot's empty barrier flips.";
      if (reads && !may.has(1)) return "The consumer waits for its next slot to be full. The producer may run ahead, by as many slots as there are.";
      return "Both may move, in any order. A phase bit flips when its barrier completes a phase. A thread that waits looks at that bit only.";
    }
  }

  document.querySelectorAll(".phasebit-ring").forEach((box, index) => {
    if (box.dataset.ring in RINGS) new Glance(box, index);
  });
})();

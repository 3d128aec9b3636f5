/* The stepper. A box in a page,

     <div class="phasebit-stepper" data-ring="right: two slots">fallback</div>

   becomes a ring on which the reader is the scheduler. What can happen was worked out when the
   book was built (phasebit/pipeline/walk.py, in stepper_rings.js); here it is looked up and shown. */

(() => {
  "use strict";

  const element = window.phasebitElement;
  const RINGS = window.phasebitRings ?? {};
  const PAUSE = 550; // ms between the steps of a run that plays
  const COPY_ENGINE = "copy engine";

  const failed = (target) => typeof target === "string";

  /* The moves that lead from a state to the nearest failure, or null when there is none. */
  function shortest(ring, from) {
    const origin = new Map([[from, null]]);
    const back = (state, last) => {
      const moves = last ? [last] : [];
      for (let at = state; origin.get(at); at = origin.get(at)[0]) moves.unshift(origin.get(at)[1]);
      return moves;
    };
    let level = [from];
    while (level.length) {
      const next = [];
      let broken = null;
      for (const state of level) {
        if (ring.ends[state]) return back(state, null);
        for (const move of ring.moves[state]) {
          const target = move[1];
          if (failed(target)) {
            broken ??= () => back(state, move);
          } else if (!origin.has(target)) {
            origin.set(target, [state, move]);
            next.push(target);
          }
        }
      }
      if (broken) return broken();
      level = next;
    }
    return null;
  }

  class Stepper {
    constructor(box, index) {
      this.box = box;
      this.id = `stepper-${index}`;
      this.timer = 0;
      this.choice = element("select", { id: `${this.id}-ring` });
      for (const [label, right] of [["Right", true], ["With a mistake", false]]) {
        const group = element("optgroup", { label });
        for (const name of Object.keys(RINGS))
          if (name.startsWith("right: ") === right)
            group.append(element("option", { value: name }, name.replace("right: ", "")));
        this.choice.append(group);
      }
      this.choice.value = box.dataset.ring;
      this.threads = element("div", { className: "pb-step-threads" });
      this.shared = element("div", { className: "pb-step-shared" });
      this.said = element("p", { className: "pb-step-said", role: "status" });
      this.log = element("ol", { className: "pb-step-log", tabIndex: 0, "aria-label": "The steps so far" });
      this.back = this.button("Back", () => this.undo());
      this.again = this.button("Start over", () => this.restart());
      this.fair = this.button("Run fair", () => this.play(() => this.fairMove()));
      this.unfair = this.button("Run unfair", () => this.play(() => this.unfairMove()));
      this.hunt = this.button("Find me a failure", () => this.playShortest());
      const title = element("p", { className: "pb-lab-title", id: this.id }, "You are the scheduler");
      box.setAttribute("role", "group");
      box.setAttribute("aria-labelledby", this.id);
      box.replaceChildren(
        title,
        element("div", { className: "pb-step-controls" },
          element("label", { htmlFor: this.choice.id }, "The ring ", this.choice),
          this.back, this.again, this.fair, this.unfair, this.hunt),
        this.said, this.threads, this.shared, this.log);
      this.choice.addEventListener("change", () => this.restart());
      this.restart();
    }

    button(text, does) {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", () => {
        this.stop();
        does();
      });
      return made;
    }

    restart() {
      this.stop();
      this.ring = RINGS[this.choice.value];
      this.path = [{ state: 0, mover: null, words: "" }];
      this.broken = "";
      this.drawThreads();
      this.show();
    }

    get state() {
      return this.path.at(-1).state;
    }

    moves() {
      return this.broken ? [] : this.ring.moves[this.state];
    }

    name(mover) {
      return mover < 0 ? COPY_ENGINE : this.ring.threads[mover].name;
    }

    words(mover) {
      const [at, , , flight] = this.ring.states[this.state];
      return mover < 0 ? flight[-1 - mover] : this.ring.threads[mover].steps[at[mover]][1];
    }

    take(move) {
      const [mover, target] = move;
      const words = this.words(mover);
      if (failed(target)) {
        this.broken = target;
        this.path.push({ state: this.state, mover, words });
      } else this.path.push({ state: target, mover, words });
      this.show();
    }

    undo() {
      if (this.path.length > 1) this.path.pop();
      this.broken = "";
      this.show();
    }

    /* -- runs that play by themselves ------------------------------------ */

    stop() {
      clearTimeout(this.timer);
      this.timer = 0;
      this.box.classList.remove("pb-step-playing");
    }

    play(next) {
      const move = next();
      if (!move) return this.stop();
      this.take(move);
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.play(next);
      this.box.classList.add("pb-step-playing");
      this.timer = setTimeout(() => this.play(next), PAUSE);
    }

    /* Everybody in turn. */
    fairMove() {
      const moves = this.moves();
      const last = this.path.at(-1).mover ?? -9;
      const order = (mover) => (mover < 0 ? this.ring.threads.length - 1 - mover : mover);
      const later = moves.filter(([mover]) => order(mover) > order(last));
      return later[0] ?? moves[0];
    }

    /* The same one for as long as it can go on. */
    unfairMove() {
      const moves = this.moves();
      return moves.find(([mover]) => mover === this.path.at(-1).mover) ?? moves[0];
    }

    playShortest() {
      if (this.broken || !this.moves().length) this.restart();
      let run = shortest(this.ring, this.state);
      if (!run && this.state !== 0) {
        this.restart();
        run = shortest(this.ring, 0);
      }
      if (!run) {
        this.say(`No order of steps fails. All ${this.ring.states.length} states that this ring can reach were looked at.`, "right");
        return;
      }
      this.play(() => run.shift());
    }

    /* -- what is seen ------------------------------------------------------ */

    drawThreads() {
      const columns = this.ring.threads.map((thread, number) => {
        const lines = thread.lines.map((line) => element("code", {}, line || " "));
        const step = element("button", { type: "button", className: "pb-step-move" });
        step.addEventListener("click", () => {
          this.stop();
          const move = this.moves().find(([mover]) => mover === number);
          if (move) this.take(move);
        });
        return { lines, step, node: element("section", { "aria-label": thread.name },
          element("p", { className: "pb-lab-title" }, thread.name), step,
          element("pre", { tabIndex: 0, "aria-label": `the program of ${thread.name}` }, ...lines)) };
      });
      this.columns = columns;
      this.engine = element("section", { "aria-label": COPY_ENGINE, hidden: true }, element("p", { className: "pb-lab-title" }, COPY_ENGINE));
      this.threads.replaceChildren(...columns.map((column) => column.node), this.engine);
    }

    show() {
      const [at, barriers, parts, flight] = this.ring.states[this.state];
      const movable = new Map(this.moves());
      this.columns.forEach((column, number) => {
        const steps = this.ring.threads[number].steps;
        const step = steps[at[number]];
        column.lines.forEach((line, k) => {
          const here = step && step[0] === k;
          line.className = here ? "pb-step-here" : "";
          if (here) line.setAttribute("aria-current", "step");
          else line.removeAttribute("aria-current");
        });
        column.step.disabled = !movable.has(number);
        column.step.textContent = !step ? "done" : movable.has(number) || this.broken ? step[1] : `waits: ${step[1]}`;
        column.node.classList.toggle("pb-step-waits", Boolean(step) && !movable.has(number));
      });
      this.engine.hidden = !flight.length;
      this.engine.replaceChildren(element("p", { className: "pb-lab-title" }, COPY_ENGINE), ...flight.map((words, k) => {
        const land = element("button", { type: "button", className: "pb-step-move", disabled: !movable.has(-1 - k) }, words);
        land.addEventListener("click", () => {
          this.stop();
          const move = this.moves().find(([mover]) => mover === -1 - k);
          if (move) this.take(move);
        });
        return land;
      }));
      this.shared.replaceChildren(this.slots(parts), this.barriers(barriers));
      this.back.disabled = this.path.length < 2;
      this.log.replaceChildren(...this.path.slice(1).map(({ mover, words }) =>
        element("li", {}, element("b", {}, this.name(mover)), ` ${words}`)));
      this.log.scrollTop = this.log.scrollHeight;
      this.verdict();
    }

    slots(parts) {
      const cells = parts.map(([item, filled, unread], k) => {
        const slot = Math.floor(k / this.ring.parts);
        const where = this.ring.parts > 1 ? `slot ${slot}, part ${k % this.ring.parts}` : `slot ${slot}`;
        const readers = this.ring.threads.filter((_, t) => (unread >> t) & 1).map((thread) => thread.name);
        const what = item < 0 ? "nothing yet" : !filled ? `item ${item} is being written` :
          readers.length ? `item ${item}, for ${readers.join(" and ")}` : `item ${item}, read`;
        const kind = item < 0 ? "new" : !filled ? "filling" : readers.length ? "full" : "read";
        return element("li", { className: `pb-slot pb-slot-${kind}` }, element("b", {}, where), element("span", {}, what));
      });
      return element("ul", { className: "pb-step-slots", "aria-label": "slots" }, ...cells);
    }

    barriers(values) {
      const head = element("tr", {}, ...["barrier", "phase", "parity", "arrivals missing", "bytes missing"]
        .map((text) => element("th", { scope: "col" }, text)));
      const rows = values.map(([phase, pending, expected, tx], k) => element("tr", {},
        element("th", { scope: "row" }, this.ring.barriers[k]),
        ...[phase, phase % 2, `${pending} of ${expected}`, tx].map((value) => element("td", {}, String(value)))));
      return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    }

    verdict() {
      if (this.broken) return this.say(`It fails: ${this.broken}.`, "wrong");
      const end = this.ring.ends[this.state];
      if (end) return this.say(`It fails: ${end}.`, "wrong");
      if (end === "") return this.say("The end: every item was filled, read once and in order.", "right");
      const waits = this.columns.flatMap((column, number) => {
        const [at, barriers] = this.ring.states[this.state];
        const step = this.ring.threads[number].steps[at[number]];
        if (!step || step.length < 4 || !column.step.disabled) return [];
        const [phase] = barriers[step[2]];
        return [`${this.name(number)} waits until phase ${phase} of ${this.ring.barriers[step[2]]} (parity ${step[3]}) is complete`];
      });
      const taken = this.path.length - 1;
      this.say([`${taken} ${taken === 1 ? "step" : "steps"} taken.`, ...waits.map((text) => `${text[0].toUpperCase()}${text.slice(1)}.`)].join(" "), "");
    }

    say(text, kind) {
      this.said.textContent = text;
      this.said.dataset.verdict = kind;
    }
  }

  document.querySelectorAll(".phasebit-stepper").forEach((box, index) => {
    if (box.dataset.ring in RINGS) new Stepper(box, index);
  });
})();

/* Timelines that answer. A drawing of phasebit/timeline says in data-told what it shows (rows, what
   kinds mean, spans and the reason of each wait), and in data-places where moments and rows lie; a
   narrow drawing beside it has places of its own. A cursor follows the pointer or the arrow keys, or
   plays; below the drawing stands what each row does at that moment, and for what a wait waits; the
   spans of the job under the pointer stand out. Without scripts the drawing stays as it is. */

(() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const SECONDS = 12; // how long a whole timeline plays
  const PAUSE = 550; // ms between two changes where motion is not wanted
  const MOST = 8; // times as large as drawn
  const MOST_DOWN = 4; // where time runs downwards, the page grows with it

  function drawn(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  /* What a timeline shows: its unit, its rows by name, and spans, from when to when. Null for a
     drawing that does not say. */
  function read(svg) {
    if (!svg.dataset.told) return null;
    const { unit, rows, kinds, quiet, spans } = JSON.parse(svg.dataset.told);
    return {
      unit, rows, quiet,
      spans: spans.map(([row, from, to, kind, label, why]) => ({ row, from, to, kind: kinds[kind][1], label, why })),
    };
  }

  /* A job's name, which all its spans have: a label, or the item that a sentence speaks of. */
  function job({ label }, down) {
    return down ? /item \d+/.exec(label)?.[0] : label;
  }

  /* One drawing: where moments and rows lie in it. `down`: time runs downwards. */
  class Drawing {
    constructor(svg) {
      Object.assign(this, JSON.parse(svg.dataset.places), { svg });
      this.overlay = drawn("g", { class: "pb-timeline-overlay", "aria-hidden": "true" });
      svg.append(this.overlay);
    }

    get seen() {
      return this.svg.getClientRects().length > 0;
    }

    /* The value beside a given one in a list of pairs, which runs evenly between them. */
    along(value, one, other) {
      const k = Math.min(Math.max(this.time.findIndex((pair) => pair[one] > value), 1), this.time.length - 1);
      const [a, b] = [this.time[k < 0 ? this.time.length - 1 : k - 1], this.time[k < 0 ? this.time.length - 1 : k]];
      return a[other] + ((value - a[one]) / (b[one] - a[one] || 1)) * (b[other] - a[other]);
    }

    place(moment) {
      return this.along(moment, 0, 1);
    }

    /* The moment under the pointer, and the number of the row. */
    under(event) {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      const [time, across] = this.down ? [point.y, point.x] : [point.x, point.y];
      return [this.along(time, 1, 0), this.rows.findIndex(([begin, size]) => across >= begin && across <= begin + size)];
    }

    rect(from, to, begin, size, name) {
      const [x, y, width, height] = this.down ? [begin, from, size, to - from] : [from, begin, to - from, size];
      return drawn("rect", { x: x - 0.5, y: y - 0.5, width: width + 1, height: height + 1, class: name });
    }

    draw(moment, spans) {
      const frames = spans.map(({ row, from, to }) => this.rect(this.place(from), this.place(to), ...this.rows[row], "pb-timeline-job"));
      const [begin, end] = this.ends;
      const cursor = this.down
        ? this.rect(this.place(moment), this.place(moment + 1), begin, end - begin, "pb-timeline-step")
        : drawn("path", { class: "pb-timeline-cursor", d: `M${this.place(moment)} ${begin}V${end}` });
      this.overlay.replaceChildren(...frames, cursor);
    }
  }

  class Answering {
    constructor(svgs, told) {
      this.told = told;
      this.drawings = svgs.map((svg) => new Drawing(svg));
      this.down = this.drawings[0].down;
      const { time } = this.drawings[0];
      [this.first, this.last] = [time[0][0], time.at(-1)[0] - this.down]; // the last step is one before the end
      Object.assign(this, { at: this.first, zoom: 1, timer: 0 });
      this.said = Object.assign(document.createElement("p"), { className: "pb-timeline-said" });
      this.said.setAttribute("aria-live", "polite");
      this.picture = svgs[0].closest(".pb-picture");
      this.playing = this.button("Play", "", () => (this.timer ? this.stop() : this.play()));
      this.smaller = this.button("−", "smaller", () => this.scale(this.zoom / 2));
      this.larger = this.button("+", "larger", () => this.scale(this.zoom * 2));
      this.smaller.disabled = true;
      const controls = document.createElement("div");
      controls.className = "pb-timeline-controls";
      controls.setAttribute("role", "group");
      controls.setAttribute("aria-label", `play ${svgs[0].querySelector("title")?.textContent ?? "the timeline"}`);
      controls.append(this.playing, ...(this.picture ? [this.smaller, this.larger] : []));
      controls.addEventListener("focusout", () => this.leave());
      this.controls = controls;
      (this.picture ?? svgs.at(-1)).after(controls, this.said);
      for (const drawing of this.drawings) this.listen(drawing);
      document.addEventListener("pointerdown", ({ target }) => {
        if (!controls.contains(target) && !svgs.some((svg) => svg.contains(target))) this.leave(); // a finger was lifted long ago
      });
    }

    listen(drawing) {
      const { svg } = drawing;
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", (event) => this.point(drawing, event));
      svg.addEventListener("pointerdown", (event) => this.point(drawing, event));
      svg.addEventListener("click", (event) => this.point(drawing, event)); // else a finger's touch may go to a button beside
      svg.addEventListener("keydown", (event) => this.key(event));
      svg.addEventListener("focus", () => this.show(this.at));
      svg.addEventListener("blur", () => this.leave());
      svg.addEventListener("pointerleave", (event) => event.pointerType === "touch" || this.leave());
    }

    button(text, label, does) {
      const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
      if (label) made.setAttribute("aria-label", label);
      made.addEventListener("click", does);
      return made;
    }

    /* Take away what stands beside the drawing: another comes in its place. */
    remove() {
      this.stop();
      this.controls.remove();
      this.said.remove();
    }

    /* -- playing, and looking closer ------------------------------------------ */

    stop() {
      clearTimeout(this.timer);
      this.timer = 0;
      this.playing.textContent = "Play";
      this.said.setAttribute("aria-live", "polite");
    }

    play() {
      const { first, last } = this;
      if (this.at >= last) this.at = first;
      this.said.setAttribute("aria-live", "off"); // it would be read without an end
      this.playing.textContent = "Pause";
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const whole = SECONDS * 1000;
      const start = performance.now() - ((this.at - first) / (last - first)) * whole;
      const tick = () => {
        const to = calm ? this.change(1) : first + ((performance.now() - start) / whole) * (last - first);
        this.show(to);
        if (this.at >= last) return this.stop();
        this.timer = setTimeout(tick, calm ? PAUSE : 40);
      };
      this.show(this.at);
      this.timer = setTimeout(tick, calm ? PAUSE : 40);
    }

    /* The next moment at which something begins or ends, or the one before. */
    change(direction) {
      const least = (this.last - this.first) / 1e6;
      const moments = this.told.spans.flatMap(({ from, to }) => [from, to]).filter((one) => (one - this.at) * direction > least);
      return direction > 0 ? Math.min(this.last, ...moments) : Math.max(this.first, ...moments);
    }

    scale(times) {
      const most = this.down ? MOST_DOWN : MOST;
      this.zoom = Math.min(Math.max(times, 1), most);
      for (const drawing of this.drawings) {
        const { style } = drawing.svg;
        if (drawing.seen) drawing.wide ??= drawing.svg.getBoundingClientRect().width;
        style.width = this.zoom > 1 ? `${drawing.wide * this.zoom}px` : "";
        style.maxWidth = this.zoom > 1 ? "none" : "";
      }
      this.smaller.disabled = this.zoom === 1;
      this.larger.disabled = this.zoom === most;
      this.follow(true);
    }

    /* Keep the cursor in view of a drawing that is wider than its place. */
    follow(middle = false) {
      const drawing = this.drawings.find((one) => one.seen);
      if (!this.picture || !drawing || this.down) return;
      const { width } = drawing.svg.getBoundingClientRect();
      const place = (drawing.place(this.at) / drawing.svg.viewBox.baseVal.width) * width, seen = this.picture.clientWidth;
      if (middle || place < this.picture.scrollLeft || place > this.picture.scrollLeft + seen)
        this.picture.scrollLeft = place - seen / 2;
    }

    point(drawing, event) {
      if (event.type === "pointerdown") this.stop();
      if (this.timer) return;
      const [moment, row] = drawing.under(event);
      this.show(moment, this.told.spans.find((span) => span.row === row && moment >= span.from && moment <= span.to));
    }

    /* Nobody looks any more. */
    leave() {
      if (this.timer) return;
      if (this.drawings.some(({ svg }) => document.activeElement === svg && svg.matches(":focus-visible"))) return;
      for (const { overlay } of this.drawings) overlay.replaceChildren();
      this.said.textContent = "";
    }

    key(event) {
      const step = Math.max(1, Math.round((this.last - this.first) / 200));
      const [next, back] = event.shiftKey ? [this.change(1), this.change(-1)] : [this.at + step, this.at - step];
      const down = this.down ? { ArrowDown: next, ArrowUp: back } : {};
      const to = { ArrowRight: next, ArrowLeft: back, Home: this.first, End: this.last, ...down }[event.key];
      if (event.key === "Escape") event.currentTarget.blur();
      if (event.key === " ") this.playing.click();
      if (to !== undefined) {
        this.stop();
        this.show(to);
        this.follow();
      }
      if (to !== undefined || event.key === " ") event.preventDefault();
    }

    /* -- words ------------------------------------------------------------------ */

    here(row) {
      return this.told.spans.filter((span) => span.row === row && this.at >= span.from && this.at < span.to);
    }

    /* The row that the reason of a wait speaks of: -1 for none. */
    named({ why }) {
      const found = this.told.rows.filter((name) => why.includes(name)).sort((a, b) => b.length - a.length)[0];
      return this.told.rows.indexOf(found);
    }

    /* What a span is, and of a wait the reason. */
    words(span) {
      const { kind, label, why } = span;
      if (why) {
        const doing = this.down ? [] : this.here(this.named(span)).map((one) => (one.label ? `${one.kind} ${one.label}` : one.kind));
        const next = this.down ? null : this.told.spans.filter((one) => one.row === span.row && one.from >= span.to && !one.why).sort((a, b) => a.from - b.from)[0];
        return `waits for ${why}${doing.length ? ` (${doing.join(", ")})` : ""}${next?.label ? `, to go on with ${next.label}` : ""}`;
      }
      if (this.down && label && !this.told.quiet.includes(span.row)) return label; // a sentence itself
      const short = this.down ? kind.split(" (")[0] : kind;
      return label ? `${short} (${label})` : short;
    }

    /* The spans that stand out with one: those of its job, or of a wait what it waits for. */
    same(over) {
      if (!over) return [];
      if (over.why) return [over, ...this.here(this.named(over))];
      const name = job(over, this.down);
      return name ? this.told.spans.filter((span) => job(span, this.down) === name) : [over];
    }

    /* Everybody's doings at one moment; of a span that is pointed at, those of the rows of its job. */
    show(moment, over) {
      const { unit, rows } = this.told;
      const whole = this.down ? Math.floor(moment) : moment;
      this.at = Math.min(Math.max(whole, this.first), this.last);
      const same = this.same(over);
      for (const drawing of this.drawings) drawing.draw(this.at, same);
      const asked = over && [over, ...same].map(({ row }) => row);
      const now = rows.flatMap((name, row) => {
        const here = asked && !asked.includes(row) ? [] : this.here(row);
        return here.length ? [`${name}: ${here.map((span) => this.words(span)).join(", ")}`] : [];
      });
      this.said.textContent = `${unit} ${Number(this.at.toFixed(this.at < 100 ? 1 : 0))}. ${now.join("; ") || "Nobody does anything"}.`;
      const { bottom } = (this.picture ?? this.controls).getBoundingClientRect();
      this.said.classList.toggle("pb-timeline-low", bottom > innerHeight); // else it would be out of sight
    }
  }

  /* Let a drawing answer, with the narrow one beside it; null for one that cannot be read. */
  function answer(svg) {
    const told = read(svg);
    const narrow = svg.parentElement.querySelector(":scope > svg[data-places]:not([data-told])");
    return told?.spans.length ? new Answering(narrow ? [svg, narrow] : [svg], told) : null;
  }

  window.phasebitTimelines = { read, answer, Drawing };
  document.querySelectorAll("svg.phasebit-timeline[data-told]").forEach(answer);
})();

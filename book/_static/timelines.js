/* Timelines that answer. The drawings of phasebit/timeline.py hold all that is needed: the ticks
   give the scale, the key names each colour, the labels name the jobs. A cursor follows the
   pointer or the arrow keys, or plays; below the drawing stands what each row does at that moment,
   and of who waits for a slot, for which and why; the spans of the job under the pointer stand out.
   Without scripts the drawing stays as it is. */

(() => {
  "use strict";

  const ROW = 20; // pixels, as in timeline.py
  const SLOT = /^(slot|sum|tile|keys|values) \d+$/; // rows that hold jobs
  const SPAN = /M([\d.]+) ([\d.]+)h([\d.]+)/g;
  const SVG = "http://www.w3.org/2000/svg";
  const SECONDS = 12; // how long a whole timeline plays
  const PAUSE = 550; // ms between two changes where motion is not wanted
  const MOST = 8; // times as large as drawn

  const number = (node, name) => Number(node.getAttribute(name));

  function drawn(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  /* What a drawing says: its unit, the place of two moments, rows, spans. Null for one whose time
     does not run to the right, or which has too few ticks to tell. */
  function read(svg) {
    const [ticks, names, ...rest] = [...svg.querySelectorAll(":scope > g")];
    if (!ticks || !names) return null;
    const texts = [...ticks.querySelectorAll("text")];
    const unit = texts.pop();
    if (texts.length < 2 || !unit || number(unit, "y") !== 12) return null;
    const [first, last] = [texts[0], texts.at(-1)].map((text) => ({ x: number(text, "x"), at: Number(text.textContent) }));
    const scale = (last.x - first.x) / (last.at - first.at);
    if (!(scale > 0)) return null;
    const rows = [...names.querySelectorAll("text")].map((text) => ({ name: text.textContent, y: number(text, "y") - 14 }));
    const bottom = Math.max(...rows.map((row) => row.y)) + ROW;
    const labels = rest.flatMap((group) => [...group.querySelectorAll("text")]);
    const kinds = new Map();
    let swatch = null;
    for (const node of svg.children) {
      if (node.tagName === "path") {
        const [, , y] = /M([\d.]+) ([\d.]+)/.exec(node.getAttribute("d")) ?? [];
        if (Number(y) > bottom) swatch ??= node.getAttribute("style");
      } else if (node.tagName === "text" && swatch) {
        kinds.set(swatch, node.textContent);
        swatch = null;
      }
    }
    const spans = [];
    for (const path of svg.querySelectorAll(":scope > path")) {
      const kind = kinds.get(path.getAttribute("style"));
      if (kind === undefined) continue;
      const inset = path.getAttribute("style").includes("fill-opacity") ? 0.5 : 1; // as _boxes draws
      for (const [, x, y, width] of path.getAttribute("d").matchAll(SPAN)) {
        const row = rows.find((one) => Number(y) >= one.y - 1 && Number(y) < one.y + ROW);
        if (!row) continue; // the key's own
        const [from, to] = [Number(x) - inset, Number(x) + Number(width) + inset];
        const label = labels.find((text) => number(text, "x") > from && number(text, "x") < to &&
          number(text, "y") > row.y && number(text, "y") < row.y + ROW);
        spans.push({ row, from, to, kind, label: label?.textContent ?? "" });
      }
    }
    const right = Math.max(...spans.map((span) => span.to), last.x);
    return {
      unit: unit.textContent, rows, spans, bottom, left: first.x, right,
      time: (x) => first.at + (x - first.x) / scale, step: scale * Math.max(1, Math.round((right - first.x) / scale / 200)),
    };
  }

  /* Of who waits: the slot that holds its next job, and what that slot is doing meanwhile. Null where
     the drawing does not say: no job follows, or no slot begins with it at the same time. */
  function reason(spans, wait, x) {
    const next = spans.filter((span) => span.row === wait.row && span.from >= wait.to - 2 && span !== wait)
      .sort((a, b) => a.from - b.from)[0];
    const same = next?.label && spans.find((span) => SLOT.test(span.row.name) && span.label === next.label &&
      span.kind === next.kind && Math.abs(span.from - next.from) < 1);
    if (!same) return null;
    return { row: same.row, job: next.label, spans: spans.filter((span) => span.row === same.row && x >= span.from && x < span.to) };
  }

  class Answering {
    constructor(svg, told) {
      Object.assign(this, { svg, told, x: told.left, zoom: 1, timer: 0 });
      this.overlay = drawn("g", { class: "pb-timeline-overlay", "aria-hidden": "true" });
      this.line = drawn("path", { class: "pb-timeline-cursor" });
      svg.append(this.overlay);
      this.said = Object.assign(document.createElement("p"), { className: "pb-timeline-said" });
      this.said.setAttribute("aria-live", "polite");
      this.picture = svg.closest(".pb-picture");
      this.playing = this.button("Play", "", () => (this.timer ? this.stop() : this.play()));
      this.smaller = this.button("−", "smaller", () => this.scale(this.zoom / 2));
      this.larger = this.button("+", "larger", () => this.scale(this.zoom * 2));
      this.smaller.disabled = true;
      const controls = document.createElement("div");
      controls.className = "pb-timeline-controls";
      controls.setAttribute("role", "group");
      controls.setAttribute("aria-label", `play ${svg.querySelector("title")?.textContent ?? "the timeline"}`);
      controls.append(this.playing, ...(this.picture ? [this.smaller, this.larger] : []));
      controls.addEventListener("focusout", () => this.leave());
      this.controls = controls;
      (this.picture ?? svg).after(controls, this.said);
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", (event) => this.point(event));
      svg.addEventListener("pointerdown", (event) => this.point(event));
      svg.addEventListener("click", (event) => this.point(event)); // else a finger's touch may go to a button beside
      svg.addEventListener("keydown", (event) => this.key(event));
      svg.addEventListener("focus", () => this.show(this.x, null));
      svg.addEventListener("blur", () => this.leave());
      svg.addEventListener("pointerleave", (event) => event.pointerType === "touch" || this.leave());
      document.addEventListener("pointerdown", ({ target }) => {
        if (!svg.contains(target) && !controls.contains(target)) this.leave(); // a finger was lifted long ago
      });
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
      const { left, right } = this.told;
      if (this.x >= right) this.x = left;
      this.said.setAttribute("aria-live", "off"); // it would be read without an end
      this.playing.textContent = "Pause";
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const whole = SECONDS * 1000;
      const start = performance.now() - ((this.x - left) / (right - left)) * whole;
      const tick = () => {
        const to = calm ? this.change(1) : left + ((performance.now() - start) / whole) * (right - left);
        this.show(to, null);
        if (this.x >= right) return this.stop();
        this.timer = setTimeout(tick, calm ? PAUSE : 40);
      };
      this.show(this.x, null);
      this.timer = setTimeout(tick, calm ? PAUSE : 40);
    }

    /* The place of the next moment at which something begins or ends, or of the one before. */
    change(direction) {
      const { left, right, spans } = this.told;
      const places = spans.flatMap(({ from, to }) => [from, to]).filter((x) => (x - this.x) * direction > 0.5);
      return direction > 0 ? Math.min(right, ...places) : Math.max(left, ...places);
    }

    scale(times) {
      const { svg, picture } = this;
      this.width ??= svg.getBoundingClientRect().width;
      this.zoom = Math.min(Math.max(times, 1), MOST);
      svg.style.width = this.zoom > 1 ? `${this.width * this.zoom}px` : "";
      svg.style.maxWidth = this.zoom > 1 ? "none" : "";
      this.smaller.disabled = this.zoom === 1;
      this.larger.disabled = this.zoom === MOST;
      this.follow(true);
    }

    /* Keep the cursor in view of a drawing that is wider than its place. */
    follow(middle = false) {
      if (!this.picture) return;
      const { width } = this.svg.getBoundingClientRect();
      const place = (this.x / this.svg.viewBox.baseVal.width) * width, seen = this.picture.clientWidth;
      if (middle || place < this.picture.scrollLeft || place > this.picture.scrollLeft + seen)
        this.picture.scrollLeft = place - seen / 2;
    }

    point(event) {
      if (event.type === "pointerdown") this.stop();
      if (this.timer) return;
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      const over = this.told.spans.find(({ row, from, to }) => place.x >= from && place.x <= to && place.y >= row.y && place.y <= row.y + ROW);
      this.show(place.x, over);
    }

    /* Nobody looks any more. */
    leave() {
      if (this.timer) return;
      if (document.activeElement === this.svg && this.svg.matches(":focus-visible")) return;
      this.overlay.replaceChildren();
      this.said.textContent = "";
    }

    key(event) {
      const { left, right, step } = this.told;
      const to = {
        ArrowRight: event.shiftKey ? this.change(1) : this.x + step, ArrowLeft: event.shiftKey ? this.change(-1) : this.x - step,
        Home: left, End: right,
      }[event.key];
      if (event.key === "Escape") this.svg.blur();
      if (event.key === " ") this.playing.click();
      if (to !== undefined) {
        this.stop();
        this.show(to, null);
        this.follow();
      }
      if (to !== undefined || event.key === " ") event.preventDefault();
    }

    waits(span) {
      return /^wait/.test(span.kind);
    }

    /* What a span is, and of a wait the reason. */
    words(span) {
      const said = span.label ? `${span.kind} (${span.label})` : span.kind;
      const why = this.waits(span) ? reason(this.told.spans, span, this.x) : null;
      if (!why) return said;
      const doing = why.spans.map(({ kind, label }) => (label ? `${kind} ${label}` : kind)).join(", ");
      return `${said} for ${why.row.name}${doing ? ` (${doing})` : ""}, to go on with ${why.job}`;
    }

    /* Everybody's doings at one moment; the spans of the job that `over` belongs to stand out. */
    show(x, over) {
      const { left, right, bottom, rows, spans, unit, time } = this.told;
      this.x = Math.min(Math.max(x, left), right);
      this.line.setAttribute("d", `M${this.x} 16V${bottom}`);
      const why = over && this.waits(over) ? reason(spans, over, this.x) : null;
      const same = why ? [over, ...why.spans] : over?.label ? spans.filter((span) => span.label === over.label) : over ? [over] : [];
      const frames = same.map(({ row, from, to }) => drawn("rect",
        { x: from - 0.5, y: row.y - 0.5, width: to - from + 1, height: ROW + 1, class: "pb-timeline-job" }));
      this.overlay.replaceChildren(...frames, this.line);
      const now = rows.flatMap((row) => {
        const here = spans.filter((span) => span.row === row && this.x >= span.from && this.x < span.to);
        return here.length ? [`${row.name}: ${here.map((span) => this.words(span)).join(", ")}`] : [];
      });
      const at = time(this.x);
      this.said.textContent = `${unit} ${Number(at.toFixed(at < 100 ? 1 : 0))}. ${now.join("; ") || "Nobody does anything"}.`;
    }
  }

  /* Let a drawing answer; null for one that cannot be read. */
  function answer(svg) {
    const told = read(svg);
    return told?.spans.length ? new Answering(svg, told) : null;
  }

  window.phasebitTimelines = { read, answer };
  document.querySelectorAll("svg.phasebit-timeline").forEach(answer);
})();

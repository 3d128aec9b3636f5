/* Timelines that answer. The drawings of phasebit/timeline.py hold all that is needed: the ticks
   give the scale, the key names each colour, the labels name the jobs. A cursor follows the
   pointer or the arrow keys; below the drawing stands what each row does at that moment, and the
   spans of the job under the pointer stand out. Without scripts the drawing stays as it is. */

(() => {
  "use strict";

  const ROW = 20; // pixels, as in timeline.py
  const SPAN = /M([\d.]+) ([\d.]+)h([\d.]+)/g;
  const SVG = "http://www.w3.org/2000/svg";

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
      for (const [, x, y, width] of path.getAttribute("d").matchAll(SPAN)) {
        const row = rows.find((one) => Number(y) >= one.y - 1 && Number(y) < one.y + ROW);
        if (!row) continue; // the key's own
        const [from, to] = [Number(x), Number(x) + Number(width)];
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

  class Answering {
    constructor(svg, told) {
      Object.assign(this, { svg, told, x: told.left });
      this.overlay = drawn("g", { class: "pb-timeline-overlay", "aria-hidden": "true" });
      this.line = drawn("path", { class: "pb-timeline-cursor" });
      svg.append(this.overlay);
      this.said = Object.assign(document.createElement("p"), { className: "pb-timeline-said" });
      this.said.setAttribute("aria-live", "polite");
      (svg.closest(".pb-picture") ?? svg).after(this.said);
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", (event) => this.point(event));
      svg.addEventListener("pointerdown", (event) => this.point(event));
      svg.addEventListener("keydown", (event) => this.key(event));
      svg.addEventListener("focus", () => this.show(this.x, null));
      for (const end of ["pointerleave", "blur"]) svg.addEventListener(end, () => this.leave());
    }

    point(event) {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      const over = this.told.spans.find(({ row, from, to }) => place.x >= from && place.x <= to && place.y >= row.y && place.y <= row.y + ROW);
      this.show(place.x, over);
    }

    /* Nobody looks any more. */
    leave() {
      if (document.activeElement === this.svg && this.svg.matches(":focus-visible")) return;
      this.overlay.replaceChildren();
      this.said.textContent = "";
    }

    key(event) {
      const { left, right, step } = this.told;
      const to = { ArrowRight: this.x + step, ArrowLeft: this.x - step, Home: left, End: right }[event.key];
      if (event.key === "Escape") this.svg.blur();
      if (to === undefined) return;
      event.preventDefault();
      this.show(to, null);
    }

    /* Everybody's doings at one moment; the spans of the job that `over` belongs to stand out. */
    show(x, over) {
      const { left, right, bottom, rows, spans, unit, time } = this.told;
      this.x = Math.min(Math.max(x, left), right);
      this.line.setAttribute("d", `M${this.x} 16V${bottom}`);
      const same = over?.label ? spans.filter((span) => span.label === over.label) : over ? [over] : [];
      const frames = same.map(({ row, from, to }) => drawn("rect",
        { x: from - 1.5, y: row.y - 0.5, width: to - from + 3, height: ROW + 1, class: "pb-timeline-job" }));
      this.overlay.replaceChildren(...frames, this.line);
      const now = rows.flatMap((row) => {
        const here = spans.filter((span) => span.row === row && this.x >= span.from && this.x < span.to);
        return here.length ? [`${row.name}: ${here.map(({ kind, label }) => (label ? `${kind} (${label})` : kind)).join(", ")}`] : [];
      });
      const at = time(this.x);
      this.said.textContent = `${unit} ${Number.isInteger(at) ? at : at.toFixed(at < 100 ? 1 : 0)}. ${now.join("; ") || "Nobody does anything"}.`;
    }
  }

  window.phasebitTimelines = { read };
  document.querySelectorAll("svg.phasebit-timeline").forEach((svg) => {
    if (svg.closest(".phasebit-lab")) return; // drawn anew at every change
    const told = read(svg);
    if (told?.spans.length) new Answering(svg, told);
  });
})();

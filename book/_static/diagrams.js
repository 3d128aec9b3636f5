/* Diagrams that answer. Of a drawing of phasebit/draw/diagrams.py it reads boxes and arrows from where
   they lie, and what an arrow carries from the title, or from the letters beside it. Under the pointer,
   a finger or the arrow keys a box stands out with its arrows and the boxes at their other ends, and a
   line below says what goes out of it and in. Of phasebit-levels each ring is a whole, and its words
   are a line of the title. Without scripts, and where a drawing says less, it stays as it is. */

(() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const NEAR = 8; // px from an arrow's end to its box
  const ROW = 10; // px by which boxes of one row may lie apart

  const told = (words, label) => (label ? `${words} (${label})` : words);
  const numbers = (text) => text.match(/-?\d[\d.]*(?:e-?\d+)?/g).map(Number);
  const far = ({ x, y, width, height }, [px, py]) =>
    Math.hypot(Math.max(x - px, 0, px - x - width), Math.max(y - py, 0, py - y - height));

  /* Where a box lies: of a ring it is known when it is seen. */
  const place = (unit) => (unit.width === undefined ? unit.node.getBBox() : unit);

  /* The nearest of some boxes to a point, and null for none that is near. */
  function nearest(boxes, point, near) {
    const [first] = boxes.map((box) => [box, far(place(box), point)]).sort((a, b) => a[1] - b[1]);
    return first?.[1] <= near ? first[0] : null;
  }

  /* The boxes: each a rectangle with its text behind it. `of`: what the box is a state of, or the
     name of the frame, a rectangle without a ground, that it lies in. */
  function boxesOf(svg) {
    const at = (node, name) => Number(node.getAttribute(name));
    const spot = (rect) => Object.fromEntries(["x", "y", "width", "height"].map((name) => [name, at(rect, name)]));
    const all = [...svg.querySelectorAll(":scope > rect, :scope > :is(a, g) > rect")].filter((rect) => rect.nextElementSibling?.matches("text"));
    const frames = all.filter((rect) => rect.style.fill === "none");
    const names = [...svg.querySelectorAll(":scope > text[style*=bold]")].filter((text) => !frames.includes(text.previousElementSibling));
    const frameOf = ({ x, y }) => frames.find((frame) => !far(spot(frame), [x, y]));
    return all.filter((rect) => !frames.includes(rect)).map((rect) => {
      const place = spot(rect), { x, y, width, height } = place;
      const heading = names.find((name) => name.getAttribute("text-anchor") === "end"
        ? Math.abs(at(name, "y") - 4 - y - height / 2) < 2 : Math.abs(at(name, "x") - x - width / 2) < 2);
      const text = rect.nextElementSibling;
      return { x, y, width, height, parts: [rect, text], text: text.textContent.replace(/\s+/g, " "), of: (heading ?? frameOf(place)?.nextElementSibling)?.textContent ?? "" };
    });
  }

  /* The arrows: each a path with its head behind it, and then its label, if it has one. */
  function arrowsOf(svg, boxes) {
    return [...svg.querySelectorAll(":scope > path:has(+ polygon)")].map((path) => {
      const parts = [path, path.nextElementSibling];
      while (parts.at(-1).nextElementSibling?.matches("text")) parts.push(parts.at(-1).nextElementSibling);
      const places = numbers(path.getAttribute("d"));
      const [start, end] = [places.slice(0, 2), places.slice(-2)].map((point) => nearest(boxes, point, NEAR));
      return { start, end, parts, label: parts.slice(2).map((one) => one.textContent).join(" ") };
    });
  }

  /* Of a line of the title what an arrow carries; null for a line of another arrow. */
  function carried(line, { start, end }) {
    const [from, to] = [line.slice(0, line.indexOf(" → ")), line.slice(line.indexOf(" → ") + 3)];
    if (from !== start.text && from !== `${start.of}: ${start.text}`) return null;
    const there = [`${end.of}: ${end.text}`, end.text].find((name) => to === name || to.startsWith(`${name}: `));
    return there === undefined ? null : to.slice(there.length + 2);
  }

  /* Boxes and arrows of a drawing, the labels as the title has them. Null for a drawing that is no
     diagram, or of which an arrow hangs in the air. */
  function read(svg) {
    const boxes = boxesOf(svg), arrows = arrowsOf(svg, boxes);
    if (!arrows.length || arrows.some(({ start, end }) => !start || !end)) return null;
    const lines = svg.querySelector("title").textContent.split("\n").filter((line) => line.includes(" → "));
    for (const arrow of arrows) {
      const fits = lines.filter((line) => carried(line, arrow) !== null);
      const said = fits.find((line) => carried(line, arrow) === arrow.label) ?? fits[0];
      if (said === undefined) continue;
      arrow.label = carried(said, arrow);
      lines.splice(lines.indexOf(said), 1);
    }
    return { boxes, arrows };
  }

  /* What a box is called from another's side. */
  const called = (box, from) => (box.of && box.of !== from?.of ? `${box.of}: ${box.text}` : box.text);

  /* Which boxes of the wide drawing those of the narrow one are, which has them in its order, or each
     as often as an arrow has it, in fewer words. Null where that is not plain. */
  function matched(boxes, wide) {
    const first = ({ text }) => text.split(" ")[0];
    if (boxes.length === wide.length && boxes.every((box, k) => first(box) === first(wide[k]))) return wide;
    const found = boxes.map((box) => wide.filter(({ text }) => text.startsWith(box.text)));
    return found.every((each) => each.length === 1) ? found.flat() : null;
  }

  /* What can be chosen in a drawing: boxes with an arrow, their parts, what stays strong with them, and
     the words, which a narrow drawing has from the units of the `wide` one. */
  function units(svg, wide) {
    const found = read(svg);
    if (!found) return [];
    const { arrows } = found;
    const [out, into] = (svg.dataset.words ?? "out to, in from").split(", ");
    const boxes = found.boxes.filter((box) => arrows.some(({ start, end }) => box === start || box === end));
    const known = wide && matched(boxes, wide);
    return boxes.map((box, k) => {
      const same = boxes.filter((one, n) => (known ? known[n] === known[k] : one === box));
      const [gives, gets] = ["start", "end"].map((end) => arrows.filter((one) => same.includes(one[end])));
      const others = [...gives.map(({ end }) => end), ...gets.map(({ start }) => start)];
      const words = [
        ...gives.map(({ end, label }) => told(same.includes(end) ? `${out} itself` : `${out} ${called(end, box)}`, label)),
        ...gets.filter(({ start }) => !same.includes(start)).map(({ start, label }) => told(`${into} ${called(start, box)}`, label)),
      ];
      return {
        ...box, first: same[0] === box, name: known?.[k].name ?? called(box), words: known?.[k].words ?? words.join("; "),
        own: same.flatMap(({ parts }) => parts),
        strong: [...others, ...gives, ...gets].flatMap(({ parts }) => parts),
      };
    });
  }

  /* The rings of phasebit-levels, each a whole. */
  function rings(svg) {
    const [, ...lines] = svg.querySelector("title").textContent.split("\n");
    return [...svg.querySelectorAll(":scope > g.ring")].map((node, k) => {
      const [name, ...words] = lines[k].split(": ");
      return { node, first: true, name, words: words.join(": "), own: [node], strong: [] };
    });
  }

  const middle = (unit) => {
    const { x, y, width, height } = place(unit);
    return [x + width / 2, y + height / 2];
  };

  /* Row by row, each from left to right. */
  function ordered(every) {
    if (every[0].width === undefined) return every;
    const rows = [];
    for (const unit of [...every].sort((a, b) => middle(a)[1] - middle(b)[1])) {
      const row = rows.at(-1);
      if (row && middle(unit)[1] - middle(row[0])[1] < ROW) row.push(unit);
      else rows.push([unit]);
    }
    return rows.flatMap((row) => row.sort((a, b) => middle(a)[0] - middle(b)[0]));
  }

  /* One drawing; `wide`: the units of the wide one, for the narrow one beside it. */
  class Drawing {
    constructor(svg, said, wide) {
      this.rings = svg.matches(".phasebit-levels");
      Object.assign(this, { svg, said, units: this.rings ? rings(svg) : units(svg, wide) });
      if (!this.units.length) return;
      this.stops = ordered(this.units.filter(({ first }) => first)); // by keyboard; a box that stands again is the same
      const led = svg.querySelector("a"); // boxes of the map are links, and reached as such
      for (const unit of this.units) this.enter(unit, led);
      if (!led) {
        svg.setAttribute("role", "group"); // a picture has nothing to go to inside
        this.stops[0].node.setAttribute("tabindex", "0");
        svg.addEventListener("keydown", (event) => this.key(event));
      }
      for (const name of ["pointermove", "pointerdown", "click"]) svg.addEventListener(name, (event) => this.point(event));
      svg.addEventListener("pointerleave", (event) => event.pointerType === "touch" || this.leave());
    }

    /* Let the focus come to a box, whose rectangle and text become one. */
    enter(unit, led) {
      if (led) unit.node = unit.own[0].closest("a") ?? unit.own[0];
      else {
        if (!this.rings) {
          unit.node = document.createElementNS(SVG, "g");
          unit.parts[0].before(unit.node);
          unit.node.append(...unit.parts);
        }
        if (!unit.first) return;
        unit.node.setAttribute("role", "img"); // what is said of it is more, and in the line below
        unit.node.setAttribute("aria-label", unit.name);
        unit.node.setAttribute("tabindex", "-1");
      }
      unit.node.addEventListener("focus", () => {
        if (!led) for (const { node } of this.stops) node.setAttribute("tabindex", node === unit.node ? "0" : "-1");
        this.show(unit);
      });
      unit.node.addEventListener("blur", () => this.leave());
    }

    point({ clientX, clientY, pointerType }) {
      const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      const found = nearest(this.units, [x, y], pointerType === "touch" || this.rings ? NEAR : 1);
      if (found) this.show(found);
      else this.leave();
    }

    show(unit) {
      this.clear();
      this.svg.classList.add("pb-asked");
      for (const part of unit.strong) part.classList.add("pb-strong");
      for (const part of unit.own) part.classList.add("pb-own");
      const words = `${unit.name}: ${unit.words}.`;
      if (this.said.textContent !== words) this.said.textContent = words; // else it would be read again
      const { bottom } = this.svg.closest(".pb-picture").getBoundingClientRect();
      this.said.classList.toggle("pb-timeline-low", bottom > innerHeight); // else it would be out of sight
    }

    clear() {
      this.svg.classList.remove("pb-asked");
      for (const part of this.svg.querySelectorAll(".pb-own, .pb-strong")) part.classList.remove("pb-own", "pb-strong");
    }

    /* Nobody looks any more, or only the keyboard does. */
    leave() {
      const kept = this.units.find(({ node }) => node === document.activeElement && node.matches(":focus-visible"));
      if (kept) return this.show(kept);
      this.clear();
      this.said.textContent = "";
    }

    /* The nearest box above or below (`side` -1 or 1), or left or right. */
    beside(here, axis, side) {
      const [from, across] = [middle(here)[axis], middle(here)[1 - axis]];
      const far = (unit) => Math.abs(middle(unit)[axis] - from) + 2 * Math.abs(middle(unit)[1 - axis] - across);
      return this.stops.filter((unit) => (middle(unit)[axis] - from) * side > ROW).sort((a, b) => far(a) - far(b))[0];
    }

    /* To the sides all boxes are reached, row by row; up and down the nearest. */
    key(event) {
      const { stops } = this;
      const here = stops.findIndex(({ node }) => node === document.activeElement);
      if (here < 0) return;
      if (event.key === "Escape") return document.activeElement.blur();
      const to = {
        ArrowRight: () => stops[here + 1], ArrowLeft: () => stops[here - 1],
        ArrowDown: () => this.beside(stops[here], 1, 1), ArrowUp: () => this.beside(stops[here], 1, -1),
        Home: () => stops[0], End: () => stops.at(-1),
      }[event.key];
      if (!to) return;
      event.preventDefault();
      const next = to();
      next?.node.focus();
    }
  }

  /* Let the drawings of a picture answer, the wide one and the narrow one. */
  function answer(picture) {
    const svgs = [...picture.querySelectorAll(":scope > svg:is(.phasebit-diagram, .phasebit-levels)")];
    const said = Object.assign(document.createElement("p"), { className: "pb-diagram-said" });
    said.setAttribute("aria-live", "polite");
    const wide = new Drawing(svgs[0], said);
    if (!wide.units.length) return;
    const drawings = [wide, ...svgs.slice(1).map((svg) => new Drawing(svg, said, wide.units))].filter(({ units }) => units.length);
    picture.after(said);
    if (drawings.length === svgs.length && !picture.querySelector("a")) picture.removeAttribute("tabindex"); // boxes are reached, and with them what is out of sight
    document.addEventListener("pointerdown", ({ target }) => {
      if (!picture.contains(target)) for (const drawing of drawings) drawing.leave(); // a finger was lifted long ago
    });
  }

  window.phasebitDiagrams = { read };
  document.querySelectorAll(".pb-picture:has(> :is(svg.phasebit-diagram, svg.phasebit-levels))").forEach(answer);
})();

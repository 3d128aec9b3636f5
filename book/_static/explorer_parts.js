/* What all explorers have in common. A box,

     <div class="phasebit-explorer" data-explorer="banks" data-row="128">fallback</div>

   becomes a form, a sentence and a picture of cells. A kind (explorers.js and the files beside it)
   says its fields and works out, from their values, what is said and which cells there are, or in a
   sentence what is wrong. The values stand in the page's address. A cell may be chosen, by click or
   by the arrow keys: it is told in words, and the cells that have a name in common with it stand out;
   one that sets fields sets them. Where a kind says `follow`, pointing at a cell chooses it. */

(() => {
  "use strict";

  const element = window.phasebitElement;
  const ROOM = 780; // px where nobody knows how wide the picture is
  const HEIGHT = 20;

  const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
  const number = (name, label, value, least, most) => ({ name, label, value, least, most });
  const many = (count, what, more = `${what}s`) => `${count.toLocaleString("en")} ${count === 1 ? what : more}`;

  /* A text in lines of at most so many pixels. */
  function lines(text, room) {
    const found = [""];
    for (const word of text.split(" ")) {
      if ((found.at(-1).length + word.length) * 6.2 > room) found.push("");
      found[found.length - 1] += `${found.at(-1) && " "}${word}`;
    }
    return found;
  }

  /* -- a picture of cells ------------------------------------------------------- */

  /* How many columns stand side by side: all, or a part of them in bands of equal length. */
  function together(columns, width, room) {
    const fit = Math.max(1, Math.floor(room / width));
    if (columns <= fit) return columns;
    let even = fit;
    while (columns % even) even -= 1;
    return 2 * even > fit ? even : fit;
  }

  function cellOf(cell, x, y, width, row, column) {
    if (!cell) return `<rect x="${x}" y="${y}" width="${width}" height="${HEIGHT}" class="pb-x-free"/>`;
    const words = `<text x="${x + width / 2}" y="${y + 14}" text-anchor="middle" class="${cell.ink ?? (cell.faint ? "pb-x-plain" : "pb-x-lane")}${width < 21 && String(cell.text).length > 2 ? " pb-x-small" : ""}">${escaped(cell.text)}</text>`;
    if (!cell.hue) return words;
    const look = cell.level === undefined ? "" : `;fill-opacity:${cell.level.toFixed(2)}`;
    const names = cell.same ? ` data-same="${cell.same.join(" ")}"` : "";
    const sets = cell.set ? ` data-set="${escaped(JSON.stringify(cell.set))}"` : "";
    return `<g class="pb-x-cell" data-at="${row},${column}"${names}${sets}><title>${escaped(cell.title)}</title>` +
      `<rect x="${x}" y="${y}" width="${width}" height="${HEIGHT}" class="${cell.faint ? "pb-x-faint" : "pb-x-asked"}" style="--hue:var(--pb-${cell.hue})${look}"/>` +
      `${cell.text === "" ? "" : words}</g>`;
  }

  /* `cells`: lines of cells, null for an empty place, undefined for none. `names` and `heads` stand
     beside lines and above columns, `down` and `across` say what they are. `wide` is what the names
     take, `width` what a cell takes; of cells without a text it may be less (`least`). `rows`: only
     some lines, from and to. */
  function picture({ cells, down = "", across = "", said, names, heads, first = 0, bare = false, wide = 46, width = 26, least = width, rows = [0, cells.length] }, room = ROOM) {
    const columns = Math.max(...cells.map((line) => line.length));
    const inside = room - wide - 4;
    const leastFits = Math.max(least, Math.min(width, Math.floor(inside / columns)));
    const band = together(columns, leastFits, inside);
    const fits = Math.max(leastFits, Math.min(width, Math.floor(inside / band))); // in bands there is more room
    const out = [], strong = []; // over its neighbours
    let y = 0;
    for (const line of across ? lines(across, Math.max(room - wide, 200)) : [])
      out.push(`<text x="${wide}" y="${(y += 15) - 3}" class="pb-x-axis">${escaped(line)}</text>`);
    const right = wide + Math.max(band * fits, across ? Math.min(across.length * 6.2, room - wide - 4) : 0);
    for (let from = 0; from < columns; from += band) {
      // A band in which nothing lies, beside one in which something does, is told in a line.
      if (band < columns && !cells.some((line) => line.slice(from, from + band).some((cell) => cell))) {
        const [one, last] = [from, Math.min(from + band, columns) - 1].map((column) => heads?.[column] ?? column + first);
        out.push(`<text x="${wide}" y="${(y += 20) - 4}" class="pb-x-axis">${escaped(`${one} to ${last}: nothing`)}</text>`);
        continue;
      }
      y += bare && !down ? 8 : 24;
      const every = band > 16 || fits < 20 ? 4 : 1;
      if (!bare)
        for (let column = from; column < Math.min(from + band, columns); column += 1)
          if (heads || (column - from) % every === 0)
            out.push(`<text x="${wide + (column - from + 0.5) * fits}" y="${y - 8}" text-anchor="middle" class="pb-x-axis">${escaped(heads?.[column] ?? column + first)}</text>`);
      if (down) out.push(`<text x="${wide - 8}" y="${y - 8}" text-anchor="end" class="pb-x-axis">${escaped(down)}</text>`);
      for (let row = rows[0]; row < rows[1]; row += 1, y += HEIGHT) {
        out.push(`<text x="${wide - 8}" y="${y + 14}" text-anchor="end" class="pb-x-axis">${escaped(names?.[row] ?? row + first)}</text>`);
        cells[row].slice(from, from + band).forEach((cell, k) => {
          if (cell === undefined) return;
          out.push(cellOf(cell, wide + k * fits, y, fits, row, from + k));
          if (cell?.strong) strong.push(`<rect x="${wide + k * fits}" y="${y}" width="${fits}" height="${HEIGHT}" class="pb-x-strong"/>`);
        });
      }
    }
    return svg(right + 4, y + 6, said, [...out, ...strong].join(""));
  }

  function svg(width, height, said, body) {
    return `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" style="max-width:none">` +
      `<title>${escaped(said)}</title>${body}</svg>`;
  }

  /* -- an explorer ---------------------------------------------------------------- */

  class Explorer {
    constructor(box, index, name, kind) {
      Object.assign(this, { box, kind, key: `x${index}`, fields: {}, at: "" });
      const id = (part) => `explorer-${index}-${part}`;
      const labels = kind.fields.map((field) => this.field(field, id(field.name)));
      this.form = element("form", { className: `pb-lab-fields${kind.wide ? " pb-wide-fields" : ""}` }, ...labels);
      this.said = element("p", { role: "status", className: "pb-lab-numbers" });
      this.error = element("p", { role: "alert", className: "pb-lab-error" });
      const chosen = Object.entries(box.dataset).filter(([one]) => one !== "explorer").map(([, value]) => value);
      const label = [kind.title, ...chosen].join(", "); // two explorers of a page must differ
      this.picture = element("div", { className: "pb-picture", tabIndex: 0, role: "region", "aria-label": `picture: ${label}` });
      this.told = element("p", { role: "status", className: "pb-x-told" }, kind.tell ?? "Choose a cell, by click or with the arrow keys.");
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", label);
      box.replaceChildren(element("p", { className: "pb-lab-title" }, kind.title), this.form, this.error, this.said, this.picture, this.told);
      this.told.hidden = kind.tell === "";
      this.form.addEventListener("submit", (event) => event.preventDefault());
      this.form.addEventListener("input", ({ target }) => this.changed(target));
      this.picture.addEventListener("click", ({ target }) => this.pick(target.closest(".pb-x-cell"), true));
      this.picture.addEventListener("keydown", (event) => this.walk(event));
      if (kind.follow) this.picture.addEventListener("pointerover", ({ target }) => this.pick(target.closest(".pb-x-cell"), false));
      this.given();
      kind.changed?.(this.fields, this.fields[kind.fields[0].name], true);
      this.draw();
      new ResizeObserver(() => {
        if (this.picture.clientWidth !== this.room) this.draw();
      }).observe(this.picture);
    }

    field({ name, label, value, least, most, text, long, options }, id) {
      const pairs = options?.map((one) => (Array.isArray(one) ? one : [one, one]));
      const input = pairs
        ? element("select", {}, ...pairs.map(([key, words]) => element("option", { value: key }, words)))
        : text !== undefined ? element(long ? "textarea" : "input", { spellcheck: false, autocomplete: "off" })
          : element("input", { type: "number", min: least, max: most, step: 1, inputMode: "numeric" });
      input.id = id;
      if (long) Object.assign(input, { rows: 1, onkeydown: (event) => { if (event.key === "Enter") event.preventDefault(); } });
      input.value = this.box.dataset[name] ?? text ?? value ?? pairs[0][0];
      this.fields[name] = input;
      return element("label", { htmlFor: id }, label, input);
    }

    /* -- values, and the page's address ----------------------------------------- */

    /* Take the values that the address has, if it has them. */
    given() {
      const values = new URLSearchParams(location.search).get(this.key)?.split("~") ?? [];
      const inputs = Object.values(this.fields);
      if (values.length === inputs.length) inputs.forEach((input, k) => { input.value = values[k]; });
    }

    keep() {
      const address = new URL(location);
      address.searchParams.set(this.key, Object.values(this.fields).map((input) => input.value).join("~"));
      if (location.protocol !== "file:") history.replaceState(null, "", address);
    }

    changed(field) {
      this.kind.changed?.(this.fields, field, false);
      this.draw();
      this.keep();
    }

    /* What the fields say, or a sentence that says what is wrong with them. */
    values() {
      const found = {};
      for (const { name, label, least, most, text, options } of this.kind.fields) {
        const given = this.fields[name].value.trim();
        found[name] = text !== undefined || (options && !/^\d+$/.test(given)) ? given : Number(given);
        if (least !== undefined && (given === "" || !Number.isInteger(found[name]) || found[name] < least || found[name] > most))
          return `${label}: give a whole number from ${least} to ${most}`;
      }
      return found;
    }

    /* A long text is seen whole: its field is as high as its lines. */
    fit() {
      for (const area of this.form.querySelectorAll("textarea")) {
        area.style.height = "";
        area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`; // with its border
      }
    }

    draw() {
      this.fit();
      const values = this.values();
      const made = typeof values === "string" ? values : this.kind.work(values);
      const refused = typeof made === "string";
      this.error.textContent = refused ? made : "";
      this.room = this.picture.clientWidth;
      const room = this.room || ROOM;
      if (refused) {
        const shown = typeof values === "string" ? "" : this.kind.refused?.(values, room);
        if (shown) this.picture.innerHTML = shown;
        return;
      }
      this.said.textContent = made.said;
      this.picture.innerHTML = this.kind.draw ? this.kind.draw(made, room) : picture(made, room) + (made.more ? picture(made.more, room) : "");
      this.kind.beside?.(this, made);
      this.light();
    }

    /* -- cells that are chosen ----------------------------------------------------- */

    cells() {
      return [...this.picture.querySelectorAll(".pb-x-cell")];
    }

    pick(cell, sets) {
      if (!cell) return;
      this.at = cell.dataset.at;
      if (sets && cell.dataset.set) {
        for (const [name, value] of Object.entries(JSON.parse(cell.dataset.set))) this.fields[name].value = value;
        this.changed(this.form);
      } else this.light();
    }

    /* Let the chosen cell stand out, and those that have a name in common with it. */
    light() {
      const cell = this.at && this.picture.querySelector(`.pb-x-cell[data-at="${this.at}"]`);
      if (!cell) return;
      const names = new Set(cell.dataset.same?.split(" "));
      for (const one of this.cells()) {
        const alike = one.dataset.same?.split(" ").findIndex((name) => names.has(name)) ?? -1;
        one.classList.toggle("pb-x-same", one === cell || alike === 0);
        one.classList.toggle("pb-x-near", one !== cell && alike > 0);
      }
      this.told.textContent = cell.querySelector("title").textContent;
    }

    /* The arrow keys go from cell to cell; Enter chooses it. */
    walk(event) {
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
      const cells = this.cells();
      const here = cells.find((one) => one.dataset.at === this.at);
      if (event.key === "Enter" && here) this.pick(here, true);
      if (!(down || right) || !cells.length) return;
      event.preventDefault();
      const next = here ? this.beside(cells, here, down, right) : cells[0];
      this.pick(next, false);
      next?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    }

    /* The nearest cell of the picture in a direction, of the same line or column if there is one. */
    beside(cells, here, down, right) {
      const middle = (one) => {
        const { x, y, width, height } = one.querySelector("rect").getBBox();
        return [x + width / 2, y + height / 2];
      };
      const [x, y] = middle(here), svg = here.ownerSVGElement;
      let best = null, least = Infinity;
      for (const one of cells) {
        if (one.ownerSVGElement !== svg) continue;
        const [a, b] = middle(one);
        const along = (a - x) * right + (b - y) * down, aside = Math.abs((a - x) * down) + Math.abs((b - y) * right);
        if (along > 1 && along + 8 * aside < least) [best, least] = [one, along + 8 * aside];
      }
      return best;
    }
  }

  const kinds = {};

  /* Give all boxes of a kind their explorer. */
  function kind(name, made) {
    kinds[name] = made.work;
    document.querySelectorAll(".phasebit-explorer").forEach((box, index) => {
      if (box.dataset.explorer === name) new Explorer(box, index, name, made);
    });
  }

  window.phasebitParts = { element, escaped, number, many, picture, svg, kind };
  window.phasebitGrids = kinds; // what tests ask
})();

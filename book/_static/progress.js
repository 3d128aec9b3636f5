/* Where am I: the chapters that a reader has come to the end of and the exercises that were solved
   in their pages, kept in this browser and sent nowhere. The list of chapters marks them, and so
   does the map of "How to read this book". */

(() => {
  "use strict";

  const element = window.phasebitElement;
  const kept = window.phasebitKept;
  const KEPT = "phasebit.read";
  const SVG = "http://www.w3.org/2000/svg";
  const EXERCISES = window.phasebitExercises ?? {}; // page -> names of what can be solved in it
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const page = (address) => new URL(address, location.href).pathname.slice(root.pathname.length);

  let here = null; // this page, once it was read: a browser may keep nothing

  /* The pages that were read. */
  function read() {
    let pages = [];
    try {
      pages = JSON.parse(kept.get(KEPT) ?? "[]");
    } catch {
      // somebody else wrote there
    }
    return new Set(here ? [...pages, here] : pages);
  }

  const solvedName = (name, exercise) => `${window.phasebitAnswer(name, exercise)}.solved`;

  /* How many exercises of a page were solved, and how many there are. */
  function solved(name) {
    const every = EXERCISES[name] ?? [];
    return [every.filter((exercise) => kept.get(solvedName(name, exercise))).length, every.length];
  }

  function forget() {
    here = null;
    kept.set(KEPT, "[]");
    for (const [name, every] of Object.entries(EXERCISES))
      for (const exercise of every) kept.drop(solvedName(name, exercise));
    show();
  }

  /* A chapter is a page of a part, but for the part's own; and the links to all of them. */
  const isChapter = (name) => /^book\/part\d+_[^/]*\/(?!part\.html)/.test(name);
  const links = [...document.querySelectorAll("nav.bd-links a.internal")];
  const titles = new Map(links.map((link) => [link.textContent.trim().replace(/^(\d+)\. /, "$1 "), link]));
  const chapters = links.filter((link) => isChapter(page(link.href)));
  const inWords = ([done, every]) => `${done} of ${every} exercises solved`;

  /* Behind a link of the list: what was done, as a sign with a name. */
  function sign(link, kind, label, text = "") {
    const found = link.querySelector(`.${kind}`);
    if (!label) return found?.remove();
    const node = found ?? link.appendChild(element("span", { className: kind, role: "img" }));
    node.setAttribute("aria-label", label);
    node.dataset.text = text;
  }

  /* On the edge of a box of the map: how many exercises. */
  function badge(way, count) {
    way.querySelector(".pb-solved")?.remove();
    way.removeAttribute("aria-label");
    if (!count[0]) return;
    const box = way.querySelector("rect");
    const at = (name) => Number(box.getAttribute(name));
    const [x, y] = [at("x") + at("width") - 18, at("y")];
    const made = document.createElementNS(SVG, "g");
    made.classList.add("pb-solved");
    made.innerHTML = `<rect x="${x - 15}" y="${y - 7}" width="30" height="14" rx="7"/><text x="${x}" y="${y + 4}" text-anchor="middle">${count.join("/")}</text>`;
    way.append(made);
    way.setAttribute("aria-label", `${way.dataset.title}; ${inWords(count)}`);
  }

  /* Under the map: how many, and a button that forgets them. */
  function tell(pages) {
    const map = document.querySelector("svg.phasebit-diagram")?.closest(".pb-picture");
    if (!map || !/Which chapter needs which/.test(map.textContent)) return;
    const line = document.querySelector(".pb-progress") ?? element("p", { className: "pb-progress" });
    const ends = chapters.filter((link) => pages.has(page(link.href))).length;
    const counts = Object.keys(EXERCISES).map(solved);
    const [done, every] = [0, 1].map((k) => counts.reduce((sum, count) => sum + count[k], 0));
    const asked = every ? `, and solved ${done} of the ${every} exercises that can be solved in a page` : "";
    line.replaceChildren(`You have come to the end of ${ends} of ${chapters.length} chapters${asked}; this browser remembers it, and nobody else. `);
    if (ends || done) {
      const button = element("button", { type: "button" }, "Forget it");
      button.addEventListener("click", forget);
      line.append(button);
    }
    map.after(line);
  }

  function show() {
    const pages = read();
    for (const link of chapters) {
      const name = page(link.href);
      const count = solved(name);
      link.classList.toggle("read", pages.has(name));
      sign(link, "read-mark", pages.has(name) ? "read" : "");
      sign(link, "solved-mark", count[0] ? inWords(count) : "", count.join("/"));
    }
    for (const way of document.querySelectorAll("svg.phasebit-diagram a[data-title]")) {
      const name = page(way.getAttribute("href"));
      way.querySelector("rect").classList.toggle("read", pages.has(name));
      badge(way, solved(name));
    }
    tell(pages);
  }

  /* A box of the map leads to its chapter, by keyboard too. */
  function lead() {
    for (const name of document.querySelectorAll("svg.phasebit-diagram text")) {
      const link = titles.get(name.textContent);
      if (!link) continue;
      const way = document.createElementNS(SVG, "a");
      way.setAttribute("href", link.href);
      way.dataset.title = name.textContent;
      name.before(way);
      way.append(way.previousElementSibling, name);
      way.ownerSVGElement.setAttribute("role", "group"); // a picture has nothing to go to inside
    }
  }

  lead();
  show();
  document.addEventListener("phasebit:solved", show);
  addEventListener("storage", show); // another tab may have read another chapter
  const end = document.querySelector(".prev-next-area");
  const name = page(location.href);
  if (end && isChapter(name) && !read().has(name)) {
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((one) => one.isIntersecting) || !scrollY) return;
      observer.disconnect();
      here = name;
      kept.set(KEPT, JSON.stringify([...read()]));
      show();
    }).observe(end);
  }
})();

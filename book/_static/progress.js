/* Where am I: the chapters that a reader has come to the end of, kept in this browser and sent
   nowhere. The list of chapters marks them, and so does the map of "How to read this book". */

(() => {
  "use strict";

  const KEPT = "phasebit.read";
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const page = (address) => new URL(address, location.href).pathname.slice(root.pathname.length);

  /* The pages that were read; none where the browser keeps nothing. */
  function read() {
    try {
      return new Set(JSON.parse(localStorage.getItem(KEPT) ?? "[]"));
    } catch {
      return new Set();
    }
  }

  function keep(pages) {
    try {
      localStorage.setItem(KEPT, JSON.stringify([...pages]));
    } catch {
      // a browser that keeps nothing shows what was read on this page alone
    }
  }

  /* The links to chapters: a page whose file's name begins with a number. */
  const chapters = () =>
    [...document.querySelectorAll("nav.bd-links a.internal")].filter((link) =>
      /\/\d+_[^/]*\.html$/.test(page(link.href)),
    );

  function mark(pages) {
    const titles = new Set();
    for (const link of chapters()) {
      const done = pages.has(page(link.href));
      link.classList.toggle("read", done);
      link.querySelector(".read-mark")?.remove();
      if (done) {
        titles.add(link.textContent.trim().replace(/^(\d+)\. /, "$1 "));
        const sign = document.createElement("span");
        sign.className = "read-mark";
        sign.setAttribute("role", "img");
        sign.setAttribute("aria-label", "read");
        link.append(sign);
      }
    }
    for (const name of document.querySelectorAll("svg.phasebit-diagram text")) {
      const box = name.previousElementSibling;
      if (box?.tagName === "rect") box.classList.toggle("read", titles.has(name.textContent));
    }
  }

  /* Under the map: how many, and a button that forgets them. */
  function tell(pages) {
    const map = document.querySelector("svg.phasebit-diagram")?.closest(".pb-picture");
    if (!map || !/Which chapter needs which/.test(map.textContent)) return;
    const line = document.querySelector(".pb-progress") ?? document.createElement("p");
    line.className = "pb-progress";
    const every = chapters();
    const count = every.filter((link) => pages.has(page(link.href))).length;
    line.textContent = `You have come to the end of ${count} of ${every.length} chapters; this browser remembers it, and nobody else. `;
    if (count) {
      const forget = document.createElement("button");
      forget.textContent = "Forget it";
      forget.addEventListener("click", () => {
        keep([]);
        mark(new Set());
        tell(new Set());
      });
      line.append(forget);
    }
    map.after(line);
  }

  /* A box of the map leads to its chapter. For keyboard and screen reader the list beside does. */
  function lead() {
    const links = [...document.querySelectorAll("nav.bd-links a.internal")];
    const titles = new Map(links.map((link) => [link.textContent.trim().replace(/^(\d+)\. /, "$1 "), link]));
    for (const name of document.querySelectorAll("svg.phasebit-diagram text")) {
      const link = titles.get(name.textContent);
      for (const part of link ? [name, name.previousElementSibling] : []) {
        part.style.cursor = "pointer";
        part.addEventListener("click", () => link.click());
      }
    }
  }

  const pages = read();
  lead();
  mark(pages);
  tell(pages);
  const end = document.querySelector(".prev-next-area");
  const here = page(location.href);
  if (end && /\/\d+_[^/]*\.html$/.test(here) && !pages.has(here)) {
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((one) => one.isIntersecting) || !scrollY) return;
      observer.disconnect();
      const now = read().add(here); // another tab may have read another one
      keep(now);
      mark(now);
    }).observe(end);
  }
})();

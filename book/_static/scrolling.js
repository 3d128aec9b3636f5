/* What scrolls sideways can be reached with the keyboard: tables and formulas, which
   the theme forgets. A drawing that is wider than its place begins with its first box in the middle, if it can. */

(() => {
  "use strict";

  const wide = ".bd-article :is(table, div.math)";
  const look = () => document.querySelectorAll(wide).forEach((one) => {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  });
  document.querySelectorAll(".pb-picture:has(> .phasebit-diagram)").forEach((one) => {
    const first = one.querySelector("rect")?.getBoundingClientRect();
    const box = one.getBoundingClientRect();
    if (first) one.scrollLeft = (first.left + first.right) / 2 - box.left - box.width / 2;
  });

  const watcher = new ResizeObserver(look);
  document.querySelectorAll(".bd-article").forEach((article) => watcher.observe(article));
})();

/* What scrolls sideways can be reached with the keyboard: tables and formulas, which
   the theme forgets. A drawing whose first box is out of sight begins there. */

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
    if (first && first.left > box.right) one.scrollLeft = (first.left + first.right) / 2 - box.left - box.width / 2;
  });

  const watcher = new ResizeObserver(look);
  document.querySelectorAll(".bd-article").forEach((article) => watcher.observe(article));
})();

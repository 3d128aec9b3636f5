/* What scrolls sideways can be reached with the keyboard: tables and formulas, which
   the theme forgets. */

(() => {
  "use strict";

  const wide = ".bd-article :is(table, div.math)";
  const look = () => document.querySelectorAll(wide).forEach((one) => {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  });
  const watcher = new ResizeObserver(look);
  document.querySelectorAll(".bd-article").forEach((article) => watcher.observe(article));
})();

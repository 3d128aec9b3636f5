/* Exercises in the page. A cell whose output ends with "not answered yet" gets a button; it turns
   the cell into a text area with a Check, and the chapter's own judge (exercise.py, in the worker
   of python.js) says what the notebook would print. Answers stay in this browser. */

(() => {
  "use strict";

  const element = window.phasebitElement;
  const kept = window.phasebitKept;
  const SECONDS = 30; // an answer that takes longer has a loop without an end
  const BEFORE = JSON.parse(document.getElementById("phasebit-before")?.textContent ?? '""');

  /* Enter keeps the indentation, and adds to it behind a colon. */
  function indents(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    const area = event.target;
    const line = area.value.slice(0, area.selectionStart).split("\n").at(-1);
    const by = line.match(/^ */)[0] + (/:\s*(#.*)?$/.test(line) ? "    " : "");
    if (!by) return;
    event.preventDefault();
    area.setRangeText(`\n${by}`, area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input"));
  }

  function open(cell, key, skeleton, start) {
    const id = `answer-${key.replace(/\W+/g, "-")}`;
    const area = element("textarea", { id, value: kept.get(key) ?? skeleton, spellcheck: false, autocapitalize: "off", autocomplete: "off", rows: Math.max(8, skeleton.split("\n").length + 4) });
    const check = element("button", { type: "button", className: "pb-exercise-check" }, "Check");
    const again = element("button", { type: "button" }, "Start again");
    const said = element("p", { role: "status", className: "pb-exercise-said" });
    const output = element("pre", { hidden: true, tabIndex: 0, "aria-label": "what the answer printed" });
    const bar = element("progress", { hidden: true, "aria-label": "loading Python" });
    cell.querySelectorAll(":scope > .cell_input, :scope > .cell_output, :scope > details").forEach((one) => (one.hidden = true));
    start.replaceWith(element("div", { className: "pb-exercise", role: "group", "aria-label": "exercise" },
      element("label", { htmlFor: id }, "Your answer; Ctrl and Enter check it"), area,
      element("div", { className: "pb-step-controls" }, check, again), bar, said, output));
    const tell = (text, verdict = "") => {
      said.textContent = text;
      said.dataset.verdict = verdict;
    };
    const judge = async () => {
      if (check.disabled) return;
      check.disabled = true;
      output.hidden = true;
      try {
        tell(window.phasebitPython.loaded ? "Checking …" : "Loading Python, once …");
        const ask = await window.phasebitPython.load((come, of) => {
          bar.hidden = false;
          bar.max = of;
          bar.value = come;
        });
        bar.hidden = true;
        tell("Checking …");
        const shown = await ask({ exercise: { code: area.value, before: BEFORE } }, SECONDS);
        const right = /: OK( |$)/.test(shown.verdict ?? "");
        tell(shown.error ?? shown.verdict ?? "Nothing was printed.", right ? "right" : shown.error ? "wrong" : "");
        output.textContent = shown.output ?? "";
        output.hidden = !shown.output;
        if (right) {
          kept.set(`${key}.solved`, "1");
          document.dispatchEvent(new Event("phasebit:solved"));
        }
      } catch (reason) {
        bar.hidden = true;
        tell(`No verdict: ${reason.message}. ${/stopped/.test(reason.message) ? "Is there a loop without an end?" : "Press Check to try again."}`, "wrong");
      }
      check.disabled = false;
    };
    check.addEventListener("click", judge);
    again.addEventListener("click", () => {
      area.value = skeleton;
      kept.set(key, skeleton);
      tell("");
      output.hidden = true;
      area.focus();
    });
    area.addEventListener("input", () => kept.set(key, area.value));
    area.addEventListener("keydown", indents);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) judge();
    });
    area.focus({ preventScroll: true });
  }

  if (location.protocol === "file:") return; // no browser starts a worker from a file
  document.querySelectorAll("div.cell").forEach((cell) => {
    const output = cell.querySelector(".cell_output");
    const code = cell.querySelector(".cell_input pre");
    const found = /(\w+): not answered yet\s*$/.exec(output?.textContent ?? "");
    if (!code || !found) return;
    const key = window.phasebitAnswer(location.pathname, found[1]);
    const solved = kept.get(`${key}.solved`);
    const start = element("button", { type: "button", className: "pb-exercise-start" }, solved ? "Solved here: try it again" : "Try it here");
    const skeleton = code.textContent.trimEnd();
    start.addEventListener("click", () => open(cell, key, skeleton, start));
    cell.append(start);
  });
})();

/* The in-page lab. A box in a chapter,

     <div class="phasebit-lab" data-lab="pipeline" data-producers="4" …>fallback</div>

   becomes a form. Its button loads Python (Pyodide, from this site) and the book's own
   simulator, in a worker; after that every change of a number draws the timeline anew. A box with
   data-law also says what the law of *How fast can it go?* predicts. lab.py decides what is shown;
   here is only the form. */

(() => {
  "use strict";

  // name, what the reader sees, value when the box does not give one
  const FIELDS = [
    ["producers", "producers P", 4],
    ["consumers", "consumers C", 6],
    ["slots", "slots B", 6],
    ["produce", "clocks to produce", 5],
    ["consume", "clocks to consume", 3],
    ["see_full", "clocks until seen full", 1],
    ["see_empty", "clocks until seen empty", 1],
    ["jobs", "jobs", 20],
  ];
  const STATIC = new URL(".", document.currentScript.src);
  let python = null; // what loadPython promises, shared by all labs of the page

  /* A promise of a function that answers values with what to show; Python runs beside the page. */
  function loadPython() {
    const worker = new Worker(new URL("lab_worker.js", STATIC), { type: "module" });
    let questions = 0;
    const waiting = new Map(); // number of a question -> who waits for its answer
    const show = (values) =>
      new Promise((answer) => {
        const id = (questions += 1);
        waiting.set(id, answer);
        worker.postMessage({ id, values });
      });
    return new Promise((loaded, failed) => {
      const fail = (why) => {
        worker.terminate();
        failed(new Error(why));
      };
      worker.addEventListener("error", (event) => fail(event.message || "no answer"));
      worker.addEventListener("message", ({ data }) => {
        if (data.ready) loaded(show);
        else if (data.failed) fail(data.failed);
        else {
          waiting.get(data.id)(data.shown);
          waiting.delete(data.id);
        }
      });
    });
  }

  function element(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  function build(box, index) {
    if (box.dataset.lab !== "pipeline") return; // an unknown lab keeps its fallback
    const title = element("p", { className: "pb-lab-title", id: `lab-${index}` }, "Lab: the pipeline");
    const status = element("p", { className: "pb-lab-status" });
    const error = element("p", { className: "pb-lab-error" });
    const numbers = element("p", { className: "pb-lab-numbers" });
    const picture = element("div", { className: "pb-picture", tabIndex: 0 });
    const form = element("form", { className: "pb-lab-fields", hidden: true, noValidate: true });
    const start = element("button", { type: "button" }, "Start the lab");
    error.setAttribute("role", "alert");
    status.setAttribute("role", "status");
    numbers.setAttribute("aria-live", "polite");
    box.setAttribute("role", "group");
    box.setAttribute("aria-labelledby", title.id);

    const inputs = FIELDS.map(([name, label, value]) => {
      const input = element("input", {
        name,
        type: "number",
        inputMode: "numeric",
        step: 1,
        value: box.dataset[name.replace(/_(.)/, (_, c) => c.toUpperCase())] ?? value,
      });
      const slider = element("input", { type: "range", min: 1, max: name === "jobs" ? 60 : 12, value: input.value });
      slider.setAttribute("aria-label", `${label}, as a slider`);
      slider.addEventListener("input", () => (input.value = slider.value));
      input.addEventListener("input", () => (slider.value = input.value));
      form.append(element("label", {}, label, input, slider));
      return input;
    });
    box.replaceChildren(title, status, start, form, error, numbers, picture);

    if (location.protocol === "file:") {
      status.textContent =
        "A browser runs no Python from a page opened as a file. " +
        "Run 'make serve' and open the address that it prints.";
      start.remove();
      return;
    }
    status.textContent =
      "Runs the book's own simulator in this page. It loads Python once, 13 MB from this site.";

    let show = null;
    let asked = 0; // questions so far: only the last one's answer is shown
    const draw = async () => {
      const values = Object.fromEntries(
        inputs.map((input) => {
          const whole = /^-?\d+$/.test(input.value.trim());
          return [input.name, whole ? Number(input.value) : input.value];
        }),
      );
      const mine = (asked += 1);
      box.setAttribute("aria-busy", "true");
      const shown = await show(values);
      if (mine !== asked) return;
      box.setAttribute("aria-busy", "false");
      error.textContent = shown.error ?? "";
      for (const input of inputs) {
        const refused = shown.error?.startsWith(`${input.name} `) ?? false;
        input.setAttribute("aria-invalid", String(refused));
      }
      box.classList.toggle("pb-lab-refused", "error" in shown);
      if ("error" in shown) return; // the last good run stays, faded
      numbers.textContent = "law" in box.dataset ? `${shown.numbers} ${shown.law}` : shown.numbers;
      picture.innerHTML = shown.svg;
    };

    start.addEventListener("click", async () => {
      start.disabled = true;
      status.textContent = "Loading Python …";
      try {
        show = await (python ??= loadPython());
      } catch (reason) {
        python = null;
        start.disabled = false;
        status.textContent = `Python did not load (${reason.message}). Reload the page to try again.`;
        return;
      }
      status.textContent = "Change a number; the run below is simulated anew.";
      start.remove();
      form.hidden = false;
      inputs[0].focus({ preventScroll: true });
      draw();
    });
    form.addEventListener("input", draw);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  document.querySelectorAll(".phasebit-lab").forEach(build);
})();

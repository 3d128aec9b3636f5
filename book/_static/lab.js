/* The in-page lab. A box in a chapter,

     <div class="phasebit-lab" data-lab="pipeline" data-producers="4" …>fallback</div>

   becomes a form. Its button loads Python (python.js) and the book's own simulator; after that
   every change of a number draws the timeline anew, and stands in the page's address. A box with
   data-law also says what the law of *How fast can it go?* predicts; data-presets="one slot:
   slots=1; …" gives buttons for things to try. lab.py decides what is shown; here is only the
   form. */

(() => {
  "use strict";

  const element = window.phasebitElement;
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

  function build(box, index) {
    if (box.dataset.lab !== "pipeline") return; // an unknown lab keeps its fallback
    const title = element("p", { className: "pb-lab-title", id: `lab-${index}` }, "Lab: the pipeline");
    const status = element("p", { className: "pb-lab-status" });
    const error = element("p", { className: "pb-lab-error" });
    const numbers = element("p", { className: "pb-lab-numbers" });
    const picture = element("div", { className: "pb-picture pb-two", tabIndex: 0 });
    const bar = element("progress", { hidden: true });
    bar.setAttribute("aria-label", "loading Python");
    const presets = element("div", { className: "pb-step-controls", hidden: true });
    presets.setAttribute("role", "group");
    presets.setAttribute("aria-label", "things to try");
    const form = element("form", { className: "pb-lab-fields", hidden: true, noValidate: true });
    const start = element("button", { type: "button" }, "Start the lab");
    error.setAttribute("role", "alert");
    status.setAttribute("role", "status");
    numbers.setAttribute("aria-live", "polite");
    box.setAttribute("role", "group");
    box.setAttribute("aria-labelledby", title.id);

    const ADDRESS = index ? `lab${index + 1}` : "lab";
    const given = (new URLSearchParams(location.search).get(ADDRESS) ?? "").split(",");
    const first = new Map();
    const inputs = FIELDS.map(([name, label, value]) => {
      first.set(name, box.dataset[name.replace(/_(.)/, (_, c) => c.toUpperCase())] ?? String(value));
      const input = element("input", {
        name,
        type: "number",
        inputMode: "numeric",
        step: 1,
        value: given.length === FIELDS.length ? given[first.size - 1] : first.get(name),
      });
      const slider = element("input", { type: "range", min: name.startsWith("see") ? 0 : 1, max: name === "jobs" ? 60 : 12, value: input.value });
      slider.setAttribute("aria-label", `${label}, as a slider`);
      slider.addEventListener("input", () => (input.value = slider.value));
      input.addEventListener("input", () => (slider.value = input.value));
      form.append(element("label", {}, label, input, slider));
      return input;
    });

    /* Set all numbers: those of the box, but for what a preset changes. */
    const preset = (changes) => {
      for (const input of inputs) {
        input.value = changes.get(input.name) ?? first.get(input.name);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }
    };
    const tries = (box.dataset.presets ?? "").split(";").filter((one) => one.trim());
    for (const one of tries.length ? ["as at first:", ...tries] : []) {
      const [name, changes] = one.split(":");
      const button = element("button", { type: "button" }, name.trim());
      button.addEventListener("click", () =>
        preset(new Map(changes.trim().split(/\s+/).filter(Boolean).map((change) => change.split("=")))));
      presets.append(button);
    }
    const view = element("div", { className: "pb-lab-view" }, error, numbers, picture);
    box.replaceChildren(title, status, start, bar, presets, form, view);

    if (location.protocol === "file:") {
      status.textContent =
        "A browser runs no Python from a page opened as a file. " +
        "Run 'make serve' and open the address that it prints.";
      start.remove();
      return;
    }
    status.textContent =
      "Runs the book's own simulator in this page. It loads Python once, from this site.";

    let show = null;
    let answering = null; // what stands beside the timeline
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
      const address = new URL(location);
      address.searchParams.set(ADDRESS, inputs.map((input) => input.value).join(","));
      history.replaceState(null, "", address);
      const shown = await show({ values });
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
      answering?.remove();
      picture.innerHTML = shown.svg;
      picture.append(...picture.querySelectorAll("metadata.narrow > svg")); // the style sheet shows one of both
      answering = window.phasebitTimelines?.answer(picture.querySelector("svg")) ?? null;
    };

    start.addEventListener("click", async () => {
      start.disabled = true;
      status.textContent = "Loading Python …";
      try {
        show = await window.phasebitPython.load((come, of) => {
          bar.hidden = false;
          bar.max = of;
          bar.value = come;
          status.textContent = `Loading Python: ${Math.round(come / 1e6)} of ${Math.round(of / 1e6)} MB`;
        });
      } catch (reason) {
        bar.hidden = true;
        start.disabled = false;
        status.textContent = `Python did not load (${reason.message}). Reload the page to try again.`;
        return;
      }
      status.textContent = "Change a number; the run is simulated anew. The page's address keeps the numbers.";
      start.remove();
      bar.remove();
      presets.hidden = !tries.length;
      form.hidden = false;
      inputs[0].focus({ preventScroll: true });
      draw();
    });
    form.addEventListener("input", draw);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  document.querySelectorAll(".phasebit-lab").forEach(build);
})();

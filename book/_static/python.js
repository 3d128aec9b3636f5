/* Python in the page: Pyodide from this site and the book's own modules, in a worker, started once
   for all who ask. phasebitPython.ask(question) promises what the worker answers; a question that
   takes longer than `seconds` ends the worker, and the next one starts another. */

(() => {
  "use strict";

  const STATIC = new URL(".", document.currentScript.src);
  let started = null; // what start() promises
  let listeners = []; // who wants to know how far the loading is

  function start() {
    const worker = new Worker(new URL("lab_worker.js", STATIC), { type: "module" });
    let questions = 0;
    const waiting = new Map(); // number of a question -> who waits for its answer
    const ask = (question, seconds = 0) =>
      new Promise((answer, failed) => {
        const id = (questions += 1);
        const timer = seconds && setTimeout(() => {
          worker.terminate();
          started = null;
          failed(new Error(`it was stopped after ${seconds} seconds`));
        }, seconds * 1000);
        waiting.set(id, (shown) => {
          clearTimeout(timer);
          answer(shown);
        });
        worker.postMessage({ id, ...question });
      });
    return new Promise((loaded, failed) => {
      const fail = (why) => {
        worker.terminate();
        started = null;
        failed(new Error(why));
      };
      worker.addEventListener("error", (event) => fail(event.message || "no answer"));
      worker.addEventListener("message", ({ data }) => {
        if (data.ready) loaded(ask);
        else if (data.failed) fail(data.failed);
        else if ("come" in data) listeners.forEach((listen) => listen(data.come, data.of));
        else {
          waiting.get(data.id)(data.shown);
          waiting.delete(data.id);
        }
      });
    });
  }

  window.phasebitPython = {
    /* Load it; `progress(come, of)` hears of bytes meanwhile. */
    async load(progress) {
      if (progress) listeners.push(progress);
      try {
        return await (started ??= start());
      } finally {
        listeners = listeners.filter((one) => one !== progress);
      }
    },
    get loaded() {
      return started !== null;
    },
  };
})();

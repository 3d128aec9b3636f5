/* The lab's Python, beside the page: it never waits for it. Each message {id, values} is answered
   by {id, shown}, what lab.py makes of the values; the first message of all is {ready}, or {failed}
   with the reason. */

import { loadPyodide } from "./pyodide/pyodide.mjs";

const HERE = new URL(".", import.meta.url);

async function get(name) {
  const answer = await fetch(new URL(name, HERE));
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer;
}

async function load() {
  const [pyodide, archive, glue] = await Promise.all([
    loadPyodide({ indexURL: new URL("pyodide/", HERE).href }),
    get("phasebit.zip").then((answer) => answer.arrayBuffer()),
    get("lab.py").then((answer) => answer.text()),
  ]);
  pyodide.unpackArchive(archive, "zip");
  pyodide.FS.writeFile("lab.py", glue);
  return pyodide.pyimport("lab").show;
}

try {
  const show = await load();
  self.onmessage = ({ data: { id, values } }) => {
    try {
      const answer = show.callKwargs(values);
      const shown = answer.toJs({ dict_converter: Object.fromEntries });
      answer.destroy();
      self.postMessage({ id, shown });
    } catch (reason) {
      self.postMessage({ id, shown: { error: `Python failed: ${reason.message}` } });
    }
  };
  self.postMessage({ ready: true });
} catch (reason) {
  self.postMessage({ failed: reason.message });
}

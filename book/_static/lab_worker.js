/* The pages' Python, beside the page: it never waits for it. Each message {id, values} is answered
   by {id, shown}, what lab.py makes of the values; {id, exercise} by what exercise.py says of an
   answer. While it loads it tells {come, of}, bytes; the first message after that is {ready}, or
   {failed} with the reason. */

import { loadPyodide } from "./pyodide/pyodide.mjs";

const HERE = new URL(".", import.meta.url);
const PART = 1 << 18; // bytes between two words about the loading

/* fetch, counted: what has come of all that was announced. */
const plain = self.fetch.bind(self);
let come = 0;
let of = 0;
let told = 0;

function count(bytes) {
  come += bytes;
  if (come - told > PART || come === of) {
    told = come;
    self.postMessage({ come, of });
  }
}

self.fetch = async (...request) => {
  const answer = await plain(...request);
  const length = Number(answer.headers.get("content-length"));
  if (!answer.ok || !answer.body || !length || answer.headers.get("content-encoding")) return answer;
  of += length;
  const counted = answer.body.pipeThrough(new TransformStream({
    transform(chunk, out) {
      count(chunk.byteLength);
      out.enqueue(chunk);
    },
  }));
  return new Response(counted, { status: answer.status, headers: answer.headers });
};

async function get(name) {
  const answer = await fetch(new URL(name, HERE));
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer;
}

async function load() {
  const [pyodide, archive, ...glue] = await Promise.all([
    loadPyodide({ indexURL: new URL("pyodide/", HERE).href }),
    get("phasebit.zip").then((answer) => answer.arrayBuffer()),
    ...["lab.py", "exercise.py"].map((name) => get(name).then((answer) => answer.text())),
  ]);
  pyodide.unpackArchive(archive, "zip");
  pyodide.FS.writeFile("lab.py", glue[0]);
  pyodide.FS.writeFile("exercise.py", glue[1]);
  return [pyodide.pyimport("lab").show, pyodide.pyimport("exercise").check];
}

try {
  const [show, check] = await load();
  self.onmessage = ({ data: { id, values, exercise } }) => {
    try {
      const answer = exercise ? check(exercise.code, exercise.before) : show.callKwargs(values);
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

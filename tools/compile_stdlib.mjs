/* Compile the Python files of Pyodide's standard library, once, so that no reader's browser has to.

     node tools/compile_stdlib.mjs FOLDER

   FOLDER holds Pyodide. Its own Python compiles: the bytecode of another version would not do. */

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const folder = path.resolve(process.argv[2]);
const { loadPyodide } = await import(pathToFileURL(path.join(folder, "pyodide.mjs")));
const library = path.join(folder, "python_stdlib.zip");
const python = await loadPyodide({ indexURL: folder + path.sep });
python.FS.writeFile("/tmp/plain.zip", fs.readFileSync(library));
python.runPython(`
import importlib._bootstrap_external as bootstrap
import zipfile

LEFT_OUT = (  # no page has a use for them
    "_pyrepl/", "doctest.", "ensurepip/", "ftplib.", "imaplib.", "mailbox.", "multiprocessing/",
    "pdb.", "poplib.", "pydoc", "smtplib.", "unittest/", "wsgiref/", "xml/", "xmlrpc/",
)
EPOCH = (2020, 1, 1, 0, 0, 0)  # the same archive from the same files
with zipfile.ZipFile("/tmp/plain.zip") as plain, zipfile.ZipFile("/tmp/compiled.zip", "w", zipfile.ZIP_DEFLATED) as compiled:
    for name in sorted(plain.namelist()):
        if name.startswith(LEFT_OUT):
            continue
        content = plain.read(name)
        if name.endswith(".py"):
            code = compile(content, "/lib/" + name, "exec", dont_inherit=True, optimize=2)
            # Unchecked: the source is not there to be compared with.
            content = bytes(bootstrap._code_to_hash_pyc(code, b"\\0" * 8, False))
            name += "c"
        compiled.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED, 9)
`);
fs.writeFileSync(library, python.FS.readFile("/tmp/compiled.zip"));

/* What the scripts of a page share, loaded before them. */

/* An element with its properties and children; a name that is no property of it is an attribute. */
window.phasebitElement = (tag, properties = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  node.append(...children);
  return node;
};

/* What this browser keeps: text by name. A browser that keeps nothing has none. */
window.phasebitKept = {
  get(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set(name, text) {
    try {
      localStorage.setItem(name, text);
    } catch {
      // what was kept is there until the page is left
    }
  },
  drop(name) {
    try {
      localStorage.removeItem(name);
    } catch {
      // nothing was kept
    }
  },
};

/* The name under which an exercise of a page is kept. */
window.phasebitAnswer = (page, exercise) => `phasebit.answer.${page.split("/").pop()}.${exercise}`;

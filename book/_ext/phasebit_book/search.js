/* Which results of a search come first, and what is shown of them. Sphinx puts this into the page
   of the search (html_search_scorer), after its own search and before the words it looks in. */
{
  const asked = splitQuery((new URLSearchParams(location.search).get("q") ?? "").toLowerCase());
  const stemmer = new Stemmer();
  const words = new Map(Object.entries(window.searchWords));
  const lists = asked.map((word) => (words.get(stemmer.stemWord(word)) ?? []).map((place) => window.searchPages[place]));
  const GAINS = [60, 30, 15]; // of the page that has a word most often, and of the next two

  Scorer.score = ([page, , anchor, , score]) =>
    anchor ? score : lists.reduce((sum, pages) => sum + (GAINS[pages.indexOf(page)] ?? 0), score);

  /* Every name of the package begins with its own: only what comes after that counts. */
  const named = Search.performObjectSearch;
  Search.performObjectSearch = (word, words) =>
    named(word, words).filter(([, name]) => name.toLowerCase().replace(/^phasebit\./, "").includes(word));

  /* An excerpt is of the prose and of what is printed, not of a cell that imports the package; words
     of two cells of a table are two words. */
  const text = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".cell_input, .onlyprint, nav").forEach((part) => part.remove());
    page.querySelectorAll("td, th, caption, li, dt, dd, p").forEach((part) => part.append(" "));
    return text(page.documentElement.outerHTML, anchor);
  };
}

// Tables: the name of its column in each cell, which site.css shows where a row is a list; and long words that can be broken.
document$.subscribe(() => {
  for (const table of document.querySelectorAll("article table")) {
    const names = [...table.querySelectorAll("th")].map((cell) => cell.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, index) => { cell.dataset.column = index ? names[index] || "" : ""; });
    }
    for (const words of table.querySelectorAll("td code, td:not(:has(*))")) {
      words.innerHTML = words.innerHTML.replace(/([a-z0-9])([._/]+)(?=[a-z0-9])/gi, "$1$2<wbr>");
    }
  }
});
// The copy button copies the commands of a session alone, without prompts and output.
document$.subscribe(() => {
  for (const code of document.querySelectorAll(".highlight pre > code:has(.gp)")) {
    const session = code.cloneNode(true);
    session.querySelectorAll(".gp, .go, a").forEach((other) => other.remove());
    code.dataset.copy = session.textContent.replace(/\n{2,}/g, "\n").trim();
  }
});

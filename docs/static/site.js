/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks the cells of a row where a table of text is too wide for a narrow screen. Numbers stay in columns.
   Lets the name of a function in a title break after an underscore. */

const NARROW = 640; // pixels of the screen
const TALL = 130; // pixels of a cell: about six lines
const SHORT = 8; // characters of a number

function textOf(cell) {
  return cell.textContent.trim();
}

function isNumbers(table) {
  const lengths = [...table.querySelectorAll("td")].map((cell) => textOf(cell).length).sort((a, b) => a - b);
  return lengths[Math.floor(lengths.length / 2)] <= SHORT;
}

function nameColumns(table) {
  table.dataset.text = "";
  const names = [...table.querySelectorAll("thead th")].map(textOf);
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, i) => {
      cell.classList.toggle("blank", !textOf(cell));
      if (i > 0 && names.length > 2) cell.dataset.column = names[i];
    });
  }
}

function isCramped(table) {
  const cells = [...table.querySelectorAll("td")];
  return table.scrollWidth > table.clientWidth || cells.some((cell) => cell.offsetHeight > TALL);
}

/* All tables of a page, or none. */
function stack(tables) {
  tables.forEach((table) => table.classList.remove("stacked"));
  const wanted = window.innerWidth <= NARROW && tables.some(isCramped);
  tables.forEach((table) => table.classList.toggle("stacked", wanted));
}

function breakName(title) {
  const name = title.firstChild;
  if (name.nodeType !== Node.TEXT_NODE) return;
  name.replaceWith(...name.textContent.split(/(?<=_)/).flatMap((part) => [document.createElement("wbr"), part]));
}

window.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("article h1").forEach(breakName);
  const tables = [...document.querySelectorAll("article table.docutils")].filter((table) => !isNumbers(table));
  tables.forEach(nameColumns);
  stack(tables);
  window.addEventListener("resize", () => stack(tables));
});

"use strict";
// Sorting is all that needs a script. Each row of a sortable table, with what unfolds below it, is a <tbody> of its own.

function sorted(table, at, key, direction) {
  const value = (body) => body.rows[0].cells[at].dataset.sort.trim();
  const number = (text) => (text === "" ? NaN : Number(text));
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // empty cells are last, whichever way
    const numbers = key === "number" && !Number.isNaN(number(x)) && !Number.isNaN(number(y));
    const least = numbers ? number(x) - number(y) : x.localeCompare(y, "en", { numeric: true });
    return direction === "ascending" ? least : -least;
  };
  return [...table.tBodies].sort(order);
}

function sort(table, heads, head) {
  const first = head.firstElementChild.dataset.first;
  const second = first === "ascending" ? "descending" : "ascending";
  const next = { [first]: second, [second]: null }; // then as it was
  const before = head.getAttribute("aria-sort");
  const direction = before === null ? first : next[before];
  for (const each of heads) each.removeAttribute("aria-sort");
  let bodies = table.original;
  if (direction) {
    head.setAttribute("aria-sort", direction);
    bodies = sorted(table, heads.indexOf(head), head.dataset.key, direction);
  }
  const foot = table.tFoot;
  for (const body of bodies) table.insertBefore(body, foot);
}

for (const table of document.querySelectorAll("table.sortable")) {
  table.original = [...table.tBodies];
  // Titles of one row each, in the order of the cells: those that span both rows of the head stand outside of the others.
  const [top, below] = table.tHead.rows;
  const keyed = (row) => [...row.cells].filter((cell) => cell.dataset.key);
  const heads = below ? [...keyed(top), ...keyed(below)] : keyed(top);
  for (const head of heads) head.firstElementChild.addEventListener("click", () => sort(table, heads, head));
}

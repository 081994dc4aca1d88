"use strict";

// Without this script all tables and the switch of views work; with it rows sort, filter, and choices are kept.

// A theme is kept for good, a view until the window is closed: a later visit begins with the standard.
const stores = { theme: "localStorage", view: "sessionStorage" };
const store = {
  get(key) {
    try { return window[stores[key]].getItem("mtbench-" + key); } catch (error) { return null; }
  },
  set(key, value) {
    try { window[stores[key]].setItem("mtbench-" + key, value); } catch (error) { /* kept for this page only */ }
  },
};

const root = document.documentElement;
root.classList.add("scripted"); // before anything is drawn, so that nothing moves later
const chosenTheme = store.get("theme");
if (chosenTheme === "light" || chosenTheme === "dark") root.dataset.theme = chosenTheme;

function isDark() {
  if (root.dataset.theme) return root.dataset.theme === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const show = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store.set("theme", root.dataset.theme);
    show();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

function setUpViews() {
  const kept = store.get("view");
  for (const radio of document.querySelectorAll("input[name=view]")) {
    if (radio.value === kept) radio.checked = true;
    radio.addEventListener("change", () => {
      store.set("view", radio.value);
      count();
    });
  }
}

function keyOf(row, index, kind) {
  const cell = row.children[index];
  if (kind === "text") return cell.textContent.trim().toLowerCase();
  return "value" in cell.dataset ? Number(cell.dataset.value) : null;
}

function compare(first, second) {
  if (typeof first === "string") return first.localeCompare(second, "en", { numeric: true });
  return first - second;
}

function sort(table, header, index) {
  const kind = header.dataset.sort;
  const before = header.getAttribute("aria-sort");
  const first = kind === "text" || header.dataset.first === "ascending" ? "ascending" : "descending";
  const second = first === "ascending" ? "descending" : "ascending";
  const direction = before === first ? second : first;
  for (const other of table.tHead.rows[0].cells) {
    if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
  }
  header.setAttribute("aria-sort", direction);
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => row.classList.contains("row"));
    const keyed = rows.map((row) => ({ row, key: keyOf(row, index, kind) }));
    keyed.sort((a, b) => {
      // What has no figure stays below, whichever way the others go.
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      const order = compare(a.key, b.key);
      return direction === "ascending" ? order : -order;
    });
    body.append(...keyed.map((one) => one.row));
  }
}

function setUpSorting() {
  const ascending = ["rank", "mr", "time", "memory", "ties decide", "seen", "parameters"];
  for (const table of document.querySelectorAll("main table")) {
    [...table.tHead.rows[0].cells].forEach((header, index) => {
      if (!header.dataset.sort) return;
      if (ascending.includes(header.textContent.trim().toLowerCase())) header.dataset.first = "ascending";
      const link = header.querySelector("a, label");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      if (link) {
        button.setAttribute("aria-label", "Sort by " + link.textContent.trim());
        link.after(button);
      } else {
        button.append(...header.childNodes);
        header.append(button);
      }
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(table, header, index));
    });
  }
}

function isShown(element) {
  return element.getClientRects().length > 0;
}

function count() {
  const output = document.getElementById("shown");
  if (!output) return;
  const tables = [...document.querySelectorAll("main .table")].filter(isShown);
  const rows = tables.flatMap((table) => [...table.querySelectorAll("tr.row:not(.baseline, .fixed)")]);
  const shown = rows.filter(isShown).length;
  output.textContent = shown + " of " + rows.length + " rows shown";
}

function setUpFilter() {
  const input = document.getElementById("filter");
  if (!input) return;
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.querySelectorAll("main tr.row:not(.baseline, .fixed)")) {
      row.hidden = !words.every((word) => row.dataset.words.includes(word));
    }
    for (const body of document.querySelectorAll("main tbody")) {
      const group = body.querySelector("tr.group");
      if (group) group.hidden = !body.querySelector("tr.row:not([hidden])");
    }
    count();
  };
  input.addEventListener("input", apply);
  for (const box of document.querySelectorAll("[id^=regime-]")) box.addEventListener("change", count);
  apply();
}

document.addEventListener("DOMContentLoaded", () => {
  setUpTheme();
  setUpViews();
  setUpSorting();
  setUpFilter();
});

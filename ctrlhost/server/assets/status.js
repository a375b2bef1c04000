// Keeps an open page current: it asks the host for the page again and replaces what differs. Sorts and filters tables,
// and shows the values of plots at the pointer.

const main = document.getElementById("main"), live = document.getElementById("live");
const UNITS = { ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, "": 1 };
// Milliseconds between two questions, and for an answer.
const PERIOD = 2000, TIMEOUT = 3000;

let timer = 0, etag = "";

function say(state, text) {
  if (live.textContent !== text) live.textContent = text;
  document.body.dataset.live = state;
}

// Change what differs only, so that focus, selection and what is open stay.
function merge(old, fresh) {
  const details = fresh.querySelectorAll("details");
  old.querySelectorAll("details").forEach((one, at) => {
    if (details[at]) details[at].open = one.open;
  });
  old.className = fresh.className;
  const before = [...old.childNodes], after = [...fresh.childNodes];
  if (before.length !== after.length) {
    old.replaceChildren(...after);
    return;
  }
  before.forEach((node, at) => {
    if (!node.isEqualNode(after[at])) node.replaceWith(after[at]);
  });
}

function number(text) {
  const found = /^(-?[\d.,]+)\s*(\w*)/.exec(text);
  return found && found[2] in UNITS ? parseFloat(found[1].replaceAll(",", "")) * UNITS[found[2]] : NaN;
}

// The row that leads to further ones stays the last.
const isMore = (row) => (row.querySelector(".more") ? 1 : 0);

function compare(one, other, at) {
  const [a, b] = [one, other].map((row) => row.cells[at]?.textContent.trim() ?? "");
  const [x, y] = [number(a), number(b)];
  if (Number.isNaN(x) && Number.isNaN(y)) return a.localeCompare(b);
  return (Number.isNaN(x) ? -Infinity : x) < (Number.isNaN(y) ? -Infinity : y) ? -1 : x === y ? 0 : 1;
}

// Put the rows in the order of the host, or of the column that was chosen; move those out of place only.
function arrange(box) {
  const rows = [...box.children], { by, order } = box;
  if (by) rows.sort((one, other) => isMore(one) - isMore(other) || by.sign * compare(one, other, by.at));
  else if (order) rows.sort((one, other) => order.get(one.id) - order.get(other.id));
  rows.forEach((row, at) => {
    if (box.children[at] !== row) box.insertBefore(row, box.children[at]);
  });
}

function sift() {
  const wanted = search.value.toLowerCase();
  for (const row of main.querySelectorAll("tbody > tr")) {
    row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
    if (wanted && !row.hidden && row.closest("details")) row.closest("details").open = true;
  }
}

function apply(box, fresh) {
  const focused = document.activeElement, address = focused?.getAttribute("href"), home = focused?.closest("[id]");
  const rows = [...fresh.children];
  box.order = new Map(rows.map((row, at) => [row.id, at]));
  for (const row of [...box.children]) if (!box.order.has(row.id)) row.remove();
  for (const row of rows) {
    const old = document.getElementById(row.id);
    if (old) merge(old, row);
    if (old?.parentNode !== box) box.append(old ?? row);
  }
  arrange(box);
  if (document.activeElement === focused) return;
  const same = address && home?.isConnected && home.querySelector(`[href="${CSS.escape(address)}"]`);
  (focused.isConnected ? focused : same || null)?.focus({ preventScroll: true });
}

// Sections come when there is something for them, and go.
function update(page) {
  const parts = [...page.getElementById("main").children], ids = new Set(parts.map((part) => part.id));
  for (const old of [...main.children]) if (!ids.has(old.id)) old.remove();
  parts.forEach((fresh, at) => {
    const old = document.getElementById(fresh.id);
    if (!old) {
      if (at) document.getElementById(parts[at - 1].id).after(fresh);
      else main.prepend(fresh);
      arm(fresh);
      return;
    }
    for (const part of fresh.querySelectorAll("[data-part], h2")) {
      const name = part.dataset.part, known = old.querySelector(name ? `[data-part="${name}"]` : "h2");
      if (known) merge(known, part);
    }
    const box = old.querySelector("[data-rows]"), rows = fresh.querySelector("[data-rows]");
    if (box && rows) apply(box, rows);
  });
  document.title = page.title;
  if (search.value) sift();
}

function age(seconds) {
  for (const unit of ["d", "h", "min"]) {
    const size = UNITS[unit];
    if (seconds >= size) return `${(seconds / size).toFixed(seconds < 10 * size ? 1 : 0)} ${unit} ago`;
  }
  return `${Math.max(Math.floor(seconds), 0)} s ago`;
}

async function ask() {
  const headers = { Accept: "text/html", ...(etag && { "If-None-Match": etag }) };
  const answer = await fetch(location.href, { headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
  if (answer.status === 304) {
    // Nothing but ages has changed.
    const now = new Date(answer.headers.get("Date")), text = now.toISOString().slice(0, 19).replace("T", " ");
    const updated = document.getElementById("updated");
    updated.textContent = updated.textContent.replace(/\d+-\d+-\d+ \d+:\d+:\d+/, text);
    for (const time of main.querySelectorAll("time")) time.textContent = age((now - Date.parse(time.dateTime)) / 1000);
    return;
  }
  if (!answer.ok) throw new Error(answer.statusText);
  update(new DOMParser().parseFromString(await answer.text(), "text/html"));
  etag = answer.headers.get("ETag") ?? "";
}

async function poll() {
  try {
    await ask();
    say("live", "live");
  } catch {
    say("lost", "connection lost; trying again");
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(poll, PERIOD);
}

// Let the columns of tables be sorted by their heads.
function arm(part) {
  for (const head of part.querySelectorAll("thead th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const box = head.closest("table").tBodies[0], at = head.cellIndex, first = head.classList.contains("n") ? -1 : 1;
      const sign = box.by?.at !== at ? first : box.by.sign === first ? -first : 0;
      box.order ??= new Map([...box.children].map((row, index) => [row.id, index]));
      box.by = sign ? { at, sign } : null;
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      if (sign) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      arrange(box);
    });
  }
}

// What is known of the sample below the pointer.
main.addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.("svg[data-values]");
  for (const output of main.querySelectorAll("figure output"))
    if (output.textContent && !svg?.closest("figure").contains(output)) output.textContent = "";
  if (!svg) return;
  const lines = svg.dataset.values.split(";").map((line) => line.split("|")), box = svg.getBoundingClientRect();
  const last = lines[0].length - 1, part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  const at = Math.round(part * last), texts = lines.map((line) => line[at] || "–");
  const seconds = (last - at) * Number(svg.dataset.period);
  svg.closest("figure").querySelector("output").textContent = `${texts.join(", ")}, ${age(seconds)}`;
});

main.addEventListener("pointerover", ({ target }) => {
  if (target.dateTime) target.title = target.dateTime;
});

const label = document.createElement("label"), search = document.createElement("input");
label.className = "filter";
label.append("Filter rows", search);
search.type = "search";
search.addEventListener("input", sift);
document.getElementById("tools")?.prepend(label);
arm(main);

// A link to a closed section opens it.
const reveal = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
addEventListener("hashchange", reveal);
reveal();

// A page in the background asks for nothing.
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden) poll();
});
poll();

// Keeps an open page current: events of the host replace rows by their ids. Sorts and filters tables.

const live = document.getElementById("live");
const UNITS = { ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, "": 1 };
// The host sends the time each second. Milliseconds without it until the connection counts as lost, and is made anew.
const LOST = 4000, ANEW = 12000;
// Milliseconds until the next attempt without a stream, and without an answer.
const POLL = 10000, AGAIN = 2000;

let source = null, timer = 0, heard = 0;

function say(state, text) {
  if (live.textContent !== text) live.textContent = text;
  document.body.dataset.live = state;
}

function element(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// Change what differs only, so that focus and selection stay.
function merge(old, fresh) {
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
  for (const row of document.querySelectorAll("tbody > tr"))
    row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
}

function apply({ section, rows, gone, order }) {
  const box = document.querySelector(`[data-rows="${CSS.escape(section)}"]`);
  if (!box) return;
  const focused = document.activeElement, address = focused?.getAttribute("href"), home = focused?.closest("[id]");
  for (const id of gone) document.getElementById(id)?.remove();
  for (const { id, html } of rows) {
    const old = document.getElementById(id);
    if (old) merge(old, element(html));
    else box.append(element(html));
  }
  if (order) {
    box.order = new Map(order.map((id, at) => [id, at]));
    for (const row of [...box.children]) if (!box.order.has(row.id)) row.remove();
  }
  if (order || box.by) arrange(box);
  if (search.value) sift();
  if (document.activeElement === focused) return;
  const same = address && home?.isConnected && home.querySelector(`[href="${CSS.escape(address)}"]`);
  (focused.isConnected ? focused : same || null)?.focus({ preventScroll: true });
}

function hear() {
  heard = performance.now();
  say("live", "live");
}

function later(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(connect, milliseconds);
}

// Without a stream, load the page from time to time.
async function poll() {
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const box of page.querySelectorAll("[data-rows]")) {
      const rows = [...box.children].map((row) => ({ id: row.id, html: row.outerHTML }));
      apply({ section: box.dataset.rows, rows, gone: [], order: rows.map((row) => row.id) });
    }
    say("polling", "no live updates (too many open pages?): renewed every 10 s");
    later(POLL);
  } catch {
    say("lost", "connection lost; trying again");
    later(AGAIN);
  }
}

function connect() {
  source?.close();
  const stream = new EventSource("/api/v1/events?page=" + encodeURIComponent(location.pathname + location.search));
  source = stream;
  stream.addEventListener("rows", (event) => {
    hear();
    apply(JSON.parse(event.data));
  });
  stream.addEventListener("error", () => {
    if (stream !== source) return;
    // The browser connects again by itself, unless the host has refused.
    if (stream.readyState === EventSource.CLOSED) poll();
    else say("lost", "connection lost; trying again");
  });
  heard = performance.now();
}

for (const head of document.querySelectorAll("thead th")) {
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

const label = document.createElement("label"), search = document.createElement("input");
label.className = "filter";
label.append("Filter rows", search);
search.type = "search";
search.addEventListener("input", sift);
if (document.querySelector("tbody")) document.querySelector("header").after(label);

setInterval(() => {
  if (!source || source.readyState !== EventSource.OPEN) return;
  const silent = performance.now() - heard;
  if (silent > LOST) say("lost", "connection lost; trying again");
  if (silent > ANEW) connect();
}, 1000);

// A browser opens only a few connections to one host: pages in the background give theirs back.
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden) return connect();
  source?.close();
  source = null;
});
connect();

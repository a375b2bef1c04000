// Checks of a page, run in it. Each returns a list of what is wrong, empty for a good page.

const root = document.documentElement;
const scrolls = (style) => ["auto", "scroll"].includes(style.overflowX) || ["auto", "scroll"].includes(style.overflowY);
const clips = (style) => style.overflowX !== "visible" || style.overflowY !== "visible";

function name(element) {
  const id = element.id ? `#${element.id}` : "";
  const classes = [...element.classList].map((one) => `.${one}`).join("");
  const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
  return `<${element.tagName.toLowerCase()}${id}${classes}> "${text}"`;
}

// For screen readers only: a box of one pixel.
function isHidden(element) {
  const box = element.getBoundingClientRect();
  return !element.checkVisibility({visibilityProperty: true, opacityProperty: true}) || box.width <= 1 || box.height <= 1;
}

function isVisible(element) {
  for (let one = element; one instanceof Element; one = one.parentElement) {
    const style = getComputedStyle(one);
    if (clips(style) && style.display !== "inline" && one !== root && one !== document.body && isHidden(one)) return false;
  }
  return element.checkVisibility({visibilityProperty: true, opacityProperty: true});
}

function scroller(element) {
  for (let one = element.parentElement; one && one !== document.body && one !== root; one = one.parentElement) {
    const style = getComputedStyle(one);
    if (clips(style) && style.display !== "inline") return one;
  }
  return null;
}

function* texts() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "TITLE"].includes(parent.tagName)) continue;
    if (isVisible(parent) && parent.getBoundingClientRect().right >= 0) yield node;
  }
}

function boxes(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  return [...range.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
}

// The part of a box that its scroll containers show; null for none.
function shown(box, element) {
  let part = {left: box.left, top: box.top, right: box.right, bottom: box.bottom};
  for (let outer = scroller(element); outer; outer = scroller(outer)) {
    const edge = outer.getBoundingClientRect();
    part = {
      left: Math.max(part.left, edge.left), top: Math.max(part.top, edge.top),
      right: Math.min(part.right, edge.right), bottom: Math.min(part.bottom, edge.bottom),
    };
  }
  return part.right > part.left && part.bottom > part.top ? part : null;
}

function block(element) {
  let one = element;
  while (one.parentElement && ["inline", "contents"].includes(getComputedStyle(one).display)) one = one.parentElement;
  return one;
}

function colour(text) {
  const context = colour.context ??= new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = text;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, alpha / 255];
}

const over = (upper, lower) => [0, 1, 2].map((at) => upper[at] * upper[3] + lower[at] * (1 - upper[3])).concat(1);

function background(element) {
  const layers = [];
  for (let one = element; one; one = one.parentElement) {
    const style = getComputedStyle(one);
    if (style.backgroundImage !== "none") return null;
    layers.push(colour(style.backgroundColor));
    if (layers.at(-1)[3] === 1) break;
  }
  const dark = getComputedStyle(root).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches;
  return layers.reduceRight((lower, upper) => over(upper, lower), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
}

function luminance([red, green, blue]) {
  const linear = [red, green, blue].map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function contrast(first, second) {
  const [low, high] = [luminance(first), luminance(second)].sort((one, other) => one - other);
  return (high + 0.05) / (low + 0.05);
}

function opacity(element) {
  let product = 1;
  for (let one = element; one; one = one.parentElement) product *= Number(getComputedStyle(one).opacity);
  return product;
}

function contrastWith(text, element) {
  const behind = background(element);
  if (behind === null) return 0;
  const front = colour(text);
  return contrast(over([front[0], front[1], front[2], front[3] * opacity(element)], behind), behind);
}

function accessibleName(element) {
  const referred = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
  const found = referred.map((id) => document.getElementById(id)?.textContent || "").join(" ")
    || element.getAttribute("aria-label")
    || [...(element.labels || [])].map((label) => label.textContent).join(" ")
    || (["INPUT", "SELECT", "TEXTAREA", "svg"].includes(element.tagName) ? "" : element.textContent)
    || [...element.querySelectorAll(":scope img[alt], :scope > title, :scope svg[aria-label]")]
      .map((one) => one.alt || one.getAttribute("aria-label") || one.textContent).join(" ")
    || element.getAttribute("alt") || element.getAttribute("title") || "";
  return found.trim();
}

const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
const focusable = () => [...document.querySelectorAll(CONTROLS)].filter((one) => isVisible(one) && !one.disabled && one.tabIndex >= 0);

const checks = {
  // Nothing is cut off: all is inside the window and inside its own box, or can be scrolled to.
  cut() {
    const wrong = [];
    if (root.scrollWidth > root.clientWidth) wrong.push(`the page is ${root.scrollWidth} px wide, the window ${root.clientWidth}`);
    for (const element of document.body.querySelectorAll("*")) {
      if (element.ownerSVGElement || !isVisible(element)) continue;
      const box = element.getBoundingClientRect();
      const style = getComputedStyle(element);
      // A link that appears with the focus.
      if (box.right < 0 && element.matches("a[href], a[href] *") && style.position !== "static") continue;
      if (!scroller(element) && box.width && (box.left < -1 || box.right > root.clientWidth + 1)) {
        wrong.push(`${name(element)} is outside of the window: ${box.left.toFixed()} to ${box.right.toFixed()}`);
      }
      for (const [overflow, inner, outer] of [
        [style.overflowX, element.scrollWidth, element.clientWidth], [style.overflowY, element.scrollHeight, element.clientHeight],
      ]) {
        if (["hidden", "clip"].includes(overflow) && style.display !== "inline" && inner > outer + 1 && element.tagName !== "svg") {
          wrong.push(`${name(element)} shows ${outer} of ${inner} px`);
        }
      }
    }
    for (const node of texts()) {
      const own = block(node.parentElement);
      if (own.ownerSVGElement || own.tagName === "svg" || scrolls(getComputedStyle(own))) continue;
      const edge = own.getBoundingClientRect();
      for (const box of boxes(node)) {
        if (box.left < edge.left - 1 || box.right > edge.right + 1) wrong.push(`the text of ${name(own)} leaves its box`);
      }
    }
    return wrong;
  },

  // No column is so narrow that common words are broken, and no markup is shown as text.
  words() {
    const wrong = [];
    const range = document.createRange();
    for (const node of texts()) {
      if (/<\/?[a-z]+( [^>]*)?>|&(amp|lt|gt|quot|#\d+);/.test(node.data)) wrong.push(`${name(node.parentElement)} shows markup`);
      const parts = (from, text) => {
        range.setStart(node, from);
        range.setEnd(node, from + text.length);
        return [...range.getClientRects()];
      };
      for (const run of node.data.matchAll(/[^\s-]+/g)) {
        // What is as long as a line has to break somewhere.
        if (parts(run.index, run[0]).reduce((width, box) => width + box.width, 0) > 200) continue;
        for (const word of run[0].matchAll(/[A-Za-z]{2,}/g)) {
          const lines = new Set(parts(run.index + word.index, word[0]).map((box) => Math.round(box.top)));
          if (lines.size > 1) wrong.push(`${name(node.parentElement)} breaks ${word[0]}`);
        }
      }
    }
    return wrong;
  },

  // Texts, controls and pictures lie beside each other.
  overlaps() {
    const parts = [];
    for (const node of texts()) {
      if (node.parentElement.closest("svg")) continue;
      for (const box of boxes(node)) parts.push([node.parentElement, shown(box, node.parentElement)]);
    }
    for (const element of document.querySelectorAll("button, input:not([type=hidden]), select, textarea, svg, img")) {
      if (!isVisible(element) || element.ownerSVGElement) continue;
      parts.push([element, shown(element.getBoundingClientRect(), element)]);
    }
    const visible = parts.filter(([, box]) => box !== null).sort((one, other) => one[1].top - other[1].top);
    const wrong = [];
    visible.forEach(([element, box], at) => {
      for (const [other, below] of visible.slice(at + 1)) {
        if (below.top > box.bottom - 3) break;
        const width = Math.min(box.right, below.right) - Math.max(box.left, below.left);
        const height = Math.min(box.bottom, below.bottom) - below.top;
        if (width > 2 && height > 3 && !element.contains(other) && !other.contains(element)) {
          wrong.push(`${name(element)} and ${name(other)} overlap`);
        }
      }
    });
    return wrong;
  },

  contrast() {
    const wrong = [];
    for (const node of texts()) {
      const element = node.parentElement;
      const style = getComputedStyle(element);
      const found = contrastWith(element.closest("svg") ? style.fill : style.color, element);
      if (found < 4.5) wrong.push(`${name(element)} has a contrast of ${found.toFixed(2)}`);
    }
    for (const element of document.querySelectorAll("svg :is(path, line, polyline, circle, rect)")) {
      const style = getComputedStyle(element);
      const drawn = [style.stroke, style.fill].filter((one) => one !== "none");
      const best = Math.max(0, ...drawn.map((one) => contrastWith(one, element)));
      if (isVisible(element) && drawn.length && !element.closest("[data-decoration]") && best < 3) {
        wrong.push(`${name(element)} in ${name(element.ownerSVGElement)} has a contrast of ${best.toFixed(2)}`);
      }
    }
    for (const element of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
      const style = getComputedStyle(element);
      if (isVisible(element) && contrastWith(style.borderTopColor, element.parentElement) < 3) {
        wrong.push(`the border of ${name(element)} has too little contrast`);
      }
    }
    return wrong;
  },

  names() {
    const wrong = [];
    if (!root.lang) wrong.push("no language");
    if (!document.title.trim()) wrong.push("no title");
    if (/user-scalable\s*=\s*no|maximum-scale/.test(document.querySelector("meta[name=viewport]")?.content ?? "maximum-scale")) {
      wrong.push("no viewport that can be enlarged");
    }
    if (document.querySelectorAll("main").length !== 1) wrong.push("not exactly one main part");
    for (const element of document.querySelectorAll(CONTROLS)) {
      if (!accessibleName(element)) wrong.push(`${name(element)} has no name`);
    }
    for (const element of document.querySelectorAll("img, svg, canvas")) {
      const hidden = element.closest("[aria-hidden=true]");
      const isNamed = element.tagName === "svg" ? element.getAttribute("role") === "img" && accessibleName(element) : element.hasAttribute("alt");
      if (!hidden && !isNamed) wrong.push(`${name(element)} has neither a name nor aria-hidden`);
    }
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    for (const id of ids.filter((one, at) => ids.indexOf(one) !== at)) wrong.push(`the id ${id} stands twice`);
    for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
      for (const element of document.querySelectorAll(`[${attribute}]`)) {
        for (const id of element.getAttribute(attribute).split(/\s+/)) {
          if (!document.getElementById(id)) wrong.push(`${attribute} of ${name(element)} refers to nothing`);
        }
      }
    }
    return wrong;
  },

  headings() {
    const wrong = [];
    const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(isVisible);
    if (levels.filter((one) => one.tagName === "H1").length !== 1) wrong.push("not exactly one h1");
    let last = 0;
    for (const heading of levels) {
      const level = Number(heading.tagName[1]);
      if (level > last + 1) wrong.push(`${name(heading)} skips a level`);
      if (!heading.textContent.trim()) wrong.push(`${name(heading)} is empty`);
      last = level;
    }
    return wrong;
  },

  tables() {
    const wrong = [];
    for (const table of document.querySelectorAll("table")) {
      if (!accessibleName(Object.assign(table.cloneNode(false), {})) && !table.caption?.textContent.trim()) wrong.push(`${name(table)} has no name`);
      if (!table.querySelector("th")) wrong.push(`${name(table)} has no headers`);
      for (const header of table.querySelectorAll("th")) {
        if (!header.scope) wrong.push(`${name(header)} has no scope`);
        if (!accessibleName(header)) wrong.push(`a header of ${name(table)} is empty`);
      }
      for (const cell of table.querySelectorAll("thead td")) wrong.push(`${name(cell)} of a head is no th`);
    }
    for (const element of document.querySelectorAll("ul, ol")) {
      const strange = [...element.children].find((one) => one.tagName !== "LI");
      if (strange) wrong.push(`${name(strange)} stands in a list`);
    }
    return wrong;
  },

  // What can be used by mouse can be used by keyboard, in the order of the page.
  keyboard() {
    const wrong = [];
    for (const element of document.querySelectorAll("[tabindex]")) {
      if (element.tabIndex > 0) wrong.push(`${name(element)} is out of order`);
    }
    for (const element of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
      if (isVisible(element) && element.tabIndex < 0) wrong.push(`${name(element)} cannot be reached by keyboard`);
    }
    for (const element of document.querySelectorAll("body *")) {
      const style = getComputedStyle(element);
      const wide = element.scrollWidth > element.clientWidth + 1 && ["auto", "scroll"].includes(style.overflowX);
      const high = element.scrollHeight > element.clientHeight + 1 && ["auto", "scroll"].includes(style.overflowY);
      if ((wide || high) && element.tabIndex < 0) wrong.push(`${name(element)} cannot be scrolled by keyboard`);
      if (style.cursor === "pointer" && !element.closest("a[href], button, summary, label, input, select")) {
        wrong.push(`${name(element)} can be clicked only`);
      }
    }
    return wrong;
  },

  // The element with the focus, which must be seen; called after each press of Tab.
  focus() {
    const element = document.activeElement;
    if (element === document.body || element === root || !element) return [];
    const style = getComputedStyle(element);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
    const seen = outlined ? contrastWith(style.outlineColor, element.parentElement) >= 3 || style.outlineStyle === "auto" : false;
    const wrong = seen ? [] : [`the focus on ${name(element)} cannot be seen`];
    const box = element.getBoundingClientRect();
    if (box.width > 1 && (box.bottom < 0 || box.top > innerHeight)) wrong.push(`${name(element)} has the focus out of sight`);
    return wrong;
  },
};

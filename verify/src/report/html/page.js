// What people do: select, search, point, drag, type.

function changed() {
  showHazards();
  showSelected();
  redraw();
}
function clear() {
  [view.node, view.buffer, view.hazard] = [null, null, null];
  changed();
}
function selectNode(id) {
  const node = nodes[id];
  [view.node, view.buffer] = [id, null];
  showColumns(node.column, node.column);
  showLanes(node.lane, node.lane);
  if (node.accesses.length) showHeights(node.accesses[0].low, node.accesses[0].high);
  changed();
}
function selectBuffer(id) {
  const buffer = buffers[id];
  [view.node, view.buffer] = [null, id];
  const used = buffer.accesses.map((access) => nodes[access.node].column);
  const first = used.length ? used.reduce((a, b) => Math.min(a, b)) : buffer.first;
  showColumns(first, Math.min(used.length ? used.reduce((a, b) => Math.max(a, b)) : buffer.last, first + 12));
  showHeights(buffer.low, buffer.high);
  changed();
}
function selectHazard(id) {
  [view.node, view.buffer, view.hazard] = [null, null, id];
  if (id !== null) {
    const mark = hazards[id].mark;
    const named = [...mark.nodes, ...(mark.missing ?? []).filter((node) => node >= 0)].map((node) => nodes[node]);
    if (named.length) {
      const at = (pick) => [Math.min(...named.map(pick)), Math.max(...named.map(pick))];
      const [first, last] = at((node) => node.column);
      showColumns(first, mark.missing && mark.missing[1] < 0 ? columns - 1 : last);
      showLanes(...at((node) => node.lane));
    }
    if (mark.span) showHeights(mark.span[0] / 10, mark.span[1] / 10);
  }
  changed();
}

// Search: nodes, buffers, scopes, streams. A scope leads to its first node.
const firstOfScope = new Map();
for (const node of nodes) if (node.scope && !firstOfScope.has(node.scope)) firstOfScope.set(node.scope, node);
const things = [
  ...data.lanes.map(([name], lane) => ({ what: "stream", name, go: () => goToLane(lane) })),
  ...[...firstOfScope].map(([name, node]) => ({ what: "scope", name, go: () => selectNode(node.id) })),
  ...buffers.map((buffer) => ({ what: buffer.kind, name: `b${buffer.id} ${buffer.name}`, go: () => selectBuffer(buffer.id) })),
  ...nodes.map((node) => ({ what: [laneName(node.lane), node.scope].filter(Boolean).join(", "), name: nodeTitle(node), go: () => selectNode(node.id) })),
];
for (const thing of things) thing.key = thing.name.toLowerCase();
function goToLane(lane) {
  if (byLane[lane].length) selectNode(byLane[lane][0].id);
  else { showLanes(lane, lane); redraw(); }
}
const search = byId("search"), found = byId("found");
let hits = [], hit = 0;
function showHits() {
  const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  hits = [];
  if (words.length) {
    for (const thing of things) {
      if (words.every((word) => thing.key.includes(word))) hits.push(thing);
      if (hits.length === 50) break;
    }
  }
  hit = 0;
  found.replaceChildren(...hits.map((thing, at) => make("li", { role: "option", id: `hit-${at}`, "aria-selected": String(at === 0) }, thing.name, make("small", {}, thing.what))));
  if (words.length && !hits.length) found.append(make("li", { class: "none" }, "nothing of this name"));
  showFound(words.length > 0);
}
function showFound(open) {
  found.hidden = !open;
  search.setAttribute("aria-expanded", String(open));
  if (open && hits.length) search.setAttribute("aria-activedescendant", `hit-${hit}`);
  else search.removeAttribute("aria-activedescendant");
}
function take(at) {
  if (!hits[at]) return;
  showFound(false);
  hits[at].go();
}
search.addEventListener("input", showHits);
search.addEventListener("focus", () => { if (search.value.trim()) showHits(); });
search.addEventListener("blur", () => showFound(false));
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") take(hit);
  else if (event.key === "Escape") { showFound(false); search.blur(); }
  else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && hits.length) {
    hit = (hit + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length;
    [...found.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === hit)));
    found.children[hit].scrollIntoView({ block: "nearest" });
    showFound(true);
  } else return;
  event.preventDefault();
  event.stopPropagation();
});
// Before the field loses the focus.
found.addEventListener("pointerdown", (event) => {
  const item = event.target.closest("li");
  if (item) { event.preventDefault(); take([...found.children].indexOf(item)); }
});

// Pointing and dragging.
const tip = byId("tip");
function point(canvas, event) {
  const [px, py] = [event.offsetX, event.offsetY];
  let words = "", over = null;
  if (canvas === canvases.lanes) {
    over = nodeAt(px, py);
    if (over) words = nodeTip(over);
    else if (px < GUTTER) words = laneTip(Math.floor((py - TOP + view.laneTop) / LANE));
  } else {
    const under = memoryAt(px, py);
    over = under && under.buffer;
    if (under && under.access) words = `${nodeTitle(nodes[under.access.node])}\n${MODES[under.access.mode]} ${under.buffer.name}\n${under.access.bytes}`;
    else if (under) words = bufferTip(under.buffer);
  }
  if (view.hover !== over) { view.hover = over; redraw(); }
  canvas.style.cursor = over ? "pointer" : "";
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const [w, h] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 6))}px`;
  tip.style.top = `${event.clientY + 18 + h > innerHeight ? Math.max(4, event.clientY - h - 10) : event.clientY + 18}px`;
}
function choose(canvas, event) {
  if (canvas === canvases.lanes) {
    const node = nodeAt(event.offsetX, event.offsetY);
    if (node) { [view.node, view.buffer] = [node.id, null]; changed(); }
  } else {
    const under = memoryAt(event.offsetX, event.offsetY);
    if (under && under.access) { [view.node, view.buffer] = [under.access.node, null]; changed(); }
    else if (under) { [view.node, view.buffer] = [null, under.buffer.id]; changed(); }
  }
}
for (const canvas of [canvases.lanes, canvases.memory]) {
  const top = canvas === canvases.lanes ? "laneTop" : "memoryTop";
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { at: [event.clientX, event.clientY], far: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return point(canvas, event);
    const [dx, dy] = [event.clientX - drag.at[0], event.clientY - drag.at[1]];
    if (!drag.far && Math.hypot(dx, dy) < 4) return undefined;
    drag.far = true;
    canvas.classList.add("drag");
    tip.hidden = true;
    view.left -= dx / view.scale;
    view[top] -= dy;
    drag.at = [event.clientX, event.clientY];
    return redraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.far) choose(canvas, event);
    drag = null;
    canvas.classList.remove("drag");
  });
  canvas.addEventListener("pointercancel", () => { drag = null; canvas.classList.remove("drag"); });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; view.hover = null; redraw(); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    tip.hidden = true;
    if (event.ctrlKey || event.metaKey) return zoom(Math.exp(-event.deltaY * 0.002), event.offsetX);
    const across = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    view.left += across / view.scale;
    if (!event.shiftKey) view[top] += event.deltaY;
    return redraw();
  }, { passive: false });
}
const jump = (event) => {
  const column = ((event.offsetX - GUTTER) / Math.max(1, canvases.overview.clientWidth - GUTTER)) * columns;
  view.left = column - width() / view.scale / 2;
  redraw();
};
canvases.overview.addEventListener("pointerdown", (event) => { canvases.overview.setPointerCapture(event.pointerId); jump(event); });
canvases.overview.addEventListener("pointermove", (event) => { if (event.buttons & 1) jump(event); });

// The line between the panes.
const split = byId("split");
function setSplit(height) {
  const room = split.parentElement.clientHeight;
  canvases.lanes.style.height = `${clamp(height, 70, room - 190)}px`;
  redraw();
}
split.addEventListener("pointerdown", (event) => split.setPointerCapture(event.pointerId));
split.addEventListener("pointermove", (event) => {
  if (event.buttons & 1) setSplit(event.clientY - canvases.lanes.getBoundingClientRect().top);
});
split.addEventListener("keydown", (event) => {
  const step = { ArrowUp: -20, ArrowDown: 20 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  setSplit(canvases.lanes.clientHeight + step);
});

// Keys.
function beside(node, key) {
  if (key === "ArrowLeft") return byLane[node.lane][node.at - 1];
  if (key === "ArrowRight") return byLane[node.lane][node.at + 1];
  const step = key === "ArrowUp" ? -1 : 1;
  for (let lane = node.lane + step; byLane[lane]; lane += step) {
    const line = byLane[lane];
    if (line.length) return line[Math.min(firstInView(line, node.column), line.length - 1)];
  }
  return undefined;
}
document.addEventListener("keydown", (event) => {
  if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") search.focus();
  else if (event.key === "+" || event.key === "=") zoom(1.4);
  else if (event.key === "-") zoom(1 / 1.4);
  else if (event.key === "0") fit();
  else if (event.key === "Escape") clear();
  else if (event.key === "n" && hazards.length) selectHazard(view.hazard === null ? 0 : (view.hazard + 1) % hazards.length);
  else if (event.key.startsWith("Arrow") && event.target === canvases.lanes) {
    const next = view.node === null ? nodes[0] : beside(nodes[view.node], event.key);
    if (next) selectNode(next.id);
  } else if (event.key.startsWith("Arrow") && event.target === canvases.memory) {
    const [dx, dy] = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key];
    view.left += dx / view.scale;
    view.memoryTop += dy;
    redraw();
  } else return;
  event.preventDefault();
});
byId("in").addEventListener("click", () => zoom(1.4));
byId("out").addEventListener("click", () => zoom(1 / 1.4));
byId("fit").addEventListener("click", fit);

fillHeader();
fillHazards();
fillNotes();
readPalette();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readPalette(); redraw(); });
/** Paper is light, and nobody can open a hazard on it. */
function onPaper(begins) {
  document.documentElement.classList.toggle("paper", begins);
  readPalette();
  showHazards(begins);
  draw();
}
addEventListener("beforeprint", () => onPaper(true));
addEventListener("afterprint", () => onPaper(false));
new ResizeObserver(redraw).observe(canvases.lanes.parentElement);
// As high as the lanes need, and no higher than half.
setSplit(Math.min(data.lanes.length * LANE + 2 * TOP, canvases.lanes.parentElement.clientHeight / 2));
view.left = -0.25;
if (hazards.length) selectHazard(0);
else { view.scale = clamp(width() / (columns + 0.5), 96, 140); redraw(); }

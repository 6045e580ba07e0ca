// What is in view, and the way from time and addresses to pixels.

const GUTTER = 132, LANE = 46, BOX = 28, TOP = 8, MOST = 220;
const view = {
  left: 0, // the first column in view, a fraction
  scale: 128, // pixels of a column
  laneTop: 0, memoryTop: 0, // pixels scrolled down
  node: null, buffer: null, hazard: null, hover: null,
};
const canvases = Object.fromEntries(
  ["overview", "lanes", "memory"].map((id) => [id, document.getElementById(id)]),
);
const columns = Math.max(1, data.columns);
const memoryHeight = data.height / 10;

const width = () => Math.max(1, canvases.lanes.clientWidth - GUTTER);
const least = () => Math.min(96, width() / (columns + 0.5));
const x = (column) => GUTTER + (column - view.left) * view.scale;
const laneY = (lane) => TOP + lane * LANE - view.laneTop;
const memoryY = (height) => TOP + height - view.memoryTop;
const middle = (node) => x(node.column) + view.scale / 2;
const clamp = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));

function settle() {
  view.scale = clamp(view.scale, least(), MOST);
  view.left = clamp(view.left, -0.25, columns + 0.25 - width() / view.scale);
  view.laneTop = clamp(view.laneTop, 0, data.lanes.length * LANE + 2 * TOP - canvases.lanes.clientHeight);
  view.memoryTop = clamp(view.memoryTop, 0, memoryHeight + 2 * TOP - canvases.memory.clientHeight);
}
/** Zooms by a factor and keeps what is at this pixel where it is. */
function zoom(factor, at = GUTTER + width() / 2) {
  const column = view.left + (at - GUTTER) / view.scale;
  view.scale = clamp(view.scale * factor, least(), MOST);
  view.left = column - (at - GUTTER) / view.scale;
  redraw();
}
function fit() {
  view.scale = least();
  view.left = -0.25;
  redraw();
}
/** Puts these columns into the middle; zooms out only as far as that takes. */
function showColumns(first, last) {
  const wanted = (width() * 0.8) / (last - first + 1);
  view.scale = clamp(Math.min(Math.max(view.scale, 56), wanted), least(), MOST);
  view.left = (first + last + 1) / 2 - width() / view.scale / 2;
}
function showLanes(first, last) {
  const height = canvases.lanes.clientHeight;
  if (laneY(first) < 0 || laneY(last) + LANE > height) {
    view.laneTop = ((first + last + 1) / 2) * LANE + TOP - height / 2;
  }
}
function showHeights(low, high) {
  const height = canvases.memory.clientHeight;
  if (memoryY(low) < 0 || memoryY(high) > height) view.memoryTop = (low + high) / 2 + TOP - height / 2;
}

/** The node, or the access or buffer, under a pixel of a pane. */
function nodeAt(px, py) {
  const lane = Math.floor((py - TOP + view.laneTop) / LANE);
  const line = byLane[lane];
  if (px < GUTTER || !line) return null;
  const column = view.left + (px - GUTTER) / view.scale;
  let low = 0, high = line.length;
  while (low < high) {
    const at = (low + high) >> 1;
    if (line[at].column <= column) low = at + 1; else high = at;
  }
  // A thin box is still to be hit.
  const slack = Math.max(1, 5 / view.scale);
  let best = null;
  for (const node of [line[low - 1], line[low]]) {
    if (!node) continue;
    const off = Math.max(node.column - column, column - node.column - 1, 0);
    if (off <= slack - 1 + 1e-9 && (!best || off < best.off)) best = { node, off };
  }
  return best && best.node;
}
function memoryAt(px, py) {
  if (px < GUTTER) return null;
  const height = py - TOP + view.memoryTop;
  const column = view.left + (px - GUTTER) / view.scale;
  let buffer = null;
  for (const candidate of buffers) {
    if (candidate.low > height || candidate.high < height) continue;
    if (column < candidate.first || column > candidate.last + 1) continue;
    // The shorter life lies on top.
    if (!buffer || candidate.last - candidate.first <= buffer.last - buffer.first) buffer = candidate;
    for (const access of candidate.accesses) {
      const off = Math.abs(nodes[access.node].column + 0.5 - column) * view.scale;
      if (off <= Math.max(4, tick() / 2) && access.low - 1 <= height && access.high + 1 >= height) {
        return { buffer: candidate, access };
      }
    }
  }
  return buffer && { buffer, access: null };
}
/** The width of the mark of an access. */
const tick = () => clamp(view.scale * 0.5, 2, 26);

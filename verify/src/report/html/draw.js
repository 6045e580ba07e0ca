// Drawing: three canvases, of which only what is in view is drawn.

let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = {};
  for (const name of ["back", "panel", "line", "text", "dim", "lane", "red", "red-soft", "amber", "edge", "select", "shade", "ink", "fill"]) {
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  }
}
// Neighbouring lanes get hues that are far apart; red is kept for hazards.
const HUES = [215, 165, 280, 40, 190, 315, 95, 250];
const hue = (lane) => HUES[((lane % HUES.length) + HUES.length) % HUES.length];
const strong = (lane) => (lane < 0 ? palette.dim : `hsl(${hue(lane)} 60% ${palette.shade})`);
const soft = (lane) => (lane < 0 ? palette.lane : `hsl(${hue(lane)} 45% ${palette.fill})`);
const ink = (lane) => (lane < 0 ? palette.text : `hsl(${hue(lane)} 45% ${palette.ink})`);

function begin(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  const [pw, ph] = [Math.round(w * ratio), Math.round(h * ratio)];
  if (canvas.width !== pw || canvas.height !== ph) [canvas.width, canvas.height] = [pw, ph];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = palette.back;
  pen.fillRect(0, 0, w, h);
  pen.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  pen.textBaseline = "middle";
  pen.lineWidth = 1;
  return { pen, w, h };
}
/** Text cut to a width: at its end, or in the middle, where its end tells more. */
function label(pen, words, px, py, room, { inMiddle = false, halo = "" } = {}) {
  if (room < 14) return;
  // Nothing longer is ever shown, and long names take long to measure.
  const whole = words.length > 200 ? `${words.slice(0, 199)}…` : words;
  const cut = (keep) => {
    const tail = inMiddle ? keep >> 1 : 0;
    return `${whole.slice(0, keep - tail)}…${tail ? whole.slice(-tail) : ""}`;
  };
  let shown = whole;
  if (pen.measureText(whole).width > room) {
    let low = 0, high = whole.length;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (pen.measureText(cut(mid)).width <= room) low = mid; else high = mid - 1;
    }
    if (low < 1) return;
    shown = cut(low);
  }
  if (halo) {
    pen.strokeStyle = halo;
    pen.lineWidth = 3.5;
    pen.lineJoin = "round";
    pen.strokeText(shown, px, py);
    pen.lineWidth = 1;
  }
  pen.fillText(shown, px, py);
}
function clipped(pen, w, h, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, w - GUTTER, h);
  pen.clip();
  draw();
  pen.restore();
}
function box(node) {
  const gap = view.scale > 12 ? 5 : 0;
  return [x(node.column) + gap, laneY(node.lane) + (LANE - BOX) / 2, Math.max(1.2, view.scale - 2 * gap), BOX];
}
function arrow(pen, from, to) {
  const lean = clamp(Math.abs(to[0] - from[0]) / 2, 12, 60);
  pen.beginPath();
  pen.moveTo(...from);
  pen.bezierCurveTo(from[0] + lean, from[1], to[0] - lean, to[1], to[0], to[1]);
  pen.stroke();
  if (view.scale < 9) return;
  pen.setLineDash([]);
  pen.beginPath();
  pen.moveTo(to[0], to[1]);
  pen.lineTo(to[0] - 7, to[1] - 3.5);
  pen.lineTo(to[0] - 7, to[1] + 3.5);
  pen.fill();
}
function drawEdge(pen, edge, chosen) {
  const [ax, ay, aw] = box(edge.from);
  const [bx, by] = box(edge.to);
  pen.strokeStyle = pen.fillStyle = chosen ? palette.select : palette.edge;
  pen.globalAlpha = chosen || view.scale > 9 ? 1 : 0.35;
  pen.lineWidth = chosen ? 2 : 1.2;
  pen.setLineDash(edge.programmatic ? [2, 3] : []);
  if (edge.same && !edge.next) {
    const up = ay - 9;
    pen.beginPath();
    pen.moveTo(ax + aw - 3, ay);
    pen.bezierCurveTo(ax + aw + 8, up, bx - 8, up, bx + 3, by);
    pen.stroke();
  } else {
    arrow(pen, [ax + aw, ay + BOX / 2], [bx, by + BOX / 2]);
  }
  pen.setLineDash([]);
  pen.globalAlpha = 1;
}
const isChosen = (edge) => view.node !== null && (edge.from.id === view.node || edge.to.id === view.node);

function drawLanes() {
  const { pen, w, h } = begin(canvases.lanes);
  const [left, right] = [view.left - 1, view.left + width() / view.scale + 1];
  const [top, bottom] = [Math.floor(view.laneTop / LANE) - 1, Math.ceil((view.laneTop + h) / LANE)];
  for (let lane = Math.max(0, top); lane < Math.min(bottom + 1, data.lanes.length); lane += 1) {
    pen.fillStyle = lane % 2 ? palette.back : palette.lane;
    pen.fillRect(0, laneY(lane), w, LANE);
  }
  const mark = view.hazard === null ? null : hazards[view.hazard].mark;
  clipped(pen, w, h, () => {
    pen.strokeStyle = palette.edge;
    for (let lane = Math.max(0, top); lane < Math.min(bottom + 1, byLane.length); lane += 1) {
      const line = byLane[lane];
      for (let at = firstInView(line, left); at < line.length && line[at].column <= right + 1; at += 1) {
        const before = line[at - 1];
        if (!line[at].linked || !before || view.scale < 5) continue;
        const from = box(before);
        pen.beginPath();
        pen.moveTo(from[0] + from[2], from[1] + BOX / 2);
        pen.lineTo(box(line[at])[0], from[1] + BOX / 2);
        pen.stroke();
      }
    }
    const chosen = [];
    for (const edge of arrows) {
      if (edge.to.column < left || edge.from.column > right) continue;
      if (isChosen(edge)) chosen.push(edge); else drawEdge(pen, edge, false);
    }
    for (let lane = Math.max(0, top); lane < Math.min(bottom + 1, byLane.length); lane += 1) {
      const line = byLane[lane];
      for (let at = firstInView(line, left); at < line.length && line[at].column <= right; at += 1) {
        drawNode(pen, line[at], mark);
      }
    }
    for (const edge of chosen) drawEdge(pen, edge, true);
    if (mark) drawMissing(pen, mark, w);
  });
  pen.fillStyle = palette.panel;
  pen.fillRect(0, 0, GUTTER - 6, h);
  pen.fillStyle = palette.line;
  pen.fillRect(GUTTER - 7, 0, 1, h);
  for (let lane = Math.max(0, top); lane < Math.min(bottom + 1, data.lanes.length); lane += 1) {
    const y = laneY(lane) + LANE / 2;
    const [name, tag] = data.lanes[lane];
    pen.fillStyle = strong(lane);
    pen.fillRect(8, y - 9, 5, 18);
    pen.fillStyle = palette.text;
    const both = tag && tag !== name;
    label(pen, name, 20, both ? y - 7 : y, GUTTER - 32, { inMiddle: true });
    pen.fillStyle = palette.dim;
    if (both) label(pen, `tag ${tag}`, 20, y + 8, GUTTER - 32, { inMiddle: true });
  }
}
function firstInView(line, left) {
  let low = 0, high = line.length;
  while (low < high) {
    const at = (low + high) >> 1;
    if (line[at].column < left) low = at + 1; else high = at;
  }
  return low;
}
function drawNode(pen, node, mark) {
  const [bx, by, bw, bh] = box(node);
  const named = mark !== null && mark.nodes.includes(node.id);
  pen.fillStyle = view.scale < 9 ? strong(node.lane) : soft(node.lane);
  if (named) pen.fillStyle = view.scale < 9 ? palette.red : palette["red-soft"];
  pen.fillRect(bx, by, bw, bh);
  if (view.scale >= 9) {
    if (node.kind !== "kernel") { pen.fillStyle = strong(node.lane); pen.fillRect(bx, by, 4, bh); }
    const chosen = view.node === node.id || view.hover === node;
    pen.strokeStyle = named ? palette.red : chosen ? palette.select : strong(node.lane);
    pen.lineWidth = named || chosen ? 2.4 : 1;
    if (!node.analysed) pen.setLineDash([3, 3]);
    pen.strokeRect(bx, by, bw, bh);
    pen.setLineDash([]);
    pen.lineWidth = 1;
    pen.fillStyle = named ? palette.red : ink(node.lane);
    label(pen, node.label, bx + 8, by + bh / 2, bw - 14);
  } else if (view.node === node.id) {
    pen.fillStyle = palette.select;
    pen.fillRect(bx - 1, by - 5, Math.max(3, bw + 2), bh + 10);
  }
  if (node.hazard && !named) {
    pen.fillStyle = palette.red;
    pen.beginPath();
    pen.moveTo(bx + bw - 8, by); pen.lineTo(bx + bw, by); pen.lineTo(bx + bw, by + 8);
    pen.fill();
  }
  if (named) {
    const number = mark.nodes.indexOf(node.id) + 1;
    pen.fillStyle = palette.red;
    pen.beginPath();
    pen.arc(bx, by, 8, 0, 7);
    pen.fill();
    pen.fillStyle = palette.back;
    pen.textAlign = "center";
    pen.fillText(String(number), bx, by + 0.5);
    pen.textAlign = "left";
  }
}
/** The order that is missing, dashed; without one, that nothing orders the two. */
function drawMissing(pen, mark, w) {
  const pair = mark.missing ?? (mark.nodes.length === 2 ? mark.nodes : null);
  if (!pair) return;
  const from = box(nodes[pair[0]]);
  const start = [from[0] + from[2], from[1] + BOX / 2];
  const target = pair[1] < 0 ? null : box(nodes[pair[1]]);
  const end = target ? [target[0], target[1] + BOX / 2] : [Math.min(x(columns) + 4, w - 6), laneY(0) + LANE / 2];
  const behind = end[0] < start[0];
  pen.strokeStyle = pen.fillStyle = palette.red;
  pen.lineWidth = 2.4;
  pen.setLineDash([7, 5]);
  if (behind) {
    // The node to wait for stands to the right of the one that waits.
    const low = target[1] > from[1];
    arrow(pen, [from[0] + from[2] / 2, from[1] + (low ? BOX : 0)], [target[0] + target[2] / 2, target[1] + (low ? 0 : BOX)]);
  } else {
    arrow(pen, start, end);
  }
  pen.setLineDash([]);
  const words = mark.missing ? "missing join" : "not ordered";
  const room = pen.measureText(words).width;
  const [cx, cy] = [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2];
  // On a long arrow; beside a short one, which it would hide.
  const beside = Math.abs(start[0] - end[0]) < room + 60;
  const at = beside ? Math.max(GUTTER + 8, Math.min(start[0], end[0], cx) - room - 14) : cx - room / 2;
  pen.fillStyle = palette.back;
  pen.fillRect(at - 5, cy - 9, room + 10, 18);
  pen.fillStyle = palette.red;
  pen.fillText(words, at, cy);
  pen.lineWidth = 1;
}

function drawMemory() {
  const { pen, w, h } = begin(canvases.memory);
  const mark = view.hazard === null ? null : hazards[view.hazard].mark;
  const [low, high] = [view.memoryTop - TOP, view.memoryTop + h];
  const [left, right] = [view.left - 1, view.left + width() / view.scale + 1];
  const shown = buffers.filter((b) => b.high >= low && b.low <= high && b.first <= right && b.last >= left);
  // Long lives below, short ones on top.
  shown.sort((a, b) => b.last - b.first - (a.last - a.first) || a.id - b.id);
  clipped(pen, w, h, () => {
    for (const buffer of shown) drawBuffer(pen, buffer, mark, w);
    if (mark && mark.span) {
      const [y0, y1] = mark.span.map((at) => memoryY(at / 10));
      pen.fillStyle = palette.red;
      pen.globalAlpha = 0.13;
      pen.fillRect(GUTTER, y0, w, Math.max(2, y1 - y0));
      pen.globalAlpha = 1;
      pen.strokeStyle = palette.red;
      pen.setLineDash([4, 4]);
      pen.strokeRect(GUTTER - 4, y0, w + 8, Math.max(2, y1 - y0));
      pen.setLineDash([]);
    }
    for (const buffer of shown) {
      for (const access of buffer.accesses) {
        const column = nodes[access.node].column;
        if (column >= left && column <= right) drawAccess(pen, access, mark);
      }
    }
    for (const buffer of shown) drawBufferName(pen, buffer);
  });
  pen.fillStyle = palette.panel;
  pen.fillRect(0, 0, GUTTER - 6, h);
  pen.fillStyle = palette.line;
  pen.fillRect(GUTTER - 7, 0, 1, h);
  let last = -100;
  const starts = buffers.filter((b) => b.high >= low && b.low <= high).sort((a, b) => a.low - b.low);
  pen.fillStyle = palette.dim;
  pen.font = '10.5px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
  for (const buffer of starts) {
    const y = memoryY(buffer.low) + 6;
    if (y - last < 13) continue;
    label(pen, buffer.range.split("..")[0], 6, y, GUTTER - 16);
    last = y;
  }
}
function barOf(buffer) {
  const [bx, by] = [x(buffer.first), memoryY(buffer.low)];
  return [bx, by, (buffer.last - buffer.first + 1) * view.scale, Math.max(3, buffer.high - buffer.low - 2)];
}
function drawBuffer(pen, buffer, mark, w) {
  const [bx, by, bw, bh] = barOf(buffer);
  const named = mark !== null && mark.buffers.includes(buffer.id);
  pen.fillStyle = soft(buffer.owner);
  pen.globalAlpha = 0.85;
  pen.fillRect(bx, by, bw, bh);
  pen.globalAlpha = 1;
  const chosen = view.buffer === buffer.id || view.hover === buffer;
  pen.strokeStyle = named ? palette.red : chosen ? palette.select : buffer.owner < 0 ? palette.line : strong(buffer.owner);
  pen.lineWidth = named || chosen ? 2.2 : 1;
  // A bar of a long graph may be wider than a canvas draws well.
  const [from, to] = [Math.max(bx, -10), Math.min(bx + bw, w + 10)];
  pen.strokeRect(from, by, to - from, bh);
  pen.lineWidth = 1;
}
function drawBufferName(pen, buffer) {
  const [bx, by, bw, bh] = barOf(buffer);
  const start = Math.max(bx + 5, GUTTER + 5);
  if (bh < 9) return;
  pen.fillStyle = ink(buffer.owner);
  label(pen, buffer.name, start, by + Math.min(bh / 2, 9), Math.min(bx + bw - start - 4, 220), { inMiddle: true, halo: soft(buffer.owner) });
}
function drawAccess(pen, access, mark) {
  const node = nodes[access.node];
  const named = mark !== null && mark.nodes.includes(node.id) && mark.buffers.includes(access.buffer);
  const wide = named ? Math.max(6, tick()) : tick();
  const [tx, ty] = [middle(node) - wide / 2, memoryY(access.low) + 0.5];
  const high = Math.max(3, access.high - access.low - 3);
  const colour = named ? palette.red : strong(node.lane);
  pen.fillStyle = colour;
  pen.strokeStyle = colour;
  pen.lineWidth = named ? 2.4 : 1.4;
  if (access.mode === 1 || wide < 5) pen.fillRect(tx, ty, wide, high);
  else {
    pen.fillStyle = palette.back;
    pen.fillRect(tx, ty, wide, high);
    if (access.mode > 1) { pen.fillStyle = colour; pen.fillRect(tx, ty, wide / 2, high); }
    pen.strokeRect(tx, ty, wide, high);
  }
  if (view.node === node.id && !named) {
    pen.strokeStyle = palette.select;
    pen.strokeRect(tx - 2, ty - 2, wide + 4, high + 4);
  }
  pen.lineWidth = 1;
}

function drawOverview() {
  const { pen, w, h } = begin(canvases.overview);
  const per = (w - GUTTER) / columns;
  const lanes = data.lanes.length;
  const tall = Math.max(1, (h - 8) / Math.max(1, lanes));
  for (const node of nodes) {
    pen.fillStyle = strong(node.lane);
    pen.fillRect(GUTTER + node.column * per, 4 + node.lane * tall, Math.max(0.7, per * 0.85), Math.max(0.8, tall * 0.7));
  }
  pen.fillStyle = palette.red;
  for (const node of nodes) if (node.hazard) pen.fillRect(GUTTER + (node.column + 0.5) * per - 1, 0, 2, h);
  const [left, wide] = [GUTTER + view.left * per, (width() / view.scale) * per];
  pen.strokeStyle = palette.select;
  pen.lineWidth = 1.5;
  pen.strokeRect(clamp(left, GUTTER, w - 4), 1, clamp(wide, 4, w - 1 - Math.max(left, GUTTER)), h - 2);
  pen.fillStyle = palette.dim;
  label(pen, "overview", 20, h / 2, GUTTER - 32);
}

function draw() {
  settle();
  drawOverview();
  drawLanes();
  drawMemory();
  const out = document.getElementById("zoom");
  out.value = view.scale < 9.95 ? `${view.scale.toFixed(1)} px` : `${Math.round(view.scale)} px`;
}
let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

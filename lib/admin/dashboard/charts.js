/* Charts as SVG, drawn anew at each tick from a few paths; their texts are made once. */

const SVG = "http://www.w3.org/2000/svg";
const SPAN_S = 180;
const MARGIN = { left: 50, right: 8, top: 8, bottom: 20 };

function draw(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  parent.append(node);
  return node;
}

/* The frame that all charts share: a box that knows its size, lines across, and their labels. */
class Frame {
  constructor(box, label) {
    this.svg = draw("svg", { role: "img", "aria-label": label, tabindex: "0" }, box);
    this.lines = [0, 1, 2].map(() => [
      draw("path", { class: "grid" }, this.svg),
      draw("text", { "text-anchor": "end" }, this.svg),
    ]);
    this.marks = draw("g", {}, this.svg);
    this.size = { width: box.clientWidth || 320, height: box.clientHeight || 150 };
    new ResizeObserver(() => {
      this.size = { width: box.clientWidth, height: box.clientHeight };
      this.redraw?.();
    }).observe(box);
  }

  get plot() {
    return {
      left: MARGIN.left,
      top: MARGIN.top,
      width: Math.max(10, this.size.width - MARGIN.left - MARGIN.right),
      height: Math.max(10, this.size.height - MARGIN.top - MARGIN.bottom),
    };
  }

  drawScale(top, format) {
    const { left, top: y, width, height } = this.plot;
    this.lines.forEach(([line, text], i) => {
      const at = Math.round(y + (height * i) / 2) + 0.5;
      line.setAttribute("d", `M${left} ${at}h${width}`);
      text.setAttribute("x", left - 6);
      text.setAttribute("y", at + 4);
      setText(text, format((top * (2 - i)) / 2));
    });
  }
}

/* Values over the last three minutes, newest at the right: stacked areas, or curves. A point is
 * {at, seconds, values}: what was so for so many seconds up to then. values may be null: unknown. */
class TimeChart extends Frame {
  constructor(box, options) {
    super(box, options.label);
    this.options = options;
    this.points = [];
    this.shapes = options.series.map((name) =>
      draw("path", { class: `${options.stacked ? "area" : "curve"} ${name}` }, this.marks),
    );
    this.times = [3, 2, 1, 0].map((minutes) =>
      draw("text", { "text-anchor": minutes === 3 ? "start" : minutes === 0 ? "end" : "middle" }, this.svg),
    );
    this.cursor = draw("path", { class: "cursor" }, this.svg);
    this.listen();
  }

  listen() {
    this.picked = null;
    const pick = (at) => {
      this.picked = at;
      this.redraw();
    };
    this.svg.addEventListener("pointermove", (event) => {
      const { left, width } = this.plot;
      const x = (event.clientX - this.svg.getBoundingClientRect().left - left) / width;
      pick(Math.round((1 - Math.min(1, Math.max(0, x))) * SPAN_S));
    });
    for (const end of ["pointerleave", "pointercancel", "blur"])
      this.svg.addEventListener(end, () => pick(null));
    this.svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30 }[event.key];
      if (event.key === "Escape") pick(null);
      if (!step) return;
      event.preventDefault();
      pick(Math.min(SPAN_S, Math.max(0, (this.picked ?? 0) + step)));
    });
  }

  /* The point that tells of the moment so many seconds ago. */
  pointAt(seconds) {
    const moment = this.now - seconds;
    return (
      this.points.find((point) => point.at >= moment && point.at - point.seconds <= moment + 0.5) ?? null
    );
  }

  show(points, now) {
    this.points = points;
    this.now = now;
    this.redraw();
  }

  redraw() {
    if (this.now === undefined) return;
    const { stacked, format } = this.options;
    const known = this.points.filter((point) => point.values);
    const sum = (values) => values.reduce((all, one) => all + (one ?? 0), 0);
    const highest = Math.max(
      0,
      ...known.map(({ values }) => (stacked ? sum(values) : Math.max(...values.map((one) => one ?? 0)))),
    );
    const top = niceCeiling(Math.max(highest, this.options.least));
    this.drawScale(top, format);
    this.drawTimes();
    const { left, top: y, width, height } = this.plot;
    const place = {
      x: (at) => left + width * (1 - Math.min(1, Math.max(0, (this.now - at) / SPAN_S))),
      y: (value) => y + height * (1 - value / top),
    };
    this.shapes.forEach((shape, i) =>
      shape.setAttribute("d", stacked ? this.areaOf(known, i, place) : this.curveOf(i, place)),
    );
    this.drawCursor(place, y, height);
    this.options.onRead?.(
      this.picked === null ? known[known.length - 1]?.values : this.pointAt(this.picked)?.values,
      this.picked,
    );
  }

  drawTimes() {
    const { left, width } = this.plot;
    this.times.forEach((text, i) => {
      text.setAttribute("x", left + (width * i) / 3);
      text.setAttribute("y", this.size.height - 5);
      setText(text, i === 3 ? "now" : `−${3 - i} min`);
    });
  }

  drawCursor(place, y, height) {
    const x = Math.round(place.x(this.now - (this.picked ?? 0))) + 0.5;
    this.cursor.setAttribute("d", this.picked === null ? "" : `M${x} ${y}v${height}`);
  }

  /* Each point is as wide as the time it tells of: an average over ten seconds looks like one. */
  areaOf(known, series, place) {
    const path = [];
    for (const { at, seconds, values } of known) {
      if (!(values[series] > 0)) continue;
      const below = values.slice(0, series).reduce((all, one) => all + one, 0);
      const [from, to] = [place.x(at - seconds).toFixed(1), (place.x(at) + 0.3).toFixed(1)];
      if (to - from < 0.05) continue;
      const [high, low] = [place.y(below + values[series]).toFixed(1), place.y(below).toFixed(1)];
      path.push(`M${from} ${low}V${high}H${to}V${low}z`);
    }
    return path.join("");
  }

  curveOf(series, place) {
    let path = "",
      drawing = false;
    for (const { at, values } of this.points) {
      const value = values?.[series];
      if (value == null || this.now - at > SPAN_S) {
        drawing = false;
        continue;
      }
      path += `${drawing ? "L" : "M"}${place.x(at).toFixed(1)} ${place.y(value).toFixed(1)}`;
      drawing = true;
    }
    return path;
  }
}

/* Shares of a whole as columns, with the bounds of their buckets below. */
class Columns extends Frame {
  constructor(box, label) {
    super(box, label);
    this.names = draw("g", {}, this.svg);
    this.columns = [];
  }

  show(columns) {
    this.columns = columns;
    this.redraw();
  }

  redraw() {
    const top = niceCeiling(Math.max(0.1, ...this.columns.map(([, share]) => share)));
    this.drawScale(top, (share) => `${Math.round(share * 100)} %`);
    const { left, top: y, width, height } = this.plot;
    const step = width / Math.max(1, this.columns.length);
    const gap = Math.min(3, step / 5);
    const each = Math.ceil(62 / step);
    keepList(
      this.marks,
      this.columns.map((column, i) => [...column, i]),
      ([, , i]) => i,
      () => document.createElementNS(SVG, "path"),
      (node, [, share, i]) => {
        const tall = share > 0 ? Math.max(1, (height * share) / top) : 0;
        node.setAttribute("class", "column");
        node.setAttribute(
          "d",
          `M${left + step * i + gap / 2} ${y + height}v${-tall}h${step - gap}v${tall}z`,
        );
      },
    );
    keepList(
      this.names,
      this.columns.map((column, i) => [...column, i]).filter(([, , i]) => i % each === 0),
      ([, , i]) => i,
      () => document.createElementNS(SVG, "text"),
      (node, [name, , i]) => {
        node.setAttribute("x", left + step * i);
        node.setAttribute("y", this.size.height - 5);
        setText(node, name);
      },
    );
  }
}

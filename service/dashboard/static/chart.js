// Charts by uPlot in the colours of the page. Each stands beside a table of the same figures.
import { el } from "./elements.js";

const HEIGHT = 260;
export const COLOURS = 6; // --series-1 to --series-6 of the style sheet

/**
 * A chart over time.
 * `series`: `{name, values, colour, bars?, dashed?, hidden?, band?}` with `colour` 1 to 6; `band`: fill down to the next
 * series. `times`: milliseconds. `format(value)`: how the line below shows a value.
 */
export function chart(label, times, series, format = String, named = series) {
  const drawing = el("div", { class: "chart", role: "img", "aria-label": label });
  const readout = el("p", { class: "hint readout", "aria-hidden": "true" });
  readout.textContent = "Point at the chart to read its values.";
  let plot = null;
  const draw = () => {
    if (plot) plot.destroy();
    plot = new uPlot(options(drawing.clientWidth, times, series, readout, format), data(times, series), drawing);
  };
  const size = new ResizeObserver(() => {
    if (!drawing.isConnected) {
      dark.removeEventListener("change", draw);
      size.disconnect();
      return;
    }
    if (!drawing.clientWidth) return;
    if (plot) plot.setSize({ width: drawing.clientWidth, height: HEIGHT });
    else draw();
  });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", draw);
  size.observe(drawing);
  return el("figure", {}, drawing, readout, legend(named));
}

/** Series stacked upon each other as bars. `rows`: `{name, values}`, the lowest first. */
export function stacked(label, times, rows, format) {
  let below = times.map(() => 0);
  const series = rows.map((row, index) => {
    below = below.map((value, position) => value + row.values[position]);
    return { name: row.name, values: below, own: row.values, colour: (index % COLOURS) + 1, bars: true };
  });
  return chart(label, times, series.reverse(), format, [...series].reverse()); // the highest is drawn first, the others over it
}

function legend(series) {
  const shown = series.filter((each) => !each.hidden);
  return el("ul", { class: "legend" }, shown.map((each) => el("li", {}, swatch(each), each.name)));
}

function swatch(series) {
  return el("span", { class: `swatch series-${series.colour}${series.dashed ? " dashed" : ""}`, "aria-hidden": "true" });
}

function data(times, series) {
  return [times.map((ms) => ms / 1000), ...series.map((each) => each.values)];
}

function options(width, times, series, readout, format) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const bands = series.flatMap((each, index) =>
    each.band ? [{ series: [index + 1, index + 2], fill: colour("band") }] : [],
  );
  // whole bars at both ends
  const margin = series.some((each) => each.bars) && times.length > 1 ? (times[1] - times[0]) / 2000 : 0;
  return {
    width,
    height: HEIGHT,
    bands,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { range: (_, low, high) => [low - margin, high + margin] },
      y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] },
    },
    axes: [{ ...axis, values: (_, splits) => splits.map(tick) }, { ...axis, size: 56 }],
    series: [{}, ...series.map((each) => drawn(each, colour(`series-${each.colour}`)))],
    hooks: {
      setCursor: [
        (plot) => {
          const at = plot.cursor.idx;
          if (at === null || at === undefined) return;
          const values = series
            .filter((each) => (each.own || each.values)[at] !== null)
            .map((each) => `${each.name} ${format((each.own || each.values)[at])}`);
          readout.textContent = `${new Date(times[at]).toLocaleString()}: ${values.join(", ")}`;
        },
      ],
    },
  };
}

/** The label of a moment on the axis: a day at midnight, else a time. */
function tick(seconds) {
  const at = new Date(seconds * 1000);
  const isMidnight = at.getHours() + at.getMinutes() === 0;
  const style = isMidnight ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" };
  return at.toLocaleString(undefined, style);
}

function drawn(series, colour) {
  const shape = { label: series.name, stroke: colour, width: series.bars ? 0 : 2, points: { show: false } };
  if (series.bars) return { ...shape, fill: colour, paths: uPlot.paths.bars({ size: [0.8, 48] }) };
  if (series.dashed) return { ...shape, dash: [6, 4] };
  return series.hidden ? { ...shape, width: 0 } : shape;
}

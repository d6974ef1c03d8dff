import { formatDuration } from '../../internal/clock/index.ts';
import { html, type Content, type Html } from './html.ts';

/** How good something is: the color of its dot. */
export type PlotTone = 'good' | 'warning' | 'bad' | 'idle';

/** A check of a join on its time line. */
export interface JoinCheck {
  /** Which end made the check: "machine" or "cluster". */
  readonly side: string;
  readonly name: string;
  readonly tone: PlotTone;
  readonly timeMs: number;
  /** Shown when the pointer is on its dot. */
  readonly text: string;
}

/** A curve of a line chart. */
export interface Curve {
  readonly name: string;
  /** Number of its color; curves of one subject have the same. */
  readonly color: number;
  readonly isDashed?: boolean;
  readonly points: readonly { readonly atMs: number; readonly value: number }[];
}

const WIDTH = 720;
const LEFT = 78;
const RIGHT = 14;
const INNER = WIDTH - LEFT - RIGHT;
/** Colors of curves in the style. */
const COLORS = 8;

/**
 * The checks of a join in two lanes, one for each end. Gaps are shortened, the longer the more, because a machine can wait for days
 * for its approval; each gap of a second and more has its length beside it.
 */
export function joinPlot(checks: readonly JoinCheck[]): Html {
  const lanes = ['machine', 'cluster'];
  const steps = checks.map(({ timeMs }, index) => {
    const gapMs = index === 0 ? 0 : timeMs - (checks[index - 1]?.timeMs ?? timeMs);
    return { gapMs, step: index === 0 ? 0 : 1 + Math.log1p(Math.max(0, gapMs) / 1000) };
  });
  const total = steps.reduce((sum, { step }) => sum + step, 0) || 1;
  let reached = 0;
  const dots = checks.map((check, index) => {
    const { gapMs = 0, step = 0 } = steps[index] ?? {};
    const before = LEFT + 12 + ((INNER - 24) * reached) / total;
    reached += step;
    const x = LEFT + 12 + ((INNER - 24) * reached) / total;
    const y = check.side === 'machine' ? 30 : 80;
    return html`${gapMs < 1000 ? undefined : html`<text class="middle" x="${fixed((before + x) / 2)}" y="122">+${formatDuration(gapMs)}</text>`}
      <g
        ><title>${check.text}</title
        ><circle class="fill-${check.tone}" cx="${fixed(x)}" cy="${y}" r="9" /><text
          class="inside"
          x="${fixed(x)}"
          y="${y + 3.5}"
          >${index + 1}</text
        ></g
      >`;
  });
  return svg(130, 'Time line of the join, from both ends', [
    lanes.map((lane, index) => {
      const y = 30 + 50 * index;
      return html`<text x="0" y="${y + 4}" class="strong">${lane}</text
        ><line class="axis" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y}" y2="${y}" />`;
    }),
    dots,
  ]);
}

/** Curves over time, in ms, with a legend. */
export function lineChart(
  curves: readonly Curve[],
  range: { readonly fromMs: number; readonly toMs: number },
): Html {
  const { fromMs, toMs } = range;
  const height = 180;
  const bottom = height - 22;
  const top = Math.max(1, ...curves.flatMap(({ points }) => points.map(({ value }) => value))) * 1.1;
  const x = (atMs: number): number => LEFT + (INNER * (atMs - fromMs)) / Math.max(1, toMs - fromMs);
  const y = (value: number): number => bottom - ((bottom - 10) * value) / top;
  const grid = [0, 0.5, 1].map((share) => {
    const value = share * top;
    return html`<line
        class="axis"
        x1="${LEFT}"
        x2="${WIDTH - RIGHT}"
        y1="${fixed(y(value))}"
        y2="${fixed(y(value))}"
      /><text class="end" x="${LEFT - 6}" y="${fixed(y(value) + 4)}">${number(value)} ms</text>`;
  });
  const lines = curves.map(({ name, color, points, isDashed = false }) => {
    const path = points.map(({ atMs, value }) => `${fixed(x(atMs))},${fixed(y(value))}`).join(' ');
    return html`<g
      ><title>${name}</title
      ><polyline class="curve c${color % COLORS}${isDashed ? ' dash' : ''}" points="${path}"
    /></g>`;
  });
  const perRow = 2;
  const legend = curves.map(({ name, color, isDashed = false }, index) => {
    const [at, row] = [
      LEFT + (index % perRow) * (INNER / perRow),
      height + 8 + 16 * Math.floor(index / perRow),
    ];
    return html`<line
        class="curve c${color % COLORS}${isDashed ? ' dash' : ''}"
        x1="${fixed(at)}"
        x2="${fixed(at + 18)}"
        y1="${row}"
        y2="${row}"
      /><text x="${fixed(at + 24)}" y="${row + 4}">${name}</text>`;
  });
  return svg(height + 8 + 16 * Math.ceil(curves.length / perRow), 'Latencies over time', [
    grid,
    lines,
    html`<text x="${LEFT}" y="${height - 6}">${formatDuration(toMs - fromMs)} ago</text
      ><text class="end" x="${WIDTH - RIGHT}" y="${height - 6}">now</text>`,
    legend,
  ]);
}

/** A part of a strip: from a share of the width to another one, in one color. */
export interface StripPart {
  readonly from: number;
  readonly to: number;
  readonly tone: PlotTone;
  readonly text: string;
}

/** One strip for each name, from the past to now. Many strips are thin and have no label but that of the pointer. */
export function stripPlot(
  strips: readonly { readonly name: string; readonly parts: readonly StripPart[] }[],
  spanMs: number,
): Html {
  const isThin = strips.length > 30;
  const step = isThin ? Math.max(2, Math.min(8, 480 / strips.length)) : 18;
  const rows = strips.map(({ name, parts }, index) => {
    const y = index * step;
    return html`${isThin ? undefined : html`<text class="strong" x="0" y="${fixed(y + 12)}">${name.slice(0, 12)}</text>`}${parts.map(
      ({ from, to, tone, text }) =>
        html`<g
          ><title>${text}</title
          ><rect
            class="fill-${tone}"
            x="${fixed(LEFT + INNER * from)}"
            y="${fixed(y)}"
            width="${fixed(Math.max(1, INNER * (to - from)))}"
            height="${fixed(Math.max(1, step - (isThin ? 0 : 5)))}"
        /></g>`,
    )}`;
  });
  const height = strips.length * step;
  return svg(height + 18, 'Heartbeats over time', [
    rows,
    html`<text x="${LEFT}" y="${fixed(height + 14)}">${formatDuration(spanMs)} ago</text
      ><text class="end" x="${WIDTH - RIGHT}" y="${fixed(height + 14)}">now</text>`,
  ]);
}

/** A dot on a time line. */
export interface TimeDot {
  /** 0 is now, 1 is the end of the line. */
  readonly position: number;
  readonly tone: PlotTone;
  readonly text: string;
}

/** One line for each name, with dots; `labels` are on the axis. */
export function timeLinePlot(
  lines: readonly { readonly name: string; readonly dots: readonly TimeDot[] }[],
  labels: readonly { readonly label: string; readonly position: number }[],
): Html {
  const left = 190;
  const inner = WIDTH - left - RIGHT;
  const height = 24 + lines.length * 20;
  const x = (position: number): string => fixed(left + inner * position);
  return svg(height, 'Expiry of certificates', [
    labels.map(
      ({ label, position }) =>
        html`<line class="axis" x1="${x(position)}" x2="${x(position)}" y1="16" y2="${height}" /><text
            class="middle"
            x="${x(position)}"
            y="11"
            >${label}</text
          >`,
    ),
    lines.map(({ name, dots }, index) => {
      const y = 32 + index * 20;
      return html`<text class="strong" x="0" y="${y + 4}">${name.slice(-30)}</text>${dots.map(
          ({ position, tone, text }) =>
            html`<g
              ><title>${text}</title
              ><circle class="fill-${tone}" cx="${x(position)}" cy="${y}" r="4.5" fill-opacity="0.75"
            /></g>`,
        )}`;
    }),
  ]);
}

/** A tile of a map. */
export interface Tile {
  readonly name: string;
  readonly tone: PlotTone;
  readonly text: string;
}

/** Groups of tiles, such as the nodes by their role. A click on a tile chooses its node. */
export function tileMap(
  groups: readonly { readonly title: string; readonly tiles: readonly Tile[] }[],
): Html {
  const many = Math.max(0, ...groups.map(({ tiles }) => tiles.length)) > 40;
  const [width, height] = many ? [22, 18] : [84, 26];
  const perRow = Math.floor((WIDTH - 100) / (width + 4));
  let y = 0;
  const parts = groups.map(({ title, tiles }) => {
    const from = y;
    y += Math.max(1, Math.ceil(tiles.length / perRow)) * (height + 4) + 10;
    return html`<text class="strong" x="0" y="${from + 16}">${title}</text>${tiles.map(
        ({ name, tone, text }, index) => {
          const [left, top] = [
            100 + (index % perRow) * (width + 4),
            from + Math.floor(index / perRow) * (height + 4),
          ];
          return html`<g data-node="${name}"
            ><title>${text}</title
            ><rect
              class="fill-${tone}"
              x="${left}"
              y="${top}"
              width="${width}"
              height="${height}"
              rx="4"
            />${many ? undefined : html`<text class="inside" x="${left + width / 2}" y="${top + 17}">${name.slice(0, 12)}</text>`}</g
          >`;
        },
      )}`;
  });
  return svg(Math.max(20, y), 'Nodes by role', parts);
}

function svg(height: number, label: string, content: Content): Html {
  return html`<svg viewBox="0 0 ${WIDTH} ${fixed(height)}" role="img" aria-label="${label}">${content}</svg>`;
}

/** Rounded for a small page. */
function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function number(value: number): string {
  return value >= 10 ? value.toFixed(0) : value.toFixed(1);
}

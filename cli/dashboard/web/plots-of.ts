import { DAY_MS, formatDuration, formatExpiry, MINUTE_MS } from '../../../internal/clock/index.ts';
import {
  html,
  lineChart,
  stripPlot,
  tileMap,
  timeLinePlot,
  type Html,
  type PlotTone,
} from '../../page/index.ts';
import type { HeartbeatChange } from '../model/observations.ts';
import type { NodeRow } from '../model/node-row.ts';
import type { Snapshot } from '../model/snapshot.ts';
import { axisLabels, positionOf } from '../model/time-line.ts';

/** How far back the strips of heartbeats go at most. */
const STRIP_MS = 30 * MINUTE_MS;

/** The nodes by their role, each with its state. */
export function roleMap({ nodes }: Snapshot): Html {
  const group = (title: string, isIn: (node: NodeRow) => boolean) => ({
    title,
    tiles: nodes.filter(isIn).map((node) => ({
      ...{ name: node.name, tone: node.tone },
      text: `${node.name}: ${node.status}, ${node.phase}${node.waitsFor === '' ? '' : `, waits for ${node.waitsFor}`}`,
    })),
  });
  const isControlPlane = ({ kind, roles }: NodeRow): boolean =>
    kind === 'member' && roles.includes('control-plane');
  return tileMap(
    [
      group('control planes', isControlPlane),
      group('workers', (node) => node.kind === 'member' && !isControlPlane(node)),
      group('joining', ({ kind }) => kind === 'join'),
    ].filter(({ tiles }) => tiles.length > 0),
  );
}

/** The latencies of both etcd clusters, as far as the dashboard has seen them. */
export function latencyPlot({ history, takenMs }: Snapshot): Html {
  const known = [...history.latencies].filter(([, points]) => points.length > 1);
  if (known.length === 0) return html`<p class="dim">Two readings of the metrics are needed.</p>`;
  // Both latencies of a member have one color.
  const members = [...new Set(known.map(([name]) => memberOf(name)))];
  const curves = known.map(([name, points]) => ({
    ...{ name, points, color: members.indexOf(memberOf(name)) },
    isDashed: name.includes('round trip'),
  }));
  const fromMs = Math.min(...known.map(([, points]) => points[0]?.atMs ?? takenMs));
  return lineChart(curves, { fromMs, toMs: takenMs });
}

/** "n1 state etcd" of "n1 state etcd, round trip". */
function memberOf(curve: string): string {
  return curve.slice(0, curve.lastIndexOf(','));
}

const HEALTHS: Readonly<Record<string, { readonly tone: PlotTone; readonly text: string }>> = {
  healthy: { tone: 'good', text: 'sends heartbeats' },
  silent: { tone: 'bad', text: 'sends no heartbeats' },
};
const UNKNOWN = { tone: 'idle', text: 'unknown' } as const;

/** When each node sent heartbeats, since the dashboard has been running. */
export function heartbeatPlot({ history, takenMs, nodes }: Snapshot): Html {
  const firstMs = Math.min(
    takenMs,
    ...[...history.heartbeats.values()].map(([first]) => first?.atMs ?? takenMs),
  );
  const fromMs = Math.max(firstMs, takenMs - STRIP_MS);
  const spanMs = Math.max(1, takenMs - fromMs);
  const strips = nodes
    .filter(({ kind }) => kind === 'member')
    .map(({ name }) => ({ name, parts: stripParts(history.heartbeats.get(name) ?? []) }));
  function stripParts(changes: readonly HeartbeatChange[]) {
    return changes.flatMap(({ atMs, health }, index) => {
      const endMs = changes[index + 1]?.atMs ?? takenMs;
      if (endMs < fromMs) return [];
      const [from, to] = [(Math.max(atMs, fromMs) - fromMs) / spanMs, (endMs - fromMs) / spanMs];
      const { tone, text } = HEALTHS[health] ?? UNKNOWN;
      return [{ from, to, tone, text: `${text}, for ${formatDuration(endMs - atMs)}` }];
    });
  }
  const named = strips.map(({ name, parts }) => ({
    name,
    parts: parts.map((each) => ({ ...each, text: `${name} ${each.text}` })),
  }));
  return stripPlot(named, spanMs);
}

/** Each kind of certificate on a line, with a dot for each node. */
export function certificatePlot({ certificates, takenMs }: Snapshot): Html {
  const lines = [...Map.groupBy(certificates, ({ name }) => name)].map(([name, all]) => ({
    name,
    dots: all.map(({ node, notAfterMs }) => ({
      position: positionOf(notAfterMs - takenMs),
      tone: toneOf(notAfterMs - takenMs),
      text: `${name} of ${node} ${formatExpiry(notAfterMs, takenMs)}`,
    })),
  }));
  return timeLinePlot(lines, axisLabels());
}

function toneOf(leftMs: number): PlotTone {
  if (leftMs <= 0) return 'bad';
  return leftMs < DAY_MS ? 'warning' : 'good';
}

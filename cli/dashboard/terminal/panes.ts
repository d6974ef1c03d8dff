import { formatDuration, formatExpiry } from '../../../internal/clock/index.ts';
import { formatBytes } from '../../../internal/printable/index.ts';
import type { ScreenLine } from '../../host/index.ts';
import { diskShare, memoryShare, percent } from '../model/figures.ts';
import type { NodeRow } from '../model/node-row.ts';
import { failureText, type Snapshot } from '../model/snapshot.ts';
import { axisLabels, positionOf } from '../model/time-line.ts';
import { bar, fill, fit, header, row, STYLES, textLine, windowOf, type Column } from './cells.ts';

/** The space of a pane, and which of its rows is selected. */
export interface PaneSize {
  readonly columns: number;
  readonly rows: number;
  readonly cursor: number;
}

/** From this width on the list of nodes has the figures of each node too. */
const WIDE = 132;
/** From this width on it has their addresses. */
const WIDEST = 160;

/** The nodes with roles, phases and what each waits for. */
export function nodesPane({ nodes, takenMs }: Snapshot, size: PaneSize): readonly ScreenLine[] {
  const isWide = size.columns >= WIDE;
  const columns = fill(
    [
      { title: 'NAME', width: isWide ? 18 : 14 },
      { title: 'STATUS', width: 13 },
      { title: 'ROLES', width: 20 },
      { title: 'PHASE', width: isWide ? 12 : 10 },
      { title: 'WAITS FOR', width: 0 },
      ...(isWide
        ? [
            { title: 'CPU', width: 4 },
            { title: 'MEM', width: 4 },
            { title: 'DISK', width: 4 },
            { title: 'CERT ENDS', width: 9 },
            { title: 'VERSION', width: 9 },
            ...(size.columns >= WIDEST ? [{ title: 'ADDRESS', width: 15 }] : []),
          ]
        : []),
    ],
    size.columns,
  );
  return table(columns, nodes, size, (node) => [
    node.name,
    { text: node.status, style: STYLES[node.tone] },
    node.roles.join(',') || '<none>',
    node.phase,
    { text: node.waitsFor || '–', style: node.waitsFor === '' ? 'dim' : undefined },
    ...(isWide ? figures(node, takenMs) : []),
  ]);
}

function figures(node: NodeRow, nowMs: number): readonly string[] {
  const endMs = Math.min(...node.certificates.map(({ notAfterMs }) => notAfterMs));
  return [
    percent(node.usage?.cpuShare),
    percent(memoryShare(node.usage)),
    percent(diskShare(node.usage)),
    Number.isFinite(endMs) ? shortExpiry(endMs, nowMs) : '–',
    node.version || '–',
    node.address || '–',
  ];
}

/** "in 4d", or "expired 2h ago". */
function shortExpiry(endMs: number, nowMs: number): string {
  return formatExpiry(endMs, nowMs).replace('expires ', '');
}

/** All certificates on a time line that is shorter for later times. */
export function certificatesPane({ certificates, takenMs }: Snapshot, size: PaneSize): readonly ScreenLine[] {
  const columns = fill(
    [
      { title: 'NODE', width: 14 },
      { title: 'CERTIFICATE', width: 24 },
      { title: 'EXPIRES', width: 15 },
      { title: '', width: 0 },
    ],
    size.columns,
  );
  const width = columns.at(-1)?.width ?? 1;
  const axis = [...columns.slice(0, -1), { title: axisText(width), width }];
  return table(axis, certificates, size, ({ node, name, notAfterMs }) => {
    const at = Math.round(positionOf(notAfterMs - takenMs) * (width - 1));
    const isLate = notAfterMs <= takenMs;
    const soon = notAfterMs - takenMs < 24 * 3_600_000;
    return [
      node,
      name,
      shortExpiry(notAfterMs, takenMs),
      {
        text: `${'─'.repeat(Math.max(0, at))}◆`,
        style: isLate ? 'red' : soon ? 'yellow' : 'green',
      },
    ];
  });
}

function axisText(width: number): string {
  let text = '';
  for (const { label, position } of axisLabels()) {
    const at = Math.round(position * (width - 1));
    if (at >= text.length) text = `${text.padEnd(at)}│${label} `;
  }
  return text;
}

/** The newest decisions of the audit log. */
export function decisionsPane({ decisions, takenMs }: Snapshot, size: PaneSize): readonly ScreenLine[] {
  if (decisions === undefined) return [textLine('not read yet', 'dim')];
  const columns = fill(
    [
      { title: 'AGE', width: 6 },
      ...(size.columns < 70 ? [] : [{ title: 'CALLER', width: 18 }]),
      { title: 'METHOD', width: 16 },
      { title: 'SUBJECT', width: 14 },
      { title: 'DETAIL', width: 0 },
    ],
    size.columns,
  );
  return table(columns, decisions, size, ({ timeMs, caller, method, subject, detail }) => [
    formatDuration(takenMs - timeMs),
    ...(size.columns < 70 ? [] : [caller]),
    method,
    subject || '<none>',
    detail,
  ]);
}

/** Processor, memory and the fullest disk of each node. */
export function resourcesPane({ nodes }: Snapshot, size: PaneSize): readonly ScreenLine[] {
  const width = Math.max(4, Math.floor((size.columns - 70) / 3));
  const columns = fill(
    [
      { title: 'NAME', width: 14 },
      { title: 'CPU', width: 5 + width },
      { title: 'MEMORY', width: 5 + width },
      { title: '', width: 9 },
      { title: 'DISK', width: 5 + width },
      { title: '', width: 0 },
    ],
    size.columns,
  );
  return table(columns, nodes, size, ({ name, usage, usageError }) => {
    if (usage === undefined)
      return [
        name,
        ...Array.from({ length: 4 }, () => '–'),
        { text: usageError ?? 'no metrics yet', style: 'dim' },
      ];
    const [cpu, memory, disk] = [usage.cpuShare, memoryShare(usage), diskShare(usage)];
    const cell = (share: number | undefined) =>
      share === undefined
        ? ({ text: 'unknown', style: 'dim' } as const)
        : ({
            text: `${percent(share).padStart(4)} ${bar(share, width)}`,
            style: share > 0.9 ? 'red' : share > 0.75 ? 'yellow' : undefined,
          } as const);
    const fullest = usage.disks.toSorted((a, b) => freeOf(a) - freeOf(b))[0];
    return [
      name,
      cell(cpu),
      cell(memory),
      usage.memoryBytes === undefined ? '' : formatBytes(usage.memoryBytes),
      cell(disk),
      fullest === undefined ? '' : `${formatBytes(fullest.availableBytes)} free, ${fullest.path}`,
    ];
  });
}

function freeOf({
  availableBytes,
  sizeBytes,
}: {
  readonly availableBytes: number;
  readonly sizeBytes: number;
}) {
  return availableBytes / sizeBytes;
}

/** All problems, then the sources that fail. */
export function problemsPane(snapshot: Snapshot, size: PaneSize): readonly ScreenLine[] {
  const lines = [
    ...snapshot.problems.map((text) => ({ text: `! ${text}`, style: 'red' as const })),
    ...snapshot.failing.map((each) => ({
      text: failureText(each, snapshot.takenMs),
      style: each.isRefused ? ('dim' as const) : ('yellow' as const),
    })),
  ];
  if (lines.length === 0) return [textLine('No problems. `cluster doctor` checks every layer.', 'green')];
  const { shown, first } = windowOf(lines, size.cursor, size.rows);
  return shown.map(({ text, style }, index) =>
    textLine(fit(text, size.columns), first + index === size.cursor ? 'chosen' : style),
  );
}

function table<T>(
  columns: readonly Column[],
  items: readonly T[],
  { rows, cursor }: PaneSize,
  cellsOf: (item: T) => readonly Parameters<typeof row>[1][number][],
): readonly ScreenLine[] {
  const { shown, first } = windowOf(items, cursor, rows - 1);
  return [
    header(columns),
    ...shown.map((item, index) => row(columns, cellsOf(item), first + index === cursor)),
  ];
}

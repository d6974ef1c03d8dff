import { formatDuration, formatExpiry } from '../../../internal/clock/index.ts';
import type { ScreenLine } from '../../host/index.ts';
import { VERDICT_NAMES } from '../../nodes/index.ts';
import { diskShare, memoryShare, percent } from '../model/figures.ts';
import type { NodeRow } from '../model/node-row.ts';
import { fill, fit, header, row, STYLES, textLine, windowOf } from './cells.ts';
import type { PaneSize } from './panes.ts';

const VERDICT_TONES = { failed: 'bad', stuck: 'bad', starts: 'warning', runs: 'good' } as const;

/** One node: its facts, and the tree of runnables of its agent with what each waits for. */
export function nodePane(node: NodeRow, nowMs: number, size: PaneSize): readonly ScreenLine[] {
  const { usage, certificates } = node;
  const [first] = certificates.toSorted((a, b) => a.notAfterMs - b.notAfterMs);
  const facts = [
    [
      { text: node.status, style: STYLES[node.tone] },
      { text: `  ${node.roles.join(', ') || 'no roles'}  ${node.phase}` },
      { text: node.waitsFor === '' ? '' : `, waits for ${node.waitsFor}` },
    ],
    textLine(
      `address ${node.address || 'unknown'}  agent ${node.agentVersion || '–'}  kubernetes ${node.version || '–'}  disk ${node.disk ?? 'unknown'}`,
    ),
    textLine(
      `cpu ${percent(usage?.cpuShare)}  memory ${percent(memoryShare(usage))}  disk ${percent(diskShare(usage))}` +
        (first === undefined ? '' : `  ${first.name} ${formatExpiry(first.notAfterMs, nowMs)}`),
    ),
  ];
  const columns = fill(
    [
      { title: 'COMPONENT', width: Math.min(44, Math.floor(size.columns / 2)) },
      { title: 'STATE', width: 9 },
      { title: 'FOR', width: 6 },
      { title: 'WAITS FOR', width: 0 },
    ],
    size.columns,
  );
  const { shown, first: from } = windowOf(node.runnables, size.cursor, size.rows - facts.length - 1);
  return [
    ...facts.map((line) => line.map(({ text, style }) => ({ text: fit(text, text.length), style }))),
    header(columns),
    ...shown.map(({ path, depth, verdict, sinceMs, why, lastError, restarts }, index) => {
      const tone = verdict in VERDICT_TONES ? VERDICT_TONES[verdict as keyof typeof VERDICT_TONES] : 'idle';
      const error = lastError === undefined ? '' : `last error: ${lastError}`;
      return row(
        columns,
        [
          `${'  '.repeat(depth)}${path.slice(path.lastIndexOf('.') + 1) || 'agent'}`,
          { text: VERDICT_NAMES[verdict] ?? verdict, style: STYLES[tone] },
          formatDuration(nowMs - sinceMs),
          [why, restarts === 0 ? '' : `${restarts} restarts`, error].filter((each) => each !== '').join('; '),
        ],
        from + index === size.cursor,
      );
    }),
    ...(node.runnables.length === 0 ? [textLine('no components reported', 'dim')] : []),
  ];
}

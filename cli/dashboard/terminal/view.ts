import type { ScreenLine, Span } from '../../host/index.ts';
import { counted } from '../../../internal/printable/index.ts';
import { failureText, type Snapshot } from '../model/snapshot.ts';
import { fit, fitLine, STYLES, textLine, widthOf } from './cells.ts';
import { nodePane } from './node-pane.ts';
import {
  certificatesPane,
  decisionsPane,
  nodesPane,
  problemsPane,
  resourcesPane,
  type PaneSize,
} from './panes.ts';
import { chosenNode, hasNodes, TABS, type UiState } from './ui-state.ts';

/** The log lines of a stream, as far as they have arrived. */
export interface LogView {
  readonly lines: readonly string[];
  /** Why the stream has ended; undefined while it runs. */
  readonly error: string | undefined;
}

/** What is drawn, and on how many cells. */
export interface ViewOptions {
  readonly columns: number;
  readonly rows: number;
  readonly state: UiState;
  /** undefined unless logs are shown. */
  readonly logs?: LogView | undefined;
}

/** Smaller terminals show a request to enlarge them. */
const LEAST = { columns: 40, rows: 8 };
/** From this size on, problems, decisions and certificates are beside the nodes. */
const BESIDE = { columns: 150, rows: 30, width: 64 };
const KEYS = 'tab views  ↑↓ select  enter open  l logs  esc back  ? help  q quit';
const LOG_KEYS = '↑↓ scroll  f follow  esc back  q quit';
/** The lines of the summary that are shown above the nodes. */
const SUMMARY: readonly string[] = ['quorum', 'state etcd', 'kube etcd', 'joins', 'key rotation'];
const HELP = [
  'tab, 1 to 5     the views: nodes, certificates, decisions, resources, problems',
  'arrows, j, k    select a row; page up, page down, home and end move further',
  'enter           open a node: the parts of its agent, and what each waits for',
  'l               live logs of the agent of a node, or of the selected part',
  'esc             back',
  'Ctrl-L          draw everything again',
  'q, Ctrl-C       quit',
  '',
  'Everything is read with your own credentials: the cluster decides what your',
  'role may see. Nothing can be changed here.',
];

/** The whole terminal, exactly `rows` lines of `columns` cells. Pure. */
export function view(snapshot: Snapshot, options: ViewOptions): readonly ScreenLine[] {
  const { columns, rows, state } = options;
  if (columns < LEAST.columns || rows < LEAST.rows)
    return exactly([textLine(`Needs ${LEAST.columns} by ${LEAST.rows} cells.`)], columns, rows);
  const top = [titleLine(snapshot, columns), tabLine(snapshot, options)];
  const keys = state.logs === undefined ? KEYS : LOG_KEYS;
  const body = bodyOf(snapshot, options, rows - top.length - 1);
  return [
    ...exactly([...top, ...body], columns, rows - 1),
    fitLine([footer(snapshot, keys, columns)], columns),
  ];
}

/** How many rows of the body a page key moves. */
export function pageRowsOf({ rows }: Pick<ViewOptions, 'rows'>): number {
  return Math.max(1, rows - 6);
}

function titleLine(
  { name, clusterId, you, tone, verdict, takenMs, nodes }: Snapshot,
  columns: number,
): ScreenLine {
  const members = nodes.filter(({ kind }) => kind === 'member').length;
  const left: readonly Span[] = [
    {
      text: fit(name || clusterId || 'cluster', Math.min(24, widthOf(name || clusterId) || 7)),
      style: 'bold',
    },
    { text: '  ' },
    { text: `● ${verdict}`, style: STYLES[tone] },
    { text: `  ${counted(members, 'node')}` },
  ];
  const who = you.role === '' ? '' : `${you.name} (${you.role})  `;
  const right = `${who}${new Date(takenMs).toISOString().slice(11, 19)}Z`;
  const used = left.reduce((sum, { text }) => sum + widthOf(text), 0);
  const gap = columns - used - widthOf(right);
  return gap < 1 ? left : [...left, { text: ' '.repeat(gap) }, { text: right, style: 'dim' }];
}

function tabLine({ problems, failing }: Snapshot, { state, columns }: ViewOptions): ScreenLine {
  const count = problems.length + failing.filter(({ isRefused }) => !isRefused).length;
  const isNarrow = columns < 70;
  return TABS.flatMap((tab, index): readonly Span[] => {
    const title = isNarrow ? tab.slice(0, 5) : tab;
    const text = ` ${index + 1} ${title}${tab === 'Problems' && count > 0 ? ` ${count}` : ''} `;
    const style = tab === state.tab ? 'chosen' : tab === 'Problems' && count > 0 ? 'red' : undefined;
    return [{ text, style }, { text: ' ' }];
  });
}

function footer({ failing, takenMs }: Snapshot, keys: string, columns: number): Span {
  const broken = failing.find(({ isRefused }) => !isRefused);
  return broken === undefined
    ? { text: fit(keys, columns), style: 'dim' }
    : { text: fit(failureText(broken, takenMs), columns), style: 'yellow' };
}

function bodyOf(snapshot: Snapshot, options: ViewOptions, rows: number): readonly ScreenLine[] {
  const { state, columns } = options;
  if (state.isHelp) return HELP.map((text) => textLine(text));
  if (state.logs !== undefined) return logLines(options, rows);
  const node = chosenNode(snapshot, state);
  if (state.isOpen && node !== undefined && hasNodes(state.tab)) {
    const at = node.runnables.findIndex(({ path }) => path === state.runnable);
    const size = { columns, rows: rows - 1, cursor: Math.max(0, at) };
    return [textLine(fit(node.name, columns), 'bold'), ...nodePane(node, snapshot.takenMs, size)];
  }
  const at = snapshot.nodes.findIndex(({ id }) => id === node?.id);
  const cursor = hasNodes(state.tab) ? Math.max(0, at) : (state.rows[state.tab] ?? 0);
  const size = { columns, rows, cursor };
  switch (state.tab) {
    case 'Nodes':
      return nodesBody(snapshot, size);
    case 'Certificates':
      return certificatesPane(snapshot, size);
    case 'Decisions':
      return decisionsPane(snapshot, size);
    case 'Resources':
      return resourcesPane(snapshot, size);
    case 'Problems':
      return problemsPane(snapshot, size);
  }
}

/** A summary and the first problem above the nodes; a large terminal has more beside them. */
function nodesBody(snapshot: Snapshot, size: PaneSize): readonly ScreenLine[] {
  const { columns, rows } = size;
  const isBeside = columns >= BESIDE.columns && rows >= BESIDE.rows;
  const left = isBeside ? columns - BESIDE.width - 3 : columns;
  const above = rows < 14 ? [] : summaryLines(snapshot, left);
  const nodes = nodesPane(snapshot, { ...size, columns: left, rows: rows - above.length });
  const lines = [...above, ...nodes];
  if (!isBeside) return lines;
  const beside = besideLines(snapshot, BESIDE.width, rows);
  return Array.from({ length: rows }, (_, index) => [
    ...fitLine(lines[index] ?? [], left),
    { text: ' │ ', style: 'dim' as const },
    ...(beside[index] ?? []),
  ]);
}

function summaryLines({ summary, problems }: Snapshot, columns: number): readonly ScreenLine[] {
  const [first] = problems;
  const more = problems.length > 1 ? ` (${problems.length - 1} more: view 5)` : '';
  return [
    ...summary
      .filter(([label]) => SUMMARY.includes(label))
      .map(([label, text]): ScreenLine => [
        { text: fit(label, 14), style: 'dim' },
        { text: fit(text, columns - 14) },
      ]),
    ...(first === undefined
      ? []
      : [
          textLine(`${fit(`! ${first}`, Math.min(columns - more.length, widthOf(first) + 2))}${more}`, 'red'),
        ]),
    textLine(''),
  ];
}

function besideLines(snapshot: Snapshot, columns: number, rows: number): readonly ScreenLine[] {
  const third = Math.floor(rows / 3);
  const part = (title: string, lines: readonly ScreenLine[]): readonly ScreenLine[] =>
    exactly([textLine(title, 'bold'), ...lines], columns, third);
  const size = { columns, rows: third - 2, cursor: -1 };
  return [
    ...part('Problems', problemsPane(snapshot, size)),
    ...part('Recent decisions', decisionsPane(snapshot, size)),
    ...part('Certificates', certificatesPane(snapshot, size)),
  ];
}

function logLines({ state, logs, columns }: ViewOptions, rows: number): readonly ScreenLine[] {
  const { logs: target, logsBack } = state;
  const { lines = [], error } = logs ?? {};
  const end = Math.max(0, lines.length - logsBack);
  const title = `Logs of ${target?.node ?? ''}${target?.path === '' ? '' : ` ${target?.path ?? ''}`}`;
  const paused = logsBack === 0 ? '' : `  (${logsBack} newer lines; f follows)`;
  const ended = error === undefined ? [] : [textLine(fit(error, columns), 'red')];
  const count = rows - 1 - ended.length;
  return [
    [
      { text: fit(title, Math.min(columns, widthOf(title))), style: 'bold' },
      { text: paused, style: 'yellow' },
    ],
    ...lines.slice(Math.max(0, end - count), end).map((line) => textLine(fit(line, columns))),
    ...(lines.length === 0 && error === undefined ? [textLine('no lines yet', 'dim')] : []),
    ...ended,
  ];
}

function exactly(lines: readonly ScreenLine[], columns: number, rows: number): readonly ScreenLine[] {
  return Array.from({ length: rows }, (_, index) => fitLine(lines[index] ?? [], columns));
}

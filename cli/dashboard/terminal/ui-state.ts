import type { Key } from '../../host/index.ts';
import type { NodeRow } from '../model/node-row.ts';
import type { Snapshot } from '../model/snapshot.ts';

/** The views that the tab key goes through. */
export const TABS = ['Nodes', 'Certificates', 'Decisions', 'Resources', 'Problems'] as const;
/** One of the views. */
export type Tab = (typeof TABS)[number];

/** What a stream of log lines shows: all runnables of an agent, or one and those below it. */
export interface LogTarget {
  readonly node: string;
  /** Empty for the whole agent. */
  readonly path: string;
}

/** What the user has chosen to see. */
export interface UiState {
  readonly tab: Tab;
  /** ID of the selected node; the first one if undefined or gone. */
  readonly nodeId: string | undefined;
  /** Whether the node is shown by itself, with its runnables. */
  readonly isOpen: boolean;
  /** Path of the selected runnable of the open node; the first one if undefined or gone. */
  readonly runnable: string | undefined;
  /** The selected row of the views without nodes. */
  readonly rows: Readonly<Partial<Record<Tab, number>>>;
  readonly logs: LogTarget | undefined;
  /** How many lines before the newest one the shown log lines end; 0 follows. */
  readonly logsBack: number;
  readonly isHelp: boolean;
}

/** What is shown first. */
export const START: UiState = {
  tab: 'Nodes',
  nodeId: undefined,
  isOpen: false,
  runnable: undefined,
  rows: {},
  logs: undefined,
  logsBack: 0,
  isHelp: false,
};

/** The selected node; undefined if there is none. */
export function chosenNode({ nodes }: Snapshot, { nodeId }: UiState): NodeRow | undefined {
  return nodes.find(({ id }) => id === nodeId) ?? nodes[0];
}

/** How far each key moves, in rows or in pages. */
const MOVES: Readonly<Record<string, { readonly rows?: number; readonly pages?: number }>> = {
  up: { rows: -1 },
  k: { rows: -1 },
  down: { rows: 1 },
  j: { rows: 1 },
  'page-up': { pages: -1 },
  'page-down': { pages: 1 },
  home: { rows: -Infinity },
  end: { rows: Infinity },
};

/** What a key acts on. */
interface Seen {
  readonly snapshot: Snapshot;
  /** How many rows a page has. */
  readonly pageRows: number;
  /** How many log lines there are. */
  readonly logLines: number;
}

/** The state after a key; 'quit' ends the dashboard. Pure. */
export function press(state: UiState, key: Key, seen: Seen): UiState | 'quit' {
  if (key === 'q' || key === 'interrupt') return 'quit';
  if (state.isHelp) return { ...state, isHelp: false };
  if (key === '?' || key === 'h') return { ...state, isHelp: true };
  if (key === 'escape' || key === 'left' || key === 'backspace') return back(state);
  const move = MOVES[key];
  if (move !== undefined) return moved(state, (move.rows ?? 0) + (move.pages ?? 0) * seen.pageRows, seen);
  if (state.logs !== undefined) return key === 'f' ? { ...state, logsBack: 0 } : state;
  if (key === 'tab' || key === 'back-tab') return switched(state, key === 'tab' ? 1 : -1);
  const tab = TABS[Number(key) - 1];
  if (tab !== undefined) return { ...state, tab, isOpen: false };
  const node = hasNodes(state.tab) ? chosenNode(seen.snapshot, state) : undefined;
  if (node === undefined) return state;
  if (key === 'enter' || key === 'right') return { ...state, nodeId: node.id, isOpen: true };
  return key === 'l' && node.kind === 'member' ? { ...state, ...logsOf(node, state) } : state;
}

function back(state: UiState): UiState {
  if (state.logs !== undefined) return { ...state, logs: undefined, logsBack: 0 };
  return { ...state, isOpen: false, runnable: undefined };
}

function switched(state: UiState, by: number): UiState {
  const next = TABS[(TABS.indexOf(state.tab) + by + TABS.length) % TABS.length];
  return { ...state, tab: next ?? 'Nodes', isOpen: false };
}

function logsOf(node: NodeRow, { isOpen, runnable }: UiState): Partial<UiState> {
  const found = node.runnables.find(({ path }) => path === runnable) ?? node.runnables[0];
  return { logs: { node: node.name, path: isOpen ? (found?.path ?? '') : '' }, logsBack: 0 };
}

/** Whether a view lists nodes. */
export function hasNodes(tab: Tab): boolean {
  return tab === 'Nodes' || tab === 'Resources';
}

function moved(state: UiState, by: number, { snapshot, logLines }: Seen): UiState {
  if (state.logs !== undefined)
    return { ...state, logsBack: within(state.logsBack - by, Math.max(1, logLines)) };
  const node = chosenNode(snapshot, state);
  if (state.isOpen && node !== undefined) {
    const paths = node.runnables.map(({ path }) => path);
    return { ...state, runnable: paths[stepped(paths, state.runnable, by)] };
  }
  if (hasNodes(state.tab)) {
    const ids = snapshot.nodes.map(({ id }) => id);
    return { ...state, nodeId: ids[stepped(ids, state.nodeId, by)] };
  }
  const rows = within((state.rows[state.tab] ?? 0) + by, rowCount(snapshot, state.tab));
  return { ...state, rows: { ...state.rows, [state.tab]: rows } };
}

function stepped(all: readonly string[], from: string | undefined, by: number): number {
  return within(Math.max(0, all.indexOf(from ?? '')) + by, all.length);
}

/** How many rows a view without nodes has. */
function rowCount({ certificates, decisions, problems, failing }: Snapshot, tab: Tab): number {
  if (tab === 'Certificates') return certificates.length;
  return tab === 'Decisions' ? (decisions?.length ?? 0) : problems.length + failing.length;
}

function within(index: number, count: number): number {
  return Math.max(0, Math.min(count - 1, index));
}

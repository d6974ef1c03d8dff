import type { StreamLogsResponse } from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { callCurator, findNode } from '../cluster/index.ts';
import { AppError } from '../app/errors.ts';

/** A line has at most 32 KiB: agents cut longer ones. A JSON entry that is cut again here could not be parsed. */
const LINE = { maxChars: 32 * 1024 } as const;

/** How many earlier lines a followed log begins with. */
const FOLLOWED_BACKLOG = 200;
/** Paths of runnables and names of systemd units, as curators accept them. */
const RUNNABLE = /^[A-Za-z0-9._-]{0,255}$/;
const UNIT = /^[a-z][a-z0-9-]{0,63}(?:\.service)?$/;

/** Flags of `cluster node logs`. */
export interface LogOptions {
  /** Path of the runnable of the agent whose lines to show; empty for all runnables. Ignored with `units`. */
  readonly path: string;
  readonly exact: boolean;
  readonly units: readonly string[];
  /** The audit log of the API server instead, from a control plane. */
  readonly audit: boolean;
  readonly backlog: number;
  readonly follow: boolean;
}

/** `cluster node logs`: prints lines as they arrive, without control characters. */
export async function runNodeLogs(context: CommandContext, name: string, options: LogOptions): Promise<void> {
  const { path, units, audit } = options;
  if (audit && (path !== '' || units.length > 0))
    throw new AppError('app-usage', 'cannot combine --audit with --path or --unit', {
      fix: 'Read one log after the other.',
    });
  refuseUnusable(options);
  if (path !== '' && units.length === 0) await requireRunnable(context, name, path);
  await callCurator(context, async ({ nodeStreams }) => {
    const { backlog, follow } = options;
    const stream = audit
      ? nodeStreams.streamAuditLog({ node: name, auditLog: { backlog, follow } })
      : nodeStreams.streamLogs({ node: name, logs: logsOf(options) });
    for await (const { lines, dropped } of wholeLines(stream)) {
      if (dropped > 0n) context.host.warn('node-logs-dropped', droppedText(dropped));
      for (const line of lines) print(context, line);
    }
  });
}

/** Lines of a log that arrived together, and how many were lost before them. */
interface LogLines {
  readonly lines: readonly string[];
  readonly dropped: bigint;
}

/** The stream of a log in whole lines; the last one may lack its line feed. */
async function* wholeLines(stream: AsyncIterable<StreamLogsResponse>): AsyncGenerator<LogLines> {
  let rest = '';
  for await (const { lines, dropped } of stream) {
    const parts = (rest + Buffer.from(lines).toString('utf8')).split('\n');
    rest = parts.pop() ?? '';
    yield { lines: parts, dropped };
  }
  if (rest !== '') yield { lines: [rest], dropped: 0n };
}

function droppedText(dropped: bigint): string {
  return `${dropped} lines dropped: they arrived faster than they could be sent`;
}

/**
 * Follows the log of a runnable of an agent, with all runnables below it, until the signal of the context fires or the
 * stream ends. Lines are text for people, without control characters.
 * @param path empty for the whole agent
 */
export async function followRunnable(
  context: CommandContext,
  { node, path }: { readonly node: string; readonly path: string },
  onLines: (lines: readonly string[]) => void,
): Promise<void> {
  await callCurator(context, async ({ nodeStreams }) => {
    const logs = logsOf({ path, exact: false, units: [], backlog: FOLLOWED_BACKLOG, follow: true });
    for await (const { lines, dropped } of wholeLines(nodeStreams.streamLogs({ node, logs })))
      onLines([...(dropped > 0n ? [`… ${droppedText(dropped)}`] : []), ...lines.map(renderLine)]);
  });
}

/** Refuses flags that no node could obey, before any node is called. @throws AppError `app-usage` */
function refuseUnusable({ path, exact, units }: LogOptions): void {
  if (path !== '' && units.length > 0) throw new AppError('app-usage', 'cannot combine --path with --unit');
  if (exact && path === '') throw new AppError('app-usage', '--exact needs --path');
  if (!RUNNABLE.test(path)) throw new AppError('app-usage', `invalid path ${JSON.stringify(path)}`);
  const odd = units.find((unit) => !UNIT.test(unit));
  if (odd !== undefined) throw new AppError('app-usage', `invalid unit ${JSON.stringify(odd)}`);
}

function logsOf({ path, exact, units, backlog, follow }: Omit<LogOptions, 'audit'>) {
  const source =
    units.length > 0
      ? { case: 'units' as const, value: { names: units.map(unitName) } }
      : { case: 'path' as const, value: path };
  return { source, backlog, follow, exact };
}

/**
 * Refuses a path that the agent does not have, because it would never print a line. If the node has not
 * reported its runnables, every path is accepted.
 */
async function requireRunnable(context: CommandContext, name: string, path: string): Promise<void> {
  const { status } = await findNode(context, name);
  const paths = (status?.runnables ?? []).map((runnable) => runnable.path);
  if (paths.length === 0 || paths.some((each) => each === path || each.startsWith(`${path}.`))) return;
  throw new AppError(
    'app-usage',
    `no runnable ${JSON.stringify(path)} found on node ${JSON.stringify(name)}`,
    { fix: `See the paths with \`cluster node show ${name}\`.` },
  );
}

/** "kubelet" and "kubelet.service" are the same unit. */
function unitName(unit: string): string {
  return unit.includes('.') ? unit : `${unit}.service`;
}

function print(context: CommandContext, line: string): void {
  context.host.result({ line }, () => renderLine(line));
}

/** A JSON line of the agent as text; any other line unchanged. */
function renderLine(line: string): string {
  try {
    const { time, level, path, message, ...fields } = JSON.parse(line) as Record<string, unknown>;
    if (typeof time !== 'string' || typeof message !== 'string') return printable(line, LINE);
    const more = Object.entries(fields).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
    return printable([time, String(level).padEnd(5), String(path), message, ...more].join(' '), LINE);
  } catch {
    return printable(line, LINE); // a line of the journal
  }
}

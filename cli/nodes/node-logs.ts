import { NodeStreams } from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { callCurator, findNode } from '../cluster/index.ts';
import { AppError } from '../app/errors.ts';

export interface LogOptions {
  /** Of a runnable; empty: the whole agent. Not with `units`. */
  readonly path: string;
  readonly exact: boolean;
  readonly units: readonly string[];
  readonly backlog: number;
  readonly follow: boolean;
}

/** `cluster node logs`: each line as it comes; what the node said is made safe to print. */
export async function runNodeLogs(context: CommandContext, name: string, options: LogOptions): Promise<void> {
  const { path, exact, units, backlog, follow } = options;
  const source =
    units.length > 0
      ? { case: 'units' as const, value: { names: units.map(unitName) } }
      : { case: 'path' as const, value: path };
  if (path !== '' && units.length === 0) await requireRunnable(context, name, path);
  await callCurator(context, async (_, { signal }, of) => {
    const stream = of(NodeStreams).streamLogs(
      { node: name, logs: { source, backlog, follow, exact } },
      { signal },
    );
    let rest = '';
    for await (const { lines, dropped } of stream) {
      if (dropped > 0n)
        context.host.warn('node-logs-dropped', `${dropped} lines came too fast and were lost`);
      const parts = (rest + Buffer.from(lines).toString('utf8')).split('\n');
      rest = parts.pop() ?? '';
      for (const line of parts) say(context, line);
    }
    if (rest !== '') say(context, rest);
  });
}

/** Nothing would ever come of a path that no runnable has. A node that has not said what it runs is believed. */
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

function say(context: CommandContext, line: string): void {
  context.host.result({ line }, () => renderLine(line));
}

/** One of the agent's JSON lines, for people; any other line as it is. */
export function renderLine(line: string): string {
  try {
    const { time, level, path, message, ...fields } = JSON.parse(line) as Record<string, unknown>;
    if (typeof time !== 'string' || typeof message !== 'string') return printable(line);
    const more = Object.entries(fields).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
    return printable([time, String(level).padEnd(5), String(path), message, ...more].join(' '));
  } catch {
    return printable(line); // not of the agent: the journal's own form
  }
}

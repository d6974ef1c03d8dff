import { setTimeout as delay } from 'node:timers/promises';
import type { Harness } from '../../machines/harness.ts';
import { InitRun } from '../init/init-run.ts';

/** The ways in which a command ends before its time; a closed output (EPIPE) must not end it. */
export const INTERRUPTIONS = ['kill -9', 'Ctrl-C', 'closed terminal', 'closed output'] as const;
/** See `INTERRUPTIONS`. */
export type Interruption = (typeof INTERRUPTIONS)[number];

/** Where a command is interrupted: at the start of a step, or, if it has no step, after a part of its usual time. */
export type Point =
  | { readonly kind: 'step'; readonly code: string; readonly occurrence: number }
  | { readonly kind: 'time'; readonly afterMs: number };

/** A command, and the points at which it can be interrupted. */
export interface Interruptible {
  readonly args: readonly string[];
  readonly points: readonly Point[];
}

/** Parts of the usual time at which a command without steps is interrupted; its request is sent in the second half. */
const PARTS = [0.5, 0.7, 0.85, 0.95];

/** Runs a command to its end, and returns the points at which it can be interrupted. */
export async function observe(bench: Harness, args: readonly string[]): Promise<Interruptible> {
  const startMs = performance.now();
  const run = new InitRun(bench, args, 'built');
  const code = await run.ended;
  if (code !== 0) throw new Error(`cluster ${args.join(' ')} ended with ${code}: ${run.said()}`);
  const tookMs = performance.now() - startMs;
  const steps = run.lines.filter(({ type }) => type === 'step-started').map((line) => line.code ?? '');
  const points = steps.map((step, index): Point => ({
    ...{ kind: 'step', code: step },
    occurrence: steps.slice(0, index).filter((each) => each === step).length,
  }));
  const times = PARTS.map((part): Point => ({ kind: 'time', afterMs: Math.round(part * tookMs) }));
  return { args, points: points.length > 0 ? points : times };
}

/** Starts the command, interrupts it at the point, and waits for its end. Returns what happened, for the log of the story. */
export async function interrupt(
  bench: Harness,
  { args, point, by }: { readonly args: readonly string[]; readonly point: Point; readonly by: Interruption },
): Promise<string> {
  const run = new InitRun(bench, args, 'built');
  if (point.kind === 'time') await Promise.race([delay(point.afterMs), run.ended]);
  else await stepOf(run, point);
  const isOver = run.over;
  if (by === 'kill -9') run.child.kill('SIGKILL');
  if (by === 'Ctrl-C') run.child.kill('SIGINT');
  if (by === 'closed terminal') run.child.kill('SIGHUP');
  if (by === 'closed output') {
    run.child.stdout?.destroy();
    run.child.stderr?.destroy();
  }
  const code = await run.ended;
  if (by === 'closed output' && code !== 0)
    throw new Error(`cluster ${args.join(' ')} with a closed output ended with ${code}`);
  const at = point.kind === 'step' ? `${point.code} ${point.occurrence + 1}` : `${point.afterMs} ms`;
  return `${by} at ${at}: ${isOver ? 'had ended before' : `ended with ${code}`}`;
}

async function stepOf(run: InitRun, point: Point & { readonly kind: 'step' }): Promise<void> {
  for (let from = 0, left = point.occurrence; left >= 0; left--) {
    const found = await run.until(({ type, code }) => type === 'step-started' && code === point.code, from);
    if (found === undefined) return; // an interrupted call before this one has done this step
    from = run.lines.indexOf(found) + 1;
  }
}

/**
 * The interruptions of one command: each point at least once, and each kind at least once.
 * @param first the number of the kind to begin with, so that all kinds hit the first point of some command
 */
export function planInterruptions(
  points: readonly Point[],
  first: number,
): readonly { readonly point: Point; readonly by: Interruption }[] {
  const count = Math.max(points.length, INTERRUPTIONS.length);
  return Array.from({ length: points.length === 0 ? 0 : count }, (_, index) => ({
    point: points[index % points.length] as Point,
    by: INTERRUPTIONS[(first + index) % INTERRUPTIONS.length] as Interruption,
  }));
}

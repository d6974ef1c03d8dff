import { Mailbox } from '../../internal/event/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import { NodeStreamError } from './errors.ts';
import { packLines, type Chunk } from './chunks.ts';

/** Units whose logs operators of the cluster may read. */
export const READABLE_UNITS: readonly string[] = [
  'bootstrapper.service',
  'cluster-apilb.service',
  'cluster-containerd.service',
  'cluster-etcd-kubernetes.service',
  'cluster-etcd-state.service',
  'cluster-joinservice.service',
  'cluster-relay.service',
  'cluster-signer.service',
  'kubelet.service',
];
/** Number of lines that a slow reader may be behind; further lines are dropped and counted. */
const MAX_BEHIND = 1_000;

/** Selects the lines to read. */
export interface UnitLogsOptions {
  readonly units: readonly string[];
  readonly backlog: number;
  readonly follow: boolean;
}

/**
 * Reads the journal of units, oldest line first.
 * @throws NodeStreamError `nodestream-unit-unknown`
 */
export async function* readUnitLogs(
  commands: CommandRunner,
  { units, backlog, follow }: UnitLogsOptions,
  signal: AbortSignal,
): AsyncGenerator<Chunk> {
  const unknown = units.find((unit) => !READABLE_UNITS.includes(unit));
  if (unknown !== undefined)
    throw new NodeStreamError(
      'nodestream-unit-unknown',
      `unit ${unknown} not allowed, use one of ${READABLE_UNITS.join(', ')}`,
    );
  const reading = new AbortController();
  const onAbort = (): void => reading.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const box = new Mailbox<string>(backlog + MAX_BEHIND);
  let dropped = 0;
  const argv = [
    'journalctl',
    ...units.map((unit) => `--unit=${unit}`),
    `--lines=${backlog}`,
    '--output=short-iso-precise',
    '--no-hostname',
    '--no-pager',
    '--quiet',
    ...(follow ? ['--follow'] : []),
  ] as const;
  const run = commands.run({
    argv: [...argv] as [string, ...string[]],
    onLine: (line, stream) => {
      if (stream === 'stdout' && !box.push(line)) dropped++;
    },
    signal: reading.signal,
  });
  run.then(
    () => box.close(),
    (error: unknown) => box.close({ error }),
  );
  try {
    for await (const line of box.read(signal)) {
      const lost = dropped;
      dropped = 0;
      yield* packLines([line], lost);
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    reading.abort(new Error('reading the journal has ended'));
    await run.catch(() => undefined); // the reader already got the error
  }
}

import type { CommandRunner } from '../../internal/exec/index.ts';
import { NodeStreamError } from './errors.ts';
import type { Chunk } from './chunks.ts';
import { streamOutput } from './stream-output.ts';

/** Units whose logs operators of the cluster may read. */
export const READABLE_UNITS: readonly string[] = [
  'bootstrapper.service',
  'cluster-apilb.service',
  'cluster-containerd.service',
  'cluster-etcd-kubernetes.service',
  'cluster-etcd-state.service',
  'cluster-exporter.service',
  'cluster-joinservice.service',
  'cluster-relay.service',
  'cluster-signer.service',
  'kubelet.service',
];

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
  yield* streamOutput(commands, { argv: [...argv] as [string, ...string[]], backlog }, signal);
}

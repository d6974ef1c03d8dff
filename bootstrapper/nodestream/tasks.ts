import type { OwnerVoucher } from '../../internal/crypto/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import {
  PowerAction,
  type DiskRotationTask,
  type ProbeTask,
  type Task,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { readAuditLog } from './audit-log.ts';
import { NodeStreamError } from './errors.ts';
import type { LogFilter, LogRing } from './log-ring.ts';
import { packBytes, packLines, packStream, type Chunk } from './chunks.ts';
import type { PowerOrder } from './power.ts';
import { readUnitLogs } from './unit-logs.ts';

/** Ports (injected dependencies) of the tasks on this node. */
export interface TaskPorts {
  readonly ring: LogRing;
  readonly commands: CommandRunner;
  readonly files: Pick<FilePort, 'stat'>;
  /** Fresh evidence of this machine for an operator's nonce, bound to this node of this cluster. */
  readonly evidence: {
    readonly variant: string;
    make(nonce: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
  };
  /**
   * Accepts an owner's signed request to reset this machine. The request is on disk when the promise
   * resolves.
   * @throws ResetError
   */
  readonly reset: (order: {
    readonly ownerPubKey: Uint8Array;
    readonly signature: Uint8Array;
    readonly vouchers: readonly OwnerVoucher[];
  }) => Promise<void>;
  /**
   * Probes whether the cluster still accepts the credentials of a removed node; resolves to the bytes of a
   * `ProbeReport`.
   */
  readonly probe: (request: ProbeTask, signal: AbortSignal) => Promise<Uint8Array>;
  /**
   * Takes a backup of the cluster, encrypted to the recipients of an owner-signed certificate.
   * @throws BackupError, BackupTaskError
   */
  readonly backup: (
    order: { readonly certificate: Uint8Array; readonly workspace: Uint8Array },
    signal: AbortSignal,
  ) => AsyncIterable<Uint8Array>;
  /** The bytes of a backup that this node keeps. @throws BackupTaskError */
  readonly fetchBackup: (name: string, signal: AbortSignal) => AsyncIterable<Uint8Array>;
  /** Hands an order to restart this machine, or to switch it off, to systemd. @throws NodeStreamError */
  readonly power: (order: PowerOrder, signal: AbortSignal) => Promise<void>;
  /** The state disk of this machine. @throws DiskError `disk-not-provisioned` on a machine without one */
  readonly disk: {
    /** How it is sealed: the bytes of a `DiskSealReport`. */
    describe(nonce: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
    /** Takes an approval of an owner; it is on the disk when the promise resolves. @throws DiskError */
    approve(approval: Uint8Array): Promise<void>;
    /** Gives it new keys, as an owner has ordered: the bytes of a `DiskRotationReport`. @throws DiskError */
    rotate(order: DiskRotationTask): Promise<Uint8Array>;
  };
  /** The metrics of every program on this node that responds. */
  readonly metrics: (signal: AbortSignal) => Promise<string>;
}

/**
 * Runs a task and yields its result in chunks. Each chunk is created only after the previous one was sent.
 */
export async function* runTask(task: Task, ports: TaskPorts, signal: AbortSignal): AsyncGenerator<Chunk> {
  switch (task.what.case) {
    case 'logs': {
      const { source, backlog, follow, exact } = task.what.value;
      if (source.case === 'units')
        yield* readUnitLogs(ports.commands, { units: source.value.names, backlog, follow }, signal);
      else yield* agentLogs(ports.ring, { path: source.value ?? '', exact }, { backlog, follow }, signal);
      return;
    }
    case 'auditLog':
      yield* readAuditLog(ports, task.what.value, signal);
      return;
    case 'evidence': {
      const evidence = await ports.evidence.make(task.what.value.nonce, signal);
      yield* packBytes(Buffer.from(ports.evidence.variant, 'utf8'));
      yield* packBytes(evidence);
      return;
    }
    case 'metrics':
      yield* packBytes(Buffer.from(await ports.metrics(signal), 'utf8'));
      return;
    case 'backup':
      yield* packStream(ports.backup(task.what.value, signal));
      return;
    case 'fetchBackup':
      yield* packStream(ports.fetchBackup(task.what.value.name, signal));
      return;
    case 'probe':
      yield* packBytes(await ports.probe(task.what.value, signal));
      return;
    case 'diskSeal':
      yield* packBytes(await ports.disk.describe(task.what.value.nonce, signal));
      return;
    case 'diskApproval':
      await ports.disk.approve(task.what.value.approval);
      return;
    case 'diskRotation':
      yield* packBytes(await ports.disk.rotate(task.what.value));
      return;
    case 'power':
      await ports.power(powerOrderFrom(task), signal);
      return;
    case 'reset':
      await ports.reset(task.what.value);
      return;
    case undefined:
      throw new NodeStreamError('nodestream-task-unknown', `task ${task.task} is of an unknown kind`);
  }
}

/** The order of a task. @throws NodeStreamError `nodestream-task-unknown` for an action of a later version */
function powerOrderFrom({ task, what }: Task): PowerOrder {
  const { action, bootId } =
    what.case === 'power' ? what.value : { action: PowerAction.UNSPECIFIED, bootId: '' };
  if (action === PowerAction.REBOOT) return { action: 'reboot', bootId };
  if (action === PowerAction.OFF) return { action: 'off', bootId };
  throw new NodeStreamError('nodestream-task-unknown', `task ${task} has an unknown action`);
}

/** Yields older lines and then new ones without a gap: no line is logged between the two calls. */
async function* agentLogs(
  ring: LogRing,
  filter: LogFilter,
  { backlog, follow }: { readonly backlog: number; readonly follow: boolean },
  signal: AbortSignal,
): AsyncGenerator<Chunk> {
  const before = ring.last(filter, backlog);
  const after = follow ? ring.follow(filter, signal) : undefined;
  try {
    const first = after?.next();
    first?.catch(() => undefined); // awaited below
    yield* packLines(before, 0);
    if (after === undefined || first === undefined) return;
    for (let more = await first; more.done !== true; more = await after.next())
      yield* packLines(more.value.lines, more.value.dropped);
  } finally {
    await after?.return(undefined);
  }
}

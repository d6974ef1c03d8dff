import { createHash } from 'node:crypto';
import { untilAborted } from '../../../internal/cleanup/index.ts';
import {
  diskRotationStatement,
  isSignedByRawEd25519Key,
  isVouchedOwnerKey,
} from '../../../internal/crypto/index.ts';
import { EventValue, when, type Readable } from '../../../internal/event/index.ts';
import type { Runnable } from '../../../internal/supervisor/index.ts';
import type { DiskRotationTask } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import {
  DiskError,
  isRotationRefused,
  rotateDiskKeys,
  type AskShare,
  type DiskPorts,
  type DiskQueue,
  type DiskSettings,
  type KeyRotation,
  type RotationOrder,
} from '../../disk/index.ts';
import { startAgain, type DiskShareWorkerOptions } from './disk-share-worker.ts';

/** How long the agent waits before it starts again, so that the response reaches the caller of the order. */
const RESPONSE_MS = 1_000;

/** The node that an order is for, and whose order counts. */
interface OrderedNode {
  readonly clusterId: string;
  readonly nodeId: string;
  /** Raw Ed25519 keys of the owners, from the provisioning of this machine. */
  readonly ownerKeys: readonly Uint8Array[];
  readonly nowMs: number;
}

/**
 * Verifies the order of an owner for new keys of the state disk of this node.
 * @throws DiskError `disk-rotation-unauthorized`; `disk-rotation-refused` after its time limit
 */
export function verifyRotationOrder(
  task: Omit<DiskRotationTask, '$typeName' | '$unknown'>,
  { clusterId, nodeId, ownerKeys, nowMs }: OrderedNode,
): RotationOrder {
  const {
    uuid,
    nodeSeal: seal,
    recoveryRecipients: recipients,
    recoveryThreshold: threshold,
    expiresMs,
  } = task;
  const signed = { clusterId, nodeId, uuid, seal, recipients, threshold, expiresMs };
  const statement = diskRotationStatement(signed);
  const isOwner = isVouchedOwnerKey(task, { clusterId, ownerKeys });
  if (!isOwner || !isSignedByRawEd25519Key(task.ownerPubKey, statement, task.signature))
    throw new DiskError(
      'disk-rotation-unauthorized',
      `order for new keys of the state disk of ${nodeId} of cluster ${clusterId} not signed by an owner of this machine`,
    );
  if (expiresMs < nowMs) {
    const until = new Date(Number(expiresMs)).toISOString();
    throw new DiskError(
      'disk-rotation-refused',
      `order for new keys of the state disk: it counted until ${until}`,
    );
  }
  const digest = new Uint8Array(createHash('sha256').update(statement).digest());
  return { digest, uuid, seal, recipients, threshold };
}

/** Gives the state disk of a running machine new keys, one order at a time. */
export class DiskKeys {
  /** Whether this process has held keys of the disk for a rotation: the agent has to start again. */
  readonly rotated: Readable<boolean>;
  readonly #rotated = new EventValue<boolean>();
  readonly #disk: DiskKeysOptions;

  constructor(disk: DiskKeysOptions) {
    this.#disk = disk;
    this.rotated = this.#rotated;
    this.#rotated.set(false);
  }

  /**
   * Carries out an order, whose signature was verified. Refuses while another change of the record runs or waits: an order has a time limit, and a move of the
   * share may wait for a signer.
   * @throws DiskError `disk-share-moving`, and as `rotateDiskKeys()`
   */
  async rotate(order: RotationOrder, signal: AbortSignal): Promise<KeyRotation> {
    const { ports, settings, askShare, queue } = this.#disk;
    if (queue.isBusy)
      throw new DiskError('disk-share-moving', 'rotating the keys of the state disk: its record is in use');
    try {
      const rotation = await queue.run(() => rotateDiskKeys(ports, settings, { order, askShare, signal }));
      if (!rotation.isRepeated || rotation.wasInterrupted) this.#rotated.set(true);
      return rotation;
    } catch (error) {
      // Another failure may have come after the shares were unsealed. A curator who repeats an old order does not have the agent start again.
      if (!isRotationRefused(error)) this.#rotated.set(true);
      throw error;
    }
  }
}

/** Inputs and ports (injected dependencies) of `DiskKeys`. */
interface DiskKeysOptions {
  readonly ports: DiskPorts;
  readonly settings: DiskSettings;
  readonly askShare: AskShare;
  /** One for all work on the record of the disk. */
  readonly queue: DiskQueue;
}

/** Has the agent start again after a rotation, because its memory has keys of the disk. */
export function rotatedKeysRunnable(
  options: DiskShareWorkerOptions & { readonly diskKeys: DiskKeys | undefined },
): Runnable {
  const { clock, diskShare, diskKeys } = options;
  return async (scope) => {
    scope.healthy();
    if (diskShare === undefined || diskKeys === undefined) return scope.done();
    scope.waiting('an order for new keys of the state disk');
    await when(diskKeys.rotated, (isRotated) => isRotated, scope.signal);
    scope.waiting('response to reach the caller');
    await clock.sleep(RESPONSE_MS, scope.signal);
    await startAgain(options, diskShare.queue, scope);
    await untilAborted(scope.signal);
  };
}

import { dirname } from 'node:path';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import {
  isSignedByRawEd25519Key,
  isVouchedOwnerKey,
  resetStatement,
  type OwnerVoucher,
} from '../../internal/crypto/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { ResetError } from './errors.ts';

const VERSION = 1;

/** Paths that a reset works on. */
export interface ResetPaths {
  /** The agent's state: a reset deletes all of it, apart from the paths below. */
  readonly state: string;
  /** The request that is to be carried out. */
  readonly resetOrder: string;
  /** The machine key and its fingerprint, deleted last. */
  readonly machineKey: string;
  readonly fingerprint: string;
  /**
   * Blobs of the bundle. A reset keeps them, because they are not secret and are verified before each use.
   */
  readonly store: string;
}

/** Accepts signed requests to reset this machine while the agent runs. */
export class ResetOrders {
  /** Whether a reset was requested. If so, the agent has to end. */
  readonly ordered: Readable<boolean>;
  /** The reason with which the agent ends after such an order. */
  readonly reason = new ResetError(
    'reset-started',
    'ending the agent, which resets this machine after systemd has restarted it',
  );
  readonly #ordered = new EventValue<boolean>();
  readonly #options: ResetOrdersOptions;

  constructor(options: ResetOrdersOptions) {
    this.#options = options;
    this.ordered = this.#ordered;
    this.#ordered.set(false);
  }

  /**
   * Verifies the request. It is on disk when the promise resolves.
   * @throws ResetError `reset-not-authorized`
   */
  async accept(clusterId: string, order: OwnersOrder): Promise<void> {
    const { files, paths, ownerKeys, nodeId } = this.#options;
    const isOwner = isVouchedOwnerKey(order, { clusterId, ownerKeys });
    if (
      !isOwner ||
      !isSignedByRawEd25519Key(order.ownerPubKey, resetStatement({ clusterId, nodeId }), order.signature)
    )
      throw new ResetError(
        'reset-not-authorized',
        `order to reset ${nodeId} of cluster ${clusterId} not signed by an owner of this machine`,
      );
    await files.makeDirectory(dirname(paths.resetOrder));
    const record = { version: VERSION, clusterId, nodeId };
    await files.createExclusive(paths.resetOrder, `${JSON.stringify(record)}\n`);
    this.#ordered.set(true);
  }
}

interface OwnersOrder {
  readonly ownerPubKey: Uint8Array;
  readonly signature: Uint8Array;
  /** Each voucher signs the key of the next one; the last one signs `ownerPubKey`. */
  readonly vouchers: readonly OwnerVoucher[];
}

/** Inputs and ports (injected dependencies) of `ResetOrders`. */
export interface ResetOrdersOptions {
  readonly files: FilePort;
  readonly paths: Pick<ResetPaths, 'resetOrder'>;
  /** Raw Ed25519 keys of the owners, from this machine's provisioning. */
  readonly ownerKeys: readonly Uint8Array[];
  readonly nodeId: string;
}

import { EventValue, type Readable } from '../../internal/event/index.ts';
import {
  isSignedByRawEd25519Key,
  resetStatement,
  voucherStatement,
  type OwnerVoucher,
} from '../../internal/crypto/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { ResetError } from './errors.ts';

const VERSION = 1;
const MAX_VOUCHERS = 16;

export interface ResetPaths {
  /** The agent's state: all of it goes but what is named here. */
  readonly state: string;
  /** Where an order waits to be carried out. */
  readonly resetOrder: string;
  /** The machine's key and what shows it: they go last. */
  readonly machineKey: string;
  readonly fingerprint: string;
  /** Blobs of the bundle: nothing secret, and checked before each use. */
  readonly store: string;
}

/** Takes orders of the owner, while the agent runs. */
export class ResetOrders {
  /** Whether this machine is to become fresh: the agent has to end. */
  readonly ordered: Readable<boolean>;
  readonly #ordered = new EventValue<boolean>();
  readonly #options: ResetOrdersOptions;

  constructor(options: ResetOrdersOptions) {
    this.#options = options;
    this.ordered = this.#ordered;
    this.#ordered.set(false);
  }

  /** The order is on disk when it resolves. @throws ResetError `reset-not-authorized` */
  async accept(clusterId: string, order: OwnersOrder): Promise<void> {
    const { files, paths: places, ownerKeys, nodeId } = this.#options;
    const isOwner = isOwnersKey(order, { clusterId, ownerKeys });
    if (
      !isOwner ||
      !isSignedByRawEd25519Key(order.ownerPubKey, resetStatement({ clusterId, nodeId }), order.signature)
    )
      throw new ResetError('reset-not-authorized', `resetting ${nodeId} of cluster ${clusterId}`);
    await files.makeDirectory(places.resetOrder.slice(0, places.resetOrder.lastIndexOf('/')));
    const record = { version: VERSION, clusterId, nodeId };
    await files.createExclusive(places.resetOrder, `${JSON.stringify(record)}\n`);
    this.#ordered.set(true);
  }
}

/** A key that this machine was provisioned with, or one that such a key vouches for, through however many others. */
function isOwnersKey(
  { ownerPubKey, vouchers }: OwnersOrder,
  by: { readonly clusterId: string; readonly ownerKeys: readonly Uint8Array[] },
): boolean {
  const isKnown = (key: Uint8Array) => by.ownerKeys.some((each) => Buffer.compare(each, key) === 0);
  let key = ownerPubKey;
  for (const voucher of vouchers.slice(-MAX_VOUCHERS).toReversed()) {
    if (isKnown(key)) return true;
    const statement = voucherStatement({ clusterId: by.clusterId, ownerPubKey: key });
    if (!isSignedByRawEd25519Key(voucher.by, statement, voucher.signature)) return false;
    key = voucher.by;
  }
  return isKnown(key);
}

interface OwnersOrder {
  readonly ownerPubKey: Uint8Array;
  readonly signature: Uint8Array;
  /** Each for the key of the next one, the last one for `ownerPubKey`. */
  readonly vouchers: readonly OwnerVoucher[];
}

export interface ResetOrdersOptions {
  readonly files: FilePort;
  readonly paths: Pick<ResetPaths, 'resetOrder'>;
  /** Raw Ed25519, from this machine's provisioning. */
  readonly ownerKeys: readonly Uint8Array[];
  readonly nodeId: string;
}

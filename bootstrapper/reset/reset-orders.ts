import { EventValue, type Readable } from '../../internal/event/index.ts';
import { isSignedBy, resetStatement } from '../../internal/crypto/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { ResetError } from './errors.ts';

/** SubjectPublicKeyInfo of an Ed25519 key up to the raw key (RFC 8410). */
const ED25519_SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
const VERSION = 1;

export interface ResetPlaces {
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

  /** The order is on disk when it resolves. @throws ResetError `reset-not-ordered` */
  async accept(
    clusterId: string,
    order: { readonly ownerPubKey: Uint8Array; readonly signature: Uint8Array },
  ): Promise<void> {
    const { files, places, ownerKeys, nodeId } = this.#options;
    const isOwner = ownerKeys.some((key) => Buffer.compare(key, order.ownerPubKey) === 0);
    const spki = Buffer.concat([ED25519_SPKI_PREFIX, order.ownerPubKey]);
    if (!isOwner || !isSignedBy(spki, resetStatement({ clusterId, nodeId }), order.signature))
      throw new ResetError('reset-not-ordered', `resetting ${nodeId} of cluster ${clusterId}`);
    await files.makeDirectory(places.resetOrder.slice(0, places.resetOrder.lastIndexOf('/')));
    const record = { version: VERSION, clusterId, nodeId };
    await files.createExclusive(places.resetOrder, `${JSON.stringify(record)}\n`);
    this.#ordered.set(true);
  }
}

export interface ResetOrdersOptions {
  readonly files: FilePort;
  readonly places: Pick<ResetPlaces, 'resetOrder'>;
  /** Raw Ed25519, from this machine's provisioning. */
  readonly ownerKeys: readonly Uint8Array[];
  readonly nodeId: string;
}

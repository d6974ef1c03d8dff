import { createPrivateKey, sign } from 'node:crypto';
import type { Clock } from '../../../internal/clock/index.ts';
import { joinServerStatement } from '../../../internal/crypto/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import {
  CLUSTER_KEY,
  OWNERSHIP_KEY,
  records,
  SETTINGS_KEY,
  type ClusterRecord,
  type OwnershipRecord,
  type RecordKind,
  type SettingsRecord,
} from '../../../internal/records/index.ts';
import { isControlPlane, isMemberState } from '../../../internal/role/index.ts';
import type { TlsIdentity } from '../../../internal/rpc/index.ts';
import { nodeStatusOf, type NodeView } from '../../curator/index.ts';
import { canonicalAddress } from '../../../internal/endpoint/index.ts';
import { controlPlaneAt } from '../../evidence/index.ts';
import { documentForMachines, ownersForMachines } from '../../ownerdocs/index.ts';
import { JoinError } from '../errors.ts';
import { SharedRead } from './shared-read.ts';

/** A control plane and its address, without a port. */
export interface ControlPlane {
  readonly nodeId: string;
  readonly name: string;
  readonly address: string;
}

/** Dependencies of `ClusterFacts`. */
export interface ClusterFactsPorts {
  readonly etcd: KeySpace;
  readonly clock: Clock;
  /** The node certificate, issued by the cluster CA, and its key. */
  readonly identity: TlsIdentity;
  /** The cluster CAs that this node trusts, a PEM bundle. */
  readonly clusterCaPem: string;
  /** This node, which is a control plane even before it has reported a status. */
  readonly own: { readonly nodeId: string; readonly address: string };
  /** All nodes, linearizably. */
  readonly listNodes: (signal: AbortSignal) => Promise<readonly NodeView[]>;
}

/** The facts about the cluster that a machine gets with the first message of the stream, and with its ticket. */
export class ClusterFacts {
  readonly #ports: ClusterFactsPorts;
  /**
   * Concurrent calls share one read, because a whole rack of machines joins at the same time and each join
   * reads all nodes.
   */
  readonly #nodes: SharedRead<readonly NodeView[]>;
  /** Concurrent calls share one read, because every machine causes this read, even before it waits for a slot. */
  readonly #ownership: SharedRead<OwnedCluster>;

  constructor(ports: ClusterFactsPorts) {
    this.#ports = ports;
    this.#nodes = new SharedRead(ports.clock, ports.listNodes);
    this.#ownership = new SharedRead(ports.clock, (signal) => this.#readOwnedCluster(signal));
  }

  /**
   * The first message of a stream: which cluster this is, signed by its owner, and by the key of this node for this session.
   * @param session the 64 bytes that attested TLS exports
   */
  async clusterIdentity(session: Uint8Array, signal: AbortSignal) {
    const { clock, identity, clusterCaPem } = this.#ports;
    const { cluster, ownership, documents } = await this.#ownership.get();
    signal.throwIfAborted();
    const key = createPrivateKey(identity.keyPem.reveal());
    return {
      clusterId: cluster.clusterId,
      clusterName: cluster.clusterName,
      clusterCaPem: cluster.caPem,
      // The epoch that the owner signed. A recovery of etcd raises the epoch of the cluster without a new
      // signature.
      epoch: BigInt(ownership.epoch),
      ownerPublicKey: bytesOf(ownership.ownerPubKey),
      ownershipSignature: bytesOf(ownership.signature),
      nodeCertificatePem: identity.certPem,
      signature: new Uint8Array(sign(undefined, joinServerStatement(session), key)),
      nowMs: BigInt(clock.nowMs()),
      ...(documents.length === 0 ? {} : { currentCaPem: clusterCaPem, ownerDocuments: [...documents] }),
    };
  }

  async #readOwnedCluster(signal: AbortSignal): Promise<OwnedCluster> {
    const { etcd } = this.#ports;
    const [cluster, ownership, owners, keys] = await Promise.all([
      this.cluster(signal),
      read(etcd, OWNERSHIP_KEY, records.ownership, signal),
      ownersForMachines(etcd, signal),
      documentForMachines(etcd, 'keys', signal),
    ]);
    return { cluster, ownership, documents: keys.length === 0 ? [] : [...owners, ...keys] };
  }

  /** The record of the cluster. @throws JoinError `join-not-ready` */
  cluster(signal: AbortSignal): Promise<ClusterRecord> {
    return read(this.#ports.etcd, CLUSTER_KEY, records.cluster, signal);
  }

  /** The settings of the cluster. @throws JoinError `join-not-ready` */
  settings(signal: AbortSignal): Promise<SettingsRecord> {
    return read(this.#ports.etcd, SETTINGS_KEY, records.settings, signal);
  }

  /**
   * The documents that an owner has signed about the settings and the shared keys, with the chain of owners. The
   * machine verifies all of them.
   */
  async ownerDocuments(
    signal: AbortSignal,
  ): Promise<{ readonly ownerDocuments: Uint8Array[]; readonly keyDocuments: Uint8Array[] }> {
    const { etcd } = this.#ports;
    const [owners, settings, keyDocuments] = await Promise.all([
      ownersForMachines(etcd, signal),
      documentForMachines(etcd, 'settings', signal),
      documentForMachines(etcd, 'keys', signal),
    ]);
    return { ownerDocuments: [...owners, ...settings], keyDocuments };
  }

  /** All control planes that have reported an address, this one first; never empty. */
  async controlPlanes(signal: AbortSignal): Promise<readonly [ControlPlane, ...ControlPlane[]]> {
    const { own } = this.#ports;
    const nodes = await this.#nodes.get();
    signal.throwIfAborted();
    const name = nodes.find(({ record }) => record.nodeId === own.nodeId)?.record.name ?? own.nodeId;
    const others = nodes
      .filter((view) => view.record.nodeId !== own.nodeId && isActiveControlPlane(view))
      .flatMap((view) => {
        const address = addressOf(view);
        return address === '' ? [] : [{ nodeId: view.record.nodeId, name: view.record.name, address }];
      });
    return [{ ...own, name }, ...others];
  }

  /** The ID of the node that has this address: a control plane, also while it is off, or another node that is alive. */
  async nodeIdAt(address: string, signal: AbortSignal): Promise<string | undefined> {
    const { etcd, own } = this.#ports;
    if (canonicalAddress(own.address) === address) return own.nodeId;
    const reservedFor = await controlPlaneAt(etcd, address, signal);
    if (reservedFor !== undefined) return reservedFor.nodeId;
    const nodes = await this.#nodes.get();
    signal.throwIfAborted();
    const holds = (view: NodeView): boolean =>
      // This case is a control plane that is off and got its last ticket from a release without address reservations:
      // only its status has its address.
      (view.isAlive || isActiveControlPlane(view)) && canonicalAddress(addressOf(view)) === address;
    return nodes.find(holds)?.record.nodeId;
  }
}

interface OwnedCluster {
  readonly cluster: ClusterRecord;
  readonly ownership: OwnershipRecord;
  /** The owner's signature over the newest shared keys, with the chain of owners; [] before the first rotation. */
  readonly documents: readonly Uint8Array[];
}

function isActiveControlPlane({ record }: NodeView): boolean {
  return isMemberState(record.state) && isControlPlane(record.roles);
}

function addressOf(view: NodeView): string {
  return nodeStatusOf(view)?.address ?? '';
}

async function read<T>(etcd: KeySpace, key: string, kind: RecordKind<T>, signal: AbortSignal): Promise<T> {
  const { record } = await kind.read(etcd, key, signal);
  if (record === undefined) throw new JoinError('join-not-ready', `reading ${key}: not found`);
  return record;
}

function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

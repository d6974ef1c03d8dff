import { fromBinary } from '@bufbuild/protobuf';
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
import type { NodeView } from '../../curator/index.ts';
import { canonicalAddress } from '../../evidence/index.ts';
import { NodeStatusSchema } from '../../curatorproto/gen/curator_pb.js';
import { JoinError } from '../errors.ts';
import { SharedRead } from './shared-read.ts';

/** Where a control plane answers. */
export interface ControlPlane {
  readonly nodeId: string;
  readonly name: string;
  readonly address: string;
}

export interface ClusterFactsPorts {
  readonly etcd: KeySpace;
  readonly clock: Clock;
  /** This node's certificate of the cluster CA and its key. */
  readonly identity: TlsIdentity;
  /** This node, which runs a control plane whatever its status says yet. */
  readonly own: { readonly nodeId: string; readonly address: string };
  /** All nodes, linearizably. */
  readonly listNodes: (signal: AbortSignal) => Promise<readonly NodeView[]>;
}

/** What a machine is told about the cluster: before it says anything, and with its ticket. */
export class ClusterFacts {
  readonly #ports: ClusterFactsPorts;
  /** Machines come by the rack, and each of them needs all nodes. */
  readonly #nodes: SharedRead<readonly NodeView[]>;
  /** Strangers are told before they wait for a turn: however many ask, it is one read at a time. */
  readonly #introduction: SharedRead<Introduction>;

  constructor(ports: ClusterFactsPorts) {
    this.#ports = ports;
    this.#nodes = new SharedRead({ read: ports.listNodes, clock: ports.clock });
    this.#introduction = new SharedRead({
      read: (signal) => this.#readIntroduction(signal),
      clock: ports.clock,
    });
  }

  /** The first message of an admission: which cluster this is, in a form that only its own node can give in this session. */
  async clusterIdentity(session: Uint8Array, signal: AbortSignal) {
    const { clock, identity } = this.#ports;
    const { cluster, ownership } = await this.#introduction.get();
    signal.throwIfAborted();
    const key = createPrivateKey(identity.keyPem.reveal());
    return {
      clusterId: cluster.clusterId,
      clusterName: cluster.clusterName,
      clusterCaPem: cluster.caPem,
      // The one that the owner has signed: a recovery of etcd raises the cluster's, and it is the owner's all the same.
      epoch: BigInt(ownership.epoch),
      ownerPublicKey: bytesOf(ownership.ownerPubKey),
      ownershipSignature: bytesOf(ownership.signature),
      nodeCertificatePem: identity.certPem,
      signature: new Uint8Array(sign(undefined, joinServerStatement(session), key)),
      nowMs: BigInt(clock.nowMs()),
    };
  }

  async #readIntroduction(signal: AbortSignal): Promise<Introduction> {
    const [cluster, ownership] = await Promise.all([
      this.cluster(signal),
      read(this.#ports.etcd, OWNERSHIP_KEY, records.ownership, signal),
    ]);
    return { cluster, ownership };
  }

  cluster(signal: AbortSignal): Promise<ClusterRecord> {
    return read(this.#ports.etcd, CLUSTER_KEY, records.cluster, signal);
  }

  settings(signal: AbortSignal): Promise<SettingsRecord> {
    return read(this.#ports.etcd, SETTINGS_KEY, records.settings, signal);
  }

  /** Nodes that run a control plane now, this one first; never empty. */
  async controlPlanes(signal: AbortSignal): Promise<readonly [ControlPlane, ...ControlPlane[]]> {
    const { own } = this.#ports;
    const nodes = await this.#nodes.get();
    signal.throwIfAborted();
    const name = nodes.find(({ record }) => record.nodeId === own.nodeId)?.record.name ?? own.nodeId;
    const others = nodes
      .filter(({ record }) => record.nodeId !== own.nodeId && isMemberState(record.state))
      .filter(({ record }) => isControlPlane(record.roles))
      .flatMap((view) => {
        const address = addressOf(view);
        return address === '' ? [] : [{ nodeId: view.record.nodeId, name: view.record.name, address }];
      });
    return [{ ...own, name }, ...others];
  }

  /** Who, of the nodes that are alive, names an address as its own. */
  async nodeIdAt(address: string, signal: AbortSignal): Promise<string | undefined> {
    const nodes = await this.#nodes.get();
    signal.throwIfAborted();
    return nodes.find((view) => view.isAlive && canonicalAddress(addressOf(view)) === address)?.record.nodeId;
  }
}

interface Introduction {
  readonly cluster: ClusterRecord;
  readonly ownership: OwnershipRecord;
}

function addressOf({ status }: NodeView): string {
  if (status === undefined) return '';
  return fromBinary(NodeStatusSchema, Buffer.from(status.status, 'base64')).address;
}

async function read<T>(etcd: KeySpace, key: string, kind: RecordKind<T>, signal: AbortSignal): Promise<T> {
  const entry = await etcd.get(key, { signal });
  if (entry === undefined) throw new JoinError('join-not-ready', `reading ${key}: it is not there yet`);
  return kind.decode(key, entry.value);
}

function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

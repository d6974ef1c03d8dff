import { canonicalJson } from '../../internal/config/index.ts';
import { CodedError, defineErrors, fault } from '../../internal/errors/index.ts';
import {
  parseDocument,
  signDocument,
  type DocumentBodies,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { fingerprintOfKey, generateKeyPem, nodeIdOf, pubKeyDerOf } from '../../internal/pki/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { readCaller } from '../cluster/index.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey } from '../operators/index.ts';
import { openSigner } from './document-signer.ts';
import { sha256Of } from './proposal.ts';

const NODE_KEY = pubKeyDerOf(generateKeyPem());
/** The machine of `NODE`. */
export const EK = `tpm-ek:${'e'.repeat(64)}`;
/** A member, or a machine that asks to join. */
export const NODE = {
  nodeId: nodeIdOf(NODE_KEY),
  name: 'n2',
  publicKey: NODE_KEY,
  state: NodeState.UP,
  health: NodeHealth.HEALTHY,
  roles: [NodeRole.KUBERNETES_WORKER],
  admission: { identity: EK },
};
/** The fingerprint of the key of `NODE`. */
export const NODE_FINGERPRINT = fingerprintOfKey(NODE_KEY);
/** The configuration of the cluster. Its inventory lists `NODE`. */
export const CONFIGURATION = {
  version: 1,
  name: 'prod',
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
  join: { policy: 'inventory', inventory: [{ identity: EK, name: 'n2', roles: ['worker'], labels: {} }] },
};
const FIRST = { ...NODE, nodeId: 'node-1', name: 'n1', roles: [NodeRole.CONSENSUS_MEMBER] };

/** Thrown by calls after which a command would wait for nodes. */
const stopped = defineErrors({ 'test-stopped': fault.operator.refused('', '') });

/**
 * A cluster whose curator verifies nothing and records what was sent; an owner (`owner`), and an operator without an owner key
 * (`ann`). Owners have signed the operators, the configuration and the removal of a machine.
 */
export async function createSignedCluster() {
  const sent: { readonly call: string; readonly documents: readonly Uint8Array[] }[] = [];
  const reads = { count: 0 };
  const onRecord: { documents: Uint8Array[]; removed: object[]; epoch: bigint; settings: Uint8Array } = {
    ...{ documents: [], epoch: 1n, settings: new Uint8Array() },
    removed: [
      {
        identity: EK,
        removal: 3,
        nodeId: 'node-9',
        name: 'w9',
        removedMs: 1n,
        removedBy: 'x',
        readmitted: false,
      },
    ],
  };
  const noting =
    <T>(call: string, answer: () => T) =>
    async ({ documents }: { readonly documents: readonly Uint8Array[] }): Promise<T> => {
      sent.push({ call, documents });
      return answer();
    };
  const text = canonicalJson(CONFIGURATION);
  const harness: Awaited<ReturnType<typeof createCuratorHarness>> = await createCuratorHarness(
    {
      getNode: async () => ({ node: NODE }),
      listNodes: async () => ({ nodes: [FIRST, NODE] }),
      getClusterInfo: async () => ({
        directory: [{ curatorEndpoint: harness.endpoint }],
        etcd: { hasLeader: true, members: [{ isLearner: false }] },
      }),
      getConfiguration: async () => ({ document: Buffer.from(text), revision: 7n, updatedBy: 'node-1' }),
      setNodeRoles: noting('setNodeRoles', () => {
        throw new CodedError(stopped, 'test-stopped', 'enough was seen');
      }),
      updateConfiguration: noting('updateConfiguration', () => ({ revision: 8n })),
    },
    {
      listDocuments: async () => {
        reads.count++;
        return onRecord;
      },
      listOperators: async () => ({ operators: [] }),
      listJoins: async () => ({
        joins: [{ joinId: NODE.nodeId, fingerprint: NODE_FINGERPRINT, identity: EK }],
      }),
      decideJoin: noting('decideJoin', () => ({})),
      deleteOperator: noting('deleteOperator', () => ({})),
      putDocuments: noting('putDocuments', () => ({})),
    },
  );
  const { files, owner, clock, clusterId } = harness;
  const sign = <K extends DocumentKind>(
    kind: K,
    body: DocumentBodies[K],
    over: {
      readonly serial?: number;
      readonly epoch?: number;
      readonly by?: Secret<string>;
      readonly of?: string;
      readonly issuedMs?: number;
    } = {},
  ): Uint8Array => {
    const { serial = 1, epoch = 1, by = harness.ownerKey, of = clusterId, issuedMs = 1 } = over;
    const head = { kind, clusterId: of, epoch, serial, issuedMs, endsMs: Date.now() + 1e9 };
    return signDocument({ ...head, body }, by);
  };
  onRecord.documents.push(sign('operators', operatorsOf(harness.ownerKey)));
  const ann = contextOf(files, '/ann', undefined, clock);
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'operator', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(ann, '/ann/ann.grant');
  const annKey = (await readCaller(ann)).keyPem;
  onRecord.documents = [
    sign('operators', operatorsOf(harness.ownerKey, { ann: annKey })),
    sign('policy', { configurationSha256: sha256Of(text) }, { serial: 4 }),
  ];
  await openSigner(owner); // the owner's workspace has seen these documents
  return {
    ...{ ...harness, ann, annKey, onRecord, sent, reads, sign, text },
    /** What was sent since the last call of this function: the call, and kind and serial of each document. */
    takeSent: () => sent.splice(0).map(({ call, documents }) => [call, ...documents.map(titleOf)]),
  };
}

/**
 * The unsigned content of the list of operators: first the owner, who is the entry `owner`, then `operators`. The caller
 * signs the list.
 */
export function operatorsOf(
  ownerKey: Secret<string>,
  operators: Readonly<Record<string, Secret<string>>> = {},
): DocumentBodies['operators'] {
  const listed = (name: string, key: Secret<string>, role: 'owner' | 'operator') => ({
    name,
    fingerprint: fingerprintOfKey(pubKeyDerOf(key)),
    role,
  });
  const others = Object.entries(operators).map(([name, key]) => listed(name, key, 'operator'));
  return { operators: [listed('owner', ownerKey, 'owner'), ...others] };
}

function titleOf(bytes: Uint8Array): string {
  const { kind, serial } = parseDocument(bytes);
  return `${kind} ${serial}`;
}

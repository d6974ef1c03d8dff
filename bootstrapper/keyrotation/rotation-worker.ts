import type { AuditFacts } from '../../internal/audit/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { signEd25519 } from '../../internal/crypto/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { Condition, KeySpace } from '../../internal/etcd/index.ts';
import { when, type Readable } from '../../internal/event/index.ts';
import {
  activePairs,
  CLUSTER_CA,
  createClusterCa,
  createEncryptionKey,
  createPairs,
  createServersCa,
  currentEncryption,
  type CurrentEncryption,
  type KeyPhase,
  type KeySet,
  LATER_KEYS,
  newKeysStatement,
  planRotation,
  rotationMemberFrom,
  publicKeysOf,
  type RotatingPair,
  type RotatingPairs,
  SERVERS_CA,
  signedKeysOf,
} from '../../internal/keyset/index.ts';
import type { ProvisionedTrust } from '../../internal/ownerdocument/index.ts';
import {
  documentKey,
  DOCUMENTS_PREFIX,
  KEYS_KEY,
  NODES_PREFIX,
  records,
  type KeysRecord,
} from '../../internal/records/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { KeyRotationError } from './errors.ts';
import type { KeyStore } from './key-store.ts';
import { isSetOf } from './node-keys-worker.ts';
import { verifyAnnouncedKeys } from './verify-keys.ts';
import { membersOnRecord } from '../membership/index.ts';

const CHECK_MS = 1_000;
const AN_OWNER = 'an owner to sign the new keys';

/** Inputs and ports (injected dependencies) of the rotation worker. */
export interface RotationOptions {
  /** "GENERATION/PHASE" of the cluster. */
  readonly clusterKeys: Readable<string | undefined>;
  /** Records of the cluster at the local etcd member, while this node is a control plane. */
  readonly etcd: () => KeySpace | undefined;
  readonly store: Pick<
    KeyStore,
    'loadSet' | 'saveSet' | 'loadNewKeys' | 'saveNewKeys' | 'loadFloors' | 'saveFloors'
  >;
  /**
   * Reads all shared keys of this control plane. A key that no rotation has replaced is the same in both generations.
   */
  readonly readSharedKeys: () => Promise<KeySet<keyof RotatingPairs>>;
  /** Reads the encryption key that API servers use while no rotation has replaced it. */
  readonly readFirstEncryption: () => Promise<CurrentEncryption>;
  /** Gives the current keys to the signer on this node. */
  readonly refreshSigner: (signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly nodeId: string;
  /** The node key, which tells owners that this node created the new keys. */
  readonly identity: { readonly keyPem: Secret<string>; readonly pubKeyDer: Uint8Array };
  /** The facts with which this node verifies an owner's signature; undefined while it is no member. */
  readonly trust: () => ProvisionedTrust | undefined;
}

/** A rotation as it was read from the records. */
interface Rotation {
  readonly etcd: KeySpace;
  /** A condition for writes: it holds if the record has not changed since it was read. */
  readonly unchanged: Condition;
  readonly record: KeysRecord;
}

/**
 * Advances a rotation: every control plane checks whether all nodes have completed the phase, and the first
 * one that sees this records the next phase. Without a rotation, the worker is idle.
 */
export function rotationWorker(options: RotationOptions): Runnable {
  const { clusterKeys, clock } = options;
  return async (scope) => {
    scope.healthy();
    for (;;) {
      scope.waiting('next key rotation');
      await when(clusterKeys, isUnderWay, scope.signal);
      const why = await advanceOnce(options, scope).catch((error: unknown) => {
        scope.signal.throwIfAborted();
        return `advancing the rotation: ${describeError(error)}`;
      });
      scope.waiting(why);
      await clock.sleep(CHECK_MS, scope.signal);
    }
  };
}

function isUnderWay(told: string | undefined): boolean {
  return told !== undefined && told !== '' && !told.endsWith('/done');
}

/** Advances the rotation once if possible. Resolves with a text about what the rotation waits for. */
async function advanceOnce(options: RotationOptions, scope: Scope): Promise<string> {
  const { signal } = scope;
  const etcd = options.etcd();
  if (etcd === undefined) return 'the control plane of this node';
  const { record, unchanged } = await records.keys.read(etcd, KEYS_KEY, signal);
  if (record === undefined) return 'next key rotation';
  const rotation: Rotation = { etcd, unchanged, record };
  const { generation, phase } = record;
  const { entries } = await etcd.list(NODES_PREFIX, { signal });
  const members = membersOnRecord(entries).map((each) =>
    rotationMemberFrom(each, each.isAlive, each.status?.keys),
  );
  const next = planRotation({ generation, phase, madeBy: record.made?.by }, members);
  switch (next.kind) {
    case 'done':
      return 'next key rotation';
    case 'wait':
      return next.awaited.map(({ name, why }) => `${name}: ${why}`).join('; ');
    case 'make':
      return next.again ? restart(options, rotation, scope) : createKeys(options, rotation, scope);
    case 'sign':
      return distributeSigned(options, rotation, scope);
    case 'next':
      return recordPhase(options, rotation, next.phase, scope);
  }
}

/**
 * Creates the keys of the requested generation, first on disk and then in the record, where they wait for an owner. If several
 * control planes do so at once, the keys of one of them are recorded.
 */
async function createKeys(
  options: RotationOptions,
  rotation: Rotation,
  { signal, log }: Scope,
): Promise<string> {
  const { record } = rotation;
  const { generation } = record;
  const trust = options.trust();
  if (trust === undefined) return 'the membership of this node';
  const { generation: _, ...keys } = publicKeysOf(await ensureNewKeys(options, generation));
  const { keyPem, pubKeyDer } = options.identity;
  const statement = newKeysStatement(trust.clusterId, signedKeysOf({ generation, ...keys }));
  const made = {
    ...{ by: options.nodeId, ...keys },
    pubKey: Buffer.from(pubKeyDer).toString('base64'),
    signature: Buffer.from(signEd25519(keyPem, statement)).toString('base64'),
  };
  if (await write(options, rotation, { record: { ...record, made } }, signal))
    log.info('new shared keys created', { generation });
  return AN_OWNER;
}

/**
 * Distributes the new keys once an owner has signed them. Only the control plane that created them has them. If it has lost
 * them, the next generation is created.
 */
async function distributeSigned(options: RotationOptions, rotation: Rotation, scope: Scope): Promise<string> {
  const { store, nodeId } = options;
  const { record, etcd } = rotation;
  const { signal, log } = scope;
  const { generation, made } = record;
  const trust = options.trust();
  if (made?.by !== nodeId || trust === undefined) return AN_OWNER;
  const keys = { generation, previous: made.previous, next: made.next };
  const set = await store.loadNewKeys();
  const saved = isSetOf(set, keys) ? set : await store.loadSet(); // an earlier run may have ended in between
  if (!isSetOf(saved, keys)) return restart(options, rotation, scope);
  try {
    await verifyAnnouncedKeys(store, keys, { documents: await readDocuments(etcd, signal), trust });
  } catch (error) {
    if (error instanceof KeyRotationError && error.code === 'keyrotation-keys-unsigned') return AN_OWNER;
    throw error;
  }
  await store.saveSet(saved);
  await options.refreshSigner(signal);
  if (await write(options, rotation, { record: { ...record, phase: 'distribute' } }, signal))
    log.info('new shared keys signed by an owner', { generation });
  return 'other control planes';
}

/** The chain of owners and the signature over the newest keys. */
async function readDocuments(etcd: KeySpace, signal: AbortSignal): Promise<Uint8Array[]> {
  const [owners, keys] = await Promise.all([
    etcd.list(`${DOCUMENTS_PREFIX}owners/`, { signal }),
    etcd.get(documentKey('keys', ''), { signal }),
  ]);
  return [...owners.entries, ...(keys === undefined ? [] : [keys])].map(
    ({ key, value }) => new Uint8Array(Buffer.from(records.document.decode(key, value).document, 'base64')),
  );
}

/** Reuses keys that an earlier run created but did not record. */
async function ensureNewKeys(options: RotationOptions, generation: number): Promise<KeySet> {
  const { store, readSharedKeys, readFirstEncryption, clock } = options;
  const found = await store.loadNewKeys();
  const isComplete = found?.encryption !== undefined && LATER_KEYS.every((name) => found.next[name]);
  if (found?.generation === generation && isComplete) return found;
  const before = await readSharedKeys();
  const active = activePairs(before);
  const servers = active[SERVERS_CA];
  const previous = { ...active, [SERVERS_CA]: withoutCross(servers) };
  const next = {
    ...(await createPairs(generation, clock.nowMs())),
    [CLUSTER_CA]: await createClusterCa(generation, clock.nowMs()),
    [SERVERS_CA]: await createServersCa(generation, clock.nowMs(), servers),
  };
  const { resources, key, older } =
    before.encryption === undefined
      ? await readFirstEncryption()
      : currentEncryption(before.phase, before.encryption);
  const encryption = { resources, previous: key, next: createEncryptionKey(generation), older };
  const set: KeySet = { generation, phase: 'distribute', previous, next, encryption };
  await store.saveNewKeys(set);
  return set;
}

/** Removes the cross-certificate that the CA before this one has signed. It is of no use after the next rotation. */
function withoutCross({ cross: _, ...pair }: RotatingPair): RotatingPair {
  return pair;
}

/**
 * Records the next phase. The last phase is also audited, because the previous keys are useless from then on.
 */
async function recordPhase(
  options: RotationOptions,
  rotation: Rotation,
  phase: KeyPhase,
  { signal, log }: Scope,
): Promise<string> {
  const { record } = rotation;
  const { generation, startedBy, startedMs, made } = record;
  const detail = { generation, startedBy, startedMs, madeBy: made?.by ?? null };
  const decision = phase === 'done' ? { method: 'FinishRotation', detail } : undefined;
  if (await write(options, rotation, { record: { ...record, phase }, decision }, signal))
    log.info('phase of the key rotation recorded', { generation, phase });
  return `all nodes to reach phase "${phase}"`;
}

async function restart(
  options: RotationOptions,
  rotation: Rotation,
  { signal, log }: Scope,
): Promise<string> {
  const { made, ...former } = rotation.record;
  const generation = former.generation + 1;
  const why =
    made === undefined
      ? 'nodes have earlier keys of this generation'
      : made.by === options.nodeId
        ? 'the new keys were lost'
        : 'the node that created the keys was lost';
  const decision = { method: 'RestartRotation', detail: { generation, instead: former.generation, why } };
  const record = { ...former, generation, phase: 'asked' } as const;
  if (await write(options, rotation, { record, decision }, signal))
    log.warn(
      'this generation cannot be completed (other keys of it exist, or its keys were lost), starting the next generation',
      {
        generation: former.generation,
      },
    );
  return 'keys of the next generation';
}

/**
 * Writes the next state of a rotation; a decision is audited in the same transaction. Resolves to false if
 * another node has changed the record meanwhile.
 */
async function write(
  { clock, nodeId }: RotationOptions,
  { etcd, unchanged }: Rotation,
  next: {
    readonly record: KeysRecord;
    readonly decision?: Pick<AuditFacts, 'method' | 'detail'> | undefined;
  },
  signal: AbortSignal,
): Promise<boolean> {
  const timeMs = clock.nowMs();
  const then = [records.keys.put(KEYS_KEY, { ...next.record, phaseSinceMs: timeMs })];
  const change = { when: [unchanged], then };
  const facts = next.decision && { timeMs, caller: `node:${nodeId}`, subject: 'keys', ...next.decision };
  const result =
    facts === undefined
      ? await etcd.commit(change, { signal })
      : await new AuditLog({ etcd }).commit({ ...change, facts }, signal);
  return result.kind === 'committed';
}

import {
  areSignedKeys,
  FIRST_GENERATION,
  storedPhase,
  planRotation,
  rotationMemberFrom,
  type RotationMember,
  signedKeysOf,
} from '../../internal/keyset/index.ts';
import { KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { mutationFrom, nodeStatusOf, nameOfCaller, refuseField, type NodeView } from '../curator/index.ts';
import { RotateKeysRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

const MAX_REASON = 200;

/** Requests a rotation of the keys that control planes share, and reports its progress. The control planes carry it out. */
export function keysHandlers({
  etcd,
  nodes,
  mutations,
  ownerDocs,
  clock,
}: Pick<OperatorApiParts, 'etcd' | 'nodes' | 'mutations' | 'ownerDocs' | 'clock'>): HandlersOf<
  'rotateKeys' | 'getKeys'
> {
  return {
    rotateKeys: async (request, call) => {
      const { signal } = call;
      if (request.reason.length > MAX_REASON)
        refuseField('reason', `expected at most ${MAX_REASON} characters`);
      const mutation = mutationFrom(RotateKeysRequestSchema, request, { ...call, subject: 'keys' });
      await mutations.run(mutation, async () => {
        const { record: before, unchanged } = await records.keys.read(etcd, KEYS_KEY, signal);
        const begins = beginsRotation(before, request.replaces);
        const generation = (before?.generation ?? FIRST_GENERATION) + (begins ? 1 : 0);
        const nowMs = clock.nowMs();
        const requested: KeysRecord = {
          version: 1,
          generation,
          phase: 'asked',
          startedMs: nowMs,
          phaseSinceMs: nowMs,
          startedBy: nameOfCaller(call.peer),
          reason: request.reason,
        };
        return {
          when: [unchanged],
          then: begins ? [records.keys.put(KEYS_KEY, requested)] : [],
          detail: { generation, reason: request.reason },
        };
      });
      const { record: now } = await records.keys.read(etcd, KEYS_KEY, signal);
      return { generation: BigInt(now?.generation ?? FIRST_GENERATION), isDone: now?.phase === 'done' };
    },
    getKeys: async (_request, { signal }) => {
      const { record: now } = await records.keys.read(etcd, KEYS_KEY, signal);
      if (now === undefined) return { stage: { generation: 1n, phase: 'done' } };
      const { generation, phase, startedMs, phaseSinceMs, startedBy, reason } = now;
      const members = (await nodes.list(signal)).nodes.flatMap(keyMemberOf);
      const next = planRotation({ generation, phase, madeBy: now.made?.by }, members);
      // If the control plane that created the new keys was removed, another one creates new keys. So no owner must
      // sign these keys.
      const isObsolete = phase === 'asked' && next.kind !== 'sign';
      const newKeys = isObsolete ? undefined : await newKeysIn(now, ownerDocs, signal);
      return {
        stage: {
          generation: BigInt(generation),
          phase: phase === 'asked' ? phase : storedPhase.encode(phase),
        },
        startedMs: BigInt(startedMs),
        phaseSinceMs: BigInt(phaseSinceMs),
        startedBy,
        reason,
        awaited: awaitedIn(next, { record: now, isSigned: newKeys?.isSigned === true, members }),
        ...(newKeys === undefined ? {} : { newKeys }),
      };
    },
  };
}

/** The new keys that an owner must sign, and whether an owner has signed them; undefined before a control plane has created the keys. */
async function newKeysIn(
  { generation, made }: KeysRecord,
  ownerDocs: OperatorApiParts['ownerDocs'],
  signal: AbortSignal,
) {
  if (made === undefined) return undefined;
  const keys = { generation, previous: made.previous, next: made.next };
  const { previous: previousSha256, next: nextSha256 } = signedKeysOf(keys);
  const { document } = await ownerDocs.tryNewest('keys', '', signal);
  return {
    nodeId: made.by,
    publicKey: Buffer.from(made.pubKey ?? '', 'base64'),
    signature: Buffer.from(made.signature ?? '', 'base64'),
    ...{ previousSha256, nextSha256 },
    isSigned: document !== undefined && areSignedKeys(document.body, keys),
  };
}

/**
 * The nodes that a rotation waits for. While new keys are not signed, it waits for an owner, and after that for the
 * control plane that has the new keys.
 */
function awaitedIn(
  next: ReturnType<typeof planRotation>,
  now: {
    readonly record: KeysRecord;
    readonly isSigned: boolean;
    readonly members: readonly RotationMember[];
  },
): { nodeId: string; name: string; why: string }[] {
  // Members come in the order of their node ids, which are random.
  if (next.kind === 'wait') return next.awaited.toSorted((a, b) => a.name.localeCompare(b.name));
  if (next.kind !== 'sign') return [];
  if (!now.isSigned)
    return [{ nodeId: '', name: 'an owner', why: 'must sign the new keys: `cluster keys rotate`' }];
  const maker = now.members.find(({ nodeId }) => nodeId === now.record.made?.by);
  if (maker === undefined) return [];
  const why = maker.isAlive
    ? 'has not distributed the signed keys yet'
    : 'has the new keys, but is not reachable';
  return [{ nodeId: maker.nodeId, name: maker.name, why }];
}

/**
 * Whether a call begins a new rotation: only if it names the current generation, so that a repeated call does not rotate twice.
 * A running rotation continues.
 */
function beginsRotation(now: KeysRecord | undefined, replaces: bigint): boolean {
  const generation = now?.generation ?? FIRST_GENERATION;
  if (replaces > BigInt(generation))
    refuseField('replaces', `generation ${replaces} does not exist, the current one is ${generation}`);
  if (now === undefined) return true;
  if (now.phase !== 'done') return false;
  if (replaces > 0n) return replaces === BigInt(generation);
  const since = new Date(now.phaseSinceMs).toISOString();
  throw new OperatorApiError(
    'operatorapi-keys-already-rotated',
    `cannot rotate the shared keys: ${now.startedBy} already rotated them, generation ${generation} since ${since}`,
  );
}

/** The facts about a node that a rotation needs; empty if the node is not a member. */
function keyMemberOf(view: NodeView): readonly RotationMember[] {
  if (!isMemberState(view.record.state)) return [];
  return [rotationMemberFrom(view.record, view.isAlive, nodeStatusOf(view)?.keys)];
}

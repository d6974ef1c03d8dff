import type { Clock } from '../../internal/clock/index.ts';
import { absent, put, unchanged, type Entry, type KeySpace } from '../../internal/etcd/index.ts';
import { planRotation, parseStage, type RotationMember } from '../../internal/keyset/index.ts';
import { KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';
import { isControlPlane, isMemberState } from '../../internal/role/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import {
  mutationFrom,
  nodeStatusOf,
  nameOfCaller,
  refuseField,
  type Caller,
  type Mutations,
  type NodeStore,
  type NodeView,
} from '../curator/index.ts';
import { RotateKeysRequestSchema, type OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';

const MAX_REASON = 200;
/** The keys that were created with the cluster. */
const FIRST_GENERATION = 1;

/** What the handlers of key rotation work with. */
export interface KeysHandlerParts {
  readonly etcd: KeySpace;
  readonly nodes: Pick<NodeStore, 'list'>;
  readonly mutations: Mutations;
  readonly clock: Clock;
}

/** Requests a rotation of the keys that control planes share, and reports its progress. The control planes carry it out. */
export function keysHandlers(
  parts: KeysHandlerParts,
): Pick<Handlers<typeof OperatorApi, Caller>, 'rotateKeys' | 'getKeys'> {
  const { etcd, nodes, mutations, clock } = parts;
  return {
    rotateKeys: async (request, { peer, signal }) => {
      if (request.reason.length > MAX_REASON) refuseField('reason', `at most ${MAX_REASON} characters`);
      const mutation = mutationFrom(RotateKeysRequestSchema, request, { peer, signal, subject: 'keys' });
      await mutations.run(mutation, async () => {
        const entry = await etcd.get(KEYS_KEY, { signal });
        const before = recordIn(entry);
        const begins = beginsRotation(before, request.replaces);
        const generation = (before?.generation ?? FIRST_GENERATION) + (begins ? 1 : 0);
        const nowMs = clock.nowMs();
        const requested: KeysRecord = {
          version: 1,
          generation,
          phase: 'asked',
          startedMs: nowMs,
          phaseSinceMs: nowMs,
          startedBy: nameOfCaller(peer),
          reason: request.reason,
        };
        return {
          when: [entry === undefined ? absent(KEYS_KEY) : unchanged(entry)],
          then: begins ? [put(KEYS_KEY, records.keys.encode(requested))] : [],
          detail: { generation, reason: request.reason },
        };
      });
      const now = recordIn(await etcd.get(KEYS_KEY, { signal }));
      return { generation: BigInt(now?.generation ?? FIRST_GENERATION), isDone: now?.phase === 'done' };
    },
    getKeys: async (_request, { signal }) => {
      const now = recordIn(await etcd.get(KEYS_KEY, { signal }));
      if (now === undefined) return { stage: { generation: 1n, phase: 'done' } };
      const { generation, phase, startedMs, phaseSinceMs, startedBy, reason } = now;
      const members = (await nodes.list(signal)).nodes.flatMap(keyMemberOf);
      const next = planRotation({ generation, phase, madeBy: now.made?.by }, members);
      return {
        stage: { generation: BigInt(generation), phase },
        startedMs: BigInt(startedMs),
        phaseSinceMs: BigInt(phaseSinceMs),
        startedBy,
        reason,
        awaited: next.kind === 'wait' ? [...next.awaited] : [],
      };
    },
  };
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

function recordIn(entry: Entry | undefined): KeysRecord | undefined {
  return entry && records.keys.decode(entry.key, entry.value);
}

/** The message about a member that the rotation waits for; empty if the node is not a member. */
function keyMemberOf({ record, status, isAlive }: NodeView): readonly RotationMember[] {
  if (!isMemberState(record.state)) return [];
  const reported = nodeStatusOf({ status })?.keys;
  const { nodeId, name, roles } = record;
  return [
    {
      nodeId,
      name,
      isControlPlane: isControlPlane(roles),
      isAlive,
      stage: reported && parseStage(reported),
    },
  ];
}

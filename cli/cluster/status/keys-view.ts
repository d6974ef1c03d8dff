import { formatDuration } from '../../../internal/clock/index.ts';
import { storedPhase, type SignedKeys } from '../../../internal/keyset/index.ts';
import type { GetKeysResponse, NewKeys } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { RpcError } from '../../../internal/rpc/index.ts';
import type { CuratorClients } from '../curator/call-curator.ts';
import { printable } from '../../../internal/printable/index.ts';

/** The phases of a key rotation (internal/keyset), in order. */
const PHASES: Readonly<Record<string, string>> = {
  asked: 'waiting for a control plane to create new keys',
  distribute: 'distributing the new keys to all control planes',
  trust: 'trusting the new keys as well as the old ones',
  issue: 'issuing certificates with the new keys',
  refresh: 'refreshing credentials of kubelets and pods, encrypting secrets with the new key',
  retire: 'revoking trust in the old keys',
};
const SIGNING = 'waiting for an owner to sign the new keys';
const DONE = 'done';

/**
 * The description of the current generation of shared keys, which an owner signs, as a curator shows it; plain JSON
 * values.
 */
export interface NewKeysView {
  readonly nodeId: string;
  /** The node key of the node that created the keys (SubjectPublicKeyInfo, DER) and its signature; base64. */
  readonly publicKey: string;
  readonly signature: string;
  readonly signed: SignedKeys;
  /** Whether an owner has signed these keys. */
  readonly isSigned: boolean;
}

/** Progress of a rotation of the keys that control planes share; plain JSON values. */
export type KeysView = Readonly<ReturnType<typeof keysViewFrom>>;

function keysViewFrom(response: GetKeysResponse) {
  const given = response.stage?.phase ?? DONE;
  const phase = storedPhase.safeParse(given).data ?? printable(given);
  // 1 for the initial keys of the cluster.
  const generation = Number(response.stage?.generation ?? 1n);
  const newKeys = response.newKeys && newKeysViewFrom(response.newKeys, generation);
  return {
    generation,
    phase,
    isDone: phase === DONE,
    startedMs: Number(response.startedMs),
    phaseSinceMs: Number(response.phaseSinceMs),
    startedBy: printable(response.startedBy),
    reason: printable(response.reason),
    // Nodes that the current phase waits for, and why.
    awaited: response.awaited.map(({ name, why }) => ({ name: printable(name), why: printable(why) })),
    ...(newKeys === undefined ? {} : { newKeys }),
    // Nodes install only keys that an owner has signed.
    needsOwner: newKeys?.isSigned === false,
  };
}

function newKeysViewFrom(
  { nodeId, publicKey, signature, previousSha256, nextSha256, isSigned }: NewKeys,
  generation: number,
): NewKeysView {
  return {
    nodeId: printable(nodeId),
    publicKey: Buffer.from(publicKey).toString('base64'),
    signature: Buffer.from(signature).toString('base64'),
    signed: { generation, previous: { ...previousSha256 }, next: { ...nextSha256 } },
    isSigned,
  };
}

/** undefined from a curator of a version without key rotation. */
export async function fetchKeysView({ operatorApi }: CuratorClients): Promise<KeysView | undefined> {
  try {
    return keysViewFrom(await operatorApi.getKeys({}));
  } catch (error) {
    if (error instanceof RpcError && error.code === 'rpc-not-served') return undefined;
    throw error;
  }
}

/**
 * Describes the current phase, such as "phase 4 of 6: issuing certificates with the new keys, for 12s;
 * waiting for n2 (it is off)".
 */
export function describeRotationPhase(view: KeysView, nowMs: number): string {
  const names = Object.keys(PHASES);
  const index = names.indexOf(view.phase);
  const title = view.phase === 'asked' && view.needsOwner ? SIGNING : PHASES[view.phase];
  const what = index < 0 ? `phase ${view.phase}` : `phase ${index + 1} of ${names.length}: ${title}`;
  return `${what}, for ${formatDuration(nowMs - view.phaseSinceMs)}${awaitedText(view)}`;
}

function awaitedText({ awaited }: KeysView): string {
  if (awaited.length === 0) return '';
  return `; waiting for ${awaited.map(({ name, why }) => `${name} (${why})`).join(', ')}`;
}

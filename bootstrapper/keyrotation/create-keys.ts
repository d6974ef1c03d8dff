import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import {
  signingPair,
  createPairs,
  publicPartsOf,
  ROTATING_KEYS,
  type KeySet,
  type RotatingPairs,
} from '../../internal/keyset/index.ts';
import type { KeysRecord } from '../../internal/records/index.ts';
import { writeRotation } from './write-rotation.ts';
import type { KeyStore } from './key-store.ts';

export interface CreateKeysPorts {
  readonly etcd: KeySpace;
  readonly store: Pick<KeyStore, 'loadSet' | 'saveSet'>;
  /** The keys that the cluster was made with. */
  readonly readInitialKeys: () => Promise<RotatingPairs>;
  /** The signer beside this agent hands on what there is now. */
  readonly refreshSigner: (signal: AbortSignal) => Promise<void>;
  readonly nowMs: () => number;
  readonly nodeId: string;
}

/**
 * Makes the keys of the generation that is asked for, on this node's disk first and on record then. Of several control
 * planes that do so at once one is on record, and the others get its keys. Answers whether it is this one.
 */
export async function createKeys(
  ports: CreateKeysPorts,
  asked: { readonly entry: Entry; readonly record: KeysRecord },
  signal: AbortSignal,
): Promise<boolean> {
  const { etcd, store, nowMs, nodeId } = ports;
  const { generation } = asked.record;
  const set = await ensureSet(ports, generation);
  await store.saveSet(set);
  await ports.refreshSigner(signal);
  const made = { by: nodeId, previous: publicPartsOf(set.previous), next: publicPartsOf(set.next) };
  return writeRotation(
    etcd,
    asked.entry,
    { ...asked.record, phase: 'hand', phaseSinceMs: nowMs(), made },
    signal,
  );
}

/** Those of an earlier life that died before they were on record are as good as new. */
async function ensureSet(
  { store, readInitialKeys: readFirst, nowMs }: CreateKeysPorts,
  generation: number,
): Promise<KeySet> {
  const before = await store.loadSet();
  if (before?.generation === generation) return before;
  const previous = before === undefined ? await readFirst() : inForce(before);
  return { generation, phase: 'hand', previous, next: await createPairs(generation, nowMs()) };
}

function inForce(set: KeySet): RotatingPairs {
  return Object.fromEntries(ROTATING_KEYS.map((name) => [name, signingPair(set, name)])) as RotatingPairs;
}

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

/** Ports of `createKeys()`. */
export interface CreateKeysPorts {
  readonly etcd: KeySpace;
  readonly store: Pick<KeyStore, 'loadSet' | 'saveSet'>;
  /** Reads the keys that the cluster was created with. */
  readonly readInitialKeys: () => Promise<RotatingPairs>;
  /** Gives the current keys to the signer on this node. */
  readonly refreshSigner: (signal: AbortSignal) => Promise<void>;
  readonly nowMs: () => number;
  readonly nodeId: string;
}

/**
 * Creates the keys of the requested generation, first on disk and then in the record. If several control
 * planes do so at once, the keys of one of them are recorded and the others get these keys. Resolves to
 * whether this control plane's keys are recorded.
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

/** Reuses keys that an earlier run created but did not record. */
async function ensureSet(
  { store, readInitialKeys: readFirst, nowMs }: CreateKeysPorts,
  generation: number,
): Promise<KeySet> {
  const before = await store.loadSet();
  if (before?.generation === generation) return before;
  const previous = before === undefined ? await readFirst() : activePairs(before);
  return { generation, phase: 'hand', previous, next: await createPairs(generation, nowMs()) };
}

function activePairs(set: KeySet): RotatingPairs {
  return Object.fromEntries(ROTATING_KEYS.map((name) => [name, signingPair(set, name)])) as RotatingPairs;
}

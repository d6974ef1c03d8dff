import { z } from 'zod';

/**
 * The key pairs of control planes that every rotation replaces: the CAs of clients and the service-account key. A
 * rotation also replaces the key that encrypts secrets at rest (encryption-keys.ts), and the pairs of `LATER_KEYS`.
 */
export const ROTATING_KEYS = [
  'etcd-clients-ca',
  'etcd-peers-ca',
  'state-clients-ca',
  'state-peers-ca',
  'kubernetes-clients-ca',
  'front-proxy-ca',
  'service-account',
] as const;
/** One of `ROTATING_KEYS`. */
export type RotatingKey = (typeof ROTATING_KEYS)[number];

/**
 * Key pairs that rotations of earlier versions do not replace, so their key sets, records and owners' signatures do not
 * contain these pairs. A key set contains all pairs that the version which created it knew, in both generations.
 * `kubernetes-ca` is the CA of API servers and kubelets as servers (servers-ca.ts); `cluster-ca` issues the
 * certificates of nodes, of join services and curators, and of operators (cluster-ca.ts).
 */
export const LATER_KEYS = ['kubernetes-ca', 'cluster-ca'] as const;
/** One of `LATER_KEYS`. */
export type LaterKey = (typeof LATER_KEYS)[number];

/**
 * The phases of a rotation, in order. Neighboring phases are compatible, so nodes may be one phase apart.
 *
 * | phase      | trusted         | issued by |                                                              |
 * |------------|-----------------|-----------|--------------------------------------------------------------|
 * | distribute | previous        | previous  | every control plane receives the new keys                    |
 * | trust      | previous, next  | previous  |                                                              |
 * | issue      | previous, next  | next      | credentials of control planes are issued again               |
 * | refresh    | previous, next  | next      | credentials of kubelets and pods are issued again; every     |
 * |            |                 |           | encrypted object is written again                            |
 * | retire     | next            | next      |                                                              |
 * | done       | next            | next      | previous keys are kept only to probe that they are refused   |
 *
 * For the encryption key, "trusted" means "decrypts" and "issued by" means "encrypts". The previous encryption key is deleted in
 * phase `done`, because nothing is encrypted with it.
 */
export const KEY_PHASES = ['distribute', 'trust', 'issue', 'refresh', 'retire', 'done'] as const;
/** One of `KEY_PHASES`. */
export type KeyPhase = (typeof KEY_PHASES)[number];

/**
 * A phase as etcd, files on nodes and messages name it: the first two have the names that agents and CLIs of earlier versions know.
 * Reading accepts both names.
 */
export const storedPhase = z.codec(z.enum(['hand', 'believe', ...KEY_PHASES]), z.enum(KEY_PHASES), {
  decode: (stored) => (stored === 'hand' ? 'distribute' : stored === 'believe' ? 'trust' : stored),
  encode: (phase) => (phase === 'distribute' ? 'hand' : phase === 'trust' ? 'believe' : phase),
});

/** The generation of the keys that were created with the cluster. */
export const FIRST_GENERATION = 1;

/** Progress of a node or of the whole rotation: a generation of keys, and the phase of the rotation to it. */
export interface KeyStage {
  readonly generation: number;
  readonly phase: KeyPhase;
}

/** Whether a stage is the wanted stage or a later stage. */
export function hasReached(now: KeyStage | undefined, wanted: KeyStage): boolean {
  if (now === undefined || now.generation < wanted.generation) return false;
  return now.generation > wanted.generation || rankOf(now.phase) >= rankOf(wanted.phase);
}

/** Whether a phase is the phase `first` or a later phase. */
export function isPhaseAtLeast(phase: KeyPhase, first: KeyPhase): boolean {
  return rankOf(phase) >= rankOf(first);
}

/** Parses a stage that a node reported; undefined for a phase or generation that this version does not know. */
export function parseStage(said: {
  readonly generation: bigint;
  readonly phase: string;
}): KeyStage | undefined {
  const { data: phase } = storedPhase.safeParse(said.phase);
  const generation = Number(said.generation);
  return phase === undefined || !Number.isSafeInteger(generation) || generation < 1
    ? undefined
    : { generation, phase };
}

/** Formats a stage: "2/trust". */
export function formatStage({ generation, phase }: KeyStage): string {
  return `${generation}/${phase}`;
}

function rankOf(phase: KeyPhase): number {
  return KEY_PHASES.indexOf(phase);
}

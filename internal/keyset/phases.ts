/**
 * The keys that all control planes share and that say whom doors believe: authorities of clients, and the key of service
 * accounts. Others stay for good: what signs servers' certificates (pods and kubeconfigs pin it), the cluster CA (curators
 * go by the key on record) and the key that encrypts secrets at rest.
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
export type RotatingKey = (typeof ROTATING_KEYS)[number];

/**
 * What a rotation goes through, in order. Two neighbours get along with each other, so nodes may be one apart.
 *
 * | phase   | believed        | issued by |                                                        |
 * |---------|-----------------|-----------|--------------------------------------------------------|
 * | hand    | previous        | previous  | every control plane gets the new keys                  |
 * | believe | previous, next  | previous  |                                                        |
 * | issue   | previous, next  | next      | what control planes show is made anew                  |
 * | refresh | previous, next  | next      | what kubelets and pods show is made anew               |
 * | retire  | next            | next      |                                                        |
 * | done    | next            | next      | the previous ones open nothing; they are kept to try it |
 */
export const KEY_PHASES = ['hand', 'believe', 'issue', 'refresh', 'retire', 'done'] as const;
export type KeyPhase = (typeof KEY_PHASES)[number];

/** How far somebody is: a generation of the keys, and a phase of the way to it. */
export interface KeyStage {
  readonly generation: number;
  readonly phase: KeyPhase;
}

/** Whether one is at least as far as the other. */
export function hasReached(now: KeyStage | undefined, wanted: KeyStage): boolean {
  if (now === undefined || now.generation < wanted.generation) return false;
  return now.generation > wanted.generation || rankOf(now.phase) >= rankOf(wanted.phase);
}

export function isPhaseAtLeast(phase: KeyPhase, first: KeyPhase): boolean {
  return rankOf(phase) >= rankOf(first);
}

/** As somebody said it; undefined for what this version does not know. */
export function parseStage(said: {
  readonly generation: bigint;
  readonly phase: string;
}): KeyStage | undefined {
  const phase = KEY_PHASES.find((known) => known === said.phase);
  const generation = Number(said.generation);
  return phase === undefined || !Number.isSafeInteger(generation) || generation < 1
    ? undefined
    : { generation, phase };
}

/** "2/believe" */
export function formatStage({ generation, phase }: KeyStage): string {
  return `${generation}/${phase}`;
}

function rankOf(phase: KeyPhase): number {
  return KEY_PHASES.indexOf(phase);
}

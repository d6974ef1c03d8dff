import { isLabelKey, isLabelValue } from './node-labels.ts';

/** The effects of taints (Kubernetes: "Taints and Tolerations"). */
export const TAINT_EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] as const;
/** One of `TAINT_EFFECTS`. */
export type TaintEffect = (typeof TAINT_EFFECTS)[number];

/** A taint of a node. Kubernetes allows one for each pair of key and effect. */
export interface Taint {
  /** Like the key of a label: "[PREFIX/]NAME". */
  readonly key: string;
  /** Like the value of a label; may be empty. */
  readonly value: string;
  readonly effect: TaintEffect;
}

/** Maximum number of taints of one node. */
export const MAX_TAINTS = 32;

/** Whether Kubernetes knows this effect. */
export function isTaintEffect(effect: string): effect is TaintEffect {
  return TAINT_EFFECTS.some((each) => each === effect);
}

/** What identifies a taint of a node: "KEY:EFFECT". */
export function taintIdOf({ key, effect }: Pick<Taint, 'key' | 'effect'>): string {
  return `${key}:${effect}`;
}

/** The taint as kubectl writes it: "KEY=VALUE:EFFECT", or "KEY:EFFECT" without a value. */
export function formatTaint({ key, value, effect }: Taint): string {
  return `${key}${value === '' ? '' : `=${value}`}:${effect}`;
}

/**
 * Whether the taints with this key belong to Kubernetes, which sets and removes them itself: the prefix is `kubernetes.io` or
 * `k8s.io`, or ends with one of them.
 */
export function isReservedTaint(key: string): boolean {
  const prefix = key.includes('/') ? key.slice(0, key.indexOf('/')) : '';
  return /(^|\.)(kubernetes|k8s)\.io$/.test(prefix);
}

/** Why taints are not acceptable; undefined if they are. */
export function whyTaintsInvalid(
  taints: readonly { readonly key: string; readonly value: string; readonly effect: string }[],
): string | undefined {
  if (taints.length > MAX_TAINTS) return `expected at most ${MAX_TAINTS}`;
  const seen = new Set<string>();
  for (const { key, value, effect } of taints) {
    if (!isLabelKey(key)) return `${JSON.stringify(key)} is not a taint key`;
    if (isReservedTaint(key)) return `${key} is reserved for Kubernetes`;
    if (!isLabelValue(value)) return `${JSON.stringify(value)} is not a taint value`;
    if (!isTaintEffect(effect))
      return `${JSON.stringify(effect)} is not an effect: expected one of ${TAINT_EFFECTS.join(', ')}`;
    const id = taintIdOf({ key, effect });
    if (seen.has(id)) return `${id} is set twice`;
    seen.add(id);
  }
  return undefined;
}

/** Taints sorted by key and effect. */
export function sortedTaints(taints: readonly Taint[]): readonly Taint[] {
  return taints.toSorted((a, b) => (taintIdOf(a) < taintIdOf(b) ? -1 : 1));
}

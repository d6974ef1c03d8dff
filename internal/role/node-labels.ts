/**
 * Key of a label: "[PREFIX/]NAME". NAME has at most 63 characters; PREFIX is a DNS name of at most 253 characters
 * (Kubernetes: "Labels and Selectors").
 */
export const LABEL_KEY =
  /^((?=[^/]{1,253}\/)(?<prefix>[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
/** Value of a label: empty, or at most 63 characters. */
export const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;
/** The most labels that a caller may set on a node. */
export const MAX_LABELS = 128;
/** The prefix for labels that Kubernetes lets no kubelet set on its own node. */
const RESTRICTED = 'node-restriction.kubernetes.io';

/** Whether Kubernetes accepts this text as the key of a label. */
export function isLabelKey(key: string): boolean {
  return LABEL_KEY.test(key);
}

/** Whether Kubernetes accepts this text as the value of a label. */
export function isLabelValue(value: string): boolean {
  return LABEL_VALUE.test(value);
}

/**
 * Whether a label belongs to Kubernetes: its prefix is `kubernetes.io` or `k8s.io`, or ends with one of them.
 * Only `node-restriction.kubernetes.io` is for administrators.
 */
export function isReservedLabel(key: string): boolean {
  const prefix = LABEL_KEY.exec(key)?.groups?.['prefix'] ?? '';
  return prefix !== RESTRICTED && /(^|\.)(kubernetes|k8s)\.io$/.test(prefix);
}

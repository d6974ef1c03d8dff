/** "[PREFIX/]NAME": NAME at most 63 characters, PREFIX a DNS name (Kubernetes: "Labels and Selectors"). */
const KEY =
  /^((?<prefix>[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;
/** The prefix for labels that Kubernetes lets no kubelet set on its own node. */
const RESTRICTED = 'node-restriction.kubernetes.io';

/** Whether Kubernetes accepts this text as the key of a label. */
export function isLabelKey(key: string): boolean {
  const prefix = KEY.exec(key)?.groups?.['prefix'];
  return (
    KEY.test(key) &&
    (prefix === undefined || prefix.split('.').every((part) => /^[a-z0-9](.*[a-z0-9])?$/.test(part)))
  );
}

/** Whether Kubernetes accepts this text as the value of a label. */
export function isLabelValue(value: string): boolean {
  return VALUE.test(value);
}

/**
 * Whether a label belongs to Kubernetes: its prefix is `kubernetes.io` or `k8s.io`, or ends with one of them.
 * Only `node-restriction.kubernetes.io` is for administrators.
 */
export function isReservedLabel(key: string): boolean {
  const prefix = KEY.exec(key)?.groups?.['prefix'] ?? '';
  return prefix !== RESTRICTED && /(^|\.)(kubernetes|k8s)\.io$/.test(prefix);
}

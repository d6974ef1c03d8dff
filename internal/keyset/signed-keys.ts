import { createHash } from 'node:crypto';
import { canonicalJson, labeledStatement } from '../crypto/index.ts';
import { certificatesIn } from '../pki/index.ts';
import { ENCRYPTION_KEY } from './encryption-keys.ts';
import { publicHalvesOf, type KeySet, type PublicHalves } from './key-set.ts';
import { LATER_KEYS, ROTATING_KEYS, type LaterKey, type RotatingKey } from './phases.ts';
import { SERVERS_CA } from './servers-ca.ts';

const LABEL = 'cluster/keys/new/v1\0';

/** The public keys of a rotation: PEM of CA certificates, and of the service-account key; the hash of the encryption key. */
export interface PublicKeys {
  readonly generation: number;
  readonly previous: PublicHalves;
  readonly next: PublicHalves;
}

/**
 * The part of an owner document that describes a rotation: the SHA-256 of each public key's text, lower-case hex, by
 * the name of the key.
 */
export interface SignedKeys {
  readonly generation: number;
  readonly previous: Readonly<Record<string, string>>;
  readonly next: Readonly<Record<string, string>>;
}

/** The public keys of a key set. */
export function publicKeysOf({ generation, ...set }: KeySet): PublicKeys {
  return { generation, ...publicHalvesOf(set) };
}

/** Returns the hashes of these keys that an owner signs. */
export function signedKeysOf({ generation, previous, next }: PublicKeys): SignedKeys {
  return { generation, previous: digestsOf(previous), next: digestsOf(next) };
}

/** Whether an owner signed exactly these keys: the same generation, names and texts, of both generations of keys. */
export function areSignedKeys(signed: SignedKeys, keys: PublicKeys): boolean {
  const { generation, previous, next } = signed;
  return canonicalJson({ generation, previous, next }) === canonicalJson({ ...signedKeysOf(keys) });
}

/** Whether an owner signed every certificate in this PEM bundle as a CA for clients of Kubernetes. */
export function areSignedClientCas(signed: SignedKeys, bundlePem: string): boolean {
  return areSignedCas(signed, 'kubernetes-clients-ca', bundlePem);
}

/**
 * Whether an owner signed every certificate in this PEM bundle as a CA for servers of Kubernetes. undefined if the
 * signature names no such CA, because a rotation that an earlier version started does not replace it.
 */
export function areSignedServerCas(signed: SignedKeys, bundlePem: string): boolean | undefined {
  if (signed.next[SERVERS_CA] === undefined) return undefined;
  return areSignedCas(signed, SERVERS_CA, bundlePem);
}

/**
 * The CAs for servers in a PEM bundle, if an owner signed all of them. Omits the replaced CA if no server uses it any
 * more, or if the caller already trusts only the next CA.
 * @param by.known the CAs that the caller trusts so far, a PEM bundle
 * @param by.isNextOnly whether all servers have certificates of the next CA
 * @returns undefined if no owner signed one of the CAs, or if no CA is left
 */
export function serversCasIn(
  signed: SignedKeys,
  bundlePem: string,
  by: { readonly known: string; readonly isNextOnly: boolean },
): string | undefined {
  if (areSignedServerCas(signed, bundlePem) !== true) return undefined;
  const isNext = (pem: string): boolean => digestOf(pem) === signed.next[SERVERS_CA];
  const isNextOnly = by.isNextOnly || certificatesIn(by.known).every(isNext);
  const cas = certificatesIn(bundlePem).filter((pem) => !isNextOnly || isNext(pem));
  return cas.length === 0 ? undefined : cas.join('');
}

function areSignedCas(
  { previous, next }: SignedKeys,
  name: RotatingKey | LaterKey,
  bundlePem: string,
): boolean {
  const pems = certificatesIn(bundlePem);
  return pems.length > 0 && pems.every((pem) => [previous[name], next[name]].includes(digestOf(pem)));
}

/**
 * The statement that a control plane signs with its node key about the keys that it created. An owner verifies this
 * statement before signing, because the curator that shows the keys to the owner could have replaced them.
 */
export function newKeysStatement(clusterId: string, signed: SignedKeys): Uint8Array {
  const { generation, previous, next } = signed;
  return labeledStatement(LABEL, clusterId, canonicalJson({ generation, previous, next }));
}

function digestsOf(keys: PublicHalves): Readonly<Record<string, string>> {
  const entries = ([...ROTATING_KEYS, ...LATER_KEYS, ENCRYPTION_KEY] as const).flatMap((name) => {
    const text = keys[name];
    return text === undefined ? [] : [[name, digestOf(text)] as const];
  });
  return Object.fromEntries(entries);
}

/** Hashes the text, because a PEM parser reads the first certificate and ignores others behind it. */
export function digestOf(pem: string): string {
  return createHash('sha256').update(`${pem.trim()}\n`).digest('hex');
}

import { createPublicKey, X509Certificate, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { createCaCertPem, generateKeyPem, isCrossCertificate, pubKeyDerOf, spkiDerOf } from '../pki/index.ts';
import { Secret } from '../secret/index.ts';
import {
  encryptionKeysFrom,
  encryptionKeysShape,
  ENCRYPTION_KEY,
  encryptionKeyText,
  plainEncryptionKeys,
  type EncryptionKeys,
} from './encryption-keys.ts';
import { KeySetError } from './errors.ts';
import {
  isPhaseAtLeast,
  LATER_KEYS,
  ROTATING_KEYS,
  storedPhase,
  type KeyPhase,
  type KeyStage,
  type LaterKey,
  type RotatingKey,
} from './phases.ts';

/**
 * Name of the key set file, on a control plane and in the sealed keys of a ticket. The file exists from the first
 * rotation on.
 */
export const ROTATION_FILE = 'rotation.json';

/** A CA certificate or a public key, and its private key. PEM. */
export interface RotatingPair {
  readonly public: string;
  readonly private: Secret<string>;
  /**
   * Cross-certificate: name and key of this CA, signed by the CA that it replaces. Servers send it after their own
   * certificate.
   */
  readonly cross?: string | undefined;
}

/** The pairs of one generation. */
export type RotatingPairs<Name extends string = RotatingKey> = Readonly<Record<Name, RotatingPair>> &
  Readonly<Partial<Record<LaterKey, RotatingPair>>>;

/** The state of a rotation on a control plane, in one file. It determines which keys are trusted and which key signs. */
export interface KeySet<Name extends string = RotatingKey> extends KeyStage {
  readonly previous: RotatingPairs<Name>;
  readonly next: RotatingPairs<Name>;
  /**
   * undefined in a rotation that an agent of an earlier version started: such a rotation does not replace the
   * encryption key.
   */
  readonly encryption?: EncryptionKeys | undefined;
}

/** The trusted CA certificates or public keys: concatenated PEM of one or two generations. */
export function trustedPem<Name extends string>(
  { phase, previous, next }: KeySet<Name>,
  name: NoInfer<Name>,
): string {
  return trustedPublicPem(phase, { previous: previous[name].public, next: next[name].public });
}

/** Like `trustedPem()`, for callers that have only the public halves. */
export function trustedPublicPem(
  phase: KeyPhase,
  { previous, next }: { readonly previous: string; readonly next: string },
): string {
  const both = [
    ...(isPhaseAtLeast(phase, 'retire') ? [] : [previous]),
    ...(isPhaseAtLeast(phase, 'trust') ? [next] : []),
  ];
  return both.map((pem) => `${pem.trim()}\n`).join('');
}

/** The pair that signs in the current phase. */
export function signingPair<Name extends string>(set: KeySet<Name>, name: NoInfer<Name>): RotatingPair {
  return activePairs(set)[name];
}

/** The public halves by name: PEM; the name and the hash of the encryption key. */
export type PublicHalves = Readonly<Record<RotatingKey, string>> &
  Readonly<Partial<Record<LaterKey | typeof ENCRYPTION_KEY, string | undefined>>>;

/** The public halves of both generations. */
export function publicHalvesOf({
  previous,
  next,
  encryption,
}: Pick<KeySet, 'previous' | 'next' | 'encryption'>): {
  readonly previous: PublicHalves;
  readonly next: PublicHalves;
} {
  const halves = (which: 'previous' | 'next', pairs: RotatingPairs): PublicHalves => ({
    ...publicPartsOf(pairs),
    ...(encryption && Object.fromEntries([[ENCRYPTION_KEY, encryptionKeyText(encryption[which])]])),
  });
  return { previous: halves('previous', previous), next: halves('next', next) };
}

/** The public halves, PEM. */
export function publicPartsOf(
  pairs: RotatingPairs,
): Record<RotatingKey, string> & Partial<Record<LaterKey, string>> {
  return mapPairs(pairs, ({ public: pem }) => pem);
}

/** Whether this rotation replaces a pair of `LATER_KEYS`. A rotation that an earlier version started does not. */
export function isReplaced<Name extends LaterKey>(
  set: KeySet,
  name: Name,
): set is KeySet<RotatingKey | Name> {
  return set.next[name] !== undefined && set.previous[name] !== undefined;
}

/** The pairs that sign in the current phase. The next rotation starts from these pairs and replaces them. */
export function activePairs<Name extends string>({
  phase,
  previous,
  next,
}: KeySet<Name>): RotatingPairs<Name> {
  return isPhaseAtLeast(phase, 'issue') ? next : previous;
}

/** Creates all pairs of a generation. CA names carry the generation, so that two CAs never have the same name. */
export async function createPairs(generation: number, nowMs: number): Promise<RotatingPairs> {
  const made: Partial<Record<RotatingKey, RotatingPair>> = {};
  for (const name of ROTATING_KEYS) {
    const keyPem = generateKeyPem();
    made[name] = {
      private: keyPem,
      public:
        name === 'service-account'
          ? publicPem(keyPem)
          : await createCaCertPem({ commonName: `${CA_COMMON_NAMES[name]} ${generation}`, keyPem, nowMs }),
    };
  }
  return mapKeys((name) => made[name] ?? missing(name));
}

/** Common names of the CAs; `createPairs()` appends the generation. */
export const CA_COMMON_NAMES: Readonly<Record<Exclude<RotatingKey, 'service-account'>, string>> = {
  'etcd-clients-ca': 'etcd clients',
  'etcd-peers-ca': 'etcd peers',
  'state-clients-ca': 'state etcd clients',
  'state-peers-ca': 'state etcd peers',
  'kubernetes-clients-ca': 'kubernetes clients',
  'front-proxy-ca': 'front-proxy-ca',
};

const pairShape = z.strictObject({ public: z.string().min(1), private: z.string().min(1) });
const laterShape = pairShape.extend({ cross: z.string().min(1).optional() }).optional();
const pairsShape = z.strictObject({
  'etcd-clients-ca': pairShape,
  'etcd-peers-ca': pairShape,
  'state-clients-ca': pairShape,
  'state-peers-ca': pairShape,
  'kubernetes-clients-ca': pairShape,
  'front-proxy-ca': pairShape,
  'service-account': pairShape,
  'kubernetes-ca': laterShape,
  'cluster-ca': pairShape.optional(),
});
const shape = z.strictObject({
  version: z.literal(1),
  generation: z.int().min(2),
  phase: storedPhase,
  previous: pairsShape,
  next: pairsShape,
  encryption: encryptionKeysShape.optional(),
});

/** Encodes the key set file (JSON), which contains private keys. */
export function encodeKeySet({ generation, phase, previous, next, encryption }: KeySet): Secret<string> {
  const plain = (pairs: RotatingPairs): z.infer<typeof pairsShape> =>
    mapPairs(pairs, ({ private: key, ...publics }) => ({ ...publics, private: key.reveal() }));
  const text = {
    ...{ version: 1, generation, phase: storedPhase.encode(phase) },
    ...{ previous: plain(previous), next: plain(next) },
    ...(encryption === undefined ? {} : { encryption: plainEncryptionKeys(encryption) }),
  };
  return new Secret(`${JSON.stringify(text)}\n`);
}

/**
 * Parses the key set file.
 * @param source the path, for errors
 * @throws KeySetError `keyset-invalid`, without the content of the file
 */
export function parseKeySet(source: string, text: string): KeySet {
  let read: z.infer<typeof shape>;
  try {
    read = shape.parse(JSON.parse(text));
  } catch {
    throw invalid(source);
  }
  const { generation, phase } = read;
  const [previous, next] = [pairsFrom(source, read.previous), pairsFrom(source, read.next)];
  const encryption = read.encryption && encryptionOf(source, read.encryption);
  for (const name of LATER_KEYS) checkLater(source, name, { previous: previous[name], next: next[name] });
  return { generation, phase, previous, next, ...(encryption === undefined ? {} : { encryption }) };
}

function pairsFrom(source: string, plain: z.infer<typeof pairsShape>): RotatingPairs {
  return mapPairs(plain, ({ private: key, ...publics }, name) => {
    const pair = { ...publics, private: new Secret(key) };
    if (!isPair(pair)) throw invalid(source, `public and private key of ${name} do not match`);
    return pair;
  });
}

function checkLater(
  source: string,
  name: LaterKey,
  {
    previous,
    next,
  }: { readonly previous: RotatingPair | undefined; readonly next: RotatingPair | undefined },
): void {
  if ((previous === undefined) !== (next === undefined))
    throw invalid(source, `only one of the two generations contains ${name}`);
  if (previous === undefined || next?.cross === undefined) return;
  if (!isCrossCertificate(next.cross, { previousPem: previous.public, nextPem: next.public }))
    throw invalid(source, `the cross-certificate of ${name} is for other CAs`);
}

function encryptionOf(source: string, plain: z.infer<typeof encryptionKeysShape>): EncryptionKeys {
  try {
    return encryptionKeysFrom(plain);
  } catch {
    throw invalid(source, 'an encryption key and its hash do not match');
  }
}

function isPair(pair: RotatingPair): boolean {
  try {
    return Buffer.compare(spkiDerOf(publicKeyIn(pair.public)), pubKeyDerOf(pair.private)) === 0;
  } catch {
    return false;
  }
}

function publicKeyIn(pem: string): KeyObject {
  return pem.includes('BEGIN CERTIFICATE') ? new X509Certificate(pem).publicKey : createPublicKey(pem);
}

function publicPem(keyPem: Secret<string>): string {
  const key = createPublicKey({ key: Buffer.from(pubKeyDerOf(keyPem)), format: 'der', type: 'spki' });
  return key.export({ format: 'pem', type: 'spki' }).toString();
}

type PerPair<T> = Record<RotatingKey, T> & Partial<Record<LaterKey, T>>;

/** Maps the pairs that exist, in a fixed order. */
function mapPairs<Pair, T>(
  pairs: Readonly<Record<RotatingKey, Pair>> & Readonly<Partial<Record<LaterKey, Pair | undefined>>>,
  of: (pair: Pair, name: RotatingKey | LaterKey) => T,
): PerPair<T> {
  const entries = [...ROTATING_KEYS, ...LATER_KEYS].flatMap((name) => {
    const pair = pairs[name];
    return pair === undefined ? [] : [[name, of(pair, name)] as const];
  });
  return Object.fromEntries(entries) as PerPair<T>;
}

function mapKeys<T>(of: (name: RotatingKey) => T): Record<RotatingKey, T> {
  return Object.fromEntries(ROTATING_KEYS.map((name) => [name, of(name)])) as Record<RotatingKey, T>;
}

function missing(name: RotatingKey): never {
  throw new TypeError(`${name} was not created`);
}

function invalid(path: string, why?: string): KeySetError {
  const text = why === undefined ? `reading ${path}` : `reading ${path}: ${why}`;
  return new KeySetError('keyset-invalid', text, { details: { path } });
}

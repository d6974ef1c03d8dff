import type { FilePort } from '../../internal/file/index.ts';
import {
  trustedPem,
  signingPair,
  parseKeySet,
  type KeySet,
  type RotatingKey,
  type RotatingPair,
} from '../../internal/keyset/index.ts';
import { KeyCertificateSigner } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { RemovalProbeError } from './errors.ts';
import { CA_NAMES, type CaName } from './test-credentials.ts';

const MAX_PEM_BYTES = 64 * 1024;
/** As they were made with the cluster. */
const FIRST_GENERATION = 1;

export interface PairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Where a control plane has the keys that all of them share. */
export interface KeyFiles {
  readonly authorities: Readonly<Record<CaName, PairFiles>>;
  readonly serviceAccountKey: string;
  /** Those of a rotation (internal/keyset); not there before the first one. */
  readonly rotation: string;
}

/** All that papers are made with. */
export interface KeyRing {
  readonly signers: Readonly<Record<CaName, KeyCertificateSigner>>;
  readonly serviceAccount: Secret<string>;
}

export interface Keys {
  /** What signs now. */
  readonly present: KeyRing;
  /** Whom servers of etcd are known by: two of them while they are replaced. */
  readonly believed: (name: CaName) => string;
  /** Those of a generation; undefined where they are not kept. 0 is `present`. */
  readonly of: (generation: number) => KeyRing | undefined;
}

export async function readKeys(files: FilePort, at: KeyFiles, nowMs: () => number): Promise<Keys> {
  const pairs = new Map<CaName, RotatingPair>();
  for (const name of CA_NAMES) {
    const { certPem, keyPem } = await readPair(files, at.authorities[name]);
    pairs.set(name, { public: certPem, private: keyPem });
  }
  const serviceAccount = new Secret(await readText(files, at.serviceAccountKey));
  const lasting = (name: CaName | 'service-account'): RotatingPair =>
    (name === 'service-account' ? { public: '', private: serviceAccount } : pairs.get(name)) ?? missing(name);
  const ringOf = (pairOf: (name: RotatingKey) => RotatingPair): KeyRing => ({
    signers: Object.fromEntries(
      CA_NAMES.map((name) => {
        const { public: caPem, private: keyPem } = isLasting(name) ? lasting(name) : pairOf(name);
        return [name, new KeyCertificateSigner({ caPem, keyPem, nowMs })];
      }),
    ) as Record<CaName, KeyCertificateSigner>,
    serviceAccount: pairOf('service-account').private,
  });
  const set = await readKeySet(files, at.rotation);
  if (set === undefined) {
    const present = ringOf(lasting);
    return {
      present,
      believed: (name) => lasting(name).public,
      of: (generation) => (generation <= FIRST_GENERATION ? present : undefined),
    };
  }
  const present = ringOf((name) => signingPair(set, name));
  return {
    present,
    believed: (name) => (isLasting(name) ? lasting(name).public : trustedPem(set, name)),
    of: (generation) => {
      if (generation === 0) return present;
      const which = whichOf(set, generation);
      return which === undefined ? undefined : ringOf((name) => set[which][name]);
    },
  };
}

function whichOf(set: KeySet, generation: number): 'previous' | 'next' | undefined {
  if (generation === set.generation) return 'next';
  return generation === set.generation - 1 ? 'previous' : undefined;
}

/** No rotation replaces it. */
function isLasting(name: CaName): name is 'cluster-ca' | 'kubernetes-ca' {
  return name === 'cluster-ca' || name === 'kubernetes-ca';
}

async function readKeySet(files: FilePort, path: string): Promise<KeySet | undefined> {
  const bytes = await files.read(path, MAX_PEM_BYTES);
  return bytes && parseKeySet(path, Buffer.from(bytes).toString('utf8'));
}

export async function readPair(
  files: FilePort,
  { certFile, keyFile }: PairFiles,
): Promise<{ readonly certPem: string; readonly keyPem: Secret<string> }> {
  return { certPem: await readText(files, certFile), keyPem: new Secret(await readText(files, keyFile)) };
}

async function readText(files: FilePort, path: string): Promise<string> {
  const bytes = await files.read(path, MAX_PEM_BYTES);
  if (bytes === undefined)
    throw new RemovalProbeError('removalprobe-not-control-plane', `reading ${path}: it is not there`, {
      details: { path },
    });
  return Buffer.from(bytes).toString('utf8');
}

function missing(name: string): never {
  throw new TypeError(`no ${name} was read`);
}

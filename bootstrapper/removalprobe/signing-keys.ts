import type { FilePort } from '../../internal/file/index.ts';
import {
  parseKeySet,
  signingPair,
  trustedPem,
  type RotatingKey,
  type RotatingPair,
} from '../../internal/keyset/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { RemovalProbeError } from './errors.ts';

const MAX_PEM_BYTES = 64 * 1024;
/** The generation that was created with the cluster. */
const FIRST_GENERATION = 1;

/** CAs of which every control plane has a file of its own. */
const CAS_ON_DISK = [
  'cluster-ca',
  'etcd-clients-ca',
  'etcd-peers-ca',
  'state-clients-ca',
  'state-peers-ca',
  'kubernetes-ca',
  'front-proxy-ca',
] as const;
type CaOnDisk = (typeof CAS_ON_DISK)[number];

/** CAs with which every control plane can sign. Before the first rotation `kubernetes-clients-ca` is `kubernetes-ca`. */
export type CaName = CaOnDisk | 'kubernetes-clients-ca';
type KeyName = CaName | 'service-account';

/** Paths of a certificate and its key, PEM. */
export interface PairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Where a control plane has the keys that all control planes share. */
export interface SharedKeyFiles {
  readonly keyFiles: Readonly<Record<`${CaOnDisk}.${'crt' | 'key'}` | 'service-account.key', string>>;
  /** The key set of a rotation (internal/keyset); it exists from the first rotation on. */
  readonly rotation: string;
}

/** The key pair of each name in one generation. */
export type KeyPairs = (name: KeyName) => RotatingPair;

/** The shared keys of all generations that a control plane keeps. */
export interface SigningKeys {
  readonly current: KeyPairs;
  /** PEM certificates with which servers are verified; two of one name during a rotation. */
  readonly trusted: (name: CaName) => string;
  /** undefined: keys of this generation are deleted. 0 is `current`. */
  readonly ofGeneration: (generation: number) => KeyPairs | undefined;
}

/** @throws RemovalProbeError `removalprobe-not-control-plane` where a key is missing */
export async function readSigningKeys(
  files: FilePort,
  { keyFiles, rotation }: SharedKeyFiles,
): Promise<SigningKeys> {
  const pairs = new Map<KeyName, RotatingPair>();
  for (const name of CAS_ON_DISK) {
    const at = { certFile: keyFiles[`${name}.crt`], keyFile: keyFiles[`${name}.key`] };
    const { certPem, keyPem } = await readPair(files, at);
    pairs.set(name, { public: certPem, private: keyPem });
    if (name === 'kubernetes-ca') pairs.set('kubernetes-clients-ca', { public: certPem, private: keyPem });
  }
  const serviceAccountKey = new Secret(await readText(files, keyFiles['service-account.key']));
  pairs.set('service-account', { public: '', private: serviceAccountKey });
  const onDisk: KeyPairs = (name) => {
    const pair = pairs.get(name);
    if (pair === undefined) throw new TypeError(`no ${name} was read`);
    return pair;
  };
  const bytes = await files.read(rotation, MAX_PEM_BYTES);
  if (bytes === undefined)
    return {
      current: onDisk,
      trusted: (name) => onDisk(name).public,
      ofGeneration: (generation) => (generation <= FIRST_GENERATION ? onDisk : undefined),
    };
  const set = parseKeySet(rotation, Buffer.from(bytes).toString('utf8'));
  const withRotating =
    (rotating: (name: RotatingKey) => RotatingPair): KeyPairs =>
    (name) =>
      isNeverReplaced(name) ? onDisk(name) : rotating(name);
  const current = withRotating((name) => signingPair(set, name));
  const generations = new Map([
    [set.generation, withRotating((name) => set.next[name])],
    [set.generation - 1, withRotating((name) => set.previous[name])],
    [0, current],
  ]);
  return {
    current,
    trusted: (name) => (isNeverReplaced(name) ? onDisk(name).public : trustedPem(set, name)),
    ofGeneration: (generation) => generations.get(generation),
  };
}

/** @throws RemovalProbeError `removalprobe-not-control-plane` */
export async function readPair(
  files: FilePort,
  { certFile, keyFile }: PairFiles,
): Promise<{ readonly certPem: string; readonly keyPem: Secret<string> }> {
  return { certPem: await readText(files, certFile), keyPem: new Secret(await readText(files, keyFile)) };
}

function isNeverReplaced(name: KeyName): name is 'cluster-ca' | 'kubernetes-ca' {
  return name === 'cluster-ca' || name === 'kubernetes-ca';
}

async function readText(files: FilePort, path: string): Promise<string> {
  const bytes = await files.read(path, MAX_PEM_BYTES);
  if (bytes === undefined)
    throw new RemovalProbeError('removalprobe-not-control-plane', `${path} not found`, { details: { path } });
  return Buffer.from(bytes).toString('utf8');
}

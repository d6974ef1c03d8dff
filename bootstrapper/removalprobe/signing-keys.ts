import { basename } from 'node:path';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { signingPair, trustedPem, type RotatingKey, type RotatingPair } from '../../internal/keyset/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { KeyStore } from '../keyrotation/index.ts';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import { KEY_PATHS } from '../nodestate/index.ts';
import { RemovalProbeError } from './errors.ts';

const MAX_PEM_BYTES = 64 * 1024;
/** The generation of the keys that were created with the cluster. */
const FIRST_GENERATION = 1;
/** CAs whose keys a rotation does not replace. */
type LastingCa = 'cluster-ca' | 'kubernetes-ca';

/**
 * The CAs with which every control plane can sign. Before the first rotation, `kubernetes-clients-ca` is
 * `kubernetes-ca`.
 */
export type CaName = Exclude<RotatingKey, 'service-account'> | LastingCa;

/** Paths of a certificate and its key, PEM. */
export interface PairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The keys that all control planes share, read from the disk of this control plane. */
export interface SigningKeys {
  /** Whether the keys were ever rotated. */
  readonly hasRotated: boolean;
  /**
   * The key pair of a generation (0: the current generation). undefined if the keys of that generation are
   * deleted.
   */
  readonly pair: (name: RotatingKey | LastingCa, generation: number) => RotatingPair | undefined;
  /**
   * PEM certificates with which servers are verified. During a rotation, two certificates have the same name.
   */
  readonly trusted: (name: CaName) => string;
}

/** @throws RemovalProbeError `removalprobe-not-control-plane` where a key is missing */
export async function readSigningKeys(files: FilePort): Promise<SigningKeys> {
  const paths = new Map<string, string>(Object.entries(CONTROL_PLANE_KEY_FILES));
  const first = new Map<string, RotatingPair>();
  for (const [file, keyFile] of paths) {
    if (!file.endsWith('.key')) continue;
    const name = basename(file, '.key');
    const certFile = paths.get(`${name}.crt`);
    const certPem = certFile === undefined ? '' : await readPem(files, certFile);
    first.set(name, { public: certPem, private: new Secret(await readPem(files, keyFile)) });
  }
  const onDisk = (name: string): RotatingPair => {
    const pair = first.get(name === 'kubernetes-clients-ca' ? 'kubernetes-ca' : name);
    if (pair === undefined) throw new TypeError(`no ${name} was read`);
    return pair;
  };
  const set = await new KeyStore(files, KEY_PATHS).loadSet();
  const current = set?.generation ?? FIRST_GENERATION;
  return {
    hasRotated: set !== undefined,
    pair: (name, generation) => {
      if (![0, current, current - 1].includes(generation)) return undefined;
      if (set === undefined || isLasting(name)) return onDisk(name);
      if (generation === 0) return signingPair(set, name);
      return generation === current ? set.next[name] : set.previous[name];
    },
    trusted: (name) => (set === undefined || isLasting(name) ? onDisk(name).public : trustedPem(set, name)),
  };
}

/** @throws RemovalProbeError `removalprobe-not-control-plane` */
export async function readPem(files: FilePort, path: string): Promise<string> {
  const text = await readText(files, path, MAX_PEM_BYTES);
  if (text !== undefined) return text;
  throw new RemovalProbeError('removalprobe-not-control-plane', `${path} not found`, { details: { path } });
}

function isLasting(name: string): name is LastingCa {
  return name === 'cluster-ca' || name === 'kubernetes-ca';
}

import { readText, type FilePort } from '../../internal/file/index.ts';
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
/** The generation of the keys that were created with the cluster. */
const FIRST_GENERATION = 1;
/** CAs whose keys a rotation does not replace. */
type LastingCa = 'cluster-ca' | 'kubernetes-ca';

/**
 * The CAs with which every control plane can sign. Before the first rotation, `kubernetes-clients-ca` is
 * `kubernetes-ca`.
 */
export type CaName = Exclude<RotatingKey, 'service-account'> | LastingCa;

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

/**
 * @param keyFiles paths of the shared keys as `NAME.crt` and `NAME.key`
 * @param rotation path of the key set (internal/keyset), which exists from the first rotation on
 * @throws RemovalProbeError `removalprobe-not-control-plane` where a key is missing
 */
export async function readSigningKeys(
  files: FilePort,
  { keyFiles, rotation }: { readonly keyFiles: Readonly<Record<string, string>>; readonly rotation: string },
): Promise<SigningKeys> {
  const pairs = new Map<string, RotatingPair>();
  for (const [file, keyFile] of Object.entries(keyFiles)) {
    if (!file.endsWith('.key')) continue;
    const name = file.slice(0, -'.key'.length);
    const certFile = keyFiles[`${name}.crt`];
    const certPem = certFile === undefined ? '' : await readPem(files, certFile);
    pairs.set(name, { public: certPem, private: new Secret(await readPem(files, keyFile)) });
  }
  const onDisk = (name: string): RotatingPair => {
    const pair = pairs.get(name === 'kubernetes-clients-ca' ? 'kubernetes-ca' : name);
    if (pair === undefined) throw new TypeError(`no ${name} was read`);
    return pair;
  };
  const text = await readText(files, rotation, MAX_PEM_BYTES);
  const set = text === undefined ? undefined : parseKeySet(rotation, text);
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

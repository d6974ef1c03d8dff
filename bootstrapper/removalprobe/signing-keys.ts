import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  signingPair,
  trustedPem,
  type KeySet,
  type RotatingKey,
  type RotatingPair,
} from '../../internal/keyset/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { KeyPairFiles } from '../consensus/index.ts';
import { readInitialKeys } from '../controlplane/index.ts';
import { KeyRotationError, KeyStore } from '../keyrotation/index.ts';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import { KEY_PATHS } from '../nodestate/index.ts';
import { RemovalProbeError } from './errors.ts';

/** CAs whose keys a rotation does not replace. */
type LastingCa = 'cluster-ca' | 'kubernetes-ca';

/**
 * The CAs with which every control plane can sign. Before the first rotation, `kubernetes-clients-ca` is
 * `kubernetes-ca`.
 */
export type CaName = Exclude<RotatingKey, 'service-account'> | LastingCa;

/** The keys that all control planes share, read from the disk of this control plane. */
export interface SigningKeys {
  /** Before the first rotation, both generations of this set are the keys of the init. */
  readonly set: KeySet;
  readonly lasting: Readonly<Record<LastingCa, RotatingPair>>;
}

/** @throws RemovalProbeError `removalprobe-not-control-plane` where a key is missing */
export async function readSigningKeys(files: FilePort): Promise<SigningKeys> {
  const read = (name: LastingCa): Promise<RotatingPair> =>
    readPair(files, {
      certFile: CONTROL_PLANE_KEY_FILES[`${name}.crt`],
      keyFile: CONTROL_PLANE_KEY_FILES[`${name}.key`],
    });
  const lasting = { 'cluster-ca': await read('cluster-ca'), 'kubernetes-ca': await read('kubernetes-ca') };
  const set = (await new KeyStore(files, KEY_PATHS).loadSet()) ?? (await initialSet(files));
  return { set, lasting };
}

async function initialSet(files: FilePort): Promise<KeySet> {
  try {
    const pairs = await readInitialKeys(files);
    return { generation: 1, phase: 'done', previous: pairs, next: pairs };
  } catch (cause) {
    if (!(cause instanceof KeyRotationError)) throw cause;
    throw new RemovalProbeError('removalprobe-not-control-plane', 'reading the shared keys', { cause });
  }
}

/**
 * The key pair of a generation (0: the current generation). undefined if the keys of that generation are
 * deleted.
 */
export function pairOf(
  { set, lasting }: SigningKeys,
  name: RotatingKey | LastingCa,
  generation: number,
): RotatingPair | undefined {
  if (![0, set.generation, set.generation - 1].includes(generation)) return undefined;
  if (isLasting(name)) return lasting[name];
  if (generation === 0) return signingPair(set, name);
  return (generation === set.generation ? set.next : set.previous)[name];
}

/** PEM certificates with which servers are verified. During a rotation, two certificates have the same name. */
export function serverCaPem({ set, lasting }: SigningKeys, name: CaName): string {
  return isLasting(name) ? lasting[name].public : trustedPem(set, name);
}

function isLasting(name: string): name is LastingCa {
  return name === 'cluster-ca' || name === 'kubernetes-ca';
}

/** @throws RemovalProbeError `removalprobe-not-control-plane` */
export async function readPair(files: FilePort, { certFile, keyFile }: KeyPairFiles): Promise<RotatingPair> {
  const read = async (path: string): Promise<string> => {
    const text = await readText(files, path);
    if (text !== undefined) return text;
    throw new RemovalProbeError('removalprobe-not-control-plane', `${path} not found`, { details: { path } });
  };
  return { public: await read(certFile), private: new Secret(await read(keyFile)) };
}

import { generateKeyPairSync } from 'node:crypto';
import { dirname } from 'node:path';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { fingerprintOfKey, nodeIdOf, pubKeyDerOf } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';

const MAX_KEY_BYTES = 16 * 1024;

/** The Ed25519 key that identifies this machine from its first boot on. It never leaves the machine. */
export interface MachineIdentity {
  readonly keyPem: Secret<string>;
  readonly pubKeyDer: Uint8Array;
  readonly nodeId: string;
  /** "sha256:HEX" of the public key; operators compare this text. */
  readonly fingerprint: string;
}

/**
 * Loads the machine key, or creates it; if two processes create it at once, the first one wins. Also writes
 * the fingerprint to a file for operators.
 */
export async function loadMachineIdentity(
  files: FilePort,
  paths: { readonly machineKey: string; readonly fingerprint: string },
): Promise<MachineIdentity> {
  await files.makeDirectory(dirname(paths.machineKey));
  const found = await readText(files, paths.machineKey, MAX_KEY_BYTES);
  if (found === undefined) {
    const { privateKey } = generateKeyPairSync('ed25519');
    await files.createExclusive(paths.machineKey, privateKey.export({ type: 'pkcs8', format: 'pem' }));
    return loadMachineIdentity(files, paths);
  }
  const keyPem = new Secret(found);
  const pubKeyDer = pubKeyDerOf(keyPem);
  const fingerprint = fingerprintOfKey(pubKeyDer);
  // Written only when it differs, because on a read-only disk the agent must still start, to report that the
  // disk is read-only.
  if ((await readText(files, paths.fingerprint, MAX_KEY_BYTES)) !== `${fingerprint}\n`)
    await files.writeAtomic(paths.fingerprint, `${fingerprint}\n`, { mode: 0o644 });
  return { keyPem, pubKeyDer, nodeId: nodeIdOf(pubKeyDer), fingerprint };
}

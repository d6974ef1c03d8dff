import { generateKeyPairSync } from 'node:crypto';
import type { FilePort } from '../../internal/file/index.ts';
import { fingerprintOfKey, nodeIdOf, pubKeyDerOf } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';

const MAX_KEY_BYTES = 16 * 1024;

/** The key that this machine is known by from its first boot on. It never leaves the machine. */
export interface MachineIdentity {
  readonly keyPem: Secret<string>;
  readonly pubKeyDer: Uint8Array;
  readonly nodeId: string;
  /** "sha256:HEX" of the public key, as operators compare it. */
  readonly fingerprint: string;
}

/** Reads the machine's key or makes it; of two makers the first wins. Shows the fingerprint where operators find it. */
export async function loadMachineIdentity(
  files: FilePort,
  places: { readonly machineKey: string; readonly fingerprint: string },
): Promise<MachineIdentity> {
  await files.makeDirectory(places.machineKey.slice(0, places.machineKey.lastIndexOf('/')));
  const found = await files.read(places.machineKey, MAX_KEY_BYTES);
  if (found === undefined) {
    const { privateKey } = generateKeyPairSync('ed25519');
    await files.createExclusive(places.machineKey, privateKey.export({ type: 'pkcs8', format: 'pem' }));
    return loadMachineIdentity(files, places);
  }
  const keyPem = new Secret(Buffer.from(found).toString('utf8'));
  const pubKeyDer = pubKeyDerOf(keyPem);
  const fingerprint = fingerprintOfKey(pubKeyDer);
  const shown = await files.read(places.fingerprint, MAX_KEY_BYTES);
  // A disk that can only be read must not keep the agent from saying so.
  if (shown === undefined || Buffer.from(shown).toString('utf8') !== `${fingerprint}\n`)
    await files.writeAtomic(places.fingerprint, `${fingerprint}\n`, { mode: 0o644 });
  return { keyPem, pubKeyDer, nodeId: nodeIdOf(pubKeyDer), fingerprint };
}

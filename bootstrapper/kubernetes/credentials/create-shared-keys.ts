import { dirname } from 'node:path';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  createEncryptionKey,
  ENCRYPTABLE_RESOURCES,
  encryptionKeyFrom,
  SERVERS_CA_NAME,
} from '../../../internal/keyset/index.ts';
import { createCaCertPem, generateKeyPem } from '../../../internal/pki/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { FIRST_KEY, renderEncryptionConfig } from '../encryption/encryption-config.ts';
import { KubernetesError } from '../errors.ts';
import { isOfKey, requireText, type CredentialPorts } from './key-pair.ts';
import { PATHS } from '../settings.ts';

/** The private and the public file of one key. */
interface KeyFilePair {
  readonly keyFile: string;
  readonly publicFile: string;
  readonly createPublicPem: (keyPem: string) => Promise<string>;
  readonly matches: (publicPem: string, keyPem: string) => boolean;
}

/**
 * Creates the Kubernetes keys that all control planes share, on the node that creates the cluster. Each file
 * is written atomically, the private key before its public part. Existing keys are never replaced, because a
 * second CA would make a second cluster. kubeadm writes files in place and does not repair a file that a
 * crash truncated.
 * @throws KubernetesError `kubernetes-keys-damaged`
 */
export async function createSharedKeys({ files, clock }: CredentialPorts): Promise<void> {
  // File names and common names are those of kubeadm (cmd/kubeadm/app/phases/certs/certlist.go).
  const authority = (name: string, commonName: string, pathLength: 0 | 1): KeyFilePair => ({
    keyFile: `${PATHS.pki}/${name}.key`,
    publicFile: `${PATHS.pki}/${name}.crt`,
    createPublicPem: (key) =>
      createCaCertPem({ commonName, keyPem: new Secret(key), nowMs: clock.nowMs(), pathLength }),
    matches: isOfKey,
  });
  const serviceAccount: KeyFilePair = {
    keyFile: `${PATHS.pki}/sa.key`,
    publicFile: `${PATHS.pki}/sa.pub`,
    createPublicPem: (key) => Promise.resolve(publicPemOf(key)),
    // During a rotation this file contains two keys. A backup from that time contains, and restores, both keys.
    matches: (publicPem, key) => publicPem.includes(publicPemOf(key).trim()),
  };
  await files.makeDirectory(PATHS.pki, 0o755);
  for (const pair of [
    // This CA signs the cross-certificate of the next CA in a rotation (internal/keyset/servers-ca.ts).
    authority('ca', SERVERS_CA_NAME, 1),
    authority('front-proxy-ca', 'front-proxy-ca', 0),
    serviceAccount,
  ])
    await makeKeyFilePair(files, pair);
  await makeEncryptionKey(files);
}

async function makeKeyFilePair(files: FilePort, pair: KeyFilePair): Promise<void> {
  const { keyFile, publicFile } = pair;
  const hasPublic = (await files.stat(publicFile)) !== undefined;
  if (!hasPublic) await files.createExclusive(keyFile, generateKeyPem().reveal());
  else if ((await files.stat(keyFile)) === undefined) throw damaged(keyFile, 'not found');
  const keyPem = await requireText(files, keyFile);
  try {
    createPrivateKey(keyPem);
  } catch (cause) {
    throw damaged(keyFile, 'not a private key', cause);
  }
  if (!hasPublic)
    await files.createExclusive(publicFile, await pair.createPublicPem(keyPem), { mode: 0o644 });
  else if (!pair.matches(await requireText(files, publicFile), keyPem))
    throw damaged(publicFile, `does not match ${keyFile}`);
}

async function makeEncryptionKey(files: FilePort): Promise<void> {
  await files.makeDirectory(dirname(PATHS.encryption));
  const { secret } = createEncryptionKey(1);
  if (secret === undefined) throw new TypeError('secret expected in a new key');
  // ConfigMaps are encrypted too: they often contain passwords, and the API servers rarely write them.
  const config = renderEncryptionConfig(ENCRYPTABLE_RESOURCES, [encryptionKeyFrom(FIRST_KEY, secret)]);
  // An existing key is kept. Only a rotation replaces the key, because a rotation also encrypts the existing objects
  // again.
  await files.createExclusive(PATHS.encryption, config);
}

function publicPemOf(keyPem: string): string {
  return createPublicKey(keyPem).export({ type: 'spki', format: 'pem' }).toString();
}

function damaged(path: string, why: string, cause?: unknown): KubernetesError {
  return new KubernetesError('kubernetes-keys-damaged', `${path} is damaged: ${why}`, {
    cause,
    details: { path },
  });
}

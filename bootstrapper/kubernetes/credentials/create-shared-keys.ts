import { createPrivateKey, createPublicKey, randomBytes } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import { createCaCertPem, generateKeyPem } from '../../../internal/pki/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { KubernetesError } from '../errors.ts';
import { isOfKey, readText, type CredentialPorts } from './key-pair.ts';
import { PATHS } from '../settings.ts';

/** Two files of one key. */
interface Halves {
  readonly keyFile: string;
  readonly publicFile: string;
  readonly makePublic: (keyPem: string) => Promise<string>;
  readonly fits: (publicPem: string, keyPem: string) => boolean;
}

/**
 * What all control planes share of Kubernetes, on the node that creates the cluster. Each file is whole or not there, a
 * private half comes before its public one, and what is there is never made anew: a second authority would be a second
 * cluster. kubeadm writes in place, and takes for good what was cut off in the middle for broken, or for somebody else's.
 * @throws KubernetesError `kubernetes-keys-damaged`
 */
export async function createSharedKeys({ files, nowMs }: CredentialPorts): Promise<void> {
  // Names are kubeadm's (cmd/kubeadm/app/phases/certs/certlist.go).
  const authority = (name: string, commonName: string): Halves => ({
    keyFile: `${PATHS.pki}/${name}.key`,
    publicFile: `${PATHS.pki}/${name}.crt`,
    makePublic: (key) => createCaCertPem({ commonName, keyPem: new Secret(key), nowMs: nowMs() }),
    fits: isOfKey,
  });
  const serviceAccount: Halves = {
    keyFile: `${PATHS.pki}/sa.key`,
    publicFile: `${PATHS.pki}/sa.pub`,
    makePublic: (key) => Promise.resolve(publicPemOf(key)),
    fits: (publicPem, key) => publicPem === publicPemOf(key),
  };
  await files.makeDirectory(PATHS.pki, 0o755);
  for (const halves of [
    authority('ca', 'kubernetes'),
    authority('front-proxy-ca', 'front-proxy-ca'),
    serviceAccount,
  ])
    await makeHalves(files, halves);
  await makeEncryptionKey(files);
}

async function makeHalves(files: FilePort, halves: Halves): Promise<void> {
  const { keyFile, publicFile } = halves;
  const hasPublic = (await files.stat(publicFile)) !== undefined;
  if (!hasPublic) await files.createExclusive(keyFile, generateKeyPem().reveal());
  else if ((await files.stat(keyFile)) === undefined) throw damaged(keyFile, 'it is not there');
  const keyPem = await readText(files, keyFile);
  try {
    createPrivateKey(keyPem);
  } catch (cause) {
    throw damaged(keyFile, 'it holds no key', cause);
  }
  if (!hasPublic) await files.createExclusive(publicFile, await halves.makePublic(keyPem), { mode: 0o644 });
  else if (!halves.fits(await readText(files, publicFile), keyPem))
    throw damaged(publicFile, `it is not of ${keyFile}`);
}

async function makeEncryptionKey(files: FilePort): Promise<void> {
  await files.makeDirectory(PATHS.encryption.slice(0, PATHS.encryption.lastIndexOf('/')));
  const config = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'EncryptionConfiguration',
    resources: [
      {
        resources: ['secrets'],
        providers: [
          { secretbox: { keys: [{ name: 'key1', secret: randomBytes(32).toString('base64') }] } },
          { identity: {} },
        ],
      },
    ],
  };
  // Never replaced: what was written with the first key could not be read again.
  await files.createExclusive(PATHS.encryption, `${JSON.stringify(config)}\n`);
}

function publicPemOf(keyPem: string): string {
  return createPublicKey(keyPem).export({ type: 'spki', format: 'pem' }).toString();
}

function damaged(path: string, why: string, cause?: unknown): KubernetesError {
  return new KubernetesError('kubernetes-keys-damaged', `reading ${path}: ${why}`, {
    cause,
    details: { path },
  });
}

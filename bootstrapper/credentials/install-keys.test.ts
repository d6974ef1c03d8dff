import { expect, test } from '@jest/globals';
import { createPairs, encodeKeySet, type KeyPhase, type KeySet } from '../../internal/keyset/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import { installSharedKeys, KeyStore } from '../keyrotation/index.ts';
import { CONTROL_PLANE_KEY_FILES, ROTATED_FILES } from '../kubernetes/index.ts';
import { readInitialKeys } from '../controlplane/index.ts';
import { installControlPlaneKeys } from './install-ticket.ts';
import { AGENT_PATHS, KEY_PATHS } from '../nodestate/index.ts';

const layout = consensusLayout(AGENT_PATHS.state, 'kubernetes');
const textAt = async (files: MemoryFiles, path: string): Promise<string> =>
  Buffer.from((await files.read(path, 64_000)) ?? []).toString('utf8');

async function aSet(phase: KeyPhase): Promise<KeySet> {
  return { generation: 2, phase, previous: await createPairs(1, 1), next: await createPairs(2, 1) };
}

/** The shared keys of the control planes, as a ticket contains them. */
function keysOf(set: KeySet | undefined): { readonly controlPlaneKeys: ReadonlyMap<string, Secret<string>> } {
  const names = Object.keys(CONTROL_PLANE_KEY_FILES);
  const keys = new Map(names.map((name) => [name, new Secret(`text of ${name}`)]));
  if (set !== undefined) keys.set('rotation.json', encodeKeySet(set));
  return { controlPlaneKeys: keys };
}

test('a control plane that joins during a key rotation starts in the phase of the control plane that issued its ticket', async () => {
  const files = new MemoryFiles();
  const set = await aSet('believe');
  await installControlPlaneKeys(files, keysOf(set));
  expect(await new KeyStore(files, KEY_PATHS).loadStage()).toEqual({ generation: 2, phase: 'believe' });
  expect(await textAt(files, layout.clientsCa.certFile)).toBe(set.previous['etcd-clients-ca'].public);
  const trusted = await textAt(files, layout.peersTrustBundle);
  expect(trusted).toContain(set.previous['etcd-peers-ca'].public);
  expect(trusted).toContain(set.next['etcd-peers-ca'].public);
});

test('a control plane that joins a cluster before its first key rotation has no files of a rotation', async () => {
  const files = new MemoryFiles();
  await installControlPlaneKeys(files, keysOf(undefined));
  for (const path of [
    AGENT_PATHS.rotation,
    AGENT_PATHS.keysStage,
    layout.clientsTrustBundle,
    ROTATED_FILES.issuerCert,
  ])
    expect(await files.stat(path)).toBeUndefined();
});

test('installSharedKeys() completes key files that an interrupted run left half written', async () => {
  const files = new MemoryFiles();
  const store = new KeyStore(files, KEY_PATHS);
  const set = await aSet('issue');
  await store.saveSet(set);
  await files.makeDirectory(`${layout.root}/clients`);
  // An interrupted copy: the certificate of the next generation beside the key of the previous one.
  await files.writeAtomic(layout.clientsCa.certFile, set.next['etcd-clients-ca'].public);
  await files.writeAtomic(layout.clientsCa.keyFile, set.previous['etcd-clients-ca'].private.reveal());
  await installSharedKeys(files, store, AGENT_PATHS.state);
  expect(await textAt(files, layout.clientsCa.keyFile)).toBe(set.next['etcd-clients-ca'].private.reveal());
  expect(await textAt(files, ROTATED_FILES.issuerCert)).toBe(set.next['kubernetes-clients-ca'].public);
});

test('a control plane that lost its active keys after a rotation does not use the keys in kubeadm’s files instead', async () => {
  const files = new MemoryFiles();
  await installControlPlaneKeys(files, keysOf(await aSet('done')));
  await files.remove(AGENT_PATHS.rotation);
  await expect(readInitialKeys(files)).rejects.toEqual(
    expect.objectContaining({ code: 'keyrotation-keys-unavailable' }),
  );
});

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

/** What the other control planes share, as their tickets bring it. */
function keysOf(set: KeySet | undefined): { readonly controlPlaneKeys: ReadonlyMap<string, Secret<string>> } {
  const names = Object.keys(CONTROL_PLANE_KEY_FILES);
  const keys = new Map(names.map((name) => [name, new Secret(`text of ${name}`)]));
  if (set !== undefined) keys.set('rotation.json', encodeKeySet(set));
  return { controlPlaneKeys: keys };
}

test('a control plane that joins in the middle of a replacement is in the phase of who let it in', async () => {
  const files = new MemoryFiles();
  const set = await aSet('believe');
  await installControlPlaneKeys(files, keysOf(set));
  expect(await new KeyStore(files, KEY_PATHS).loadStage()).toEqual({ generation: 2, phase: 'believe' });
  expect(await textAt(files, layout.clientsCa.certFile)).toBe(set.previous['etcd-clients-ca'].public);
  const trusted = await textAt(files, layout.peersTrustBundle);
  expect(trusted).toContain(set.previous['etcd-peers-ca'].public);
  expect(trusted).toContain(set.next['etcd-peers-ca'].public);
});

test('one that joins a cluster whose keys were never replaced has nothing of a replacement', async () => {
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

test('what an earlier life had on disk and did not finish is in place before anything starts', async () => {
  const files = new MemoryFiles();
  const store = new KeyStore(files, KEY_PATHS);
  const set = await aSet('issue');
  await store.saveSet(set);
  await files.makeDirectory(`${layout.root}/clients`);
  // Torn: the certificate of the next generation beside the key of the previous one.
  await files.writeAtomic(layout.clientsCa.certFile, set.next['etcd-clients-ca'].public);
  await files.writeAtomic(layout.clientsCa.keyFile, set.previous['etcd-clients-ca'].private.reveal());
  await installSharedKeys(files, store, AGENT_PATHS.state);
  expect(await textAt(files, layout.clientsCa.keyFile)).toBe(set.next['etcd-clients-ca'].private.reveal());
  expect(await textAt(files, ROTATED_FILES.issuerCert)).toBe(set.next['kubernetes-clients-ca'].public);
});

test('a control plane that lost the keys in force makes no new ones from those that only sign for servers', async () => {
  const files = new MemoryFiles();
  await installControlPlaneKeys(files, keysOf(await aSet('done')));
  await files.remove(AGENT_PATHS.rotation);
  await expect(readInitialKeys(files)).rejects.toEqual(
    expect.objectContaining({ code: 'keyrotation-keys-unavailable' }),
  );
});

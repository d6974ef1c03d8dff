import { describe, expect, test } from '@jest/globals';
import {
  DISK_SHARES_FILE,
  createClusterCa,
  createPairs,
  createEncryptionKey,
  encodeKeySet,
  publicKeysOf,
  ROTATION_FILE,
  SERVERS_CA,
  signedKeysOf,
  type KeyPhase,
  type KeySet,
  type RotatingPair,
} from '../../internal/keyset/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { proofFromProvisioning, type DocumentProof } from '../../internal/ownerdocument/index.ts';
import { MemoryFiles, TestOwner } from '../../internal/testing/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import { installSharedKeys, KeyStore, verifyKeySet } from '../keyrotation/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES, ROTATED_FILES } from '../kubernetes/index.ts';
import { readSharedKeys } from '../controlplane/index.ts';
import {
  installControlPlaneKeys,
  installKubeletClientsCa,
  installKubeletServersCa,
  installTicketKeys,
} from './install-ticket.ts';
import { AGENT_PATHS, KEY_PATHS } from '../nodestate/index.ts';

/** The CAs that the kubelet trusts for its clients. */
const KUBELET_CLIENTS_CA = '/var/lib/cluster/kubernetes/clients-ca.crt';
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
  if (set !== undefined) keys.set(ROTATION_FILE, encodeKeySet(set));
  return { controlPlaneKeys: keys };
}

test('a control plane that joins during a key rotation starts in the phase of the control plane that issued its ticket', async () => {
  const files = new MemoryFiles();
  const set = await aSet('trust');
  await installControlPlaneKeys(files, keysOf(set).controlPlaneKeys);
  expect(await new KeyStore(files, KEY_PATHS).loadStage()).toEqual({ generation: 2, phase: 'trust' });
  expect(await textAt(files, layout.clientsCa.certFile)).toBe(set.previous['etcd-clients-ca'].public);
  const trusted = await textAt(files, layout.peersTrustBundle);
  expect(trusted).toContain(set.previous['etcd-peers-ca'].public);
  expect(trusted).toContain(set.next['etcd-peers-ca'].public);
});

describe('the secret for disk shares in a ticket', () => {
  const [first, other] = ['5e'.repeat(32), 'a5'.repeat(32)];
  const withSecret = (text: string): ReadonlyMap<string, Secret<string>> =>
    new Map([...keysOf(undefined).controlPlaneKeys, [DISK_SHARES_FILE, new Secret(text)]]);
  const install = (files: MemoryFiles, text: string) => installControlPlaneKeys(files, withSecret(text));
  const secretOn = (files: MemoryFiles): Promise<string> => textAt(files, AGENT_PATHS.diskShares);

  test('is stored if this control plane has none, and the same one again is no error', async () => {
    const files = new MemoryFiles();
    expect(await installControlPlaneKeys(files, keysOf(undefined).controlPlaneKeys)).toBeUndefined();
    expect(await files.stat(AGENT_PATHS.diskShares)).toBeUndefined();
    expect(await install(files, first)).toBeUndefined();
    expect(await install(files, `${first}\n`)).toBeUndefined();
    expect(await secretOn(files)).toBe(first);
  });

  test('never replaces another one, and is an error then', async () => {
    const files = new MemoryFiles();
    await install(files, first);
    expect(await install(files, other)).toMatchObject({ code: 'credentials-share-secret-other' });
    expect(await secretOn(files)).toBe(first);
  });

  test('replaces a malformed one, and is not stored itself if it is malformed', async () => {
    const files = new MemoryFiles();
    expect(await install(files, 'short')).toMatchObject({ code: 'credentials-share-secret-malformed' });
    expect(await files.stat(AGENT_PATHS.diskShares)).toBeUndefined();
    await files.makeDirectory('/var/lib/cluster/keys');
    await files.writeAtomic(AGENT_PATHS.diskShares, 'short');
    expect(await install(files, first)).toBeUndefined();
    expect(await secretOn(files)).toBe(first);
  });
});

test('a control plane that joins a cluster before its first key rotation has no files of a rotation', async () => {
  const files = new MemoryFiles();
  await installControlPlaneKeys(files, keysOf(undefined).controlPlaneKeys);
  for (const path of [
    AGENT_PATHS.rotation,
    AGENT_PATHS.keysStage,
    layout.clientsTrustBundle,
    ROTATED_FILES.issuerCert,
  ])
    expect(await files.stat(path)).toBeUndefined();
});

test('installSharedKeys() installs the cluster CA that signs in the saved phase, even after a crash between its two files', async () => {
  const files = new MemoryFiles();
  await files.makeDirectory(AGENT_PATHS.ca);
  const store = new KeyStore(files, KEY_PATHS);
  const [previous, next] = [await createClusterCa(1, 1), await createClusterCa(2, 1)];
  const pairs = await createPairs(2, 1);
  const placed = async (phase: KeySet['phase']) => {
    const [before, after] = [
      { ...pairs, 'cluster-ca': previous },
      { ...pairs, 'cluster-ca': next },
    ];
    await store.saveSet({ generation: 2, phase, previous: before, next: after });
    await installSharedKeys(files, store, AGENT_PATHS.state);
    return [await textAt(files, `${AGENT_PATHS.ca}/ca.crt`), await textAt(files, `${AGENT_PATHS.ca}/ca.key`)];
  };
  // The key files in a ticket are unsigned; the public keys of the set are signed by an owner. So the file must come
  // from the set.
  await files.writeAtomic(`${AGENT_PATHS.ca}/ca.crt`, next.public);
  expect(await placed('distribute')).toEqual([previous.public, previous.private.reveal()]);
  expect(await placed('trust')).toEqual([previous.public, previous.private.reveal()]);
  await files.writeAtomic(`${AGENT_PATHS.ca}/ca.key`, next.private.reveal()); // killed before the certificate was written
  expect(await placed('issue')).toEqual([next.public, next.private.reveal()]);
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
  await installControlPlaneKeys(files, keysOf(await aSet('done')).controlPlaneKeys);
  await files.remove(AGENT_PATHS.rotation);
  await expect(readSharedKeys(files, new KeyStore(files, KEY_PATHS))).rejects.toEqual(
    expect.objectContaining({ code: 'keyrotation-keys-unavailable' }),
  );
});

describe('rotated keys in a ticket', () => {
  const clock = { nowMs: () => 1_700_000_000_000 };
  const owner = new TestOwner({ clock });
  const trust = { ownerKeys: [owner.pubKey] as const, clusterId: 'c0ffee', epoch: 1, nowMs: clock.nowMs() };
  const proofOf = (...documents: readonly Uint8Array[]): DocumentProof<'keys'> =>
    proofFromProvisioning('keys', documents, trust);
  const signatureOver = (set: KeySet): DocumentProof<'keys'> =>
    proofOf(owner.sign('keys', signedKeysOf(publicKeysOf(set))));
  const refused = (code: string): unknown => expect.objectContaining({ code });

  test('are installed if an owner has signed them, and the accepted document is remembered', async () => {
    const files = new MemoryFiles();
    const set = await aSet('trust');
    await installTicketKeys(files, { ...keysOf(set), signedKeys: signatureOver(set) });
    const store = new KeyStore(files, KEY_PATHS);
    expect(await store.loadStage()).toEqual({ generation: 2, phase: 'trust' });
    expect((await store.loadFloors()).keys?.serial).toBeGreaterThan(0);
  });

  test('are refused without a valid signature of an owner over exactly these keys', async () => {
    const [set, other] = [await aSet('trust'), await aSet('trust')];
    for (const signedKeys of [proofOf(), signatureOver(other), signatureOver({ ...set, generation: 3 })]) {
      const files = new MemoryFiles();
      await expect(installTicketKeys(files, { ...keysOf(set), signedKeys })).rejects.toEqual(
        refused('keyrotation-keys-unsigned'),
      );
      expect(await files.stat(AGENT_PATHS.rotation)).toBeUndefined();
      expect(await files.stat(CONTROL_PLANE_KEY_FILES['cluster-ca.key'])).toBeUndefined();
    }
  });

  test('are installed if an owner signed the next keys as their replacement, and the issuer of the ticket does not have the next keys yet', async () => {
    const set = await aSet('done');
    const next: KeySet = { ...(await aSet('distribute')), generation: 3, previous: set.next };
    const files = new MemoryFiles();
    await installTicketKeys(files, { ...keysOf(set), signedKeys: signatureOver(next) });
    expect(await new KeyStore(files, KEY_PATHS).loadStage()).toEqual({ generation: 2, phase: 'done' });
    // In an earlier phase, the machine would also trust the previous keys of this set, which nobody has signed.
    const early = installTicketKeys(new MemoryFiles(), {
      ...keysOf({ ...set, phase: 'refresh' }),
      signedKeys: signatureOver(next),
    });
    await expect(early).rejects.toEqual(refused('keyrotation-keys-unsigned'));
  });

  test('must contain the encryption key that the signed next generation replaces, unless an earlier version rotated the keys without it', async () => {
    const [first, second, third] = [createEncryptionKey(1), createEncryptionKey(2), createEncryptionKey(3)];
    const encryption = { resources: ['secrets'] as const, previous: first, next: second, older: [] };
    const set: KeySet = { ...(await aSet('done')), encryption };
    const nextOf = async (previous: typeof first): Promise<KeySet> => ({
      ...{ ...(await aSet('distribute')), generation: 3, previous: set.next },
      encryption: { ...encryption, previous, next: third },
    });
    const install = (ticket: KeySet, signed: KeySet): Promise<unknown> =>
      installTicketKeys(new MemoryFiles(), { ...keysOf(ticket), signedKeys: signatureOver(signed) });
    await install(set, await nextOf(second));
    await install({ ...set, encryption: undefined }, await nextOf(second));
    await expect(install(set, await nextOf(first))).rejects.toEqual(refused('keyrotation-keys-unsigned'));
  });

  test('must contain the CA of API servers that the signed next generation replaces, unless an earlier version rotated the keys without it', async () => {
    const ca = { public: 'CA', private: new Secret('KEY') };
    const set = await aSet('done');
    const withCa: KeySet = { ...set, next: { ...set.next, [SERVERS_CA]: ca } };
    const next = await aSet('distribute');
    const signed = (caPem: string): DocumentProof<'keys'> => {
      const pair = { ...ca, public: caPem };
      const previous = { ...set.next, [SERVERS_CA]: pair };
      return signatureOver({ ...next, generation: 3, previous, next: { ...next.next, [SERVERS_CA]: pair } });
    };
    const verify = (ticket: KeySet, signedKeys: DocumentProof<'keys'>): Promise<void> =>
      verifyKeySet(new KeyStore(new MemoryFiles(), KEY_PATHS), signedKeys, ticket);
    await verify(withCa, signed('CA'));
    await verify(set, signed('CA'));
    await expect(verify(withCa, signed('OTHER'))).rejects.toEqual(refused('keyrotation-keys-unsigned'));
  });

  test('are refused if this node has replaced them', async () => {
    const set = await aSet('done');
    for (const ticket of [{ ...keysOf(set), signedKeys: signatureOver(set) }, keysOf(undefined)]) {
      const files = new MemoryFiles();
      await new KeyStore(files, KEY_PATHS).saveStage({ generation: 3, phase: 'done' });
      const signedKeys = 'signedKeys' in ticket ? ticket.signedKeys : proofOf();
      await expect(installTicketKeys(files, { ...ticket, signedKeys })).rejects.toEqual(
        refused('keyrotation-generation-old'),
      );
    }
  });

  test('are refused if the ticket’s document about the keys or about the owners is older than the one that this node has accepted', async () => {
    const set = await aSet('trust');
    for (const floors of [{ keys: { serial: 99 } }, { owners: { serial: 1 } }]) {
      const files = new MemoryFiles();
      await new KeyStore(files, KEY_PATHS).saveFloors(floors);
      const ticket = { ...keysOf(set), signedKeys: signatureOver(set) };
      await expect(installTicketKeys(files, ticket)).rejects.toEqual(refused('keyrotation-generation-old'));
    }
  });

  test('the CAs of API servers are installed only if an owner has signed all of them', async () => {
    const pair = (pem: string): RotatingPair => ({ public: pem, private: new Secret('KEY') });
    const [old, fresh] = ['OLD', 'NEW'].map(
      (text) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`,
    );
    if (old === undefined || fresh === undefined) throw new TypeError('two CAs');
    const kept = await aSet('done');
    const set: KeySet = {
      ...kept,
      previous: { ...kept.previous, [SERVERS_CA]: pair(old) },
      next: { ...kept.next, [SERVERS_CA]: pair(fresh) },
    };
    /** The file after the ticket, or the code of the refusal. */
    const install = async (
      { has, generation = 1 }: { readonly has?: string; readonly generation?: number },
      kubernetesCaPem: string,
      signedKeys: DocumentProof<'keys'>,
    ): Promise<string> => {
      const files = new MemoryFiles();
      await new KeyStore(files, KEY_PATHS).saveStage({ generation, phase: 'done' });
      await files.makeDirectory('/var/lib/cluster/kubernetes');
      if (has !== undefined) await files.writeAtomic(KUBELET_FILES.ca, has);
      try {
        await installKubeletServersCa(files, { kubernetesCaPem, signedKeys });
        return await textAt(files, KUBELET_FILES.ca);
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    const signed = signatureOver(set);
    for (const bundle of [fresh, `${old}${fresh}`]) expect(await install({}, bundle, signed)).toBe(bundle);
    expect(await install({ has: old }, fresh, signed)).toBe(fresh);
    const forged = old.replace('OLD', 'FORGED');
    const unsigned = 'keyrotation-keys-unsigned';
    expect(await install({}, forged, signed)).toBe(unsigned);
    expect(await install({}, `${fresh}${forged}`, signed)).toBe(unsigned);
    // If this CA was never rotated, a machine without a CA accepts the CA of the ticket, and a member accepts only its
    // present CA.
    for (const proof of [proofOf(), signatureOver(kept)]) {
      expect(await install({}, old, proof)).toBe(old);
      expect(await install({ has: old }, old, proof)).toBe(old);
      expect(await install({ has: old }, forged, proof)).toBe(unsigned);
    }
    expect(await install({ generation: 2 }, old, proofOf())).toBe(unsigned);
  });

  test('the CAs for clients of the kubelet are installed only if an owner has signed all of them', async () => {
    const [set, other] = [await aSet('trust'), await aSet('trust')];
    const name = 'kubernetes-clients-ca';
    const bundle = `${set.previous[name].public}${set.next[name].public}`;
    const withOther = `${bundle}${other.next[name].public}`;
    const files = new MemoryFiles();
    await installKubeletClientsCa(files, { kubernetesClientsCaPem: bundle, signedKeys: signatureOver(set) });
    expect(await textAt(files, KUBELET_CLIENTS_CA)).toBe(bundle);
    for (const [kubernetesClientsCaPem, signedKeys] of [
      [bundle, proofOf()],
      [withOther, signatureOver(set)],
    ] as const) {
      const refusing = new MemoryFiles();
      await expect(installKubeletClientsCa(refusing, { kubernetesClientsCaPem, signedKeys })).rejects.toEqual(
        refused('keyrotation-keys-unsigned'),
      );
      expect(await refusing.stat(KUBELET_CLIENTS_CA)).toBeUndefined();
    }
  });
});

import { beforeEach, expect, test } from '@jest/globals';
import { createEncryptionKey, type EncryptionKeys } from '../../internal/keyset/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { ProbeResult_Outcome as Outcome } from '../../joinservice/curatorproto/gen/streams_pb.js';
import { probeEncryption, type Probe } from './removal-probe.ts';

const signal = new AbortController().signal;
const [previous, next] = [createEncryptionKey(2), createEncryptionKey(3)];
const encryption: EncryptionKeys = { resources: ['secrets'], previous, next, older: [] };
const values = new Map<string, string>();
const etcd = {
  get: (key: string) => {
    const entry = { createRevision: 1n, modRevision: 1n, leaseId: 0n };
    return Promise.resolve({ ...entry, key, value: Buffer.from(values.get(key) ?? '') });
  },
  keys: async function* (prefix: string) {
    yield await Promise.resolve([...values.keys()].filter((key) => key.startsWith(prefix)));
  },
};
const store = (name: string, under: string): unknown => values.set(name, `k8s:enc:secretbox:v1:${under}:x`);
const files = new MemoryFiles();
const probe = async (
  which: Probe['which'],
  keys: { readonly encryption?: EncryptionKeys } = { encryption },
) => {
  const inputs = { etcds: { kubernetes: etcd }, files, keys, which, signal };
  const { outcome, detail } = await probeEncryption(inputs as unknown as Probe);
  return { outcome: Outcome[outcome], detail };
};

beforeEach(() => {
  values.clear();
  store('/registry/secrets/a/one', next.name);
  store('/registry/configmaps/a/two', next.name);
});

test('probeEncryption() proves that a replaced encryption key decrypts nothing, and reports what the current key decrypts', async () => {
  expect(await probe('previous')).toEqual({
    ...{ outcome: 'REFUSED', detail: 'the key decrypts 0 of 2 stored secrets and ConfigMaps' },
  });
  expect(await probe('next')).toMatchObject({
    outcome: 'ADMITTED',
    detail: expect.stringContaining('2 of 2'),
  });
});

test('probeEncryption() reports one object that is still encrypted with a replaced encryption key', async () => {
  store('/registry/configmaps/a/left', previous.name);
  expect(await probe('previous')).toMatchObject({
    outcome: 'ADMITTED',
    detail: expect.stringContaining('1 of 3'),
  });
});

test('probeEncryption() is inconclusive for a key older than the previous one, and for an etcd without objects', async () => {
  expect((await probe(undefined)).outcome).toBe('INCONCLUSIVE');
  values.clear();
  expect((await probe('previous')).outcome).toBe('INCONCLUSIVE');
});

test('probeEncryption() is inconclusive without an encryption configuration on this node', async () => {
  expect(await probe('previous', {})).toMatchObject({ outcome: 'INCONCLUSIVE' });
});

test('probeEncryption() uses the first encryption key for every generation if no rotation has replaced the key', async () => {
  await files.makeDirectory('/etc/kubernetes/encryption');
  const keys = [{ name: 'key1', secret: previous.secret?.reveal() }];
  const providers = [{ secretbox: { keys } }, { identity: {} }];
  const config = { resources: [{ resources: ['secrets'], providers }] };
  await files.writeAtomic('/etc/kubernetes/encryption/config.json', JSON.stringify(config));
  store('/registry/secrets/a/old', 'key1');
  for (const which of ['previous', 'next'] as const)
    expect(await probe(which, {})).toMatchObject({ outcome: 'ADMITTED' });
});

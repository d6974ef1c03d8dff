import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createPublicKey } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '../../../internal/clock/index.ts';
import type { EtcdClient } from '../../../internal/etcd/index.ts';
import {
  createEncryptionKey,
  encryptionKeyFrom,
  encryptionKeysIn,
  type EncryptionKeys,
  type KeyPhase,
} from '../../../internal/keyset/index.ts';
import { KubeClient } from '../../../internal/kube/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { TestApiServer, TestEtcd, untilServing } from '../../../internal/testing/index.ts';
import { FIRST_KEY, renderEncryptionConfig } from './encryption-config.ts';
import { countObjects, rewriteObjects, rewriteWith } from './rewrite-objects.ts';

/** A real API server of the bundle with a real etcd: what a rotation of the encryption key does to the values that are stored. */
const signal = new AbortController().signal;
const clock = new SystemClock();
const resources = ['secrets', 'configmaps'] as const;
const OBJECTS = 120;

const first = createEncryptionKey(1);
const keys: EncryptionKeys = {
  resources,
  previous: encryptionKeyFrom(FIRST_KEY, first.secret as Secret<string>),
  next: createEncryptionKey(2),
  older: [],
};

let directory: string;
let etcd: TestEtcd;
let root: EtcdClient;
let server: TestApiServer;
let admin: { readonly caPem: string; readonly certPem: string; readonly keyPem: Secret<string> };
const path = (name: string): string => join(directory, name);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-encryption-'));
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  const caKey = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'clients', keyPem: caKey, nowMs: Date.now() });
  await writeFile(path('clients-ca.crt'), caPem);
  const accountKey = generateKeyPem();
  await writeFile(path('sa.key'), accountKey.reveal(), { mode: 0o600 });
  await writeFile(
    path('sa.pub'),
    createPublicKey(accountKey.reveal()).export({ type: 'spki', format: 'pem' }),
  );
  const keyPem = generateKeyPem();
  const leaf = {
    commonName: 'admin',
    organization: 'system:masters',
    pubKeyDer: pubKeyDerOf(keyPem),
    names: [],
    validDays: 1,
  };
  const signer = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => Date.now() });
  admin = { caPem, keyPem, certPem: await signer.issue({ ...leaf, usages: ['client'] }) };
  const address = { type: 'ip', value: '127.0.0.1' } as const;
  await writeFile(path('server.key'), keyPem.reveal(), { mode: 0o600 });
  await writeFile(path('server.crt'), await signer.issue({ ...leaf, usages: ['server'], names: [address] }));
  server = await TestApiServer.create(directory, etcd, member.endpoint);
}, 150_000);

afterAll(async () => {
  await server.stop();
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

/** Starts an API server with the encryption keys of a phase. */
async function startIn(phase: KeyPhase, of = keys): Promise<void> {
  await server.stop();
  await writeFile(path('encryption.json'), renderEncryptionConfig(resources, encryptionKeysIn(phase, of)));
  const flags = [
    `--client-ca-file=${path('clients-ca.crt')}`,
    `--encryption-provider-config=${path('encryption.json')}`,
    '--authorization-mode=RBAC',
    `--tls-cert-file=${path('server.crt')}`,
    `--tls-private-key-file=${path('server.key')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${path('sa.pub')}`,
    `--service-account-signing-key-file=${path('sa.key')}`,
  ];
  await server.start(flags, admin);
}

const ask = (method: string, at: string, body?: object) => server.ask(at, { method, body, identity: admin });

const secretsPath = '/api/v1/namespaces/default/secrets';
const create = async (index: number): Promise<void> => {
  const metadata = { name: `s${index}`, annotations: { note: `n${index}` } };
  const data = { password: Buffer.from(`value ${index}`).toString('base64') };
  const { status, text } = await ask('POST', secretsPath, { metadata, data, immutable: index % 2 === 0 });
  if (status !== 201) throw new Error(text);
};
interface Read {
  readonly metadata: { readonly name: string; readonly uid: string; readonly managedFields: unknown };
  readonly data: Readonly<Record<string, string>>;
}
const readAll = async (): Promise<readonly Omit<Read, 'kind'>[]> => {
  const { status, text } = await ask('GET', secretsPath);
  if (status !== 200) throw new Error(`${status} ${text}`);
  return (JSON.parse(text) as { items: Read[] }).items.map(
    ({ metadata: { name, uid, managedFields }, data }) => ({
      metadata: { name, uid, managedFields },
      data,
    }),
  );
};
const countUnder = (keyName: string) => countObjects({ etcd: root, resources, keyName }, signal);

/** Rewrites the objects like the agent. */
async function rewrite(said: string[]): Promise<{ readonly objects: number; readonly others: number }> {
  using api = new KubeClient({ server: `https://127.0.0.1:${server.port}`, ...admin }, { clock });
  const options = { etcd: root, clock, resources, keyName: keys.next.name };
  return await rewriteObjects(
    { ...options, rewrite: rewriteWith(api), say: (what) => void said.push(what) },
    signal,
  );
}

test('a rotation of the encryption key keeps every object readable in each phase, and leaves no object that is encrypted with the old key', async () => {
  await startIn('distribute');
  for (let index = 0; index < OBJECTS; index++) await create(index);
  await ask('POST', '/api/v1/namespaces/default/configmaps', { metadata: { name: 'c' }, data: { a: 'b' } });
  const before = await readAll();
  const count = await countUnder(FIRST_KEY);
  expect([before.length, count.others]).toEqual([OBJECTS, 0]);
  expect(count.objects).toBeGreaterThan(OBJECTS);

  await startIn('trust');
  await create(OBJECTS); // still encrypted with the old key
  expect((await countUnder(FIRST_KEY)).others).toBe(0);

  await startIn('issue');
  await create(OBJECTS + 1);
  const inBetween = await countUnder(keys.next.name);
  expect(inBetween.objects - inBetween.others).toBeGreaterThan(0);
  expect(inBetween.others).toBeGreaterThan(OBJECTS);

  const said: string[] = [];
  // Other clients write during the rewrite: conflicts are retried, and objects are created and deleted.
  const meddle = (async () => {
    for (let index = 0; index < 40; index++) {
      await ask('DELETE', `${secretsPath}/s${index * 3}`);
      const patch = { metadata: { name: 'c' }, data: { a: String(index) } };
      await ask('PUT', '/api/v1/namespaces/default/configmaps/c', patch);
    }
  })();
  const [{ objects, others }] = await Promise.all([rewrite(said), meddle]);
  expect([others, objects > 80]).toEqual([0, true]);
  expect((await countUnder(keys.next.name)).others).toBe(0);
  // The history in etcd is deleted too: a read of an old revision fails because etcd has compacted it.
  const { revision } = await root.list('/registry/none/', { signal });
  const old = root.keys('/registry/secrets/', revision - BigInt(OBJECTS), { signal });
  await expect(old.next()).rejects.toMatchObject({ code: 'etcd-compacted' });

  await startIn('retire');
  const after = await readAll();
  const kept = before.filter(({ metadata }) =>
    after.some(({ metadata: { name } }) => name === metadata.name),
  );
  expect(kept.length).toBeGreaterThan(OBJECTS / 2);
  for (const one of kept) expect(after).toContainEqual(one); // content, uid and managed fields are unchanged

  // An API server that has only the old key can read none of the objects.
  await startIn('distribute').catch(() => undefined);
  expect((await ask('GET', `${secretsPath}/s1`).catch(() => ({ status: 500 }))).status).toBe(500);
}, 400_000);

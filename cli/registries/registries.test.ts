import { expect, test } from '@jest/globals';
import { parseRegistryLogins, type RegistriesConfig } from '../../internal/config/index.ts';
import { KubeError } from '../../internal/kube/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { layoutOf } from '../workspace/index.ts';
import { requireLogins, storeLogins } from './index.ts';

const layout = layoutOf('/owner');
const signal = new AbortController().signal;
const login = (name: string): RegistriesConfig[number] => ({
  ...{ name, mirrors: [], fallback: true, ca: undefined, credentials: true },
});

/** The objects that an API server has, by path. */
class FakeApi {
  readonly objects = new Map<string, unknown>();
  readonly order: string[] = [];

  async getJson(path: string): Promise<unknown> {
    const found = this.objects.get(path);
    if (found === undefined) throw new KubeError('kube-not-found', path);
    return found;
  }

  async write({
    method,
    path,
    body,
  }: {
    readonly method: string;
    readonly path: string;
    readonly body?: unknown;
  }) {
    const [at = '', query] = path.split('?');
    this.order.push(at);
    if (method === 'DELETE' && !this.objects.delete(at)) throw new KubeError('kube-not-found', path);
    if (method !== 'PATCH') return;
    expect(query).toBe('fieldManager=cluster&force=true');
    this.objects.set(at, body);
  }

  logins(): Record<string, string> {
    const secret = this.objects.get('/api/v1/namespaces/kube-system/secrets/cluster-registry-credentials');
    const text = (secret as { data: Record<string, string> } | undefined)?.data['.dockerconfigjson'] ?? '';
    const all = parseRegistryLogins(Buffer.from(text, 'base64').toString());
    return Object.fromEntries([...all].map(([server, each]) => [server, each.reveal()]));
  }
}

async function workspaceWith(auths: Record<string, string>, mode = 0o600): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  await files.makeDirectory('/owner');
  const entries = Object.entries(auths).map(([server, text]) => [
    server,
    { auth: Buffer.from(text).toString('base64') },
  ]);
  const content = JSON.stringify({ auths: Object.fromEntries(entries) as unknown });
  await files.writeAtomic(layout.registryCredentials, content, { mode });
  return files;
}

test('storeLogins() writes exactly the needed credentials, keeps those of another operator, and lets only nodes read this Secret', async () => {
  const client = new FakeApi();
  const ann = await workspaceWith({ 'a.example': 'ann:1', 'unused.example': 'ann:2' });
  await storeLogins({ client, files: ann, layout, registries: [login('a.example')], signal });
  expect(client.logins()).toEqual({ 'a.example': 'ann:1' });
  const bob = await workspaceWith({ 'b.example': 'bob:1' });
  const both = [login('a.example'), login('b.example')];
  await storeLogins({ client, files: bob, layout, registries: both, signal });
  expect(client.logins()).toEqual({ 'a.example': 'ann:1', 'b.example': 'bob:1' });
  await storeLogins({
    client,
    files: ann,
    layout,
    registries: [login('a.example')],
    keepsOthers: true,
    signal,
  });
  expect(client.logins()).toEqual({ 'a.example': 'ann:1', 'b.example': 'bob:1' });
  await storeLogins({ client, files: ann, layout, registries: [login('a.example')], signal });
  expect(client.logins()).toEqual({ 'a.example': 'ann:1' });
  const [role, binding] = [...client.objects.values()] as Record<string, unknown>[];
  expect(role?.['rules']).toEqual([
    {
      apiGroups: [''],
      resources: ['secrets'],
      resourceNames: ['cluster-registry-credentials'],
      verbs: ['get'],
    },
  ]);
  expect(binding?.['subjects']).toEqual([expect.objectContaining({ kind: 'Group', name: 'system:nodes' })]);
  expect(client.order.slice(0, 3).map((path) => path.split('/').at(-2))).toEqual([
    'roles',
    'rolebindings',
    'secrets',
  ]);
});

test('storeLogins() deletes the Secret and the permission when no registry needs credentials, also if both are gone', async () => {
  const client = new FakeApi();
  const files = await workspaceWith({ 'a.example': 'ann:1' });
  await storeLogins({ client, files, layout, registries: [login('a.example')], signal });
  const without = [{ ...login('a.example'), credentials: false }];
  for (let twice = 0; twice < 2; twice++) {
    await storeLogins({ client, files, layout, registries: without, signal });
    expect([...client.objects]).toEqual([]);
  }
});

test('storeLogins() writes nothing if a server has no credentials, or the Secret has another form', async () => {
  const client = new FakeApi();
  const files = await workspaceWith({ 'a.example': 'ann:1' });
  const registries = [login('a.example'), login('docker.io')];
  await expect(storeLogins({ client, files, layout, registries, signal })).rejects.toMatchObject({
    code: 'registries-credentials-missing',
    details: { servers: ['registry-1.docker.io'] },
  });
  const path = '/api/v1/namespaces/kube-system/secrets/cluster-registry-credentials';
  client.objects.set(path, { data: { '.dockerconfigjson': Buffer.from('hunter2').toString('base64') } });
  const error = await storeLogins({ client, files, layout, registries: [login('a.example')], signal }).catch(
    (found: unknown) => found,
  );
  expect(error).toMatchObject({ code: 'registries-credentials-invalid' });
  expect(String(error)).not.toContain('hunter2');
  expect(client.order).toEqual([]);
});

test('requireLogins() refuses a missing entry, a file that others can read, and a file that is not in the format of Docker', async () => {
  const registries = [login('a.example')];
  const refusals = [
    { files: new MemoryFiles(), code: 'registries-credentials-missing' },
    { files: await workspaceWith({ 'b.example': 'x:y' }), code: 'registries-credentials-missing' },
    { files: await workspaceWith({ 'a.example': 'x:y' }, 0o644), code: 'workspace-key-mode' },
  ];
  for (const { files, code } of refusals)
    await expect(requireLogins(files, layout, registries)).rejects.toMatchObject({ code });
  const files = await workspaceWith({});
  await files.writeAtomic(layout.registryCredentials, 'ann:hunter2', { mode: 0o600 });
  await expect(requireLogins(files, layout, registries)).rejects.toMatchObject({
    code: 'registries-credentials-invalid',
  });
  await requireLogins(await workspaceWith({ 'a.example': 'x:y' }), layout, registries);
  await requireLogins(new MemoryFiles(), layout, []);
});

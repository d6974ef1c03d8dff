import { expect, test } from '@jest/globals';
import type { RegistriesConfig } from '../../internal/config/index.ts';
import { readText } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { FaultyFiles, MemoryFiles, SimulatedCrash } from '../../internal/testing/index.ts';
import { MARKER, registryDirectories } from './registry-files.ts';
import { removeRegistries, writeRegistries } from './write-registries.ts';

const ROOT = '/etc/containerd/certs.d';
const plain = { mirrors: [], fallback: true, ca: undefined, credentials: false };
const HUB: RegistriesConfig[number] = {
  ...{ ...plain, name: 'docker.io', fallback: false },
  mirrors: [
    { url: 'http://192.0.2.7:5000', ca: undefined, credentials: false },
    { url: 'https://mirror.example.org/v2/hub', ca: 'CA\n', credentials: true },
  ],
};
const PRIVATE = { ...plain, name: 'registry.example.org:5001', ca: 'CA\n', credentials: true };
const logins = new Map([
  ['mirror.example.org', new Secret('ann:secret')],
  ['registry.example.org:5001', new Secret('bob:other')],
  ['elsewhere.example.org', new Secret('never:used')],
]);
const directories = (...registries: RegistriesConfig) => registryDirectories(registries, logins, ROOT);

async function contentOf(files: MemoryFiles): Promise<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const directory of await files.list(ROOT))
    for (const name of await files.list(`${ROOT}/${directory}`))
      all[`${directory}/${name}`] = (await readText(files, `${ROOT}/${directory}/${name}`)) ?? '';
  return all;
}

test('registryDirectories() writes mirrors before the registry, each with its own CA and login, and no registry if the fallback to it is off', () => {
  const [hub, own] = directories({ ...HUB, fallback: true }, PRIVATE);
  const [alone] = directories(HUB);
  const caName = [...(own?.cas.keys() ?? [])][0] ?? '';
  expect(hub?.hostsToml.reveal()).toBe(`${MARKER}
server = "https://registry-1.docker.io"
[host."http://192.0.2.7:5000"]
capabilities = ["pull", "resolve"]
[host."https://mirror.example.org/v2/hub"]
capabilities = ["pull", "resolve"]
override_path = true
ca = ["${ROOT}/docker.io/${caName}"]
[host."https://mirror.example.org/v2/hub".header]
Authorization = ["Basic ${Buffer.from('ann:secret').toString('base64')}"]
`);
  expect(own?.name).toBe('registry.example.org_5001_');
  expect(own?.hostsToml.reveal()).toBe(`${MARKER}
server = "https://registry.example.org:5001"
ca = ["${ROOT}/registry.example.org_5001_/${caName}"]
[header]
Authorization = ["Basic ${Buffer.from('bob:other').toString('base64')}"]
`);
  expect(alone?.hostsToml.reveal()).toMatch(/^server = "https:\/\/mirror.example.org\/v2\/hub"$/m);
  expect(alone?.hostsToml.reveal()).not.toContain('docker.io"');
  expect(JSON.stringify([hub, own, alone])).not.toContain(Buffer.from('ann:secret').toString('base64'));
});

test('writeRegistries() writes files that only root can read, changes nothing when it is repeated, and removes registries that are no longer configured', async () => {
  const files = new MemoryFiles();
  expect(await writeRegistries(files, ROOT, directories(HUB, PRIVATE))).toEqual({
    changed: ['docker.io', 'registry.example.org_5001_'],
    foreign: [],
  });
  expect((await files.stat(`${ROOT}/docker.io/hosts.toml`))?.mode).toBe(0o600);
  expect((await writeRegistries(files, ROOT, directories(HUB, PRIVATE))).changed).toEqual([]);
  const next = { ...PRIVATE, ca: undefined };
  expect((await writeRegistries(files, ROOT, directories(next))).changed).toEqual([
    'registry.example.org_5001_',
    'docker.io',
  ]);
  expect(Object.keys(await contentOf(files))).toEqual(['registry.example.org_5001_/hosts.toml']);
  await removeRegistries(files, ROOT);
  expect(await contentOf(files)).toEqual({});
});

test('writeRegistries() never changes files of an operator, under either directory name of a registry with a port', async () => {
  const files = new MemoryFiles();
  const own = {
    'docker.io/hosts.toml': 'server = "https://own.example.org"\n',
    'quay.io/ca.crt': 'CA',
    'registry.example.org:5001/hosts.toml': '# mine\n',
  };
  for (const [path, text] of Object.entries(own)) {
    await files.makeDirectory(`${ROOT}/${path.split('/')[0]}`);
    await files.writeAtomic(`${ROOT}/${path}`, text);
  }
  const quay = { ...plain, name: 'quay.io' };
  expect(await writeRegistries(files, ROOT, directories(HUB, PRIVATE, quay))).toEqual({
    changed: [],
    foreign: ['docker.io', 'registry.example.org_5001_', 'quay.io'],
  });
  await removeRegistries(files, ROOT);
  expect(await contentOf(files)).toEqual(own);
});

test('writeRegistries() keeps a file that an operator has added to a directory of the agent', async () => {
  const files = new MemoryFiles();
  await writeRegistries(files, ROOT, directories(PRIVATE));
  const path = `${ROOT}/registry.example.org_5001_/client.cert`;
  await files.writeAtomic(path, 'CERT');
  await writeRegistries(files, ROOT, []);
  expect(await contentOf(files)).toEqual({ 'registry.example.org_5001_/client.cert': 'CERT' });
});

test('after a crash at any write, writeRegistries() completes, and no hosts.toml ever names a missing CA', async () => {
  for (const wanted of [directories(HUB, PRIVATE), directories(HUB), directories()]) {
    for (let point = 0, isOver = false; !isOver; point++) {
      const disk = new MemoryFiles();
      await writeRegistries(disk, ROOT, directories({ ...PRIVATE, ca: 'OLD\n' }));
      const dying = new FaultyFiles(disk, { point, fault: 'crash-after' });
      isOver = await writeRegistries(dying, ROOT, wanted).then(
        () => true,
        (error: unknown) => {
          if (!(error instanceof SimulatedCrash)) throw error;
          return false;
        },
      );
      const content = await contentOf(disk);
      for (const text of Object.values(content))
        for (const [, path = ''] of text.matchAll(/^ca = \["(.*)"\]$/gm))
          expect(Object.keys(content)).toContain(path.slice(ROOT.length + 1));
      await writeRegistries(disk, ROOT, wanted);
      const fresh = new MemoryFiles();
      await writeRegistries(fresh, ROOT, wanted);
      expect(await contentOf(disk)).toEqual(await contentOf(fresh));
    }
  }
});

import { expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { readText } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { FakeClock, MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import type { Membership } from '../membership/index.ts';
import { membership } from '../roleserve/fake-node.ts';
import type { RegistryCredentials } from './registry-files.ts';
import { registriesWorker } from './registries-worker.ts';

const ROOT = '/etc/containerd/certs.d';
const mirrorOf = (name: string, credentials = false) => [
  { name, mirrors: [{ url: 'https://m.example', credentials }] },
];

/** A node with its disk, and the API server that it asks. */
class TestNode {
  readonly files = new MemoryFiles();
  readonly clock = new FakeClock();
  readonly values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    signedConfiguration: new EventValue<string | undefined>(),
  };
  credentials: RegistryCredentials | Error = new Map();

  constructor() {
    this.values.clusterMembership.set(membership);
    this.values.signedConfiguration.set(undefined);
  }

  live() {
    const { values, files, clock } = this;
    const worker = registriesWorker({
      ...{ reads: values, files, clock, root: ROOT, random: () => 0.5 },
      readCredentials: async () => {
        if (this.credentials instanceof Error) throw this.credentials;
        return this.credentials;
      },
    });
    return superviseForTest(worker, { clock });
  }

  async configure(registries: unknown): Promise<void> {
    this.values.signedConfiguration.set(JSON.stringify({ registries }));
    await settle();
  }

  directories(): Promise<readonly string[]> {
    return this.files.list(ROOT);
  }

  async header(): Promise<string | undefined> {
    return (await readText(this.files, `${ROOT}/docker.io/hosts.toml`))?.match(/Authorization = .*/)?.[0];
  }
}

test('the registries worker applies each configuration, even one without registries, but not one in an unknown format', async () => {
  const node = new TestNode();
  await using tree = node.live();
  await settle();
  expect(await node.directories()).toEqual([]);
  await node.configure(mirrorOf('docker.io'));
  expect(await node.directories()).toEqual(['docker.io']);
  await node.configure(mirrorOf('quay.io'));
  expect(await node.directories()).toEqual(['quay.io']);
  await node.configure([{ name: 'ghcr.io', later: true }]);
  expect(await node.directories()).toEqual(['quay.io']);
  expect(tree.at('root.follow').note).toBe('registries: noderegistries-invalid');
  await node.configure([]);
  expect(await node.directories()).toEqual([]);
});

test('the registries worker applies changed credentials, keeps them while no API server answers, and logs no credentials', async () => {
  const node = new TestNode();
  await using tree = node.live();
  await node.configure(mirrorOf('docker.io', true));
  expect(await node.header()).toBeUndefined();
  expect(tree.at('root.follow').note).toBe('credentials of m.example');
  const basic = (login: string): string =>
    `Authorization = ["Basic ${Buffer.from(login).toString('base64')}"]`;
  node.credentials = new Map([['m.example', new Secret('ann:hunter2')]]);
  await node.clock.advance(10_000);
  expect(await node.header()).toBe(basic('ann:hunter2'));
  node.credentials = new Error('no API server');
  await node.clock.advance(120_000);
  expect(await node.header()).toBe(basic('ann:hunter2'));
  node.credentials = new Map([['m.example', new Secret('ann:hunter3')]]);
  await node.clock.advance(10 * 60_000);
  expect(await node.header()).toBe(basic('ann:hunter3'));
  expect(JSON.stringify(tree.records)).not.toMatch(/hunter|YW5u/);
});

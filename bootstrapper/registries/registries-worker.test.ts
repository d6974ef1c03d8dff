import { expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { EventValue } from '../../internal/event/index.ts';
import { readText } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { FakeClock, MemoryFiles, settle, superviseForTest, TestOwner } from '../../internal/testing/index.ts';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { ChecksummedFile, type Membership } from '../membership/index.ts';
import { membership } from '../roleserve/fake-node.ts';
import type { RegistryCredentials } from './registry-files.ts';
import { registriesWorker } from './registries-worker.ts';
import type { ConfigurationFloors } from './verify-configuration.ts';

const ROOT = '/etc/containerd/certs.d';
const mirrorOf = (name: string, credentials = false) => [
  { name, mirrors: [{ url: 'https://m.example', credentials }] },
];

/** A node with its disk, and the curator and API server that it asks. */
class TestNode implements Curators {
  readonly files = new MemoryFiles();
  readonly floors = new ChecksummedFile<ConfigurationFloors>(this.files, '/state/floors.json');
  readonly clock = new FakeClock();
  readonly owner = new TestOwner({ clock: this.clock, clusterId: membership.clusterId });
  readonly values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    clusterConfiguration: new EventValue<string | undefined>(),
  };
  credentials: RegistryCredentials | Error = new Map();
  fetches = 0;
  sent: { document: Uint8Array; ownerDocuments: Uint8Array[] } = {
    document: new Uint8Array(),
    ownerDocuments: [],
  };

  constructor() {
    this.values.clusterMembership.set(membership);
    this.values.clusterConfiguration.set(undefined);
  }

  live() {
    const { values, files, clock, floors } = this;
    const worker = registriesWorker({
      ...{ reads: values, curators: this, files, clock, floors, root: ROOT },
      ownerKeys: [this.owner.pubKey],
      random: () => 0.5,
      readCredentials: async () => {
        if (this.credentials instanceof Error) throw this.credentials;
        return this.credentials;
      },
    });
    return superviseForTest(worker, { clock });
  }

  /** A curator sends this configuration. @param by default: the owner of the cluster signs it */
  async send(registries: unknown, by = (document: string) => [this.owner.policy(document)]): Promise<void> {
    const document = JSON.stringify({ registries });
    this.sent = { document: Buffer.from(document), ownerDocuments: by(document) };
    this.values.clusterConfiguration.set(createHash('sha256').update(document).digest('hex'));
    await settle();
  }

  use<T>(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<T> {
    const fetchConfiguration = () => Promise.resolve(((this.fetches += 1), this.sent));
    return work(
      { endpoint: 'c', of: () => ({ fetchConfiguration }) } as unknown as CuratorConnection,
      signal,
    );
  }

  directories(): Promise<readonly string[]> {
    return this.files.list(ROOT);
  }

  async header(): Promise<string | undefined> {
    return (await readText(this.files, `${ROOT}/docker.io/hosts.toml`))?.match(/Authorization = .*/)?.[0];
  }
}

test('the registries worker applies each configuration that an owner has signed, and one without registries too', async () => {
  const node = new TestNode();
  await using tree = node.live();
  await settle();
  expect(await node.directories()).toEqual([]);
  await node.send(mirrorOf('docker.io'));
  expect(await node.directories()).toEqual(['docker.io']);
  await node.send(mirrorOf('quay.io'));
  expect(await node.directories()).toEqual(['quay.io']);
  await node.send([]);
  expect(await node.directories()).toEqual([]);
  expect(node.fetches).toBe(3);
  expect(tree.records.filter(({ level }) => level === 'warn')).toEqual([]);
});

const refused: readonly {
  readonly name: string;
  readonly by: (node: TestNode, document: string) => Uint8Array[];
}[] = [
  { name: 'nobody has signed', by: () => [] },
  {
    name: 'somebody else has signed',
    by: ({ clock }, document) => [new TestOwner({ clock, clusterId: membership.clusterId }).policy(document)],
  },
  {
    name: 'an owner signed for another cluster',
    by: ({ owner }, document) => {
      const configurationSha256 = createHash('sha256').update(document).digest('hex');
      return [owner.sign('policy', { configurationSha256 }, { clusterId: 'other' })];
    },
  },
  { name: 'an owner signed with other content', by: ({ owner }, document) => [owner.policy(`${document} `)] },
];
test.each(refused)(
  'the registries worker keeps what it has when it gets a configuration that $name',
  async ({ by }) => {
    const node = new TestNode();
    await using tree = node.live();
    await node.send(mirrorOf('docker.io'));
    await node.send(mirrorOf('quay.io'), (document) => by(node, document));
    expect(await node.directories()).toEqual(['docker.io']);
    expect(tree.at('root.follow').note).toContain('noderegistries-unsigned');
    await node.clock.advance(60 * 60_000);
    expect(node.fetches).toBeLessThan(20);
    await node.send(mirrorOf('ghcr.io'));
    expect(await node.directories()).toEqual(['ghcr.io']);
  },
);

test('the registries worker refuses an older signed configuration, also after a restart', async () => {
  const node = new TestNode();
  const old = node.owner.policy(JSON.stringify({ registries: mirrorOf('quay.io') }));
  {
    await using _tree = node.live();
    await node.send(mirrorOf('docker.io'));
  }
  await using tree = node.live();
  await node.send(mirrorOf('quay.io'), () => [old]);
  expect(await node.directories()).toEqual(['docker.io']);
  expect(tree.at('root.follow').note).toContain('noderegistries-unsigned');
});

test('a signature on the registries counts after its end', async () => {
  const node = new TestNode();
  await using _tree = node.live();
  await node.clock.advance(2);
  const ended = { issuedMs: node.clock.nowMs() - 2, endsMs: node.clock.nowMs() - 1 };
  await node.send(mirrorOf('docker.io'), (document) => {
    const configurationSha256 = createHash('sha256').update(document).digest('hex');
    return [node.owner.sign('policy', { configurationSha256 }, ended)];
  });
  expect(await node.directories()).toEqual(['docker.io']);
});

test('the registries worker follows the credentials, keeps them while no API server answers, and logs none', async () => {
  const node = new TestNode();
  await using tree = node.live();
  await node.send(mirrorOf('docker.io', true));
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

test('the registries worker does not trust an owner again who was removed, although nobody shows the newer documents', async () => {
  const node = new TestNode();
  await using tree = node.live();
  const next = new TestOwner({ clock: node.clock, clusterId: membership.clusterId });
  const owners = node.owner.sign('owners', { keys: [Buffer.from(next.pubKey).toString('base64')] });
  await node.send(mirrorOf('docker.io'), (document) => [owners, next.policy(document)]);
  expect(await node.directories()).toEqual(['docker.io']);
  node.owner.policy('x'); // raises the serial above that of the new owner
  await node.send(mirrorOf('quay.io'));
  expect(await node.directories()).toEqual(['docker.io']);
  expect(tree.at('root.follow').note).toContain('noderegistries-unsigned');
});

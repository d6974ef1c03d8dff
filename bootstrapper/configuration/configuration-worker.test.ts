import { expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { EventValue } from '../../internal/event/index.ts';
import { FakeClock, MemoryFiles, settle, superviseForTest, TestOwner } from '../../internal/testing/index.ts';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { ChecksummedFile, type Membership } from '../membership/index.ts';
import { membership } from '../roleserve/fake-node.ts';
import { configurationWorker } from './configuration-worker.ts';
import type { ConfigurationFloors } from './verify-configuration.ts';

/** A node with its disk, and the curator that it asks. */
class TestNode implements Curators {
  readonly files = new MemoryFiles();
  readonly floors = new ChecksummedFile<ConfigurationFloors>(this.files, '/state/floors.json');
  readonly clock = new FakeClock();
  readonly owner = new TestOwner({ clock: this.clock, clusterId: membership.clusterId });
  readonly values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    clusterConfiguration: new EventValue<string | undefined>(),
    signedConfiguration: new EventValue<string | undefined>(),
  };
  fetches = 0;
  sent: { document: Uint8Array; ownerDocuments: Uint8Array[] } = {
    document: new Uint8Array(),
    ownerDocuments: [],
  };

  constructor() {
    this.values.clusterMembership.set(membership);
    this.values.clusterConfiguration.set(undefined);
    this.values.signedConfiguration.set(undefined);
  }

  live() {
    const { values, clock, floors } = this;
    const worker = configurationWorker({
      ...{ reads: values, writes: values, curators: this, clock, floors },
      ownerKeys: [this.owner.pubKey],
      random: () => 0.5,
    });
    return superviseForTest(worker, { clock });
  }

  /**
   * Makes the curator send this configuration.
   * @param by signs the document; by default, the owner of the cluster signs it
   */
  async send(name: string, by = (document: string) => [this.owner.policy(document)]): Promise<void> {
    const document = documentOf(name);
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

  /** The name in the published configuration. */
  published(): string | undefined {
    const now = this.values.signedConfiguration.peek();
    if (!now.set || now.value === undefined) return undefined;
    return (JSON.parse(now.value) as { readonly name: string }).name;
  }
}

const documentOf = (name: string): string => JSON.stringify({ name });
const policyOf = (name: string) => ({
  configurationSha256: createHash('sha256').update(documentOf(name)).digest('hex'),
});

test('the configuration worker publishes each configuration that an owner has signed, once', async () => {
  const node = new TestNode();
  await using tree = node.live();
  await settle();
  expect(node.published()).toBeUndefined();
  for (const name of ['docker', 'quay', 'quay']) {
    await node.send(name);
    expect(node.published()).toBe(name);
  }
  expect(node.fetches).toBe(2);
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
  'the configuration worker keeps the current configuration when it gets a configuration that $name',
  async ({ by }) => {
    const node = new TestNode();
    await using tree = node.live();
    await node.send('docker');
    await node.send('quay', (document) => by(node, document));
    expect(node.published()).toBe('docker');
    expect(tree.at('root.follow').note).toContain('nodeconfiguration-unsigned');
    await node.clock.advance(60 * 60_000);
    expect(node.fetches).toBeLessThan(20);
    await node.send('ghcr');
    expect(node.published()).toBe('ghcr');
  },
);

test('the configuration worker refuses an older signed configuration, also after a restart', async () => {
  const node = new TestNode();
  const old = node.owner.policy(documentOf('quay'));
  {
    await using _tree = node.live();
    await node.send('docker');
  }
  await using tree = node.live();
  await node.send('quay', () => [old]);
  expect(node.published()).toBe('docker');
  expect(tree.at('root.follow').note).toContain('nodeconfiguration-unsigned');
});

test('on an old disk the configuration worker takes the configuration that it had, and another one once an owner signs again', async () => {
  const node = new TestNode();
  {
    await using _tree = node.live();
    await node.send('docker');
  }
  await node.clock.advance(1_000);
  await node.floors.save({ ...(await node.floors.load()), signedAfterMs: node.clock.nowMs() });
  const { document, ownerDocuments } = node.sent;
  const lost = node.owner.sign('policy', policyOf('quay'), { issuedMs: node.clock.nowMs() - 1 });
  await using tree = node.live();
  await node.send('docker', () => ownerDocuments);
  expect(node.sent.document).toEqual(document);
  expect(node.published()).toBe('docker');
  await node.send('quay', () => [lost]);
  expect(node.published()).toBe('docker');
  expect(tree.at('root.follow').note).toContain('owner-document-before-rollback');
  await node.send('quay');
  expect(node.published()).toBe('quay');
});

test('the configuration worker accepts a configuration whose signature has expired', async () => {
  const node = new TestNode();
  await using _tree = node.live();
  await node.clock.advance(2);
  const ended = { issuedMs: node.clock.nowMs() - 2, endsMs: node.clock.nowMs() - 1 };
  await node.send('docker', (document) => {
    const configurationSha256 = createHash('sha256').update(document).digest('hex');
    return [node.owner.sign('policy', { configurationSha256 }, ended)];
  });
  expect(node.published()).toBe('docker');
});

test('the configuration worker refuses a removed owner’s signature even if the curator does not send the document that removed the owner', async () => {
  const node = new TestNode();
  await using tree = node.live();
  const next = new TestOwner({ clock: node.clock, clusterId: membership.clusterId });
  const owners = node.owner.sign('owners', { keys: [Buffer.from(next.pubKey).toString('base64')] });
  await node.send('docker', (document) => [owners, next.policy(document)]);
  expect(node.published()).toBe('docker');
  node.owner.policy('x'); // the removed owner's next document gets a higher serial
  await node.send('quay');
  expect(node.published()).toBe('docker');
  expect(tree.at('root.follow').note).toContain('nodeconfiguration-unsigned');
});

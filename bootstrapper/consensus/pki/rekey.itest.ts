import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { request } from 'node:https';
import { SystemClock } from '../../../internal/clock/index.ts';
import { Namespace, put, type EtcdClient } from '../../../internal/etcd/index.ts';
import { DiskFiles } from '../../../internal/file/index.ts';
import {
  KEY_PHASES,
  createPairs,
  type KeyPhase,
  type KeySet,
  type RotatingPairs,
} from '../../../internal/keyset/index.ts';
import { generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { CLUSTER_PREFIX } from '../../../internal/records/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { closeOpened, createMemoryLogger } from '../../../internal/testing/index.ts';
import { createMember, findFreePorts, type TestMember } from '../fake-member.ts';
import { renewMember, startMember } from '../consensus.ts';
import { rekey } from './rekey.ts';
import { STATE_ETCD } from '../etcd-instances.ts';
import { placeEtcdKeys } from './shared-keys.ts';
import { withSlot } from '../membership/slot.ts';

const { signal } = new AbortController();
const clock = new SystemClock();
const files = new DiskFiles();
let next: RotatingPairs;
beforeAll(async () => {
  next = await createPairs(2, clock.nowMs());
});
afterEach(closeOpened);

const settle = ({ config }: TestMember, set: KeySet): Promise<void> =>
  placeEtcdKeys(files, config.layout.stateDir, set);

/** Reads the CAs that the first node created. */
async function readPrevious({ config: { layout } }: TestMember): Promise<RotatingPairs> {
  const text = async (path: string): Promise<string> =>
    Buffer.from((await files.read(path, 64_000)) ?? []).toString('utf8');
  const pairAt = async ({ certFile, keyFile }: { readonly certFile: string; readonly keyFile: string }) => ({
    public: await text(certFile),
    private: new Secret(await text(keyFile)),
  });
  return {
    ...next,
    'state-clients-ca': await pairAt(layout.clientsCa),
    'state-peers-ca': await pairAt(layout.peersCa),
  };
}

async function createCluster(count: number) {
  const clientPorts = await findFreePorts(count);
  const first = await createMember(0, clientPorts);
  const running = [await first.start()];
  const previous = await readPrevious(first);
  const at = (phase: KeyPhase): KeySet => ({ generation: 2, phase, previous, next });
  const nodes = [first];
  for (let index = 1; index < count; index++) {
    const node = await createMember(index, clientPorts);
    await settle(node, at('distribute'));
    nodes.push(node);
    running.push(await node.start());
  }
  return { nodes, running, at, clientPorts, previous };
}

const write = (etcd: EtcdClient, key: string) =>
  etcd.commit({ when: [], then: [put(key, new Uint8Array([1]))] }, { signal });

/** The result of a connection with a client certificate of this CA. */
async function probe(
  port: number,
  pair: RotatingPairs['state-peers-ca'],
  commonName: string,
): Promise<string> {
  const key = generateKeyPem();
  const signer = new KeyCertificateSigner({
    caPem: pair.public,
    keyPem: pair.private,
    nowMs: () => clock.nowMs(),
  });
  const pubKeyDer = pubKeyDerOf(key);
  const cert = await signer.issue({ commonName, usages: ['client'], names: [], pubKeyDer, validDays: 1 });
  return new Promise((resolve) => {
    const at = { host: '127.0.0.1', port, path: '/version', cert, key: key.reveal(), agent: false };
    const asked = request({ ...at, rejectUnauthorized: false }, (response) => {
      response.resume();
      response.on('end', () => resolve(`HTTP ${response.statusCode}`));
    });
    asked.once('error', (error: Error & { readonly code?: string }) => resolve(error.code ?? error.message));
    asked.end();
  });
}

const probeEndpoints = async (
  nodes: readonly TestMember[],
  pairs: RotatingPairs,
): Promise<readonly string[]> =>
  Promise.all(
    nodes.flatMap(({ config }) => [
      probe(config.ports.client, pairs['state-clients-ca'], 'root'),
      probe(config.ports.peer, pairs['state-peers-ca'], 'node-1'),
    ]),
  );

const REFUSED = 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA';

test('rekey() restarts three members one after the other while a client writes; etcd refuses old certificates afterwards', async () => {
  const { nodes, at, previous } = await createCluster(3);
  const [first] = nodes;
  if (first === undefined) throw new Error('no node');
  let inSlot = 0;
  for (const phase of KEY_PHASES) {
    await Promise.all(nodes.map((node) => settle(node, at(phase))));
    await Promise.all(
      nodes.map((node) =>
        rekey(
          node.portsOf(),
          node.config,
          async () => {
            expect(++inSlot).toBe(1); // no other node holds the membership slot
            using admin = await client(node);
            await write(admin, `/registry/${phase}/${node.config.nodeId}`);
            inSlot--;
          },
          signal,
        ),
      ),
    );
    const old = await probeEndpoints(nodes, previous);
    const isRefused = phase === 'retire' || phase === 'done';
    expect([phase, ...new Set(old)]).toEqual([phase, isRefused ? REFUSED : 'HTTP 200']);
  }
  expect(new Set(await probeEndpoints(nodes, next))).toEqual(new Set(['HTTP 200']));
  // Each member restarts twice: to trust both CAs, and to trust only the new one.
  const restarts = nodes.map(({ units }) => units.moves.filter((move) => move.startsWith('restart')));
  expect(restarts.map(({ length }) => length)).toEqual([2, 2, 2]);
  using admin = await client(first);
  const { entries } = await admin.list('/registry/', { signal });
  expect(entries).toHaveLength(KEY_PHASES.length * nodes.length);
}, 240_000);

test('start() before rekey() does not restart a running member with new keys on disk; rekey() does', async () => {
  const { nodes, at } = await createCluster(1);
  const [node] = nodes;
  if (node === undefined) throw new Error('no node');
  const restarts = (): number => node.units.moves.filter((move) => move.startsWith('restart')).length;
  const seen: unknown[] = [];
  for (const phase of KEY_PHASES) {
    await settle(node, at(phase)); // the agent is killed at this point
    const before = restarts();
    using again = await startMember(
      node.portsOf(),
      { ...node.config, createsCluster: false, keepRunning: true },
      signal,
    );
    await write(again.admin, `/registry/${phase}`);
    const kept = restarts();
    await rekey(node.portsOf(), node.config, async () => undefined, signal);
    seen.push([phase, kept - before, restarts() - kept]);
  }
  expect(seen).toEqual(KEY_PHASES.map((phase) => [phase, 0, ['trust', 'retire'].includes(phase) ? 1 : 0]));
}, 120_000);

test('rekey() that waits for a lost member does not block the removal of that member', async () => {
  const { nodes, at } = await createCluster(3);
  const [one, two, three] = nodes;
  if (one === undefined || two === undefined || three === undefined) throw new Error('three nodes');
  await three.units.kill(STATE_ETCD.unit);
  await settle(one, at('trust'));
  let isDone = false;
  const waiting = rekey(one.portsOf(), one.config, () => Promise.resolve(), signal).then(
    () => (isDone = true),
  );
  using admin = await client(two);
  const lost = (await admin.members.list({ signal })).find(({ name }) => name === three.config.nodeId);
  const etcd = new Namespace(admin, CLUSTER_PREFIX);
  const request = { nodeId: two.config.nodeId, onPosition: () => undefined, signal };
  await withSlot({ etcd, clock, log: createMemoryLogger().log }, request, async () => {
    expect(isDone).toBe(false);
    await admin.members.remove(lost?.id ?? 0n, { signal });
  });
  await waiting;
  expect(one.units.moves).toContain(`restart ${STATE_ETCD.unit}`);
}, 60_000);

/** A client that is authenticated as root, with the certificates that are now on the node's disk. */
async function client(node: TestMember): Promise<EtcdClient> {
  return (await renewMember(node.portsOf(), node.config)).admin;
}

test.each(KEY_PHASES.slice(1))(
  'start() succeeds after a crash between writing the keys of phase "%s" and rekey()',
  async (phase) => {
    const { nodes, running, at } = await createCluster(2);
    const [one, two] = nodes;
    if (one === undefined || two === undefined) throw new Error('two nodes');
    // Both members are in the previous phase of the key rotation. Only the second member enters this phase.
    const before = at(KEY_PHASES[KEY_PHASES.indexOf(phase) - 1] ?? 'distribute');
    for (const upTo of KEY_PHASES.slice(0, KEY_PHASES.indexOf(before.phase) + 1))
      for (const node of nodes) {
        await settle(node, at(upTo));
        await rekey(node.portsOf(), node.config, () => Promise.resolve(), signal);
      }
    await settle(two, at(phase));
    await two.units.kill(STATE_ETCD.unit);
    const again = await two.start();
    await write(again.admin, '/registry/after');
    // The first member can still talk to the second member, so it can enter the phase too.
    await settle(one, at(phase));
    await rekey(one.portsOf(), one.config, () => Promise.resolve(), signal);
    await rekey(two.portsOf(), two.config, () => Promise.resolve(), signal);
    using admin = await client(one);
    expect(await admin.get('/registry/after', { signal })).toBeDefined();
    expect(running).toHaveLength(2);
  },
  120_000,
);

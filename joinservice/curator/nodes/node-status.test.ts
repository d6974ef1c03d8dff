import { create } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { records } from '../../../internal/records/index.ts';
import {
  Curator as CuratorContract,
  NodeHealth,
  NodeStatusSchema,
} from '../../curatorproto/gen/curator_pb.js';
import { createMemoryLogger, settle } from '../../../internal/testing/index.ts';
import { as, curatorsOfTests, nodeIdOf, one } from '../fake-curators.ts';
import { NodeFeed } from './node-feed.ts';

const signal = new AbortController().signal;
const createCurators = curatorsOfTests(afterEach);

describe('status and heartbeats', () => {
  const status = (address: string) =>
    create(CuratorContract.method.updateNodeStatus.input, { status: create(NodeStatusSchema, { address }) });

  test('change the health from UNKNOWN to HEALTHY to TIMEOUT and back, and heartbeats write nothing to etcd', async () => {
    const { curators, cluster, owner, etcd } = await createCurators(2);
    const [here, there] = curators as [(typeof curators)[0], (typeof curators)[0]];
    const node = await cluster.addNode('n');
    const health = async () =>
      (await here.getNode(create(CuratorContract.method.getNode.input, { node: 'n' }), as(owner))).node
        ?.health;
    const sendHeartbeat = async (curator: typeof here) => {
      for await (const answer of curator.heartbeat(one({}) as never, as(node)))
        expect(answer.timeoutMs).toBeGreaterThanOrEqual(2n * (answer.intervalMs ?? 0n));
    };
    expect(await health()).toBe(NodeHealth.UNKNOWN);
    await sendHeartbeat(here);
    expect(await health()).toBe(NodeHealth.HEALTHY);
    const { revision } = etcd;
    for (let i = 0; i < 5; i++) await sendHeartbeat(i % 2 === 0 ? there : here);
    expect(etcd.revision).toBe(revision);
    await here.updateNodeStatus(status('192.0.2.1'), as(node));
    const lease = (await etcd.get(records.heartbeat.key(nodeIdOf(node)), { signal }))?.leaseId ?? 0n;
    etcd.expireLease(lease);
    expect(await health()).toBe(NodeHealth.TIMEOUT);
    await sendHeartbeat(there);
    expect(await health()).toBe(NodeHealth.HEALTHY);
  });

  test('tell operators, and no node, how far the clock of a node is ahead, at the curator that receives the heartbeats', async () => {
    const { curators, cluster, owner, etcd, clock } = await createCurators(2);
    const [here, there] = curators as [(typeof curators)[0], (typeof curators)[0]];
    const node = await cluster.addNode('n');
    const clocksAt = async (curator: typeof here, caller = owner, withClocks = true) =>
      (
        await curator.checkHealth(
          create(CuratorContract.method.checkHealth.input, { withClocks }),
          as(caller),
        )
      ).clocks;
    async function* heartbeats(aheadMs: number, sent: PromiseWithResolvers<void>) {
      for (let count = 0; count < 2; count++) yield { sentMs: BigInt(clock.nowMs() + aheadMs) };
      sent.resolve();
      await new Promise(() => undefined);
    }
    const sent = Promise.withResolvers<void>();
    const answers = here.heartbeat(heartbeats(420_000, sent) as never, as(node))[Symbol.asyncIterator]();
    await answers.next();
    const { revision } = etcd;
    await answers.next();
    void answers.next();
    await sent.promise;
    expect(await clocksAt(here)).toEqual([{ nodeId: nodeIdOf(node), offsetMs: 420_000n }]);
    expect(await clocksAt(there)).toEqual([]);
    expect(await clocksAt(here, owner, false)).toEqual([]);
    expect(await clocksAt(here, node)).toEqual([]);
    expect(etcd.revision).toBe(revision);
  });

  test('tell since when a node is silent at least, also at a curator that did not see it stop', async () => {
    const { curators, cluster, owner, etcd, clock } = await createCurators(1);
    const node = await cluster.addNode('n');
    const [curator] = curators as [(typeof curators)[0]];
    const silentSince = async () =>
      (await curator.getNode(create(CuratorContract.method.getNode.input, { node: 'n' }), as(owner))).node
        ?.silentSinceMs;
    const sendHeartbeat = async () => {
      for await (const _ of curator.heartbeat(one({}) as never, as(node))) continue;
    };
    await sendHeartbeat();
    await curator.updateNodeStatus(status('192.0.2.1'), as(node));
    expect(await silentSince()).toBe(0n);
    const lease = (await etcd.get(records.heartbeat.key(nodeIdOf(node)), { signal }))?.leaseId ?? 0n;
    etcd.expireLease(lease);
    await settle();
    const stoppedMs = BigInt(clock.nowMs());
    await clock.advance(60_000);
    expect(await silentSince()).toBe(stoppedMs);
    const stop = new AbortController();
    const late = new NodeFeed({ etcd, clock, log: createMemoryLogger().log, onChanged: () => undefined });
    const watching = late.run(stop.signal).catch(() => undefined);
    await settle();
    expect(late.silentSinceMs(nodeIdOf(node))).toBe(clock.nowMs());
    stop.abort();
    await watching;
    await sendHeartbeat();
    await settle();
    expect(await silentSince()).toBe(0n);
  });

  test('store a status only if it changed', async () => {
    const { curator, first, etcd } = await createCurators();
    await curator.updateNodeStatus(status('192.0.2.1'), as(first));
    const { revision } = etcd;
    await curator.updateNodeStatus(status('192.0.2.1'), as(first));
    expect(etcd.revision).toBe(revision);
    await curator.updateNodeStatus(status('192.0.2.2'), as(first));
    expect(etcd.revision).toBe(revision + 1n);
  });

  test.each([
    { name: 'they contain the address of another node', over: { address: '192.0.2.9' } },
    { name: 'the address is a host name', over: { address: 'n1' } },
    {
      name: 'their curator endpoint is at the address of another node',
      over: { curatorEndpoint: '192.0.2.9:9091' },
    },
    {
      name: 'they have more than 64 KiB',
      over: { runnables: Array.from({ length: 400 }, () => ({ path: 'x'.repeat(200) })) },
    },
    {
      name: 'they contain too many runnables',
      over: { runnables: Array.from({ length: 513 }, () => ({ path: '' })) },
    },
    {
      name: 'they contain too many facts about the machine',
      over: {
        facts: Object.fromEntries(
          Array(65)
            .fill('')
            .map((_, i) => [i, '']),
        ),
      },
    },
    { name: 'the agent version is too long', over: { agentVersion: 'x'.repeat(257) } },
    {
      name: 'they name too many services that are not well',
      over: { machine: { services: Array.from({ length: 17 }, () => ({ name: 'kubelet', why: '' })) } },
    },
    {
      name: 'they name too many settings of the machine',
      over: { machine: { problems: Array.from({ length: 65 }, () => ({ code: '' })) } },
    },
    {
      name: 'they name too many nodes that do not answer',
      over: { machine: { podNetwork: { unreachable: Array.from({ length: 17 }, () => '10.244.0.0') } } },
    },
    {
      name: 'they name too many etcd members that differ',
      over: { etcdContents: { kubernetes: { differing: Array.from({ length: 33 }, () => 'id') } } },
    },
    {
      name: 'the name of an etcd member that differs is too long',
      over: { etcdContents: { state: { differing: ['x'.repeat(257)] } } },
    },
    {
      name: 'they name too many nodes that full-size packets do not reach',
      over: {
        machine: { podNetwork: { fullPackets: { lost: Array.from({ length: 17 }, () => '10.244.0.0') } } },
      },
    },
    {
      name: 'the address of a node that full-size packets do not reach is too long',
      over: { machine: { podNetwork: { fullPackets: { lost: ['x'.repeat(257)] } } } },
    },
    {
      name: 'they contain round trips to too many nodes',
      over: {
        machine: {
          podNetwork: {
            roundTrips: {
              peers: Array.from({ length: 9 }, (_, at) => ({ address: `10.244.${at}.0`, milliseconds: 1 })),
            },
          },
        },
      },
    },
    {
      name: 'they contain a round trip to something that is no address',
      over: { machine: { podNetwork: { roundTrips: { peers: [{ address: 'n1', milliseconds: 1 }] } } } },
    },
    {
      name: 'they contain a round trip that no agent waits for',
      over: {
        machine: {
          podNetwork: { roundTrips: { peers: [{ address: '10.244.0.0', milliseconds: 60_001 }] } },
        },
      },
    },
    {
      name: 'the address of a node that does not answer is too long',
      over: { machine: { podNetwork: { unreachable: ['x'.repeat(257)] } } },
    },
    {
      name: 'the address in the network of pods is too long',
      over: { machine: { podNetwork: { address: 'x'.repeat(257) } } },
    },
    {
      name: 'the name of a setting is too long',
      over: { machine: { problems: [{ subject: 'x'.repeat(257) }] } },
    },
    {
      name: 'the name of a service is too long',
      over: { machine: { services: [{ name: 'x'.repeat(257), why: '' }] } },
    },
    {
      name: 'the value of a fact about the machine is too long',
      over: { facts: { kernel: 'x'.repeat(257) } },
    },
  ])('are refused and not stored if $name', async ({ over }) => {
    const { curator, first, etcd } = await createCurators();
    const { revision } = etcd;
    const reported = { status: create(NodeStatusSchema, over) };
    const request = create(CuratorContract.method.updateNodeStatus.input, reported);
    const error: unknown = await curator
      .updateNodeStatus(request, as(first))
      .catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: 'curator-request-invalid' });
    expect(etcd.revision).toBe(revision);
  });

  test('are stored with the round trips of a node that probes eight others', async () => {
    const { curator, first, owner } = await createCurators();
    const peers = Array.from({ length: 8 }, (_, at) => ({ address: `10.244.${at}.0`, milliseconds: 60_000 }));
    const reported = {
      status: create(NodeStatusSchema, { machine: { podNetwork: { roundTrips: { peers } } } }),
    };
    await curator.updateNodeStatus(
      create(CuratorContract.method.updateNodeStatus.input, reported),
      as(first),
    );
    const { node } = await curator.getNode(
      create(CuratorContract.method.getNode.input, { node: 'first' }),
      as(owner),
    );
    expect(node?.status?.machine?.podNetwork?.roundTrips?.peers).toMatchObject(peers);
  });

  test('cut long error texts instead of losing the status', async () => {
    const { curator, first, owner } = await createCurators();
    const long = { message: 'x'.repeat(5_000) };
    const machine = {
      services: [{ name: 'kubelet', why: long.message }],
      problems: [{ cause: long.message }],
      nameLookup: { failure: long.message },
    };
    const reported = { status: create(NodeStatusSchema, { lastError: long, machine }) };
    await curator.updateNodeStatus(
      create(CuratorContract.method.updateNodeStatus.input, reported),
      as(first),
    );
    const asked = create(CuratorContract.method.getNode.input, { node: 'first' });
    const { node } = await curator.getNode(asked, as(owner));
    expect(node?.status?.lastError?.message).toHaveLength(1024);
    expect(node?.status?.machine?.services?.[0]?.why).toHaveLength(1024);
    expect(node?.status?.machine?.problems?.[0]?.cause).toHaveLength(1024);
    expect(node?.status?.machine?.nameLookup?.failure).toHaveLength(1024);
  });

  test.each([
    {
      name: 'large',
      statusOf: (i: number) => ({
        runnables: Array.from({ length: 200 }, () => ({ path: `${i} ${'x'.repeat(200)}` })),
      }),
      maxWrites: 25,
    },
    // etcd keeps key, revision and indexes of each write, also of an empty one.
    { name: 'tiny', statusOf: (i: number) => ({ agentVersion: 'v'.repeat(i % 2) }), maxWrites: 2_050 },
  ])(
    'cannot fill etcd when one node floods it with $name statuses, and another node can still report',
    async (flooding) => {
      const { curator, first, cluster, etcd, clock } = await createCurators();
      const other = await cluster.addNode('n');
      const before = etcd.revision;
      const flood = async (count: number): Promise<unknown> => {
        for (let i = 0; i < count; i++) {
          const reported = { status: create(NodeStatusSchema, flooding.statusOf(i)) };
          await curator.updateNodeStatus(
            create(CuratorContract.method.updateNodeStatus.input, reported),
            as(first),
          );
        }
        return undefined;
      };
      const refused: unknown = await flood(3_000).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: 'curator-status-too-often' });
      expect(Number(etcd.revision - before)).toBeLessThan(flooding.maxWrites);
      await curator.updateNodeStatus(status('192.0.2.1'), as(other));
      await clock.advance(60_000);
      await curator.updateNodeStatus(status('192.0.2.1'), as(first));
    },
  );

  test('list a curator in getClusterInfo() after it has reported an endpoint', async () => {
    const { curator, first, cluster, owner } = await createCurators();
    const worker = await cluster.addNode('worker', { roles: ['KubernetesWorker'] });
    const says = (curatorEndpoint: string) =>
      create(CuratorContract.method.updateNodeStatus.input, {
        status: create(NodeStatusSchema, { curatorEndpoint }),
      });
    await curator.updateNodeStatus(says('192.0.2.1:9091'), as(first));
    await curator.updateNodeStatus(says('192.0.2.2:9091'), as(worker));
    const info = await curator.getClusterInfo(create(CuratorContract.method.getClusterInfo.input), as(owner));
    expect(info).toMatchObject({
      clusterId: 'c0ffee',
      epoch: 1n,
      directory: [{ nodeId: nodeIdOf(first), curatorEndpoint: '192.0.2.1:9091' }],
    });
  });
});

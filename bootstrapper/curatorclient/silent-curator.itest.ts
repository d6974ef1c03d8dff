import { afterEach, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { type MemberIdentity, verifyMemberCertificate } from '../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade } from '../../internal/rpc/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  findFreePort,
  MemoryEtcd,
  opened,
  TcpProxy,
  TestCluster,
  untilAborted,
} from '../../internal/testing/index.ts';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Membership } from '../membership/index.ts';
import { CuratorClient } from './curator-client.ts';
import type { ClusterDirectory } from './directory.ts';

const clock = new SystemClock();
const { log } = createMemoryLogger();
const NOTICED_MS = 15_000;
afterEach(closeOpened);

/**
 * Creates curators that send the list of curators once and nothing afterwards. One of them is behind a
 * connection that the test can interrupt.
 */
async function createCluster() {
  const cluster = await TestCluster.create(new MemoryEtcd(), () => clock.nowMs());
  const port = await findFreePort();
  const start = async (host: string): Promise<string> => {
    const peer = await cluster.addNode(host);
    const server = new RpcServer<MemberIdentity>({
      clock,
      upgrade: tlsServerUpgrade({
        clock,
        identity: peer.tls,
        accept: (certificate) => verifyMemberCertificate(certificate, cluster.trust),
      }),
      services: [
        implement(Distribution, {
          fetchBlob: async function* () {},
          fetchCollateral: () => Promise.resolve({}),
          fetchConfiguration: () => Promise.resolve({}),
          fetchKeys: () => Promise.resolve({}),
          fetchRemovals: () => Promise.resolve({}),
          reportRemovals: () => Promise.resolve({}),
          watchDirectory: async function* (_request, call) {
            yield { epoch: 1n, controlPlanes: [] };
            await untilAborted(call.signal);
          },
        }),
      ],
      disclose: 'chain',
      log,
    });
    await server.listen(host, port);
    opened(server);
    return peer.identity.kind === 'node' ? peer.identity.nodeId : '';
  };
  const [silentId, otherId] = [await start('127.0.0.2'), await start('127.0.0.3')];
  const wire = new TcpProxy(`127.0.0.2:${port}`);
  await wire.open('127.0.0.4', port);
  opened(wire);
  const own = await cluster.addNode('own');
  const directory: ClusterDirectory = [
    { nodeId: silentId, host: '127.0.0.4', curator: true, apiServer: true },
    { nodeId: otherId, host: '127.0.0.3', curator: true, apiServer: true },
  ];
  const membership: Membership = {
    clusterId: cluster.clusterId,
    clusterName: 'test',
    nodeId: silentId, // the client prefers the curator of its own node
    nodeName: 'own',
    nodeAddress: '127.0.0.1',
    nodeCertPem: own.tls.certPem,
    clusterCaPem: cluster.trust.caPem,
    epoch: 1,
    directory: [],
  };
  const reads = {
    clusterMembership: new EventValue<Membership | undefined>(),
    clusterDirectory: new EventValue<ClusterDirectory | undefined>(),
    clusterRelays: new EventValue<readonly string[] | undefined>(),
  };
  reads.clusterMembership.set(membership);
  reads.clusterDirectory.set(directory);
  const client = new CuratorClient({
    reads,
    keyPem: own.tls.keyPem,
    clock,
    log,
    port,
    relayPort: port + 1,
    staticHosts: () => [],
    random: () => 0,
  });
  opened(client);
  return { client, wire };
}

test('a client needs only seconds to leave a curator that stops answering, and calls that curator last for a while', async () => {
  const { client, wire } = await createCluster();
  const stop = new AbortController();
  const hosts: string[] = [];
  const second = Promise.withResolvers<void>();
  const watching = client.use(
    async ({ endpoint, of }, signal) => {
      for await (const _ of of(Distribution).watchDirectory({}, { signal })) {
        hosts.push(endpoint.split(':')[0] ?? '');
        if (hosts.length === 1) wire.swallow();
        else second.resolve();
      }
      throw new Error('the watch ended');
    },
    { signal: stop.signal },
  );
  watching.catch(() => undefined); // rejects when the test ends
  const startedMs = performance.now();
  await second.promise;
  expect(hosts).toEqual(['127.0.0.4', '127.0.0.3']);
  expect(performance.now() - startedMs).toBeLessThan(NOTICED_MS);
  const next = await client.use(({ endpoint }) => Promise.resolve(endpoint), { signal: stop.signal });
  expect(next).toContain('127.0.0.3');
  stop.abort(new Error('the test is over'));
}, 30_000);

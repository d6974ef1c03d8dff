import { expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { type MemberIdentity, verifyMemberCertificate } from '../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade } from '../../internal/rpc/index.ts';
import { createMemoryLogger, MemoryEtcd, TestCluster } from '../../internal/testing/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { createCuratorClient } from './create-curator-client.ts';

const signal = AbortSignal.timeout(20_000);
const clock = new SystemClock();
const { log } = createMemoryLogger();

test.each([
  { name: 'in its provisioning', provisioned: ['127.0.0.3:9090'], directed: [] },
  {
    name: 'that an operator set on the machine after the join',
    provisioned: [],
    directed: ['127.0.0.3'],
  },
])(
  'a member whose curators do not respond calls the join services $name',
  async ({ provisioned, directed }) => {
    const cluster = await TestCluster.create(new MemoryEtcd(), () => clock.nowMs());
    const [own, other] = [
      await cluster.addNode('own'),
      await cluster.addNode('other', { roles: ['ConsensusMember'] }),
    ];
    const checkHealth = () => Promise.resolve({ nodeId: 'other', epoch: 1n });
    await using server = new RpcServer<MemberIdentity>({
      clock,
      upgrade: tlsServerUpgrade({
        clock,
        identity: other.tls,
        accept: (certificate) => verifyMemberCertificate(certificate, cluster.trust),
      }),
      services: [implement(Curator, { checkHealth } as never)],
      disclose: 'chain',
      log,
    });
    const port = await server.listen('127.0.0.3', 0);
    const reads = {
      clusterMembership: new EventValue<Membership | undefined>(),
      clusterDirectory: new EventValue<ClusterDirectory | undefined>(),
      clusterRelays: new EventValue<readonly string[] | undefined>(),
    };
    const said: string[] = [];
    using curators = createCuratorClient({
      ...{ clock, log, random: () => 0, reads, port },
      operatorEndpoints: { list: said },
      provisioning: { joinEndpoints: [...provisioned] },
      identity: { keyPem: own.tls.keyPem },
    });
    reads.clusterMembership.set({
      ...{ clusterId: cluster.clusterId, clusterName: 'blue', nodeId: 'node-own', nodeName: 'own' },
      ...{ nodeAddress: '127.0.0.1', nodeCertPem: own.tls.certPem, clusterCaPem: cluster.trust.caPem },
      ...{ epoch: 1, directory: [{ nodeId: 'node-gone', host: '127.0.0.9' }] },
    });
    said.push(...directed);
    const answer = await curators.use(({ client }, child) => client.checkHealth({}, { signal: child }), {
      signal,
    });
    expect(answer.nodeId).toBe('other');
  },
);

import { describe, expect, test } from '@jest/globals';
import { fingerprintOfKey, generateKeyPem, nodeIdOf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { JoinState } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { FastForwardClock } from '../../cluster/curator/fake-fast-forward-clock.ts';
import { MachinePins } from '../machine-pins.ts';
import { reportedComponents } from '../roles/fake-components.ts';
import { admitControlPlanes } from './admit-control-planes.ts';

const MINUTE = 60_000;
const ROLES = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const machineOf = (name: string) => {
  const key = pubKeyDerOf(generateKeyPem());
  return { name, fingerprint: fingerprintOfKey(key), joinId: nodeIdOf(key) };
};
const [N2, N3] = [machineOf('n2'), machineOf('n3')];

/** A cluster at which machines have asked to join; the records change with each poll, the last ones remain. */
async function createCluster(...polls: readonly (readonly object[])[]) {
  let at = 0;
  const approved: string[] = [];
  const harness = await createCuratorHarness(
    {
      listNodes: async () => ({
        nodes: [N2, N3].map(({ joinId, name }) => ({
          ...{ nodeId: joinId, name, state: NodeState.UP, health: NodeHealth.HEALTHY, roles: ROLES },
          status: { controlPlane: reportedComponents() },
        })),
      }),
      getClusterInfo: async () => ({ directory: [], etcd: { hasLeader: true, members: [] } }),
    },
    {
      listDocuments: async () => ({ documents: [], removed: [], epoch: 1n }),
      listJoins: async () => {
        const joins = polls[Math.min(at++, polls.length - 1)] ?? [];
        return { joins: [...joins], dropped: 0n };
      },
      decideJoin: async ({ join, documents, decision }) => {
        const { name = '' } = decision.case === 'approve' ? decision.value : {};
        approved.push(`${join} ${name} ${documents.length}`);
        return {};
      },
    },
  );
  const { owner } = harness;
  const context = { ...owner, ports: { ...owner.ports, clock: new FastForwardClock() } };
  return {
    context,
    approved,
    admit: (machines = [N2, N3]) =>
      admitControlPlanes(context, machines, { roles: ['control-plane'], timeoutMs: 2 * MINUTE }),
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  };
}

const applicant = ({ joinId, fingerprint }: typeof N2, change: object = {}) => ({
  ...{ joinId, fingerprint, identity: `machine-key:${fingerprint.slice(7)}`, state: JoinState.PENDING },
  ...change,
});
const REMOVED = { state: JoinState.REFUSED, code: 'join-decommissioned' };

describe('admitControlPlanes()', () => {
  test('waits until each machine asks, grants it a place as the owner, and waits until it is ready', async () => {
    await using cluster = await createCluster([], [applicant(N3)], [applicant(N3), applicant(N2)]);
    await cluster.admit();
    expect(cluster.approved).toEqual([`${N2.joinId} n2 1`, `${N3.joinId} n3 1`]);
    expect(cluster.context.host.updates).toContain('it has not asked to join');
  });

  test('does not approve a machine again that was admitted before', async () => {
    const states = [applicant(N2, { state: JoinState.JOINED }), applicant(N3, { state: JoinState.APPROVED })];
    await using cluster = await createCluster(states);
    await cluster.admit();
    expect(cluster.approved).toEqual([]);
  });

  test('saves a machine that was admitted before, so that the owner can sign the keys that it creates', async () => {
    await using cluster = await createCluster([applicant(N2, { state: JoinState.JOINED })]);
    await cluster.admit([N2]);
    const pins = await MachinePins.read(cluster.context);
    expect(pins.of('n2')).toMatchObject({ nodeId: N2.joinId, identity: applicant(N2).identity });
  });

  test('admits no other machine under the fingerprint that the owner compared', async () => {
    const forged = { ...applicant(machineOf('evil')), fingerprint: N2.fingerprint };
    await using cluster = await createCluster([forged]);
    await expect(cluster.admit([N2])).rejects.toMatchObject({ code: 'nodes-not-asking' });
    expect(cluster.approved).toEqual([]);
  });

  test('tells that a machine was removed, and continues after its readmission', async () => {
    await using cluster = await createCluster([applicant(N2, REMOVED)], [applicant(N2)]);
    await cluster.admit([N2]);
    expect(cluster.context.host.updates[0]).toMatch(/run `cluster node readmit machine-key:/);
    expect(cluster.approved).toHaveLength(1);
  });

  test('approves a machine that the inventory does not list', async () => {
    const unlisted = { state: JoinState.REFUSED, code: 'join-unknown-machine' };
    await using cluster = await createCluster([applicant(N2, unlisted)]);
    await cluster.admit([N2]);
    expect(cluster.approved).toHaveLength(1);
  });

  test('ends when a machine is refused for another reason', async () => {
    const refused = applicant(N2, { state: JoinState.REFUSED, code: 'join-policy', message: 'PCR 4' });
    await using cluster = await createCluster([refused]);
    await expect(cluster.admit([N2])).rejects.toMatchObject({
      code: 'nodes-join-refused',
      message: 'machine n2 was refused: join-policy PCR 4',
    });
  });
});

import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { settle, superviseForTest } from '../../internal/testing/index.ts';
import type { Membership } from '../membership/index.ts';
import type { EtcdClientFiles } from '../kubernetes/index.ts';
import {
  type ControlPlaneDriver,
  type ControlPlaneStart,
  controlPlaneWorker,
  planControlPlane,
} from './control-plane-worker.ts';
import { all, bootstrap, components, etcd, membership, none, NotedPhases, workerOnly } from './fake-node.ts';
import type { RoleSet } from './role-values.ts';
import { createFakeRoleValues } from './fake-role-values.ts';

describe('planControlPlane()', () => {
  const unknown = {
    bootstrapData: undefined,
    clusterMembership: undefined,
    localRoles: undefined,
    localComponents: undefined,
  };
  const cases = [
    {
      name: 'waits while its inputs are unknown',
      given: unknown,
      want: { kind: 'wait', why: 'the roles of this node' },
    },
    {
      name: 'is idle without the role',
      given: { ...unknown, clusterMembership: membership, localComponents: components, localRoles: none },
      want: { kind: 'stop', why: 'idle: role absent' },
    },
    {
      name: 'waits for the programs of a control plane',
      given: { ...unknown, localRoles: all, clusterMembership: membership },
      want: { kind: 'wait', why: 'the components' },
    },
    {
      name: 'waits for the membership',
      given: { ...unknown, localRoles: all, localComponents: components },
      want: { kind: 'wait', why: 'the membership of this node' },
    },
    {
      name: 'starts etcd and the curator of a node that is a member of the cluster',
      given: { ...unknown, localRoles: all, clusterMembership: membership, localComponents: components },
      want: { kind: 'start', config: { kind: 'serve', membership } },
    },
    {
      name: 'creates the cluster',
      given: { ...unknown, bootstrapData: bootstrap, localComponents: components },
      want: { kind: 'start', config: { kind: 'bootstrap', data: bootstrap } },
    },
  ];
  test.each(cases)('$name', ({ given, want }) => {
    expect(planControlPlane(given)).toEqual(want);
  });
});

class FakeDriver implements ControlPlaneDriver {
  readonly starts: ControlPlaneStart['kind'][] = [];
  failures = 0;
  stops = 0;
  mayStop = true;

  startConsensus(start: ControlPlaneStart): Promise<void> {
    this.starts.push(start.kind);
    return this.failures-- > 0 ? Promise.reject(new Error('etcd does not serve')) : Promise.resolve();
  }

  createCluster(): Promise<{ membership: Membership; roles: RoleSet }> {
    return Promise.resolve({ membership, roles: all });
  }

  startCurator(): Promise<{ apiServerEtcd: EtcdClientFiles; curatorEndpoint: string }> {
    return Promise.resolve({ apiServerEtcd: etcd, curatorEndpoint: '198.18.0.11:9091' });
  }

  repairMembers(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }

  followPersons(_membership: Membership, signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }

  checkStop(): Promise<void> {
    return this.mayStop ? Promise.resolve() : Promise.reject(new Error('the last member'));
  }

  stop(): Promise<void> {
    this.stops++;
    return Promise.resolve();
  }
}

function createControlPlane() {
  const values = createFakeRoleValues();
  const phases = new NotedPhases();
  const driver = new FakeDriver();
  const disk: { failures: number } = { failures: 0 };
  const worker = controlPlaneWorker({
    reads: values,
    writes: values,
    onClusterCreated: ({ membership, roles }) => {
      values.clusterMembership.set(membership);
      values.localRoles.set(roles);
      values.bootstrapData.set(undefined);
    },
    phases,
    driver,
    keepOwnShare: () => (disk.failures-- > 0 ? Promise.reject(new Error('no signer')) : Promise.resolve()),
  });
  return { values, phases, driver, disk, worker };
}

describe('the controlplane worker', () => {
  test('creates the cluster, publishes membership and roles, clears the bootstrap data without a restart, and then follows the recorded roles', async () => {
    const { values, phases, driver, worker } = createControlPlane();
    await using _tree = superviseForTest(worker);
    values.bootstrapData.set(bootstrap);
    values.localComponents.set(components);
    await settle();
    expect(phases.names).toEqual(['consensus', 'membership', 'curator']);
    expect([
      currentValue(values.clusterMembership),
      currentValue(values.localRoles),
      currentValue(values.bootstrapData),
    ]).toEqual([membership, all, undefined]);
    expect(currentValue(values.localControlPlane)?.curatorEndpoint).toBe('198.18.0.11:9091');
    expect(driver.starts).toEqual(['bootstrap']);
    values.localRoles.set(workerOnly);
    await settle();
    expect([driver.stops, currentValue(values.localControlPlane)]).toEqual([1, undefined]);
    expect(driver.starts).toEqual(['bootstrap']);
  });

  test('a later start reports the same phases except the creation of the cluster', async () => {
    const { values, phases, worker } = createControlPlane();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    values.localRoles.set(all);
    values.localComponents.set(components);
    await settle();
    expect(phases.names).toEqual(['consensus', 'curator']);
  });

  test('restarts nothing when address, certificates, peers or components change, and stops when the role is removed', async () => {
    const { values, driver, worker } = createControlPlane();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    values.localRoles.set(all);
    values.localComponents.set(components);
    await settle();
    const directory = [...membership.directory, { nodeId: 'node-2', host: '198.18.0.12' }];
    for (const change of [{ nodeCertPem: 'renewed' }, { nodeAddress: '198.18.0.99' }, { directory }]) {
      values.clusterMembership.set({ ...membership, ...change });
      await settle();
    }
    values.localComponents.set({ ...components, kubernetesVersion: 'v1.36.0' });
    values.localRoles.set(new Set(['ConsensusMember']));
    await settle();
    expect([driver.starts, driver.stops]).toEqual([['serve'], 0]);
    values.localRoles.set(none);
    await settle();
    expect([driver.stops, currentValue(values.localControlPlane)]).toEqual([1, undefined]);
    values.localRoles.set(all);
    await settle();
    expect(driver.starts).toEqual(['serve', 'serve']);
  });

  test('keeps serving while the cluster needs it for its quorum, and stops afterwards', async () => {
    const { values, driver, worker } = createControlPlane();
    await using tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    values.localRoles.set(all);
    values.localComponents.set(components);
    await settle();
    driver.mayStop = false;
    values.localRoles.set(workerOnly);
    await settle();
    await tree.clock.advance(2_000);
    expect([driver.stops, currentValue(values.localControlPlane)?.curatorEndpoint]).toEqual([
      0,
      '198.18.0.11:9091',
    ]);
    driver.mayStop = true;
    await tree.clock.advance(5_000);
    expect([driver.stops, currentValue(values.localControlPlane)]).toEqual([1, undefined]);
  });

  test('starts nothing before the machine keeps the cluster share of its state disk', async () => {
    const { values, phases, driver, disk, worker } = createControlPlane();
    disk.failures = 1;
    await using tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    values.localRoles.set(all);
    values.localComponents.set(components);
    await settle();
    expect([driver.starts, phases.names]).toEqual([[], ['consensus']]);
    await tree.clock.advance(5_000);
    expect(driver.starts).toEqual(['serve']);
  });

  test('retries after a failure with the same bootstrap data', async () => {
    const { values, driver, worker } = createControlPlane();
    driver.failures = 2;
    await using tree = superviseForTest(worker);
    values.bootstrapData.set(bootstrap);
    values.localComponents.set(components);
    await settle();
    await tree.clock.advance(5000);
    expect(driver.starts).toEqual(['bootstrap', 'bootstrap', 'bootstrap']);
    expect(currentValue(values.clusterMembership)).toEqual(membership);
  });
});

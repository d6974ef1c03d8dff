import { describe, expect, test } from '@jest/globals';
import { currentValue, type Readable, type Settable } from '../../internal/event/index.ts';
import { all, bootstrap, membership, settings, workerOnly } from './fake-node.ts';
import { NodeMembership } from './node-membership.ts';
import { type RoleSet, RoleValueStore } from './role-values.ts';

describe('RoleValueStore', () => {
  test('claim() gives write access to each value to one caller only', () => {
    const store = new RoleValueStore();
    const { kubernetesStatus } = store.claim('kubernetesStatus', 'localComponents');
    expect(() => store.claim('localComponents')).toThrow(/localComponents already has a writer/);
    kubernetesStatus.set({ version: 'v1.35.4', controlPlane: true });
    expect(currentValue(store.values.kubernetesStatus)?.controlPlane).toBe(true);
    expect(store.unclaimed).not.toContain('kubernetesStatus');
  });

  test('claim() gives write access to the claimed values and no others', () => {
    expect(Object.keys(new RoleValueStore().claim('clusterDirectory', 'clusterRelays'))).toEqual([
      'clusterDirectory',
      'clusterRelays',
    ]);
  });

  test('readers cannot set a value, neither by type nor at run time', () => {
    const { values } = new RoleValueStore();
    // @ts-expect-error a reader is no writer
    const writer: Settable<RoleSet | undefined> = values.localRoles;
    expect(() => writer.set(all)).toThrow(TypeError);
    for (const value of Object.values<Readable<unknown>>(values)) {
      expect('set' in value).toBe(false);
      expect(value.peek()).toEqual({ set: true, value: undefined });
    }
  });
});

describe('NodeMembership', () => {
  test('is the only writer of membership, roles, settings and bootstrap data', () => {
    const store = new RoleValueStore();
    new NodeMembership(store);
    for (const name of ['bootstrapData', 'clusterMembership', 'clusterSettings', 'localRoles'] as const)
      expect(() => store.claim(name)).toThrow(/already has a writer/);
    expect(() => new NodeMembership(store)).toThrow(/already has a writer/);
  });

  test('publishes what an init, a new cluster, a renewal and a role assignment report', () => {
    const store = new RoleValueStore();
    const { values } = store;
    const node = new NodeMembership(store);
    node.creating(settings, bootstrap);
    expect([currentValue(values.clusterSettings), currentValue(values.bootstrapData)]).toEqual([
      settings,
      bootstrap,
    ]);
    node.created({ membership, roles: all });
    expect(currentValue(values.bootstrapData)).toBeUndefined();
    node.renewed({ ...membership, nodeCertPem: 'new' });
    node.assigned(workerOnly);
    expect([currentValue(values.clusterMembership)?.nodeCertPem, currentValue(values.localRoles)]).toEqual([
      'new',
      workerOnly,
    ]);
  });
});

import { describe, expect, test } from '@jest/globals';
import {
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  settle,
  superviseForTest,
} from '../../internal/testing/index.ts';
import { componentsWorker, planComponents } from './components-worker.ts';
import { all, components, bootstrap, host, NotedPhases, settings, workerOnly } from './fake-node.ts';
import { RoleValues, type LocalComponents } from './values.ts';

describe('planComponents()', () => {
  const unknown = { bootstrap: undefined, settings: undefined, roles: undefined };
  const waits = [
    { name: 'the settings', given: { ...unknown, roles: all }, why: 'the settings of the cluster' },
    { name: 'the roles', given: { ...unknown, settings }, why: 'the roles of this node' },
  ];
  test.each(waits)('waits for $name', ({ given, why }) => {
    expect(planComponents(given)).toEqual({ kind: 'wait', why });
  });

  test.each([
    { name: 'a cluster that is being made', given: { ...unknown, settings, bootstrap }, controlPlane: true },
    { name: 'a control plane', given: { ...unknown, settings, roles: all }, controlPlane: true },
    { name: 'a worker', given: { ...unknown, settings, roles: workerOnly }, controlPlane: false },
  ])('takes what $name needs', ({ given, controlPlane }) => {
    const config = { kubernetesVersion: 'v1.35.4', controlPlane };
    expect(planComponents(given)).toMatchObject({ kind: 'start', config });
  });
});

test('the components worker installs, starts containerd, imports, and says each when it is true', async () => {
  const values = new RoleValues();
  const phases = new NotedPhases();
  const units = new FakeUnits();
  const files = new MemoryFiles();
  await files.makeDirectory('/etc');
  const seen: (LocalComponents | undefined)[] = [];
  const brought: string[] = [];
  const worker = componentsWorker({
    reads: values,
    writes: { localComponents: { set: (value) => (seen.push(value), values.localComponents.set(value)) } },
    phases,
    host,
    ports: {
      files,
      units,
      commands: new FakeCommands(),
      install: () => Promise.resolve('installed'),
      blob: () => Promise.resolve('/store/pause'),
      bring: ({ name }) => (brought.push(name), Promise.resolve(true)),
    },
  });
  await using _tree = superviseForTest(worker);
  values.clusterSettings.set(settings);
  values.localRoles.set(workerOnly);
  await settle();
  expect(phases.names).toEqual(['components', 'images']);
  expect(brought).toEqual(['kubelet']);
  expect(seen.map((value) => value?.images)).toEqual(['importing', 'essential', 'imported']);
  expect(seen.at(-1)?.controlPlane).toBe(false);
  expect(units.moves).toEqual(['start cluster-containerd.service']);
  // A promotion brings the rest; what runs stays.
  values.localRoles.set(all);
  await settle();
  expect(phases.names).toEqual(['components', 'images', 'components', 'images']);
  expect(brought.slice(1).toSorted()).toEqual(['etcd', 'kubelet', 'pause']);
  expect(seen.at(-1)).toEqual({ ...components, controlPlane: true });
  expect(units.moves).toEqual(['start cluster-containerd.service']);
});

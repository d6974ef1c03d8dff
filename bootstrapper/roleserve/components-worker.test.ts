import { describe, expect, test } from '@jest/globals';
import { encodeManifest, parseManifest, type Component } from '../../internal/bundle/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import {
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  settle,
  superviseForTest,
} from '../../internal/testing/index.ts';
import { componentsWorker, planComponents } from './components-worker.ts';
import { all, components, bootstrap, host, NotedPhases, settings, workerOnly } from './fake-node.ts';
import type { ClusterSettings, LocalComponents } from './role-values.ts';
import { createFakeRoleValues, type FakeRoleValues } from './fake-role-values.ts';

describe('planComponents()', () => {
  const unknown = { bootstrapData: undefined, clusterSettings: undefined, localRoles: undefined };
  const waits = [
    {
      name: 'the settings',
      given: { ...unknown, localRoles: all },
      why: 'the settings of the cluster',
    },
    { name: 'the roles', given: { ...unknown, clusterSettings: settings }, why: 'the roles of this node' },
  ];
  test.each(waits)('waits for $name', ({ given, why }) => {
    expect(planComponents(given)).toEqual({ kind: 'wait', why });
  });

  test.each([
    {
      name: 'a cluster that is being created',
      given: { ...unknown, clusterSettings: settings, bootstrapData: bootstrap },
      controlPlane: true,
    },
    {
      name: 'a control plane',
      given: { ...unknown, clusterSettings: settings, localRoles: all },
      controlPlane: true,
    },
    {
      name: 'a worker',
      given: { ...unknown, clusterSettings: settings, localRoles: workerOnly },
      controlPlane: false,
    },
  ])('selects the components for $name', ({ given, controlPlane }) => {
    const config = { kubernetesVersion: 'v1.35.4', controlPlane };
    expect(planComponents(given)).toMatchObject({ kind: 'start', config });
  });
});

test('the components worker installs, starts containerd, imports images, and reports each step when it is done', async () => {
  const values = createFakeRoleValues();
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
      blobPath: () => Promise.resolve('/store/pause'),
      fetch: ({ name }) => (brought.push(name), Promise.resolve(true)),
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
  // A promotion adds the components of a control plane; running programs are not restarted.
  values.localRoles.set(all);
  await settle();
  expect(phases.names).toEqual(['components', 'images', 'components', 'images']);
  expect(brought.slice(1).toSorted()).toEqual(['etcd', 'kubelet', 'pause']);
  expect(seen.at(-1)).toEqual({ ...components, controlPlane: true });
  expect(units.moves).toEqual(['start cluster-containerd.service']);
});

test.each([
  {
    name: 'the worker has registered',
    happens: (values: FakeRoleValues) => values.kubernetesStatus.set(registered),
  },
  {
    name: 'the worker becomes a control plane',
    happens: (values: FakeRoleValues) => values.localRoles.set(all),
  },
])('images that a worker needs only later are imported once $name', async ({ happens }) => {
  const values = createFakeRoleValues();
  const files = new MemoryFiles();
  await files.makeDirectory('/etc');
  const commands = new FakeCommands();
  const worker = componentsWorker({
    reads: values,
    writes: values,
    phases: new NotedPhases(),
    host,
    ports: {
      files,
      units: new FakeUnits(),
      commands,
      install: () => Promise.resolve('installed'),
      blobPath: ({ name }) => Promise.resolve(`/store/${name}`),
      fetch: () => Promise.resolve(true),
    },
  });
  await using _tree = superviseForTest(worker);
  values.clusterSettings.set(withImage(settings, 'coredns'));
  values.localRoles.set(workerOnly);
  await settle();
  const imported = (): unknown[] =>
    commands.runs.filter((argv) => argv.includes('import')).map((argv) => argv.at(-1));
  expect(imported()).toEqual(['/store/pause']);
  expect(currentValue(values.localComponents)?.images).toBe('essential');
  happens(values);
  await settle();
  expect(imported()).toContain('/store/coredns');
  expect(currentValue(values.localComponents)?.images).toBe('imported');
});

const registered = { version: 'v1.35.4', controlPlane: false };

function withImage(given: ClusterSettings, name: string): ClusterSettings {
  const manifest = parseManifest(Buffer.from(given.bundleManifest));
  const pause = manifest.components.find((component) => component.name === 'pause');
  if (pause === undefined) throw new Error('the manifest has no pause');
  const image: Component = { ...pause, name, sha256: 'cd'.repeat(32), references: [`example/${name}:1`] };
  const components = [...manifest.components, image].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const bundleManifest = Buffer.from(encodeManifest({ ...manifest, components })).toString('utf8');
  return { ...given, bundleManifest };
}

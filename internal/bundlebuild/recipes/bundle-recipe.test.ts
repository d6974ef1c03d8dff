import { expect, test } from '@jest/globals';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS, versionsFor } from '../../bundle/index.ts';
import { programsOf } from '../plan-bundle.ts';
import { bundleRecipe } from './bundle-recipe.ts';

const NAMES = [
  ...[
    'bridge',
    'containerd',
    'containerd-shim-runc-v2',
    'coredns',
    'ctr',
    'etcd',
    'etcd-image',
    'etcdctl',
    'etcdutl',
  ],
  ...['flannel', 'flannel-chart', 'flannel-image', 'hello', 'helm', 'host-local', 'kube-apiserver'],
  ...['kube-controller-manager', 'kube-proxy', 'kube-scheduler', 'kubeadm', 'kubectl', 'kubelet', 'loopback'],
  ...['monitoring', 'pause', 'portmap', 'runc', 'web-image'],
];

test.each(KUBERNETES_VERSIONS)(
  'the recipe of %s makes every component that nodes and charts need',
  (version) => {
    const { components, modules } = bundleRecipe(versionsFor(version));
    expect(components.map((each) => each.name).sort()).toEqual(NAMES);
    const built = new Set(modules.flatMap((each) => Object.keys(each.programs)));
    for (const program of components.flatMap(programsOf)) expect(built).toContain(program);
  },
);

test('the recipe sets the version of Kubernetes with linker flags', () => {
  const kubernetes = bundleRecipe(versionsFor('v1.35.4')).modules.find((each) => each.id === 'kubernetes');
  const modules: unknown = expect.arrayContaining(['k8s.io/kubernetes@v1.35.4']);
  expect(kubernetes?.from).toEqual({ kind: 'modules', modules });
  expect(kubernetes?.ldflags).toContain('-X k8s.io/component-base/version.gitVersion=v1.35.4');
  expect(kubernetes?.ldflags).toContain('-X k8s.io/component-base/version.gitMinor=35');
});

test("the recipe builds runc with seccomp filters, which kubeadm's control plane needs", () => {
  const runc = bundleRecipe(versionsFor(DEFAULT_KUBERNETES_VERSION)).modules.find(
    (each) => each.id === 'runc',
  );
  expect(runc).toMatchObject({ cgo: true, tags: expect.arrayContaining(['seccomp']) });
});

test.each([
  { id: 'kubernetes', tags: ['selinux', 'notest', 'grpcnotrace'] },
  { id: 'containerd-shim', tags: ['urfave_cli_no_docs', 'no_grpc'] },
  { id: 'runc', tags: ['seccomp', 'urfave_cli_no_docs', 'netgo', 'osusergo'] },
])("the recipe builds $id with the build tags of upstream's own releases", ({ id, tags }) => {
  const { modules } = bundleRecipe(versionsFor(DEFAULT_KUBERNETES_VERSION));
  expect(modules.find((each) => each.id === id)?.tags).toEqual(tags);
});

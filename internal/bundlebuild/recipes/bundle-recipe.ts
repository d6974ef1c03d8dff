import type { BundleVersions, ComponentScope } from '../../bundle/index.ts';
import { goRecipes } from './go-recipes.ts';
import { imageRecipes } from './image-recipes.ts';
import type { BinaryRecipe, BundleRecipe, ComponentRecipe } from './recipe.ts';

/** The recipes of all components for a bundle with these versions. Pure. */
export function bundleRecipe(versions: BundleVersions): BundleRecipe {
  return { modules: goRecipes(versions), components: componentRecipes(versions) };
}

function componentRecipes(v: BundleVersions): readonly ComponentRecipe[] {
  const binary = (
    scope: ComponentScope,
    version: string,
    ...names: readonly string[]
  ): readonly BinaryRecipe[] =>
    names.map((name) => ({ kind: 'binary', name, version, scope, program: name }));
  return [
    ...binary('node', v.kubernetes, 'kubeadm', 'kubelet', 'kubectl'),
    ...binary('node', v.containerd, 'containerd', 'containerd-shim-runc-v2', 'ctr'),
    ...binary('node', v.runc, 'runc'),
    ...binary('node', v.cniPlugins, 'bridge', 'loopback', 'portmap', 'host-local'),
    ...binary('node', v.flannelCni, 'flannel'),
    ...binary('controlplane', v.etcd, 'etcd', 'etcdctl', 'etcdutl'),
    ...binary('workstation', v.helm, 'helm'),
    ...imageRecipes(v),
    { kind: 'chart', name: 'flannel-chart', version: v.own, scope: 'workstation', directory: 'flannel' },
    { kind: 'chart', name: 'hello', version: v.own, scope: 'workstation', directory: 'hello' },
    { kind: 'chart', name: 'monitoring', version: v.own, scope: 'workstation', directory: 'monitoring' },
  ];
}

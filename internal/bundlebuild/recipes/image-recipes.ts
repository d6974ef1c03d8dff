import { imageReferences, type BundleVersions } from '../../bundle/index.ts';
import type { ImageRecipe, LayerRecipe } from './recipe.ts';

type ImageName = keyof ReturnType<typeof imageReferences>;

/** The programs of each image, and their paths in the image. */
export function imageRecipes(v: BundleVersions): readonly ImageRecipe[] {
  const references = imageReferences(v);
  const image = (name: ImageName, version: string, rest: ImageContent): ImageRecipe => ({
    kind: 'image',
    name,
    version,
    reference: references[name],
    ...rest,
  });
  return [
    image('kube-apiserver', v.kubernetes, controlPlane('kube-apiserver')),
    image('kube-controller-manager', v.kubernetes, controlPlane('kube-controller-manager')),
    image('kube-scheduler', v.kubernetes, controlPlane('kube-scheduler')),
    image('kube-proxy', v.kubernetes, KUBE_PROXY),
    image('coredns', v.coredns, COREDNS),
    image('pause', v.pause, PAUSE),
    image('flannel-image', v.flannel, FLANNEL),
    image('etcd-image', v.etcd, ETCD),
    image('web-image', v.own, WEB),
  ];
}

type ImageContent = Pick<ImageRecipe, 'scope' | 'layers' | 'entrypoint' | 'user'>;

const ACCOUNTS: LayerRecipe = { kind: 'accounts' };
const NETWORK_TOOLS: LayerRecipe = { kind: 'network-tools' };

const KUBE_PROXY: ImageContent = {
  scope: 'node',
  layers: [NETWORK_TOOLS, ACCOUNTS, program('kube-proxy', 'usr/local/bin/kube-proxy')],
  entrypoint: '/usr/local/bin/kube-proxy',
};

const COREDNS: ImageContent = {
  scope: 'node',
  // CoreDNS binds port 53 and does not run as root. Without the capability on the file, it exits at once.
  layers: [ACCOUNTS, { kind: 'program', program: 'coredns', path: 'coredns', netBindService: true }],
  entrypoint: '/coredns',
  user: '65532:65532',
};

const PAUSE: ImageContent = {
  scope: 'node',
  layers: [program('pause', 'pause')],
  entrypoint: '/pause',
  user: '65535:65535',
};

const FLANNEL: ImageContent = {
  scope: 'node',
  layers: [NETWORK_TOOLS, ACCOUNTS, program('flanneld', 'opt/bin/flanneld')],
  entrypoint: '/opt/bin/flanneld',
};

const ETCD: ImageContent = {
  scope: 'baseline',
  layers: [ACCOUNTS, program('etcd', 'usr/local/bin/etcd'), program('etcdctl', 'usr/local/bin/etcdctl')],
  entrypoint: '/usr/local/bin/etcd',
};

const WEB: ImageContent = {
  scope: 'node',
  layers: [ACCOUNTS, program('web', 'web')],
  entrypoint: '/web',
  user: '65532:65532',
};

function controlPlane(name: string): ImageContent {
  const path = `usr/local/bin/${name}`;
  return { scope: 'controlplane', layers: [ACCOUNTS, program(name, path)], entrypoint: `/${path}` };
}

function program(name: string, path: string): LayerRecipe {
  return { kind: 'program', program: name, path };
}

import type { Architecture } from './component.ts';
import { BundleError } from './errors.ts';

/**
 * The versions of everything in a bundle, with a leading `v` where the tags of the project have one. Sources: the constants of
 * kubeadm (cmd/kubeadm/app/constants) for CoreDNS, pause, the tag of the etcd image and the minor of etcd, of which the newest
 * patch is taken; the support matrix of containerd; for the rest, the newest versions that were tested together.
 */
export interface BundleVersions {
  readonly kubernetes: string;
  readonly etcd: string;
  /** The tag of the etcd image that kubeadm expects. */
  readonly etcdImageTag: string;
  readonly coredns: string;
  readonly pause: string;
  readonly containerd: string;
  readonly runc: string;
  readonly cniPlugins: string;
  /** The last release of containernetworking/plugins that has the flannel plugin. */
  readonly flannelCni: string;
  readonly flannel: string;
  readonly helm: string;
  /** The version of our own programs and charts. */
  readonly own: string;
}

const COMMON = {
  containerd: 'v2.4.2',
  runc: 'v1.5.3',
  cniPlugins: 'v1.10.0',
  flannelCni: 'v0.9.1',
  flannel: 'v0.28.7',
  helm: 'v4.3.2',
  own: '0.1.0',
} as const;

const RELEASES: readonly BundleVersions[] = [
  {
    ...{ kubernetes: 'v1.35.4', etcd: 'v3.6.16', etcdImageTag: '3.6.6-0' },
    ...{ coredns: 'v1.13.1', pause: '3.10.1' },
    ...COMMON,
  },
  {
    ...{ kubernetes: 'v1.36.3', etcd: 'v3.6.16', etcdImageTag: '3.6.8-0' },
    ...{ coredns: 'v1.14.2', pause: '3.10.2' },
    ...COMMON,
  },
  {
    ...{ kubernetes: 'v1.37.2', etcd: 'v3.7.3', etcdImageTag: '3.7.0-0' },
    ...{ coredns: 'v1.14.6', pause: '3.10.2' },
    ...COMMON,
  },
];

/** The version for new clusters and bundles. */
export const DEFAULT_KUBERNETES_VERSION = 'v1.37.2';

/** The supported versions of Kubernetes, oldest first. */
export const KUBERNETES_VERSIONS: readonly string[] = RELEASES.map((each) => each.kubernetes);

/**
 * The versions of all components for one version of Kubernetes (`v1.35.4`).
 * @throws BundleError `bundle-version-unknown`
 */
export function versionsFor(kubernetesVersion: string): BundleVersions {
  const found = RELEASES.find((each) => each.kubernetes === kubernetesVersion);
  if (found !== undefined) return found;
  throw new BundleError(
    'bundle-version-unknown',
    `Kubernetes version ${JSON.stringify(kubernetesVersion)} not supported: use one of ${KUBERNETES_VERSIONS.join(', ')}`,
  );
}

/** When the Kubernetes project ends the support of each minor version (kubernetes.io/releases, “End Of Life Date”). */
const SUPPORT_ENDS: Readonly<Record<string, string>> = {
  '1.35': '2027-02-28',
  '1.36': '2027-06-28',
  '1.37': '2027-10-28',
};

/** The support of a version of Kubernetes (`v1.37.2`): its minor, and when it ends. undefined for a minor that this release does not know. */
export function supportOf(
  kubernetesVersion: string,
): { readonly minor: string; readonly endMs: number } | undefined {
  const [, minor = ''] = /^v(\d+\.\d+)\./.exec(kubernetesVersion) ?? [];
  const date = SUPPORT_ENDS[minor];
  return date === undefined ? undefined : { minor, endMs: Date.parse(`${date}T24:00:00Z`) };
}

/** Newer releases of a module that bundles do not use. A version stands for all versions that begin with it. */
export interface HeldReleases {
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

/** Newer releases that bundles do not use, by Go module. `cluster bundle outdated` shows the reasons. */
export const HELD_RELEASES: Readonly<Record<string, HeldReleases>> = {
  'github.com/flannel-io/flannel': {
    ...{ from: 'v0.28.8', to: 'v0.28.10' },
    reason: 'Go modules that these releases need are missing in the public module proxy.',
  },
  'github.com/coredns/coredns': {
    ...{ from: 'v1.14.7', to: 'v1.14.7' },
    reason: 'kubeadm of Kubernetes 1.37.2 installs the image of CoreDNS 1.14.6 (constants.go).',
  },
};

/**
 * Modules whose minor version each release of Kubernetes decides (constants of kubeadm; the Go version of its build), so that a
 * newer minor is no update.
 */
export const MINORS_OF_KUBERNETES: readonly string[] = [
  'go.etcd.io/etcd/',
  'github.com/coredns/coredns',
  'golang.org/toolchain',
];

/** The image references that kubeadm and our charts expect, by component name. */
export function imageReferences(versions: BundleVersions) {
  const { kubernetes, coredns, pause, etcdImageTag, flannel, own } = versions;
  return {
    'kube-apiserver': `registry.k8s.io/kube-apiserver:${kubernetes}`,
    'kube-controller-manager': `registry.k8s.io/kube-controller-manager:${kubernetes}`,
    'kube-scheduler': `registry.k8s.io/kube-scheduler:${kubernetes}`,
    'kube-proxy': `registry.k8s.io/kube-proxy:${kubernetes}`,
    coredns: `registry.k8s.io/coredns/coredns:${coredns}`,
    pause: `registry.k8s.io/pause:${pause}`,
    'etcd-image': `registry.k8s.io/etcd:${etcdImageTag}`,
    'flannel-image': `ghcr.io/flannel-io/flannel:${flannel}`,
    'web-image': `cluster.local/web:${own}`,
  } as const satisfies Record<string, string>;
}

/**
 * The Go toolchain that builds bundles. All machines use this one, so that all of them build the same bytes. The module proxy serves
 * it. The hashes are those of the Go checksum database (sum.golang.org) in `h1:` form (golang.org/x/mod/sumdb/dirhash, Hash1).
 */
export const GO_TOOLCHAIN = {
  version: '1.26.11',
  hashes: {
    amd64: 'h1:KyINmJ/FQdKRmDYGuTAAXkumyeR2DyUlSNHZj7XaLFg=',
    arm64: 'h1:GFS9FmglLJxMwOSuun3qb8tBjpr8ibzOkt8tBrRLrnk=',
  } satisfies Record<Architecture, string>,
} as const;

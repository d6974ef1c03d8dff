export const COMPONENT_KINDS = ['binary', 'image', 'chart'] as const;
export type ComponentKind = (typeof COMPONENT_KINDS)[number];

/**
 * Who needs a component: every node, control-plane nodes only, the operator's machine, or nobody but
 * the comparison with plain kubeadm (`baseline`).
 */
export const COMPONENT_SCOPES = ['node', 'controlplane', 'workstation', 'baseline'] as const;
export type ComponentScope = (typeof COMPONENT_SCOPES)[number];

export const ARCHITECTURES = ['amd64', 'arm64'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/** One file of a bundle. */
export interface Component {
  /** Lower-case words with dashes, unique in the manifest. */
  readonly name: string;
  readonly version: string;
  readonly kind: ComponentKind;
  /** Of the file's bytes, lower-case hex; also its name in the store. */
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Where the bytes come from, for people: module@version, or an address. */
  readonly source: string;
  /** The image references that the archive carries; on images only, never empty there. */
  readonly references?: readonly [string, ...string[]];
  readonly scope: ComponentScope;
}

/** What a cluster of one Kubernetes version is made of. */
export interface BundleManifest {
  readonly version: 1;
  readonly name: string;
  readonly kubernetesVersion: string;
  readonly architecture: Architecture;
  /** Sorted by name. */
  readonly components: readonly Component[];
}

/** `kubernetes-v1.35.4-linux-amd64`. */
export function bundleName(kubernetesVersion: string, architecture: Architecture): string {
  return `kubernetes-${kubernetesVersion}-linux-${architecture}`;
}

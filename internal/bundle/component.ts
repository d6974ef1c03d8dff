/** A program, a container image in an OCI archive, or a Helm chart. */
export const COMPONENT_KINDS = ['binary', 'image', 'chart'] as const;
/** See `COMPONENT_KINDS`. */
type ComponentKind = (typeof COMPONENT_KINDS)[number];

/**
 * Where a component is needed: on every node, on control-plane nodes, on the operator's machine, or in the benchmarks against
 * manual kubeadm (`baseline`).
 */
export const COMPONENT_SCOPES = ['node', 'controlplane', 'workstation', 'baseline'] as const;
/** See `COMPONENT_SCOPES`. */
export type ComponentScope = (typeof COMPONENT_SCOPES)[number];

/** The supported architectures, as Debian and Go name them. */
export const ARCHITECTURES = ['amd64', 'arm64'] as const;
/** See `ARCHITECTURES`. */
export type Architecture = (typeof ARCHITECTURES)[number];

/** One file of a bundle. */
export interface Component {
  /** Lower-case words with dashes, unique in the manifest. */
  readonly name: string;
  readonly version: string;
  readonly kind: ComponentKind;
  /** SHA-256 of the file, lower-case hex; also its name in the store. */
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Where the bytes come from, for people: module@version, or an address. */
  readonly source: string;
  /** The image references in the archive. Set for images only, with at least one entry. */
  readonly references?: readonly [string, ...string[]];
  readonly scope: ComponentScope;
}

/** All components of a cluster of one Kubernetes version. */
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

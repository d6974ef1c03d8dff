import { imageReferences, type Architecture, type BundleVersions } from '../../bundle/index.ts';

/** A release file of an upstream project and the file with its published hash. */
export interface UpstreamFile {
  readonly url: string;
  readonly checksumUrl: string;
  readonly content:
    | ProgramContent
    | ArchiveContent
    /** An image in a docker-archive, and the reference that kubeadm expects. */
    | { readonly kind: 'image'; readonly component: string; readonly reference: string };
}

/** A file that is a program. */
export interface ProgramContent {
  readonly kind: 'program';
  readonly program: string;
}

/** A tar.gz file. */
export interface ArchiveContent {
  readonly kind: 'archive';
  /** Program → path of its member. */
  readonly members: Readonly<Record<string, string>>;
}

/**
 * The files that upstream projects publish with checksums. All other components are built from source: our own programs and
 * charts, and flanneld and pause, which are published as images in a registry or as files without checksums. `mirror` is the URL
 * of a server that has the files of each upstream host below the name of the host.
 */
export function upstreamFiles(
  v: BundleVersions,
  architecture: Architecture,
  mirror?: string,
): readonly UpstreamFile[] {
  const at = (host: string): string =>
    mirror === undefined ? `https://${host}` : `${mirror.replace(/\/+$/, '')}/${host}`;
  const release = (repository: string, version: string): string =>
    `${at('github.com')}/${repository}/releases/download/${version}`;
  const plugins = (version: string): string =>
    `${release('containernetworking/plugins', version)}/cni-plugins-linux-${architecture}-${version}.tgz`;
  const [etcd, etcdName] = [release('etcd-io/etcd', v.etcd), `etcd-${v.etcd}-linux-${architecture}`];
  const runc = release('opencontainers/runc', v.runc);
  const containerd = `containerd-static-${v.containerd.slice(1)}-linux-${architecture}.tar.gz`;
  const coredns = `coredns_${v.coredns.slice(1)}_linux_${architecture}.tgz`;
  const helm = `helm-${v.helm}-linux-${architecture}.tar.gz`;
  return [
    ...kubernetesFiles(`${at('dl.k8s.io')}/release/${v.kubernetes}/bin/linux/${architecture}`, v),
    {
      url: `${etcd}/${etcdName}.tar.gz`,
      checksumUrl: `${etcd}/SHA256SUMS`,
      content: archiveOf(`${etcdName}/`, 'etcd', 'etcdctl', 'etcdutl'),
    },
    {
      ...withChecksum(`${release('containerd/containerd', v.containerd)}/${containerd}`, '.sha256sum'),
      content: archiveOf('bin/', 'containerd', 'containerd-shim-runc-v2', 'ctr'),
    },
    {
      url: `${runc}/runc.${architecture}`,
      checksumUrl: `${runc}/runc.sha256sum`,
      content: { kind: 'program', program: 'runc' },
    },
    {
      ...withChecksum(plugins(v.cniPlugins), '.sha256'),
      content: archiveOf('./', 'bridge', 'loopback', 'portmap', 'host-local'),
    },
    { ...withChecksum(plugins(v.flannelCni), '.sha256'), content: archiveOf('./', 'flannel') },
    {
      ...withChecksum(`${release('coredns/coredns', v.coredns)}/${coredns}`, '.sha256'),
      content: archiveOf('', 'coredns'),
    },
    {
      ...withChecksum(`${at('get.helm.sh')}/${helm}`, '.sha256sum'),
      content: archiveOf(`linux-${architecture}/`, 'helm'),
    },
  ];
}

function kubernetesFiles(directory: string, versions: BundleVersions): readonly UpstreamFile[] {
  const references = imageReferences(versions);
  const images = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'] as const;
  return [
    ...['kubeadm', 'kubelet', 'kubectl'].map((program) => ({
      ...withChecksum(`${directory}/${program}`, '.sha256'),
      content: { kind: 'program', program } as const,
    })),
    ...images.map((component) => ({
      ...withChecksum(`${directory}/${component}.tar`, '.sha256'),
      content: { kind: 'image', component, reference: references[component] } as const,
    })),
  ];
}

/** Most projects publish the hash of a file beside it. */
function withChecksum(url: string, suffix: string): Pick<UpstreamFile, 'url' | 'checksumUrl'> {
  return { url, checksumUrl: `${url}${suffix}` };
}

function archiveOf(directory: string, ...programs: readonly string[]): ArchiveContent {
  return {
    kind: 'archive',
    members: Object.fromEntries(programs.map((name) => [name, `${directory}${name}`])),
  };
}

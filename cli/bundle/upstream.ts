import { imageReferences, type Architecture, type BundleVersions } from '../../internal/bundle/index.ts';

/** One file that a project publishes, with where it publishes the file's hash. */
export interface UpstreamFile {
  readonly url: string;
  readonly checksumUrl: string;
  readonly content:
    | { readonly kind: 'program'; readonly program: string }
    /** A tar.gz; program name → path of the member. */
    | { readonly kind: 'archive'; readonly members: Readonly<Record<string, string>> }
    /** A docker-archive that gets the reference under which kubeadm looks for it. */
    | { readonly kind: 'image'; readonly component: string; readonly reference: string };
}

/**
 * What upstream projects publish with checksums. Not among it, and so built from source in any case: our own
 * programs and charts, flanneld and pause, of which only images in a registry or files without hashes exist.
 * `mirror` is the address of a server with the same layout below the original hosts' names.
 */
export function upstreamFiles(
  versions: BundleVersions,
  architecture: Architecture,
  mirror?: string,
): readonly UpstreamFile[] {
  const at = (host: string): string =>
    mirror === undefined ? `https://${host}` : `${mirror.replace(/\/+$/, '')}/${host}`;
  const github = (repository: string, version: string): string =>
    `${at('github.com')}/${repository}/releases/download/${version}`;
  return [
    ...kubernetesFiles(
      `${at('dl.k8s.io')}/release/${versions.kubernetes}/bin/linux/${architecture}`,
      versions,
    ),
    ...runtimeFiles(github, versions, architecture),
    {
      ...archiveWith('.sha256sum', `${at('get.helm.sh')}/helm-${versions.helm}-linux-${architecture}.tar.gz`),
      content: { kind: 'archive', members: { helm: `linux-${architecture}/helm` } },
    },
  ];
}

function kubernetesFiles(folder: string, versions: BundleVersions): readonly UpstreamFile[] {
  const references = imageReferences(versions);
  const images = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'] as const;
  return [
    ...['kubeadm', 'kubelet', 'kubectl'].map((program): UpstreamFile => {
      return { ...archiveWith('.sha256', `${folder}/${program}`), content: { kind: 'program', program } };
    }),
    ...images.map((component): UpstreamFile => {
      const reference = references[component];
      return {
        ...archiveWith('.sha256', `${folder}/${component}.tar`),
        content: { kind: 'image', component, reference },
      };
    }),
  ];
}

function runtimeFiles(
  github: (repository: string, version: string) => string,
  v: BundleVersions,
  architecture: Architecture,
): readonly UpstreamFile[] {
  const etcd = github('etcd-io/etcd', v.etcd);
  const etcdName = `etcd-${v.etcd}-linux-${architecture}`;
  const containerd = `${github('containerd/containerd', v.containerd)}/containerd-static-${v.containerd.slice(1)}`;
  const runc = github('opencontainers/runc', v.runc);
  const cni = (version: string): string =>
    `${github('containernetworking/plugins', version)}/cni-plugins-linux-${architecture}-${version}.tgz`;
  const coredns = `${github('coredns/coredns', v.coredns)}/coredns_${v.coredns.slice(1)}_linux_${architecture}.tgz`;
  return [
    {
      url: `${etcd}/${etcdName}.tar.gz`,
      checksumUrl: `${etcd}/SHA256SUMS`,
      content: { kind: 'archive', members: membersIn(`${etcdName}/`, 'etcd', 'etcdctl', 'etcdutl') },
    },
    {
      ...archiveWith('.sha256sum', `${containerd}-linux-${architecture}.tar.gz`),
      content: {
        kind: 'archive',
        members: membersIn('bin/', 'containerd', 'containerd-shim-runc-v2', 'ctr'),
      },
    },
    {
      url: `${runc}/runc.${architecture}`,
      checksumUrl: `${runc}/runc.sha256sum`,
      content: { kind: 'program', program: 'runc' },
    },
    {
      ...archiveWith('.sha256', cni(v.cniPlugins)),
      content: { kind: 'archive', members: membersIn('./', 'bridge', 'loopback', 'portmap', 'host-local') },
    },
    {
      ...archiveWith('.sha256', cni(v.flannelCni)),
      content: { kind: 'archive', members: membersIn('./', 'flannel') },
    },
    { ...archiveWith('.sha256', coredns), content: { kind: 'archive', members: { coredns: 'coredns' } } },
  ];
}

/** The usual place of a file's hash: beside it. */
function archiveWith(suffix: string, url: string): Pick<UpstreamFile, 'url' | 'checksumUrl'> {
  return { url, checksumUrl: `${url}${suffix}` };
}

function membersIn(folder: string, ...names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name, `${folder}${name}`]));
}

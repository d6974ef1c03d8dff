import type { Architecture, BundleVersions } from '../../bundle/index.ts';
import { RELEASE_HASHES } from './release-hashes.ts';
import { upstreamFiles, type ArchiveContent, type ProgramContent } from './upstream-files.ts';

/** A released file of an upstream project that must have a hash which this repository pins. */
export interface PinnedRelease {
  /** For people: `kubernetes-server v1.37.2`. */
  readonly name: string;
  readonly url: string;
  /** Lower-case hex; SHA-256 or SHA-512, by its length. */
  readonly hash: string;
  readonly content: ProgramContent | ArchiveContent;
}

/** The source of the releases. */
export interface ReleaseSource {
  /** URL of a server that has the files of each upstream host below the name of the host; default: upstream. */
  readonly mirror?: string | undefined;
  /** For tests: other hashes than the pinned ones. */
  readonly hashes?: typeof RELEASE_HASHES;
}

/** The programs of Kubernetes that a bundle contains, in the archive `kubernetes-server` of a release. */
const KUBERNETES_PROGRAMS = [
  ...['kubeadm', 'kubelet', 'kubectl'],
  ...['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'],
];

/**
 * The releases whose hashes are pinned. Their programs replace those that would be built from source; images are made from them as
 * from built programs.
 */
export function pinnedReleases(
  versions: BundleVersions,
  architecture: Architecture,
  { mirror, hashes = RELEASE_HASHES }: ReleaseSource = {},
): readonly PinnedRelease[] {
  const server = `https://dl.k8s.io/${versions.kubernetes}/kubernetes-server-linux-${architecture}.tar.gz`;
  const members = Object.fromEntries(
    KUBERNETES_PROGRAMS.map((program) => [program, `kubernetes/server/bin/${program}`]),
  );
  const files = [
    { url: server, content: { kind: 'archive', members } as const },
    ...upstreamFiles(versions, architecture),
  ];
  return files.flatMap(({ url, content }) => {
    const hash = hashes[url];
    if (hash === undefined || content.kind === 'image') return [];
    const at = mirror === undefined ? url : url.replace('https://', `${mirror.replace(/\/+$/, '')}/`);
    return [{ name: nameOf(url), url: at, hash, content }];
  });
}

/** The name of the file up to its version or platform, and the version. */
function nameOf(url: string): string {
  const [name = url] = (url.split('/').at(-1) ?? url).split(/[-_.](?=linux|amd64|arm64|v?\d)/);
  return `${name} ${/v?\d+\.\d+\.\d+/.exec(url)?.[0] ?? ''}`.trim();
}

/** The programs in a release. */
export function programsIn({ content }: Pick<PinnedRelease, 'content'>): readonly string[] {
  return content.kind === 'program' ? [content.program] : Object.keys(content.members);
}

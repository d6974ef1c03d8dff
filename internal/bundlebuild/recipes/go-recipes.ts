import type { BundleVersions } from '../../bundle/index.ts';
import type { GoModuleRecipe } from './recipe.ts';

const CNI = 'github.com/containernetworking/plugins';
const CONTAINERD = 'github.com/containerd/containerd/v2';
const ETCD = 'go.etcd.io/etcd';

const KUBERNETES_PROGRAMS = [
  'kubeadm',
  'kubelet',
  'kubectl',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kube-proxy',
] as const;

/**
 * Leaves out gRPC's debug pages of recent requests, which no program here serves. With their HTML
 * templates, the linker would have to keep all methods.
 */
const WITHOUT_GRPC_PAGES = 'grpcnotrace';
/** Leaves out the generator of manual pages in the command line library. */
const WITHOUT_MAN_PAGES = 'urfave_cli_no_docs';

/**
 * A newer version than the one in the go.mod of Kubernetes. With Go 1.26, the older version makes the
 * linker keep all methods (golang/protobuf#1704), and the kubelet has 82 MB instead of 59 MB.
 */
const LEAN_PROTOBUF = 'google.golang.org/protobuf@v1.36.12';

/** Pure Go, linked statically. */
const PURE = { tags: [], ldflags: [], cgo: false } as const;

/**
 * The modules, packages and flags of each program, long builds first. Unless a recipe says otherwise, the tags are
 * those of the upstream releases.
 */
export function goRecipes(versions: BundleVersions): readonly GoModuleRecipe[] {
  return [
    kubernetesRecipe(versions),
    coredns(versions),
    flannel(versions),
    helm(versions),
    ...containerd(versions),
    etcd(versions),
    runc(versions),
    ...cniPlugins(versions),
    { ...PURE, id: 'own', from: { kind: 'own' }, programs: { pause: 'pause', web: 'web' } },
  ];
}

/** The programs of Kubernetes, with the tags and flags of its releases. */
export function kubernetesRecipe({
  kubernetes: version,
}: Pick<BundleVersions, 'kubernetes'>): GoModuleRecipe {
  return {
    ...PURE,
    id: 'kubernetes',
    from: modules(`k8s.io/kubernetes@${version}`, LEAN_PROTOBUF),
    programs: Object.fromEntries(KUBERNETES_PROGRAMS.map((name) => [name, `k8s.io/kubernetes/cmd/${name}`])),
    // hack/lib/golang.sh
    tags: ['selinux', 'notest', WITHOUT_GRPC_PAGES],
    ldflags: [
      stamp('k8s.io/component-base/version.gitVersion', version),
      stamp('k8s.io/component-base/version.gitMajor', '1'),
      stamp('k8s.io/component-base/version.gitMinor', version.split('.')[1] ?? ''),
      stamp('k8s.io/client-go/pkg/version.gitVersion', version),
    ],
  };
}

function coredns({ coredns: version }: BundleVersions): GoModuleRecipe {
  return {
    ...PURE,
    id: 'coredns',
    from: modules(`github.com/coredns/coredns@${version}`),
    programs: { coredns: 'github.com/coredns/coredns' },
    ldflags: [stamp('github.com/coredns/coredns/coremain.GitCommit', 'module')],
  };
}

function flannel({ flannel: version }: BundleVersions): GoModuleRecipe {
  return {
    id: 'flannel',
    from: modules(`github.com/flannel-io/flannel@${version}`),
    programs: { flanneld: 'github.com/flannel-io/flannel' },
    // The UDP backend of flannel is written in C, so flannel does not compile without cgo.
    cgo: true,
    tags: ['netgo', 'osusergo'],
    ldflags: [stamp('github.com/flannel-io/flannel/pkg/version.Version', version)],
  };
}

function helm({ helm: version }: BundleVersions): GoModuleRecipe {
  return {
    ...PURE,
    id: 'helm',
    from: modules(`helm.sh/helm/v4@${version}`),
    programs: { helm: 'helm.sh/helm/v4/cmd/helm' },
    ldflags: [stamp('helm.sh/helm/v4/internal/version.version', version)],
  };
}

function containerd({ containerd: version }: BundleVersions): readonly GoModuleRecipe[] {
  const recipe = (id: string, names: readonly string[], tags: readonly string[]): GoModuleRecipe => ({
    ...PURE,
    id,
    from: modules(`${CONTAINERD}@${version}`),
    programs: Object.fromEntries(names.map((name) => [name, `${CONTAINERD}/cmd/${name}`])),
    tags: [WITHOUT_MAN_PAGES, ...tags],
    ldflags: [stamp(`${CONTAINERD}/version.Version`, version)],
  });
  return [
    // Leaves out the snapshotters that need C libraries or kernel features that the nodes do not have.
    recipe('containerd', ['containerd', 'ctr'], ['no_btrfs', 'no_devmapper', 'no_zfs']),
    // One shim process runs for each pod. It speaks ttrpc and does not need gRPC.
    recipe('containerd-shim', ['containerd-shim-runc-v2'], ['no_grpc']),
  ];
}

function etcd({ etcd: version }: BundleVersions): GoModuleRecipe {
  const packages = {
    etcd: `${ETCD}/server/v3`,
    etcdctl: `${ETCD}/etcdctl/v3`,
    etcdutl: `${ETCD}/etcdutl/v3`,
  };
  return {
    ...PURE,
    id: 'etcd',
    from: modules(...Object.values(packages).map((path) => `${path}@${version}`)),
    programs: packages,
    ldflags: [stamp(`${ETCD}/api/v3/version.GitSHA`, 'module')],
  };
}

function runc({ runc: version }: BundleVersions): GoModuleRecipe {
  return {
    id: 'runc',
    from: modules(`github.com/opencontainers/runc@${version}`),
    programs: { runc: 'github.com/opencontainers/runc' },
    cgo: true,
    // The static pods of kubeadm have seccompProfile RuntimeDefault.
    tags: ['seccomp', WITHOUT_MAN_PAGES, 'netgo', 'osusergo'],
    ldflags: [stamp('main.version', version.slice(1))],
  };
}

function cniPlugins(versions: BundleVersions): readonly GoModuleRecipe[] {
  const version = `${CNI}/pkg/utils/buildversion.BuildVersion`;
  const plugins = { bridge: 'main', loopback: 'main', portmap: 'meta', 'host-local': 'ipam' };
  return [
    {
      ...PURE,
      id: 'cni-plugins',
      from: modules(`${CNI}@${versions.cniPlugins}`),
      programs: Object.fromEntries(
        Object.entries(plugins).map(([name, kind]) => [name, `${CNI}/plugins/${kind}/${name}`]),
      ),
      ldflags: [stamp(version, versions.cniPlugins)],
    },
    {
      ...PURE,
      id: 'cni-flannel',
      from: modules(`${CNI}@${versions.flannelCni}`),
      programs: { flannel: `${CNI}/plugins/meta/flannel` },
      ldflags: [stamp(version, versions.flannelCni)],
    },
  ];
}

function modules(...names: readonly string[]): GoModuleRecipe['from'] {
  return { kind: 'modules', modules: names };
}

/** The linker flag that sets a string variable of the program. */
function stamp(name: string, value: string): string {
  return `-X ${name}=${value}`;
}

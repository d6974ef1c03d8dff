import { globSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import {
  buildContainerScopes,
  buildKeptSlice,
  CONTAINER_SCOPES_DROPIN,
  KEPT_SLICES,
} from '../../bootstrapper/kubernetes/units.ts';
import type { DebianPackage, Entry } from './debian.ts';
import { nodeBinary, type Architecture } from './node-binary.ts';

export interface PackageOptions {
  readonly root: string;
  readonly dist: string;
  readonly version: string;
  readonly architecture: Architecture;
  /** License texts of what is bundled. */
  readonly licenses: string;
}

/** What Node's own binary links. */
const NODE_DEPENDS = ['libc6 (>= 2.28)', 'libgcc-s1', 'libstdc++6'];

/** The agent: what a machine needs to become a node. Kubernetes itself comes with the bundle. */
export function agentPackage(options: PackageOptions): DebianPackage {
  const { root, dist, version, architecture } = options;
  const file = (name: string): string => resolve(root, '.ci/package', name);
  return {
    name: 'cluster-agent',
    version,
    architecture,
    summary: 'agent of an attested Kubernetes cluster',
    description: 'Enrols this machine once, then keeps running what its roles in the cluster ask for.',
    depends: [...NODE_DEPENDS, 'nftables', 'systemd (>= 247)'],
    // Used by kubelet, kube-proxy and the container runtime.
    recommends: ['conntrack', 'ethtool', 'iproute2', 'iptables', 'kmod', 'socat'],
    entries: [
      { kind: 'folder', path: '/etc/cluster', mode: 0o700 },
      copy(nodeBinary(root, architecture), '/usr/lib/cluster/node', 0o755),
      ...['bootstrapper', 'joinservice', 'signer', 'apilb'].map((name) =>
        copy(resolve(dist, `${name}.mjs`), `/usr/lib/cluster/${name}.mjs`),
      ),
      copy(file('bootstrapper.service'), '/lib/systemd/system/bootstrapper.service'),
      // What the agent would write on a machine without the package, and have systemd read all units again for.
      unitFile(CONTAINER_SCOPES_DROPIN, buildContainerScopes()),
      ...KEPT_SLICES.map((name) => unitFile(name, buildKeptSlice())),
      ...documents('cluster-agent', options),
    ],
    scripts: { postinst: file('postinst'), prerm: file('prerm'), postrm: file('postrm') },
  };
}

/** The operator's program. Brings a Node of its own, so that it can be installed beside an agent or without. */
export function cliPackage(options: PackageOptions): DebianPackage {
  const { root, dist, version, architecture } = options;
  return {
    name: 'cluster',
    version,
    architecture,
    summary: 'makes Linux machines an attested Kubernetes cluster',
    description: "The operator's command line: configuration, init, join, charts, status and local clusters.",
    depends: NODE_DEPENDS,
    entries: [
      copy(nodeBinary(root, architecture), '/usr/lib/cluster-cli/node', 0o755),
      ...globSync('cluster/*.mjs', { cwd: dist })
        .sort()
        .map((path) => copy(resolve(dist, path), `/usr/lib/cluster-cli/${basename(path)}`)),
      copy(resolve(root, '.ci/package/cluster'), '/usr/bin/cluster', 0o755),
      ...bundleSources(root),
      ...documents('cluster', options),
    ],
  };
}

/** Charts and programs of ours that `cluster bundle build` makes components of: beside the program. */
function bundleSources(root: string): readonly Entry[] {
  const files = ['cli/charts/{flannel,hello}/**/*.{yaml,json}', 'cli/bundle/programs/**/*.go'];
  return globSync(files, { cwd: root })
    .sort()
    .map((path) => copy(resolve(root, path), path.replace(/^cli\/(bundle\/)?/, '/usr/lib/cluster-cli/')));
}

function copy(from: string, path: string, mode = 0o644): Entry {
  return { kind: 'copy', path, mode, from };
}

function unitFile(name: string, text: string): Entry {
  return { kind: 'text', path: `/lib/systemd/system/${name}`, mode: 0o644, text };
}

function documents(name: string, { root, licenses }: PackageOptions): readonly Entry[] {
  const folder = `/usr/share/doc/${name}`;
  return [
    copy(resolve(root, 'LICENSE'), `${folder}/copyright`),
    { kind: 'text', path: `${folder}/third-party-licenses`, mode: 0o644, text: licenses },
  ];
}

import { globSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import {
  buildContainerScopes,
  buildPlaceholderSlice,
  CONTAINER_SCOPES_DROPIN,
  PLACEHOLDER_SLICES,
} from '../../bootstrapper/kubernetes/node/units.ts';
import {
  MODULES_FILE,
  modulesFile,
  REQUIRED_PROGRAMS,
  STATE_DISK_PROGRAMS,
  SYSCTL_FILE,
  sysctlFile,
} from '../../internal/preflight/index.ts';
import type { DebianPackage } from './debian.ts';
import { agentNotes, cliNotes } from './install-notes.ts';
import { licenseText, packageBom, type NpmPackage } from './licenses.ts';
import type { ManPage } from './man.ts';
import { nodeBinary, type Architecture } from './node-binary.ts';
import type { RpmPackage } from './rpm.ts';
import type { Entry } from './staging.ts';
import type { Tarball } from './tarball.ts';

/** The inputs of all packages; paths are absolute. */
export interface PackageOptions {
  readonly root: string;
  readonly dist: string;
  readonly version: string;
  readonly architecture: Architecture;
  /** The packages that the programs contain, and that of the Node beside them. */
  readonly npmPackages: readonly NpmPackage[];
  /** The manual pages of the operator's program. */
  readonly manPages: readonly ManPage[];
}

/** One package in all formats. */
export interface Formats {
  readonly deb: DebianPackage;
  readonly rpm: RpmPackage;
  readonly tar: Tarball;
}

/** The libraries of the Node binary. */
const NODE_DEPENDS = ['libc6 (>= 2.28)', 'libgcc-s1', 'libstdc++6'];
const NODE_REQUIRES = ['glibc >= 2.28', 'libgcc', 'libstdc++'];
/**
 * The directory of systemd units on Debian 12. On other distributions /lib is a link to /usr/lib, which
 * RPMs use.
 */
const DEBIAN_UNITS = '/lib/systemd/system';
const UNITS = '/usr/lib/systemd/system';

/** The package of the agent. Kubernetes itself comes with the bundle. */
export function agentPackage(options: PackageOptions): Formats {
  const { root, version, architecture } = options;
  const file = (name: string): string => resolve(root, '.ci/package', name);
  const base = {
    name: 'cluster-agent',
    version,
    architecture,
    summary: 'agent of an attested Kubernetes cluster',
    description: 'Enrols this machine once, then runs the services of its roles in the cluster.',
  } as const;
  const programs = (format: 'deb' | 'rpm', of = REQUIRED_PROGRAMS): readonly string[] => [
    ...new Set(of.map((each) => each[format])),
  ];
  return {
    deb: {
      ...base,
      // The programs that preflight requires, and D-Bus, over which the kubelet and runc talk to systemd.
      depends: [...NODE_DEPENDS, 'systemd (>= 247)', 'dbus', ...programs('deb')],
      // CA certificates for images from registries with TLS; the state disk; the tools for administrators.
      recommends: ['ca-certificates', ...programs('deb', STATE_DISK_PROGRAMS), 'procps', 'socat'],
      entries: agentEntries(options, DEBIAN_UNITS),
      scripts: { postinst: file('postinst'), prerm: file('prerm'), postrm: file('postrm') },
    },
    rpm: {
      ...base,
      requires: [...NODE_REQUIRES, 'systemd >= 247', 'dbus', ...programs('rpm')],
      recommends: ['ca-certificates', ...programs('rpm', STATE_DISK_PROGRAMS), 'procps-ng', 'socat'],
      entries: agentEntries(options, UNITS),
      scripts: { post: file('rpm-post'), preun: file('rpm-preun'), postun: file('rpm-postun') },
    },
    tar: { ...base, entries: agentEntries(options, UNITS), notes: agentNotes(base) },
  };
}

function agentEntries(options: PackageOptions, units: string): readonly Entry[] {
  const { root, dist, architecture } = options;
  const text = (path: string, content: string): Entry => ({ kind: 'text', path, mode: 0o644, text: content });
  return [
    { kind: 'directory', path: '/etc/cluster', mode: 0o700 },
    directory('/usr/lib/cluster'),
    directory(`${units}/${dirname(CONTAINER_SCOPES_DROPIN)}`),
    copy(nodeBinary(root, architecture), '/usr/lib/cluster/node', 0o755),
    ...['bootstrapper', 'joinservice', 'signer', 'apilb', 'exporter'].map((name) =>
      copy(resolve(dist, `${name}.mjs`), `/usr/lib/cluster/${name}.mjs`),
    ),
    copy(resolve(root, '.ci/package/purge'), '/usr/lib/cluster/purge', 0o755),
    ...['bootstrapper.service', 'cluster-fingerprint.service'].map((name) =>
      copy(resolve(root, '.ci/package', name), `${units}/${name}`),
    ),
    // The package has this drop-in. If the agent wrote it later, systemd would have to reload all units.
    text(`${units}/${CONTAINER_SCOPES_DROPIN}`, buildContainerScopes()),
    ...PLACEHOLDER_SLICES.map((name) => text(`${units}/${name}`, buildPlaceholderSlice())),
    text(MODULES_FILE, modulesFile()),
    text(SYSCTL_FILE, sysctlFile()),
    ...documents('cluster-agent', options),
  ];
}

/** The package of the operator's program. It has its own Node, so that it can be installed with or without the agent. */
export function cliPackage(options: PackageOptions): Formats {
  const { version, architecture } = options;
  const base = {
    name: 'cluster',
    version,
    architecture,
    summary: 'turns Linux machines into an attested Kubernetes cluster',
    description: "The operator's command line: configuration, init, join, charts, status and local clusters.",
    entries: cliEntries(options),
  } as const;
  return {
    deb: { ...base, depends: NODE_DEPENDS },
    rpm: { ...base, requires: NODE_REQUIRES },
    tar: { ...base, notes: cliNotes(base) },
  };
}

function cliEntries(options: PackageOptions): readonly Entry[] {
  const { root, dist, architecture } = options;
  return [
    directory('/usr/lib/cluster-cli'),
    copy(nodeBinary(root, architecture), '/usr/lib/cluster-cli/node', 0o755),
    ...globSync('cluster/*.mjs', { cwd: dist })
      .sort()
      .map((path) => copy(resolve(dist, path), `/usr/lib/cluster-cli/${basename(path)}`)),
    copy(resolve(root, '.ci/package/cluster'), '/usr/bin/cluster', 0o755),
    ...bundleSources(root),
    ...options.manPages.map(manEntry),
    ...documents('cluster', options),
  ];
}

/**
 * The sources of our charts and programs, from which `cluster bundle build` makes components. They are
 * installed beside the program.
 */
function bundleSources(root: string): readonly Entry[] {
  const files = ['cli/charts/{flannel,hello}/**/*.{yaml,json}', 'internal/bundlebuild/programs/**/*.go'];
  return globSync(files, { cwd: root })
    .sort()
    .map((path) =>
      copy(resolve(root, path), path.replace(/^(cli|internal\/bundlebuild)/, '/usr/lib/cluster-cli')),
    );
}

/** A manual page, compressed without a timestamp as Debian's policy demands (section 12.1). */
function manEntry({ name, text }: ManPage): Entry {
  const path = `/usr/share/man/man1/${name}.gz`;
  return { kind: 'text', path, mode: 0o644, text: gzipSync(text, { level: 9 }) };
}

function copy(from: string, path: string, mode = 0o644): Entry {
  return { kind: 'copy', path, mode, from };
}

/** A directory of the package: RPM does not remove directories that are not listed. */
function directory(path: string): Entry {
  return { kind: 'directory', path, mode: 0o755 };
}

function documents(name: string, { root, version, npmPackages }: PackageOptions): readonly Entry[] {
  const documents = `/usr/share/doc/${name}`;
  const text = (file: string, content: string): Entry => {
    return { kind: 'text', path: `${documents}/${file}`, mode: 0o644, text: content };
  };
  return [
    directory(documents),
    copy(resolve(root, 'LICENSE'), `${documents}/copyright`),
    text('third-party-licenses', licenseText(root, npmPackages)),
    text('sbom.cdx.json', packageBom({ name, version }, npmPackages)),
  ];
}

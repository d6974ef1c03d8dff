import type { Architecture } from '../bundle/index.ts';
import type { BuildContext } from './build-context.ts';
import { BundleBuildError } from './errors.ts';

/** A program in the PATH, or a file, that the machine must have to build bundles. */
export interface BuildRequirement {
  readonly kind: 'program' | 'file';
  /** The name of the program; for a file, the paths where distributions put it. */
  readonly anyOf: readonly [string, ...string[]];
  readonly debianPackage: string;
  readonly why: string;
  /** The part of a build that needs it. */
  readonly for: 'cgo' | 'packages' | 'always';
}

const LIBRARIES: Readonly<Record<Architecture, readonly string[]>> = {
  amd64: ['/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/lib'],
  arm64: ['/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib'],
};

/** Everything that `cluster bundle build` cannot download itself. Set-up scripts install it. */
export function buildRequirements(architecture: Architecture): readonly BuildRequirement[] {
  type Rest = Pick<BuildRequirement, 'debianPackage' | 'for' | 'why'>;
  const program = (name: string, rest: Rest): BuildRequirement => ({
    kind: 'program',
    anyOf: [name],
    ...rest,
  });
  const library = (name: string, rest: Rest): BuildRequirement => {
    const [first = '', ...others] = LIBRARIES[architecture].map((directory) => `${directory}/${name}`);
    return { kind: 'file', anyOf: [first, ...others], ...rest };
  };
  return [
    program('gcc', { debianPackage: 'gcc', for: 'cgo', why: 'compiles the C parts of runc and flanneld' }),
    program('pkg-config', { debianPackage: 'pkg-config', for: 'cgo', why: 'finds libseccomp for runc' }),
    library('libc.a', { debianPackage: 'libc6-dev', for: 'cgo', why: 'linked into runc and flanneld' }),
    library('libseccomp.a', { debianPackage: 'libseccomp-dev', for: 'cgo', why: 'linked into runc' }),
    program('apt-get', {
      debianPackage: 'apt',
      for: 'packages',
      why: 'downloads iptables, nft, conntrack and ip for images',
    }),
    program('dpkg-deb', { debianPackage: 'dpkg', for: 'packages', why: 'unpacks those packages' }),
    program('find', {
      debianPackage: 'findutils',
      for: 'packages',
      why: 'lists the files of those packages',
    }),
    program('chmod', { debianPackage: 'coreutils', for: 'always', why: 'makes the Go toolchain executable' }),
  ];
}

/** @throws BundleBuildError `bundlebuild-requirements`, naming everything that is missing and the packages to install */
export async function checkRequirements(
  context: BuildContext,
  needs: { readonly cgo: boolean; readonly packages: boolean },
): Promise<void> {
  const missing: BuildRequirement[] = [];
  for (const requirement of buildRequirements(context.machine.architecture)) {
    const applies = requirement.for === 'always' || needs[requirement.for];
    if (applies && !(await isMet(context, requirement))) missing.push(requirement);
  }
  if (missing.length === 0) return;
  const names = missing.map(({ anyOf, why }) => `${anyOf[0]} (${why})`).join('; ');
  const packages = [...new Set(missing.map(({ debianPackage }) => debianPackage))].sort();
  throw new BundleBuildError('bundlebuild-requirements', `missing on this machine: ${names}`, {
    fix: `Run \`apt-get install ${packages.join(' ')}\`, then the same command again.`,
    details: { packages },
  });
}

async function isMet(context: BuildContext, requirement: BuildRequirement): Promise<boolean> {
  const directories = (context.env['PATH'] ?? '').split(':').filter((path) => path.startsWith('/'));
  const candidates =
    requirement.kind === 'file'
      ? requirement.anyOf
      : directories.map((directory) => `${directory}/${requirement.anyOf[0]}`);
  const found = await Promise.all(candidates.map((path) => context.ports.files.stat(path)));
  return found.some((stat) => stat !== undefined && stat.kind !== 'directory');
}

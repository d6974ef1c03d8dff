import type { Architecture } from '../../internal/bundle/index.ts';
import type { BundleContext } from './context.ts';
import { BundleMakingError } from './errors.ts';

/** Something of the host that making a bundle needs: a program in the PATH, or a file. */
export interface BundleRequirement {
  readonly kind: 'program' | 'file';
  /** The program's name; for a file the paths where distributions put it. */
  readonly anyOf: readonly [string, ...string[]];
  readonly debianPackage: string;
  readonly why: string;
  /** What part of a build needs it. */
  readonly for: 'cgo' | 'packages' | 'always';
}

const LIBRARIES: Readonly<Record<Architecture, readonly string[]>> = {
  amd64: ['/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/lib'],
  arm64: ['/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib'],
};

/**
 * Everything that `cluster bundle build` needs of a host and cannot bring itself. Set-up scripts install
 * it; the command checks it before anything is changed.
 */
export function bundleBuildRequirements(architecture: Architecture): readonly BundleRequirement[] {
  type Rest = Pick<BundleRequirement, 'debianPackage' | 'for' | 'why'>;
  const program = (name: string, rest: Rest): BundleRequirement => ({
    kind: 'program',
    anyOf: [name],
    ...rest,
  });
  const library = (name: string, rest: Rest): BundleRequirement => {
    const [first = '', ...others] = LIBRARIES[architecture].map((folder) => `${folder}/${name}`);
    return { kind: 'file', anyOf: [first, ...others], ...rest };
  };
  return [
    program('gcc', { debianPackage: 'gcc', for: 'cgo', why: 'runc and flanneld have parts in C' }),
    program('pkg-config', { debianPackage: 'pkg-config', for: 'cgo', why: 'runc asks it for libseccomp' }),
    library('libc.a', {
      debianPackage: 'libc6-dev',
      for: 'cgo',
      why: 'runc and flanneld are linked statically',
    }),
    library('libseccomp.a', {
      debianPackage: 'libseccomp-dev',
      for: 'cgo',
      why: 'runc confines system calls with it',
    }),
    program('apt-get', {
      debianPackage: 'apt',
      for: 'packages',
      why: 'iptables, nft, conntrack and ip for images come from distribution packages',
    }),
    program('dpkg-deb', { debianPackage: 'dpkg', for: 'packages', why: 'unpacks those packages' }),
    program('find', { debianPackage: 'findutils', for: 'packages', why: 'lists what is in them' }),
    program('chmod', { debianPackage: 'coreutils', for: 'always', why: 'makes the Go toolchain executable' }),
  ];
}

/** @throws BundleMakingError `bundlebuild-requirements`, naming everything that is missing and what brings it */
export async function checkRequirements(
  context: BundleContext,
  needs: { readonly cgo: boolean; readonly packages: boolean },
): Promise<void> {
  const missing: BundleRequirement[] = [];
  for (const each of bundleBuildRequirements(context.machine.architecture)) {
    const applies = each.for === 'always' || needs[each.for];
    if (applies && !(await isMet(context, each))) missing.push(each);
  }
  if (missing.length === 0) return;
  const lacks = missing.map((each) => `${each.anyOf[0]} (${each.why})`).join('; ');
  const packages = [...new Set(missing.map((each) => each.debianPackage))].sort();
  throw new BundleMakingError('bundlebuild-requirements', `checking this machine: it lacks ${lacks}`, {
    fix: `Run \`apt-get install ${packages.join(' ')}\`, then the same command again.`,
    details: { packages },
  });
}

async function isMet(context: BundleContext, requirement: BundleRequirement): Promise<boolean> {
  const folders = (context.env['PATH'] ?? '').split(':').filter((each) => each.startsWith('/'));
  const candidates =
    requirement.kind === 'file'
      ? requirement.anyOf
      : folders.map((folder) => `${folder}/${requirement.anyOf[0]}`);
  const found = await Promise.all(candidates.map((path) => context.ports.files.stat(path)));
  return found.some((each) => each !== undefined && each.kind !== 'directory');
}

import { dirname } from 'node:path';
import { readText } from '../../file/index.ts';
import { readMounts } from '../../platform/index.ts';
import { formatBytes } from '../../printable/index.ts';
import { LocalMachineError } from '../errors.ts';
import { hierarchiesFrom, type Hierarchy } from './cgroups.ts';
import { output, type HostPorts } from './host-ports.ts';
import type { HostRequirements } from './host-requirements.ts';

/** A requirement that the host does not meet. */
interface MissingRequirement {
  readonly kind: 'user' | 'program' | 'file' | 'kernel' | 'cgroup' | 'disk' | 'folder';
  readonly name: string;
  /** A command, or another instruction for the operator. */
  readonly fix: string;
  /** The Debian package that contains a program or file. */
  readonly package?: string;
}

/** The result of `checkHost`. */
interface HostReport {
  readonly missing: readonly MissingRequirement[];
  /** The commands to run, in this order. */
  readonly commands: readonly string[];
}

/** See `checkHost`. */
interface HostCheckOptions {
  readonly requirements: HostRequirements;
  /** Directories that will be written: data and cache. They need not exist yet. */
  readonly directories: readonly string[];
  readonly signal: AbortSignal;
}

/** Finds all requirements that the host does not meet. Changes nothing. */
export async function checkHost(host: HostPorts, options: HostCheckOptions): Promise<HostReport> {
  const { requirements, signal } = options;
  const programs = await missingPrograms(host, requirements, signal);
  const isRoot = (await output(host, ['id', '-u'], signal)).trim() === '0';
  const user: MissingRequirement = { kind: 'user', name: 'root', fix: 'run the command with sudo' };
  const missing = [
    ...(isRoot ? [] : [user]),
    ...programs,
    ...(await missingFiles(host, requirements)),
    // Runs the kernel probes only as root and if all programs exist: otherwise a failed probe would not show
    // that the kernel lacks a feature.
    ...(isRoot && programs.length === 0 ? await missingFeatures(host, requirements, signal) : []),
    ...(await missingControllers(host, requirements)),
    ...(await unusableDirectories(host, options)),
  ];
  return { missing, commands: commandsFor(missing) };
}

/** Checks the host. @throws LocalMachineError `localmachines-preflight` with everything that is missing and the commands to run */
export async function requireHost(host: HostPorts, options: HostCheckOptions): Promise<void> {
  const { missing: lacks, commands } = await checkHost(host, options);
  if (lacks.length === 0) return;
  const problems = lacks.map((each) => describeMissing(each)).join(', ');
  throw new LocalMachineError(
    'localmachines-preflight',
    `this machine cannot run local clusters: ${problems}`,
    {
      details: { lacks, commands },
      fix: `Run: ${commands.join('; ')}. Then run the same command again.`,
    },
  );
}

/** Describes one missing requirement for people: "missing veth links", "must be run as root". */
export function describeMissing({ kind, name }: MissingRequirement): string {
  return kind === 'user' ? `must be run as ${name}` : `missing ${name}`;
}

/** One command for all packages, then everything else. */
export function commandsFor(missing: readonly MissingRequirement[]): readonly string[] {
  const packages = [...new Set(missing.flatMap((each) => each.package ?? []))].sort();
  const install = packages.length === 0 ? [] : [`apt-get install -y ${packages.join(' ')}`];
  const others = missing.filter((each) => each.package === undefined).map(({ fix }) => fix);
  return [...install, ...new Set(others)];
}

/** The cgroup controllers of all hierarchies: of v1 from their mounts, of v2 from the file in its root directory. */
export function controllersFrom(
  hierarchies: readonly Hierarchy[],
  v2Controllers: string,
): ReadonlySet<string> {
  const v1 = hierarchies.flatMap(({ id }) => id.split(','));
  return new Set([...v1, ...v2Controllers.split(/\s+/)].filter((name) => name !== ''));
}

async function missingPrograms(
  host: HostPorts,
  requirements: HostRequirements,
  signal: AbortSignal,
): Promise<readonly MissingRequirement[]> {
  const script = 'for p do command -v "$p" > /dev/null || echo "$p"; done';
  const names = requirements.programs.map(({ program }) => program);
  const missing = (await output(host, ['sh', '-c', script, 'sh', ...names], signal)).split('\n');
  return requirements.programs
    .filter(({ program }) => missing.includes(program))
    .map(({ program, package: from }) => ({ kind: 'program', name: program, ...installed(from) }));
}

async function missingFiles(
  host: HostPorts,
  requirements: HostRequirements,
): Promise<readonly MissingRequirement[]> {
  const stats = await Promise.all(requirements.files.map(({ path }) => host.files.stat(path)));
  return requirements.files
    .filter((_, at) => stats[at] === undefined)
    .map(({ path, package: from }) => ({ kind: 'file', name: path, ...installed(from) }));
}

function installed(from: string): Required<Pick<MissingRequirement, 'fix' | 'package'>> {
  return { fix: `apt-get install -y ${from}`, package: from };
}

async function missingFeatures(
  host: HostPorts,
  requirements: HostRequirements,
  signal: AbortSignal,
): Promise<readonly MissingRequirement[]> {
  const results = await Promise.all(
    requirements.kernel.map(({ probe }) =>
      host.commands.run({ argv: probe, signal }).then(
        () => true,
        () => {
          signal.throwIfAborted();
          return false; // for any error, the kernel counts as not supporting the feature
        },
      ),
    ),
  );
  return requirements.kernel
    .filter((_, at) => results[at] === false)
    .map(({ feature, fix }) => ({ kind: 'kernel', name: feature, fix }));
}

async function missingControllers(
  host: HostPorts,
  requirements: HostRequirements,
): Promise<readonly MissingRequirement[]> {
  const hierarchies = hierarchiesFrom(await readMounts(host.files));
  const v2Controllers = (await readText(host.files, '/sys/fs/cgroup/cgroup.controllers')) ?? '';
  const present = controllersFrom(hierarchies, v2Controllers);
  const missing: MissingRequirement[] = requirements.controllers
    .filter((name) => !present.has(name))
    .map((name) => ({
      kind: 'cgroup',
      name: `cgroup controller ${name}`,
      fix: `start the kernel with cgroup_enable=${name}`,
    }));
  const hasV1 = hierarchies.some(({ version }) => version === 1);
  if (hasV1 && !hierarchies.some(({ id }) => id === 'name=systemd')) {
    const point = '/sys/fs/cgroup/systemd';
    const fix = `mkdir -p ${point} && mount -t cgroup -o none,name=systemd cgroup ${point}`;
    missing.push({ kind: 'cgroup', name: 'cgroup hierarchy name=systemd', fix });
  }
  return missing;
}

async function unusableDirectories(
  host: HostPorts,
  options: HostCheckOptions,
): Promise<readonly MissingRequirement[]> {
  const { freeBytes } = options.requirements;
  const missing: MissingRequirement[] = [];
  for (const directory of options.directories) {
    if (/[:,\\\s]/.test(directory)) {
      const fix =
        'set XDG_DATA_HOME and XDG_CACHE_HOME to directories without colon, comma, backslash and space';
      missing.push({ kind: 'folder', name: `mountable path for ${directory}`, fix });
      continue;
    }
    const existing = await nearestExisting(host, directory);
    const argv = ['df', '--output=fstype,avail', '--block-size=1', existing] as const;
    const [type, free] =
      (await output(host, [...argv], options.signal)).trim().split('\n').at(-1)?.trim().split(/\s+/) ?? [];
    if (type === 'overlay') {
      const fix =
        'set XDG_DATA_HOME and XDG_CACHE_HOME to directories on a disk: an overlay cannot be the base of another one';
      missing.push({ kind: 'folder', name: `disk for ${directory}`, fix });
    }
    if (Number(free) < freeBytes) {
      const name = `disk space in ${existing} (${formatBytes(Number(free))} free, ${formatBytes(freeBytes)} required)`;
      missing.push({ kind: 'disk', name, fix: `free space in ${existing}` });
    }
  }
  return missing;
}

async function nearestExisting(host: HostPorts, directory: string): Promise<string> {
  if (directory === '/' || (await host.files.stat(directory)) !== undefined) return directory;
  return nearestExisting(host, dirname(directory));
}

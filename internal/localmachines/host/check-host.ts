import { hierarchiesFrom } from './cgroups.ts';
import { LocalMachineError } from '../errors.ts';
import { readText } from '../../file/index.ts';
import { output, type HostPorts } from './host-ports.ts';
import { parseMountinfo } from './proc.ts';
import type { HostRequirements } from './host-requirements.ts';

/** One thing the host lacks, and the command or act that brings it. */
export interface MissingRequirement {
  readonly kind: 'user' | 'program' | 'file' | 'kernel' | 'cgroup' | 'disk' | 'folder';
  readonly name: string;
  readonly fix: string;
  readonly package?: string;
}

export interface HostReport {
  readonly missing: readonly MissingRequirement[];
  /** What to type, in this order. */
  readonly commands: readonly string[];
}

export interface HostCheckOptions {
  readonly requirements: HostRequirements;
  /** Directories that will be written: data and cache. They need not exist yet. */
  readonly directories: readonly string[];
  readonly signal: AbortSignal;
}

/** Names everything that is missing at once, and changes nothing. */
export async function checkHost(host: HostPorts, options: HostCheckOptions): Promise<HostReport> {
  const { requirements, signal } = options;
  const programs = await lackingPrograms(host, requirements, signal);
  const files = await lackingFiles(host, requirements);
  const root = (await output(host, ['id', '-u'], signal)).trim() === '0';
  const user: MissingRequirement = { kind: 'user', name: 'root', fix: 'run the command with sudo' };
  const lacks = [
    ...(root ? [] : [user]),
    ...programs,
    ...files,
    // Probes need root and the programs they call; without them they would blame the kernel.
    ...(root && programs.length === 0 ? await lackingFeatures(host, requirements, signal) : []),
    ...(await lackingControllers(host, requirements)),
    ...(await unfitDirectories(host, options)),
  ];
  return { missing: lacks, commands: commandsFor(lacks) };
}

/** `preflight`, or an error that names what is missing and what to type. */
export async function requireHost(host: HostPorts, options: HostCheckOptions): Promise<void> {
  const { missing: lacks, commands } = await checkHost(host, options);
  if (lacks.length === 0) return;
  throw new LocalMachineError(
    'localmachines-preflight',
    `preparing local machines: this machine lacks ${lacks.map(({ name }) => name).join(', ')}`,
    { details: { lacks, commands }, fix: `Run: ${commands.join('; ')}. Then run the same command again.` },
  );
}

/** Packages in one command, everything else as it stands. */
export function commandsFor(lacks: readonly MissingRequirement[]): readonly string[] {
  const packages = [...new Set(lacks.flatMap((lack) => lack.package ?? []))].sort();
  const install = packages.length === 0 ? [] : [`apt-get install -y ${packages.join(' ')}`];
  return [...install, ...new Set(lacks.filter((lack) => lack.package === undefined).map(({ fix }) => fix))];
}

/** The controllers of all hierarchies: v1's from their mounts, v2's from its root directory. */
export function controllersFrom(mountinfo: string, v2Controllers: string): ReadonlySet<string> {
  const v1 = hierarchiesFrom(parseMountinfo(mountinfo)).flatMap(({ id }) => id.split(','));
  return new Set([...v1, ...v2Controllers.split(/\s+/)].filter((each) => each !== ''));
}

async function lackingPrograms(
  host: HostPorts,
  requirements: HostRequirements,
  signal: AbortSignal,
): Promise<readonly MissingRequirement[]> {
  const script = 'for p do command -v "$p" > /dev/null || echo "$p"; done';
  const names = requirements.programs.map(({ program }) => program);
  const missing = (await output(host, ['sh', '-c', script, 'sh', ...names], signal)).split('\n');
  return requirements.programs
    .filter(({ program }) => missing.includes(program))
    .map(({ program, package: from }) => ({
      kind: 'program',
      name: program,
      fix: `apt-get install -y ${from}`,
      package: from,
    }));
}

async function lackingFiles(
  host: HostPorts,
  requirements: HostRequirements,
): Promise<readonly MissingRequirement[]> {
  const stats = await Promise.all(requirements.files.map(({ path }) => host.files.stat(path)));
  return requirements.files
    .filter((_, at) => stats[at] === undefined)
    .map(({ path, package: from }) => ({
      kind: 'file',
      name: path,
      fix: `apt-get install -y ${from}`,
      package: from,
    }));
}

async function lackingFeatures(
  host: HostPorts,
  requirements: HostRequirements,
  signal: AbortSignal,
): Promise<readonly MissingRequirement[]> {
  const answers = await Promise.all(
    requirements.kernel.map(({ probe }) =>
      host.commands.run({ argv: probe, signal }).then(
        () => true,
        () => {
          signal.throwIfAborted();
          return false; // whatever it died of, the kernel did not do it
        },
      ),
    ),
  );
  return requirements.kernel
    .filter((_, at) => answers[at] === false)
    .map(({ feature, fix }) => ({ kind: 'kernel', name: feature, fix }));
}

async function lackingControllers(
  host: HostPorts,
  requirements: HostRequirements,
): Promise<readonly MissingRequirement[]> {
  const mountinfo = (await readText(host.files, '/proc/self/mountinfo')) ?? '';
  const present = controllersFrom(
    mountinfo,
    (await readText(host.files, '/sys/fs/cgroup/cgroup.controllers')) ?? '',
  );
  const lacks: MissingRequirement[] = requirements.controllers
    .filter((name) => !present.has(name))
    .map((name) => ({
      kind: 'cgroup',
      name: `cgroup controller ${name}`,
      fix: `start the kernel with cgroup_enable=${name}`,
    }));
  const hierarchies = hierarchiesFrom(parseMountinfo(mountinfo));
  const v1 = hierarchies.some(({ version }) => version === 1);
  if (v1 && !hierarchies.some(({ id }) => id === 'name=systemd')) {
    const point = '/sys/fs/cgroup/systemd';
    const fix = `mkdir -p ${point} && mount -t cgroup -o none,name=systemd cgroup ${point}`;
    lacks.push({ kind: 'cgroup', name: 'cgroup hierarchy name=systemd', fix });
  }
  return lacks;
}

async function unfitDirectories(
  host: HostPorts,
  options: HostCheckOptions,
): Promise<readonly MissingRequirement[]> {
  const lacks: MissingRequirement[] = [];
  for (const directory of options.directories) {
    if (/[:,\\\s]/.test(directory)) {
      const fix =
        'set XDG_DATA_HOME and XDG_CACHE_HOME to directories without colon, comma, backslash and blank';
      lacks.push({ kind: 'folder', name: `mountable path for ${directory}`, fix });
      continue;
    }
    const existing = await nearestExisting(host, directory);
    const argv = ['df', '--output=fstype,avail', '--block-size=1', existing] as const;
    const [type, free] =
      (await output(host, [...argv], options.signal)).trim().split('\n').at(-1)?.trim().split(/\s+/) ?? [];
    if (type === 'overlay') {
      const fix =
        'set XDG_DATA_HOME and XDG_CACHE_HOME to directories on a disk: an overlay cannot carry another one';
      lacks.push({ kind: 'folder', name: `disk below ${directory}`, fix });
    }
    if (Number(free) < options.requirements.freeBytes) {
      const gib = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
      const name = `disk space at ${existing} (${gib(Number(free))} of ${gib(options.requirements.freeBytes)})`;
      lacks.push({ kind: 'disk', name, fix: `free space at ${existing}` });
    }
  }
  return lacks;
}

async function nearestExisting(host: HostPorts, directory: string): Promise<string> {
  for (let at = directory; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    if ((await host.files.stat(at)) !== undefined) return at;
  }
  return '/';
}

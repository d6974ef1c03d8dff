import { readText } from '../../internal/file/index.ts';
import {
  hierarchiesFrom,
  isZombie,
  NUMBERS_DIRECTORY,
  RUN_DIRECTORY,
  SLICE,
  type HostPorts,
} from '../../internal/localmachines/index.ts';
import { readMounts } from '../../internal/platform/index.ts';

/** Everything that local clusters could leave behind on a host, as lines to compare. */
export type HostFacts = Readonly<Record<string, readonly string[]>>;

/** Kernel parameters of the host that Kubernetes, bridges and firewalls change. */
const SYSCTLS = [
  'kernel/keys/root_maxbytes',
  'kernel/keys/root_maxkeys',
  'kernel/panic',
  'kernel/panic_on_oops',
  'net/bridge/bridge-nf-call-ip6tables',
  'net/bridge/bridge-nf-call-iptables',
  'net/ipv4/conf/all/forwarding',
  'net/ipv4/conf/all/route_localnet',
  'net/ipv4/conf/all/rp_filter',
  'net/ipv4/conf/default/forwarding',
  'net/ipv4/ip_forward',
  'net/ipv4/ip_local_reserved_ports',
  'net/ipv6/conf/all/forwarding',
  'net/netfilter/nf_conntrack_max',
  'vm/overcommit_memory',
  'vm/panic_on_oom',
];

const DIRECTORIES = [RUN_DIRECTORY, NUMBERS_DIRECTORY, '/run/systemd/nspawn/propagate'];

/**
 * A snapshot of the host. `markers` are directories. A process belongs to a local cluster if its command line
 * contains one of them.
 */
export async function readHostFacts(
  host: HostPorts,
  options: { readonly markers: readonly string[]; readonly signal: AbortSignal },
): Promise<HostFacts> {
  const { signal } = options;
  const mounts = await readMounts(host.files);
  const hierarchies = hierarchiesFrom(mounts);
  const topLevel = hierarchies.map(({ point }) => `find ${point} -mindepth 1 -maxdepth 1 -type d`).join('; ');
  const inSlice = hierarchies.map(({ point }) => `find ${point}/${SLICE} -type d`).join('; ');
  const shell = (script: string): Promise<readonly string[]> => lines(host, ['sh', '-c', script], signal);
  return {
    mounts: mounts.map(({ point, type, source }) => `${point} ${type} ${source}`).sort(),
    links: (await lines(host, ['ip', '-br', 'address'], signal)).map((line) => line.replace(/@\S+/, '')),
    routes: await lines(host, ['ip', 'route', 'show', 'table', 'all'], signal),
    namespaces: await lines(host, ['ip', 'netns', 'list'], signal),
    cgroups: [...(await shell(topLevel)), ...(await shell(inSlice))].sort(),
    processes: await processesOfClusters(host, options.markers),
    firewall: withoutCounters([
      ...(await lines(host, ['iptables-save'], signal)),
      ...(await lines(host, ['ip6tables-save'], signal)),
      ...(await lines(host, ['nft', 'list', 'ruleset'], signal)),
    ]),
    sysctls: await Promise.all(
      SYSCTLS.map(
        async (name) => `${name} = ${((await readText(host.files, `/proc/sys/${name}`)) ?? 'absent').trim()}`,
      ),
    ),
    directories: (
      await Promise.all(
        DIRECTORIES.map(async (path) => (await host.files.list(path)).map((name) => `${path}/${name}`)),
      )
    ).flat(),
  };
}

/** The added (`+`) and removed (`-`) lines; empty when the host is unchanged. */
export function compareHostFacts(before: HostFacts, after: HostFacts): readonly string[] {
  const kinds = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return kinds.flatMap((kind) => {
    const old = before[kind] ?? [];
    const now = after[kind] ?? [];
    return [
      ...now.filter((line) => !old.includes(line)).map((line) => `+ ${kind}: ${line}`),
      ...old.filter((line) => !now.includes(line)).map((line) => `- ${kind}: ${line}`),
    ];
  });
}

async function processesOfClusters(host: HostPorts, markers: readonly string[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const pid of (await host.files.list('/proc')).filter((name) => /^\d+$/.test(name))) {
    const [commandLine, cgroup, status] = await Promise.all(
      ['cmdline', 'cgroup', 'status'].map(
        (name) => readText(host.files, `/proc/${pid}/${name}`).catch(() => undefined), // the process has ended
      ),
    );
    if (commandLine === undefined || status === undefined || isZombie(status)) continue;
    const command = commandLine.replaceAll('\0', ' ').trim();
    const scope = new RegExp(`${SLICE}/([^/\\n]+)`).exec(cgroup ?? '')?.[1];
    const isOurs = markers.some((marker) => command.includes(marker));
    if (scope !== undefined || isOurs) found.push(`${scope ?? 'no scope'}: ${pid} ${command}`);
  }
  return found;
}

/** The output lines of a program; none when it is not installed or fails. */
async function lines(
  host: HostPorts,
  argv: readonly [string, ...string[]],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { stdout } = await host.commands.run({ argv, signal, okExitCodes: [0, 1, 2, 255] }).catch(() => {
    signal.throwIfAborted();
    return { stdout: '' };
  });
  return stdout.split('\n').filter((line) => line !== '');
}

function withoutCounters(rules: readonly string[]): readonly string[] {
  return rules
    .filter((line) => !line.startsWith('#'))
    .map((line) =>
      line
        .replace(/\[\d+:\d+\]/, '')
        .replace(/packets \d+ bytes \d+/, '')
        .trimEnd(),
    );
}

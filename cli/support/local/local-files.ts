import { Machine } from '../../../initproto/gen/machine_pb.js';
import { withTimeout } from '../../../internal/cleanup/index.ts';
import { readText } from '../../../internal/file/index.ts';
import { KubeClient } from '../../../internal/kube/index.ts';
import { createClient } from '../../../internal/rpc/index.ts';
import type { ClusterFacts } from '../../../internal/doctor/index.ts';
import { localChannel, readPart } from '../../cluster/index.ts';
import { checkThisMachine } from '../../preflight/index.ts';
import { readEtcdState } from '../../recover/index.ts';
import { addMissing, asJson, attemptFile, type Collecting } from '../attempt-file.ts';
import { withoutChartValues } from '../chart-values.ts';
import { factFiles } from '../collect-files.ts';
import { kubernetesFiles } from '../collect-kubernetes.ts';
import { CONTROL_PLANE_UNITS, NODE_UNITS, nodeDirectory } from '../node-units.ts';
import { pickFields, type Fields } from '../kubernetes-files.ts';
import { redactText } from '../redact/redact.ts';
import type { SupportFile } from '../support-file.ts';
import { apiServerAt, readAdminAccess, readLocalMetrics } from './local-access.ts';
import type { LocalPorts } from './local-ports.ts';
import type { NodeIdentity } from './node-identity.ts';
import { podLogs } from './pod-logs.ts';

const COMMAND_MS = 30_000;
const ASK_MS = 10_000;
const MAX_TEXT_BYTES = 4 * 1024 * 1024;

/** What programs print about this machine. Never the arguments of processes, which can be secret. */
const COMMANDS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  'system/failed-units.txt': ['systemctl', 'list-units', '--failed', '--plain', '--no-legend', '--no-pager'],
  'system/jobs.txt': ['systemctl', 'list-jobs', '--no-pager'],
  'system/processes.txt': ['ps', '-eo', 'pid,ppid,state,lstart,rss,comm'],
  'system/time.txt': ['timedatectl', 'show'],
  'system/disks.txt': ['lsblk', '--output', 'NAME,TYPE,SIZE,RO,FSTYPE,MOUNTPOINTS'],
  'network/addresses.txt': ['ip', 'address'],
  'network/routes.txt': ['ip', 'route', 'show', 'table', 'all'],
  'network/neighbours.txt': ['ip', 'neighbour'],
  'network/firewall.txt': ['iptables-save', '-t', 'filter'],
  'versions/kubelet.txt': ['/opt/cluster/bin/kubelet', '--version'],
  'versions/containerd.txt': ['/opt/cluster/bin/containerd', '--version'],
};
/** Files of the system and of the node that have no secrets; text that looks like one is removed nevertheless. */
const FILES: Readonly<Record<string, string>> = {
  'system/os-release.txt': '/etc/os-release',
  'system/kernel.txt': '/proc/version',
  'system/command-line.txt': '/proc/cmdline',
  'system/uptime.txt': '/proc/uptime',
  'system/load.txt': '/proc/loadavg',
  'system/memory.txt': '/proc/meminfo',
  'system/swaps.txt': '/proc/swaps',
  'system/mounts.txt': '/proc/mounts',
  'system/pressure-cpu.txt': '/proc/pressure/cpu',
  'system/pressure-io.txt': '/proc/pressure/io',
  'system/pressure-memory.txt': '/proc/pressure/memory',
  'network/resolv.conf': '/etc/resolv.conf',
};
/** JSON of the agent, and the fields to keep (bootstrapper/nodestate/paths.ts). */
const RECORDS: Readonly<Record<string, { readonly path: string; readonly fields: Fields }>> = {
  provisioning: { path: '/etc/cluster/provisioning.json', fields: true },
  membership: {
    path: '/var/lib/cluster/membership/membership.json',
    fields: {
      value: {
        ...{ clusterId: true, clusterName: true, nodeId: true, nodeName: true, nodeAddress: true },
        ...{ epoch: true, directory: true, taints: true },
      },
    },
  },
  roles: { path: '/var/lib/cluster/membership/roles.json', fields: { value: true } },
  directory: { path: '/var/lib/cluster/membership/directory.json', fields: { value: true } },
  relays: { path: '/var/lib/cluster/membership/relays.json', fields: { value: true } },
  removals: { path: '/var/lib/cluster/membership/removals.json', fields: { value: true } },
  settings: { path: '/var/lib/cluster/membership/settings.json', fields: { value: true } },
};
/** Files that exist only sometimes: that they are missing is no error. */
const SOMETIMES = new Set(['membership', 'roles', 'directory', 'relays', 'removals', 'settings']);

/** What to collect. */
export interface LocalFilesOptions {
  readonly identity: NodeIdentity;
  readonly facts: ClusterFacts;
  /** Lines of each log. */
  readonly lines: number;
}

/** The files of a support bundle of this machine. What cannot be collected is listed with its error. */
export async function* localFiles(
  collecting: Collecting,
  local: LocalPorts,
  { identity, facts, lines }: LocalFilesOptions,
): AsyncGenerator<SupportFile> {
  yield* factFiles(facts);
  const { context } = collecting;
  const directory = nodeDirectory(identity.name, 'this-machine');
  const units = identity.isControlPlane ? [...NODE_UNITS, ...CONTROL_PLANE_UNITS] : NODE_UNITS;
  for (const unit of units)
    yield* output(collecting, `${directory}/${unit}.log`, journal(lines, `--unit=${unit}.service`));
  yield* output(collecting, 'system/kernel.log', journal(lines, '--dmesg'));
  for (const [path, argv] of Object.entries(COMMANDS)) yield* output(collecting, path, argv);
  for (const [path, from] of Object.entries(FILES))
    yield* attemptFile(collecting, path, async () => redactText(await readExisting(collecting, from)));
  yield* records(collecting, directory);
  yield* attemptFile(collecting, `${directory}/preflight.json`, async (signal) =>
    asJson(await checkThisMachine({ ...context, signal }, local)),
  );
  // Before the pages are merged, which changes the order of their lines.
  const readRedacted: LocalPorts['readPage'] = async (url, signal) => {
    const page = await local.readPage(url, signal);
    return page && { ...page, text: redactText(page.text) };
  };
  yield* attemptFile(collecting, `${directory}/metrics.txt`, async (signal) =>
    redactText(await readLocalMetrics({ readPage: readRedacted }, identity.isControlPlane, signal)),
  );
  yield* agentState(collecting, directory);
  yield* podLogs(collecting, local.streams, directory);
  if (!identity.isControlPlane) return;
  for (const name of ['state', 'kubernetes'] as const)
    yield* attemptFile(collecting, `${directory}/etcd-${name}.json`, async (signal) =>
      asJson(await readEtcdState({ ...context, signal }, name)),
    );
  const isServing = facts.apiServers.some(({ answer }) => answer.ok);
  yield* kubernetes(collecting, identity, isServing);
}

function journal(lines: number, which: string): readonly [string, ...string[]] {
  const format = ['--output=short-iso-precise', '--no-hostname', '--no-pager', '--quiet'];
  return ['journalctl', which, `--lines=${lines}`, ...format];
}

function output(
  collecting: Collecting,
  path: string,
  argv: readonly [string, ...string[]],
): AsyncGenerator<SupportFile> {
  return attemptFile(collecting, path, async (signal) => {
    const { stdout } = await collecting.context.ports.commands.run({ argv, timeoutMs: COMMAND_MS, signal });
    return redactText(stdout);
  });
}

async function readExisting({ context }: Collecting, path: string): Promise<string> {
  const text = await readText(context.ports.files, path, MAX_TEXT_BYTES);
  if (text === undefined) throw new Error(`${path} not found`);
  return text;
}

async function* records(collecting: Collecting, directory: string): AsyncGenerator<SupportFile> {
  const { files } = collecting.context.ports;
  for (const [name, { path, fields }] of Object.entries(RECORDS)) {
    const exists = await readPart(collecting.context, () => files.stat(path));
    if (exists.ok && exists.value === undefined && SOMETIMES.has(name)) continue;
    yield* attemptFile(collecting, `${directory}/${name}.json`, async () => {
      const json: unknown = JSON.parse(await readExisting(collecting, path));
      return asJson(withoutChartValues(pickFields(json, fields)));
    });
  }
}

/** What the agent says about its enrolment and about etcd. Needs the agent, but no cluster. */
async function* agentState(collecting: Collecting, directory: string): AsyncGenerator<SupportFile> {
  const { context } = collecting;
  yield* attemptFile(collecting, `${directory}/enrolment.json`, async (signal) => {
    using channel = await localChannel({ ...context, signal });
    const events = createClient(Machine, channel).watchEnrolment({}, { signal, timeoutMs: ASK_MS });
    for await (const event of events) return asJson(event);
    throw new Error('the agent ended the call without an event');
  });
  yield* attemptFile(collecting, `${directory}/quorum.json`, async (signal) => {
    using channel = await localChannel({ ...context, signal });
    return asJson(await createClient(Machine, channel).surveyQuorum({}, { signal, timeoutMs: ASK_MS }));
  });
}

/** The listed kinds of objects from the API server of this node; if it does not serve, from another one through the balancer. */
async function* kubernetes(
  collecting: Collecting,
  { address }: NodeIdentity,
  isServing: boolean,
): AsyncGenerator<SupportFile> {
  const { context } = collecting;
  const { clock, files } = context.ports;
  const limit = { what: 'calling the Kubernetes API', ms: ASK_MS, clock, signal: context.signal };
  const access = await readPart(context, () => readAdminAccess(files));
  if (!access.ok) return addMissing(collecting, 'kubernetes', access.error);
  const server = isServing && address !== undefined ? apiServerAt(address) : access.value.server;
  using client = new KubeClient({ ...access.value, server }, context.ports);
  const version = await readPart(context, () =>
    withTimeout(limit, (signal) => client.getText('/version', signal)),
  );
  if (version.ok) yield* kubernetesFiles(collecting, client);
  else addMissing(collecting, 'kubernetes', version.error);
}

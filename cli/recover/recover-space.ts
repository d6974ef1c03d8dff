import { join } from 'node:path';
import { EtcdClient, EtcdError, type Member, type MemberStatus } from '../../internal/etcd/index.ts';
import { PORTS } from '../../internal/endpoint/index.ts';
import { describeError, type ExitName } from '../../internal/errors/index.ts';
import { readText } from '../../internal/file/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes, formatTable } from '../host/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { RecoverError } from './errors.ts';

/** Directory with the credentials of the user root of both etcd clusters (bootstrapper/consensus/consensus-layout.ts). */
const CONSENSUS = '/var/lib/cluster/consensus';
const ETCDS = { state: PORTS.stateEtcd.client, kubernetes: PORTS.kubernetesEtcd.client } as const;
/** Time limit for compacting or defragmenting a database of some GiB. */
const WORK_MS = 5 * 60_000;
const ASK_MS = 10_000;
/** A database that fills more than this share of its quota would soon raise the alarm again. */
const FULL = 0.95;

type SpaceClient = Pick<EtcdClient, 'list' | 'compact' | 'members' | 'maintenance'>;
type EtcdName = keyof typeof ETCDS;
/** How a client of an endpoint "host:port" of one etcd cluster is created. */
export type OpenEtcd = (context: CommandContext, name: EtcdName) => Promise<FullEtcd['connect']>;

const SPACE_LOSSES = [
  'the history of both databases: watchers list their objects again',
  'answers of each etcd member while it is defragmented, one member after the other',
];

/** The database of one etcd cluster. */
interface EtcdSpace {
  readonly etcd: string;
  readonly dbSizeBytes: number;
  readonly inUseBytes: number;
  readonly quotaBytes: number;
  readonly members: number;
  /** Raised NOSPACE alarms. */
  readonly alarms: number;
}

/** An etcd cluster whose space is freed. */
export interface FullEtcd {
  readonly name: string;
  /** A client of the local member as root. */
  readonly local: SpaceClient;
  /** A client of one member as root, for the endpoint "host:port". Disposed after use. */
  readonly connect: (endpoint: string) => SpaceClient & Disposable;
}

/** The result for one etcd member. Sizes of its database before and after. */
export interface MemberSpace {
  readonly etcd: string;
  readonly member: string;
  readonly beforeBytes: number;
  readonly afterBytes: number;
  readonly quotaBytes: number;
  /** Why the member could not be defragmented; empty on success. */
  readonly failure: string;
}

/** The result for one etcd cluster. */
export interface FreedSpace {
  readonly members: readonly MemberSpace[];
  /** Alarms that were cleared. */
  readonly cleared: number;
}

/**
 * `cluster recover space`, as root on a control plane: deletes the history of both etcd clusters, defragments their members one after
 * the other, and clears the alarm that made them refuse writes. It needs neither curator nor agent. Each step can be repeated, so the
 * command can be interrupted anywhere and run again. Asks at a terminal only: no object is lost. @throws RecoverError
 */
export async function runRecoverSpace(
  context: CommandContext,
  { dryRun, yes }: { readonly dryRun: boolean; readonly yes: boolean },
  open: OpenEtcd = connectorOf,
): Promise<ExitName> {
  const { host, signal } = context;
  if (dryRun) return showSpace(context, open);
  await confirmLoss(context, {
    doing: 'freeing space in both etcd databases',
    losses: SPACE_LOSSES,
    yes: yes || !host.interactive,
  });
  const freed: FreedSpace[] = [];
  for (const name of Object.keys(ETCDS) as EtcdName[]) {
    const connect = await open(context, name);
    using local = connect(`127.0.0.1:${ETCDS[name]}`);
    const title = `Freeing space in the ${titleOf(name)} etcd`;
    freed.push(await host.step('recover-space', title, () => freeSpace({ name, local, connect }, signal)));
  }
  const members = freed.flatMap((each) => each.members);
  const cleared = freed.reduce((sum, each) => sum + each.cleared, 0);
  host.result({ members, cleared }, () => renderSpace(members, cleared));
  refuseStillFull(members);
  return members.some(({ failure }) => failure !== '') ? 'partial' : 'ok';
}

/** The size of each database, and the alarms that make it refuse writes. */
async function showSpace(context: CommandContext, open: OpenEtcd): Promise<ExitName> {
  const { host, signal } = context;
  const found: EtcdSpace[] = [];
  for (const name of Object.keys(ETCDS) as EtcdName[]) {
    using local = (await open(context, name))(`127.0.0.1:${ETCDS[name]}`);
    found.push(await readSpace(name, local, signal));
  }
  host.result({ dryRun: true, databases: found, losses: SPACE_LOSSES }, () =>
    [
      'Nothing was changed.',
      formatTable(
        ['ETCD', 'SIZE', 'IN USE', 'QUOTA', 'MEMBERS', 'ALARMS'],
        found.map(({ etcd, dbSizeBytes, inUseBytes, quotaBytes, members, alarms }) => [
          titleOf(etcd),
          ...[dbSizeBytes, inUseBytes, quotaBytes].map(formatBytes),
          String(members),
          String(alarms),
        ]),
      ),
      'Consequences:',
      renderLosses(SPACE_LOSSES),
    ].join('\n'),
  );
  return 'ok';
}

/** The database of one etcd cluster, as its local member reports it. */
export async function readSpace(etcd: string, local: SpaceClient, signal: AbortSignal): Promise<EtcdSpace> {
  const call = { signal, timeoutMs: ASK_MS };
  const { dbSizeBytes, dbInUseBytes: inUseBytes, quotaBytes } = await local.maintenance.status(call);
  const members = (await local.members.list(call)).length;
  const alarms = (await local.maintenance.alarms(call)).filter(({ kind }) => kind === 'no-space').length;
  return { etcd, dbSizeBytes, inUseBytes, quotaBytes, members, alarms };
}

/** What the local etcd member of one etcd cluster tells root: its status, and, with a quorum, all members and alarms. @throws RecoverError, EtcdError */
export async function readEtcdState(context: CommandContext, name: EtcdName): Promise<unknown> {
  const call = { signal: context.signal, timeoutMs: ASK_MS };
  using local = (await connectorOf(context, name))(`127.0.0.1:${ETCDS[name]}`);
  const status = await local.maintenance.status(call);
  const ask = async (read: () => Promise<unknown>): Promise<unknown> =>
    read().catch((error: unknown) => ({ error: describeError(error) }));
  const members = await ask(() => local.members.list(call));
  return { status, members, alarms: await ask(() => local.maintenance.alarms(call)) };
}

/**
 * Compacts one etcd cluster, defragments its members one after the other with the leader last, and clears its
 * NOSPACE alarms.
 */
export async function freeSpace(etcd: FullEtcd, signal: AbortSignal): Promise<FreedSpace> {
  const { local } = etcd;
  const work = { signal, timeoutMs: WORK_MS };
  const [{ leaderId }, all] = [
    await local.maintenance.status({ signal, timeoutMs: ASK_MS }),
    await local.members.list({ signal, timeoutMs: ASK_MS }),
  ];
  await compactHistory(local, work);
  const members: MemberSpace[] = [];
  // A member answers no requests while it is defragmented. The leader comes last, so that the leadership
  // moves at most once.
  for (const member of all.toSorted((a, b) => Number(a.id === leaderId) - Number(b.id === leaderId)))
    members.push(await defragment(etcd, member, signal));
  const alarms = (await local.maintenance.alarms({ signal })).filter(({ kind }) => kind === 'no-space');
  for (const alarm of alarms) await local.maintenance.disarm(alarm, work);
  return { members, cleared: alarms.length };
}

async function compactHistory(
  local: SpaceClient,
  work: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<void> {
  const { revision } = await local.list('none/', work);
  try {
    await local.compact(revision, work);
  } catch (error) {
    // An earlier run has compacted this revision, and nothing was written since.
    if (!(error instanceof EtcdError && error.code === 'etcd-compacted')) throw error;
  }
}

async function defragment(
  { name, connect }: FullEtcd,
  { name: member, clientUrls }: Member,
  signal: AbortSignal,
): Promise<MemberSpace> {
  const known = { etcd: name, member: printable(member) || '<starting>' };
  const none = { beforeBytes: 0, afterBytes: 0, quotaBytes: 0 };
  const [url] = clientUrls;
  if (url === undefined) return { ...known, ...none, failure: 'it has not started yet' };
  const status = (client: SpaceClient): Promise<MemberStatus> =>
    client.maintenance.status({ signal, timeoutMs: ASK_MS });
  try {
    using client = connect(new URL(url).host);
    const before = await status(client);
    await client.maintenance.defragment({ signal, timeoutMs: WORK_MS });
    const { dbSizeBytes, quotaBytes } = await status(client);
    return { ...known, beforeBytes: before.dbSizeBytes, afterBytes: dbSizeBytes, quotaBytes, failure: '' };
  } catch (error) {
    signal.throwIfAborted();
    return { ...known, ...none, failure: printable(describeError(error)) };
  }
}

function refuseStillFull(members: readonly MemberSpace[]): void {
  const full = members.filter(
    ({ quotaBytes, afterBytes }) => quotaBytes > 0 && afterBytes > FULL * quotaBytes,
  );
  if (full.length === 0) return;
  const who = full.map(({ etcd, member }) => `${member} of the ${titleOf(etcd)} etcd`).join(', ');
  throw new RecoverError('recover-space-full', `freeing space: ${who} is still full`);
}

async function connectorOf({ ports }: CommandContext, name: EtcdName): ReturnType<OpenEtcd> {
  const directory = join(CONSENSUS, name, 'users/root');
  const read = async (file: string): Promise<string> => {
    const path = join(directory, file);
    const text = await readText(ports.files, path).catch((cause: unknown) => {
      throw new RecoverError('recover-not-control-plane', `reading ${path}`, { cause });
    });
    if (text === undefined) throw new RecoverError('recover-not-control-plane', `${path} not found`);
    return text;
  };
  const [certPem, key, serverCaPem] = [
    await read('client.crt'),
    await read('client.key'),
    await read('ca.crt'),
  ];
  const identity = { certPem, keyPem: new Secret(key) };
  return (endpoint) => new EtcdClient({ endpoints: [endpoint], identity, serverCaPem, clock: ports.clock });
}

function titleOf(name: string): string {
  return name === 'kubernetes' ? 'Kubernetes' : name;
}

function renderSpace(members: readonly MemberSpace[], cleared: number): string {
  const rows = members.map(({ etcd, member, beforeBytes, afterBytes, failure }) =>
    failure === ''
      ? [etcd, member, formatBytes(beforeBytes), formatBytes(afterBytes), '<none>']
      : [etcd, member, '<none>', '<none>', failure],
  );
  const alarms =
    cleared === 0 ? 'No alarm was raised.' : `Alarms cleared: ${cleared}. Writes are accepted again.`;
  return [formatTable(['ETCD', 'MEMBER', 'BEFORE', 'AFTER', 'FAILURE'], rows), '', alarms].join('\n');
}

import { formatDuration } from '../../internal/clock/index.ts';
import {
  Machine,
  type EtcdSurvey,
  type QuorumMember,
  type SurveyQuorumResponse,
} from '../../initproto/gen/machine_pb.js';
import { CodedError } from '../../internal/errors/index.ts';
import { createClient, type Client } from '../../internal/rpc/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { formatTable } from '../host/index.ts';
import { localChannel } from '../cluster/index.ts';
import { RecoverError } from './errors.ts';

const CALL_MS = 30_000;
const POLL_MS = 1_000;
/** Enough to copy and restore the largest etcd database. */
const DONE_MS = 15 * 60_000;
/** Code of the agent's response while it restarts after it received the order. */
const NOT_YET = 'consensus-not-recoverable';

/** Arguments of `cluster recover quorum`. */
export interface RecoverQuorumOptions {
  /** The name of the cluster, by which the operator confirms the loss. */
  readonly confirmed: string | undefined;
  /** Show the state of etcd and the loss, and change nothing. */
  readonly dryRun: boolean;
  /** Keep the data of this machine although it was found to differ from that of the majority, or its disk is not sound. */
  readonly skipChecks: boolean;
}

/** Refuses a machine that could not keep what it recovers. @throws DoctorError `doctor-change-unsafe` */
type RequireSound = (doing: string) => Promise<void>;

type MachineClient = Pick<Client<typeof Machine>, 'surveyQuorum' | 'recoverQuorum'>;

/** `cluster recover quorum`: shows the etcd members and the loss; with `--confirm NAME`, recovers. @throws RecoverError; DoctorError `doctor-change-unsafe` */
export async function runRecoverQuorum(
  context: CommandContext,
  requireSound: RequireSound,
  options: RecoverQuorumOptions,
): Promise<void> {
  using channel = await localChannel(context);
  await recoverQuorum(context, { machine: createClient(Machine, channel), requireSound }, options);
}

/** As `runRecoverQuorum`, with a client for the agent. */
export async function recoverQuorum(
  context: CommandContext,
  { machine, requireSound }: { readonly machine: MachineClient; readonly requireSound: RequireSound },
  { confirmed, dryRun, skipChecks }: RecoverQuorumOptions,
): Promise<void> {
  const { signal, host } = context;
  const before = await machine.surveyQuorum({}, { signal, timeoutMs: CALL_MS });
  const name = printable(before.clusterName);
  if (dryRun) return host.result({ ...viewOf(before), dryRun }, () => renderSurvey(before));
  if (!before.isOrdered) {
    host.say('recover-survey', renderSurvey(before), viewOf(before));
    if (before.refusals.length > 0)
      throw new RecoverError(
        'recover-refused',
        `recovering ${name}: ${before.refusals.map((each) => printable(each)).join('; ')}`,
        { details: viewOf(before) },
      );
    if (before.damage.length > 0 && !skipChecks)
      throw new RecoverError(
        'recover-damaged',
        `recovering ${name}: ${before.damage.map((each) => printable(each)).join('; ')}`,
        { details: viewOf(before) },
      );
    if (!skipChecks) await requireSound(`recovering ${name}`);
    if (confirmed !== before.clusterName)
      throw new RecoverError(
        'recover-not-confirmed',
        `recovering ${name} from ${printable(before.nodeName)}${confirmed === undefined ? '' : `: ${JSON.stringify(confirmed)} is not the name of the cluster`}`,
        { details: viewOf(before) },
      );
    await machine.recoverQuorum({ clusterName: confirmed, skipChecks }, { signal, timeoutMs: CALL_MS });
  }
  const after = await host.step('recover-quorum', `Recovering the quorum of ${name}`, (progress) =>
    untilRecovered(context, { machine, before, say: (text) => progress.update(text) }),
  );
  host.result(viewOf(after), () =>
    [
      `${name} recovered from ${printable(after.nodeName)} alone: ${epochsOf(after)}.`,
      'Control planes that come back discard their old data and join again. Remove those that will not come back:',
      '  cluster node remove NODE --lost',
    ].join('\n'),
  );
}

/** Ignores failed calls, because the agent restarts during the recovery. */
async function untilRecovered(
  context: CommandContext,
  at: {
    readonly machine: MachineClient;
    readonly before: SurveyQuorumResponse;
    readonly say: (text: string) => void;
  },
): Promise<SurveyQuorumResponse> {
  const { clock } = context.ports;
  const { signal } = context;
  const deadlineMs = clock.monotonicMs() + DONE_MS;
  for (;;) {
    const now = await look(at.machine, signal);
    if (now !== undefined && now.lastFailure !== '')
      throw new RecoverError('recover-failed', printable(now.lastFailure));
    if (now !== undefined && isRecovered(at.before, now)) return now;
    at.say(now === undefined ? 'agent restarting' : 'restoring etcd');
    if (clock.monotonicMs() > deadlineMs)
      throw new RecoverError('recover-timeout', `etcd is not serving after ${formatDuration(DONE_MS)}`);
    await clock.sleep(POLL_MS, signal);
  }
}

/**
 * Whether every etcd has a leader, and at least one of them runs in a newer epoch (number of the recovery)
 * than before.
 */
function isRecovered(before: SurveyQuorumResponse, now: SurveyQuorumResponse): boolean {
  if (now.isOrdered || now.etcd.length === 0) return false;
  const epochBefore = new Map(before.etcd.map(({ name, epoch }) => [name, epoch]));
  const isNew = now.etcd.some(({ name, epoch }) => epoch > (epochBefore.get(name) ?? 0n));
  return isNew && now.etcd.every(({ own }) => own?.hasLeader === true);
}

async function look(machine: MachineClient, signal: AbortSignal): Promise<SurveyQuorumResponse | undefined> {
  try {
    return await machine.surveyQuorum({}, { signal, timeoutMs: CALL_MS });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof CodedError && (error.retryable || error.code === NOT_YET)) return undefined;
    throw error;
  }
}

function renderSurvey(survey: SurveyQuorumResponse): string {
  const row = (etcd: EtcdSurvey, what: string, member: QuorumMember | undefined): string[] => [
    printable(etcd.name),
    String(etcd.epoch),
    what,
    printable(member?.endpoint ?? ''),
    member?.raftIndex === undefined ? '<none>' : String(member.raftIndex),
  ];
  return [
    `Cluster ${printable(survey.clusterName)}, as seen by ${printable(survey.nodeName)}`,
    formatTable(
      ['ETCD', 'EPOCH', 'MEMBER', 'ENDPOINT', 'RAFT INDEX'],
      survey.etcd.flatMap((etcd) => [
        row(etcd, 'this node', etcd.own),
        ...etcd.others.map((member) => row(etcd, 'other', member)),
      ]),
    ),
    ...(survey.damage.length === 0
      ? []
      : [
          'Its data is not that of the cluster (`cluster recover quorum` needs --skip-checks):',
          ...survey.damage.map((each) => `  ${printable(each)}`),
        ]),
    ...(survey.losses.length === 0
      ? ['A recovery from this node would lose nothing that is known.']
      : ['A recovery from this node would lose:', ...survey.losses.map((loss) => `  ${printable(loss)}`)]),
  ].join('\n');
}

function epochsOf({ etcd }: SurveyQuorumResponse): string {
  return etcd.map(({ name, epoch }) => `${printable(name)} etcd: epoch ${epoch}`).join(', ');
}

function viewOf(survey: SurveyQuorumResponse): Record<string, unknown> {
  const member = (each: QuorumMember | undefined) => ({
    endpoint: each?.endpoint ?? '',
    raftIndex: each?.raftIndex === undefined ? undefined : Number(each.raftIndex),
    hasLeader: each?.hasLeader ?? false,
  });
  const { clusterName, nodeName, refusals, damage, losses } = survey;
  const etcd = survey.etcd.map(({ name, epoch, own, others }) => ({
    ...{ name, epoch: Number(epoch), own: member(own) },
    others: others.map(member),
  }));
  return { clusterName, nodeName, refusals, damage, losses, etcd };
}

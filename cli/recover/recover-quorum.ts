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
/** Copying and restoring the largest database that etcd may have. */
const DONE_MS = 15 * 60_000;
/** It took the order and so has data: it says this while it has not read yet who it is. */
const NOT_YET = 'consensus-not-recoverable';

export interface RecoverQuorumOptions {
  /** The name of the cluster, typed by whoever accepts the loss. */
  readonly confirmed: string | undefined;
  /** Shows what there is and what would be lost, and ends. */
  readonly dryRun: boolean;
}

type MachineClient = Pick<Client<typeof Machine>, 'surveyQuorum' | 'recoverQuorum'>;

/** `cluster recover quorum`: what there is, what would be lost; and with its own confirmation, the recovery. */
export async function runRecoverQuorum(
  context: CommandContext,
  options: RecoverQuorumOptions,
): Promise<void> {
  using channel = await localChannel(context);
  await recoverQuorum(context, createClient(Machine, channel), options);
}

export async function recoverQuorum(
  context: CommandContext,
  machine: MachineClient,
  { confirmed, dryRun }: RecoverQuorumOptions,
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
    if (confirmed !== before.clusterName)
      throw new RecoverError(
        'recover-not-confirmed',
        `recovering ${name} from ${printable(before.nodeName)}${confirmed === undefined ? '' : `: ${JSON.stringify(confirmed)} is not its name`}`,
        { details: viewOf(before) },
      );
    await machine.recoverQuorum({ clusterName: confirmed }, { signal, timeoutMs: CALL_MS });
  }
  const after = await host.step('recover-quorum', `Recovering the quorum of ${name}`, (progress) =>
    untilRecovered(context, { machine, before, say: (text) => progress.update(text) }),
  );
  host.result(viewOf(after), () =>
    [
      `${name} continues from ${printable(after.nodeName)} alone: ${epochsOf(after)}.`,
      'Control planes that come back give their old data up and join anew; take those that will not come back out:',
      '  cluster node remove NODE --lost',
    ].join('\n'),
  );
}

/** The agent ends and starts meanwhile; its silence is no failure. */
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
    at.say(now === undefined ? 'the agent starts anew' : 'etcd is restored');
    if (clock.monotonicMs() > deadlineMs)
      throw new RecoverError(
        'recover-timeout',
        `waiting ${DONE_MS / 60_000} minutes for etcd to serve alone`,
      );
    await clock.sleep(POLL_MS, signal);
  }
}

/** Every etcd serves, and at least one of them in a new epoch. */
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
    member?.raftIndex === undefined ? 'does not answer' : String(member.raftIndex),
  ];
  return [
    `Cluster ${printable(survey.clusterName)}, seen from ${printable(survey.nodeName)}`,
    formatTable(
      ['ETCD', 'EPOCH', 'MEMBER', 'ENDPOINT', 'RAFT INDEX'],
      survey.etcd.flatMap((etcd) => [
        row(etcd, 'this one', etcd.own),
        ...etcd.others.map((member) => row(etcd, 'another', member)),
      ]),
    ),
    'A recovery from here would lose:',
    ...survey.losses.map((loss) => `  ${printable(loss)}`),
  ].join('\n');
}

function epochsOf({ etcd }: SurveyQuorumResponse): string {
  return etcd.map(({ name, epoch }) => `${printable(name)} etcd in epoch ${epoch}`).join(', ');
}

function viewOf(survey: SurveyQuorumResponse): Record<string, unknown> {
  const member = (each: QuorumMember | undefined) => ({
    endpoint: each?.endpoint ?? '',
    raftIndex: each?.raftIndex === undefined ? undefined : Number(each.raftIndex),
    hasLeader: each?.hasLeader ?? false,
  });
  const { clusterName, nodeName, refusals, losses } = survey;
  const etcd = survey.etcd.map(({ name, epoch, own, others }) => ({
    ...{ name, epoch: Number(epoch), own: member(own) },
    others: others.map(member),
  }));
  return { clusterName, nodeName, refusals, losses, etcd };
}

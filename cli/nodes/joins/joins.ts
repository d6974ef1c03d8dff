import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Taint } from '../../../internal/role/index.ts';
import { proofText } from '../../../internal/attestation/index.ts';
import { formatDuration } from '../../../internal/clock/index.ts';
import {
  JoinState,
  type DecideJoinRequestSchema,
  type Join,
} from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import { digitsOf, MIN_PREFIX } from '../../../internal/records/index.ts';
import type { Listing } from '../../host/index.ts';
import { grantForJoin } from '../../sign/index.ts';
import type { RoleName } from '../../../internal/role/index.ts';
import { rolesFromNames, namesFromRoles } from '../roles/role-names.ts';
import { expectMachine } from '../machine-pins.ts';
import { callCurator, newMutation } from '../../cluster/index.ts';
import { awaitReadyNode } from './await-ready-node.ts';

/** The states of join requests, as tables and JSON show them. */
export const JOIN_STATES: Readonly<Record<JoinState, string>> = {
  [JoinState.UNSPECIFIED]: 'unknown',
  [JoinState.PENDING]: 'pending',
  [JoinState.APPROVED]: 'approved',
  [JoinState.REFUSED]: 'refused',
  [JoinState.JOINED]: 'joined',
};

/** A machine that asked to join, as plain values, without control characters. */
export type JoinView = Readonly<ReturnType<typeof joinViewFrom>>;

/** A join record as plain values. */
export function joinViewFrom(join: Join) {
  return {
    joinId: printable(join.joinId),
    state: JOIN_STATES[join.state],
    hostname: printable(join.hostname),
    address: printable(join.address),
    fingerprint: printable(join.fingerprint),
    identity: printable(join.identity),
    proof: printable(join.identityProof),
    profile: printable(join.profile),
    wantedName: printable(join.wantedName),
    name: printable(join.name),
    roles: namesFromRoles(join.roles),
    decidedBy: printable(join.decidedBy),
    decidedMs: Number(join.decidedMs),
    code: printable(join.code),
    message: printable(join.message),
    firstSeenMs: Number(join.firstSeenMs),
    lastSeenMs: Number(join.lastSeenMs),
    attempts: Number(join.attempts),
    clockOffsetMs: Number(join.clockOffsetMs),
    // Control planes join one at a time: position in their queue, 0 while the machine is joining.
    turn: join.queue && { place: join.queue.position, estimateMs: Number(join.queue.estimateMs) },
  };
}

/** `cluster node ls --joins`: machines that have asked to join. */
export async function runJoinList(
  context: CommandContext,
  options: { readonly wide: boolean },
): Promise<void> {
  const { joins, dropped } = await callCurator(context, ({ operatorApi }) => operatorApi.listJoins({}));
  const views = joins.map(joinViewFrom);
  if (dropped > 0n)
    context.host.warn(
      'node-joins-dropped',
      `${dropped} join requests are missing: the cluster keeps the newest ones only`,
    );
  const nowMs = context.ports.clock.nowMs();
  const listing = joinListing(views, { nowMs, wide: options.wide || context.host.isWide });
  context.host.list({ ...listing, data: { joins: views, dropped } });
}

const NONE = '<none>';
/** Shows that a text was cut. */
const CUT = '…';

/** The join requests as a list; `wide` adds columns and whole ids. */
export function joinListing(
  joins: readonly JoinView[],
  { nowMs, wide }: { readonly nowMs: number; readonly wide: boolean },
): Listing<JoinView> {
  const wideColumn = (title: string, textOf: (join: JoinView) => string) =>
    ({ title, textOf, isWide: true }) as const;
  return {
    data: { joins },
    items: joins,
    nameOf: ({ joinId }) => joinId,
    empty: 'No join requests.',
    wide,
    columns: [
      { title: 'JOIN', textOf: ({ joinId }) => shortened(joinId, wide) },
      { title: 'STATE', textOf: ({ state }) => state },
      { title: 'HOST', textOf: ({ name, hostname }) => name || hostname || NONE },
      { title: 'ADDRESS', textOf: ({ address }) => address || NONE },
      { title: 'FINGERPRINT', textOf: ({ fingerprint }) => shortened(fingerprint, wide) },
      { title: 'PROFILE', textOf: ({ profile }) => profile || NONE },
      { title: 'REASON', textOf: ({ code, turn }) => code || describeQueuePosition(turn) },
      wideColumn('IDENTITY', ({ identity }) => identity || NONE),
      wideColumn('PROOF', ({ proof }) => proofText(proof) || NONE),
      wideColumn('DECIDED BY', ({ decidedBy }) => decidedBy || NONE),
      wideColumn('ATTEMPTS', ({ attempts }) => String(attempts)),
      wideColumn('CLOCK', ({ clockOffsetMs: ms }) => `${ms >= 0 ? '+' : ''}${(ms / 1000).toFixed(1)}s`),
      { title: 'AGE', textOf: ({ firstSeenMs }) => formatDuration(nowMs - firstSeenMs) },
    ],
  };
}

/** E.g. "position 2, about 30s". `turn` and its members are keys of `-o json`. */
export function describeQueuePosition(queue: JoinView['turn']): string {
  if (queue === undefined) return '<none>';
  return queue.place === 0
    ? 'joining now'
    : `position ${queue.place}, about ${formatDuration(queue.estimateMs)}`;
}

/** Flags of `cluster node approve`. */
export interface ApproveOptions {
  readonly name: string | undefined;
  readonly roles: readonly RoleName[];
  readonly labels: Readonly<Record<string, string>>;
  readonly taints?: readonly Taint[];
  /** Refuses a machine that would become a control plane while that is not safe. Not asked about a machine that has joined. */
  readonly requireSafe?: () => Promise<void>;
  /** How long to wait until the machine is a ready node; undefined not to wait. */
  readonly waitMs?: number | undefined;
}

/**
 * `cluster node approve`: admits a machine, with an owner's grant if it becomes a control plane. With `waitMs`, the
 * command then waits until the machine is a ready node. If the machine has joined after the same approval, the command
 * does not approve it again: it only waits, or changes nothing.
 */
export async function runApprove(
  context: CommandContext,
  copied: string,
  options: ApproveOptions,
): Promise<void> {
  const which = withoutCut(copied);
  const joined = await findJoined(context, which, options);
  if (joined === undefined) await options.requireSafe?.();
  const view = joined ?? (await approve(context, which, options));
  const { waitMs } = options;
  if (waitMs === undefined && joined !== undefined)
    return context.host.result(
      { join: joined },
      () => `${joined.name} has joined already; nothing was changed.`,
    );
  if (waitMs === undefined || view === undefined)
    return context.host.result({ join: view }, () =>
      view === undefined ? decidedText(which) : `${approvedText(view)}\n\nThe machine joins by itself.`,
    );
  if (joined === undefined) context.host.say('node-approved', approvedText(view), { join: view });
  const ready = await awaitReadyNode(context, { joinId: view.joinId, name: view.name }, waitMs);
  context.host.result({ join: view, ready: true, kubernetesAsked: ready === 'ready' }, () =>
    ready === 'ready'
      ? `Node ${view.name} is ready.`
      : `Node ${view.name} is a healthy member. Without a kubeconfig, Kubernetes was not asked about it.`,
  );
}

/** The machine that has joined after an approval with the same name, roles, labels and taints. */
async function findJoined(
  context: CommandContext,
  which: string,
  options: ApproveOptions,
): Promise<JoinView | undefined> {
  const { joins } = await callCurator(context, ({ operatorApi }) =>
    operatorApi.listJoins({ states: [JoinState.JOINED] }),
  );
  const [join, ...others] = joins.filter((each) => isNamed(each, which));
  if (join === undefined || others.length > 0 || !isApprovedAs(join, options)) return undefined;
  return joinViewFrom(join);
}

/** Whether an operator means this machine, by a name that the cluster accepts too. */
function isNamed({ joinId, fingerprint, identity }: Join, which: string): boolean {
  const names = [joinId, fingerprint, identity].flatMap((each) => [each, digitsOf(each)]);
  return names.some((each) => each === which || (which.length >= MIN_PREFIX && each.startsWith(which)));
}

function isApprovedAs(join: Join, { name, roles, labels, taints = [] }: ApproveOptions): boolean {
  const essentials = (of: {
    readonly roles: readonly string[];
    readonly labels: Readonly<Record<string, string>>;
    readonly taints: readonly Taint[];
  }): string =>
    JSON.stringify([
      of.roles.toSorted(),
      Object.entries(of.labels).sort(),
      of.taints.map(({ key, value, effect }) => `${key}=${value}:${effect}`).sort(),
    ]);
  const approved = { ...join, roles: namesFromRoles(join.roles), taints: join.taints as readonly Taint[] };
  return (name ?? join.name) === join.name && essentials(approved) === essentials({ roles, labels, taints });
}

/** Approves a machine, with an owner's grant if it becomes a control plane, and remembers the machine in the workspace. */
export async function approve(
  context: CommandContext,
  which: string,
  options: ApproveOptions,
): Promise<JoinView | undefined> {
  const value = {
    name: options.name ?? '',
    roles: [...rolesFromNames(options.roles)],
    labels: { ...options.labels },
    taints: [...(options.taints ?? [])],
  };
  const documents = await grantForJoin(context, which, value.roles);
  const view = await decide(context, which, { case: 'approve', value }, documents);
  if (view !== undefined && view.name !== '' && view.identity !== '')
    await expectMachine(context, { name: view.name, nodeId: view.joinId, identity: view.identity });
  return view;
}

/** `cluster node refuse`: refuses a machine. */
export async function runRefuse(
  context: CommandContext,
  copied: string,
  options: { readonly reason: string },
): Promise<void> {
  const which = withoutCut(copied);
  const view = await decide(context, which, { case: 'refuse', value: options });
  context.host.result({ join: view }, () =>
    view === undefined ? decidedText(which) : `Machine ${view.hostname || view.joinId} refused.`,
  );
}

async function decide(
  context: CommandContext,
  which: string,
  decision: NonNullable<MessageInitShape<typeof DecideJoinRequestSchema>['decision']>,
  documents: Uint8Array[] = [],
): Promise<JoinView | undefined> {
  const mutation = newMutation();
  const { join } = await callCurator(context, ({ operatorApi }) =>
    operatorApi.decideJoin({ join: which, decision, documents, mutation }),
  );
  return join === undefined ? undefined : joinViewFrom(join);
}

function decidedText(which: string): string {
  return `Decided about join request ${which}.`;
}

function approvedText(view: JoinView): string {
  return [
    `Machine ${view.hostname || view.joinId} approved as ${view.name}, ${view.roles.join(' and ') || 'worker'}.`,
    `  key       ${view.fingerprint}`,
    // The operator who approves a machine vouches for it, unless its manufacturer does.
    `  identity  ${view.identity} (${proofText(view.proof === 'unproved' ? 'pinned' : view.proof)})`,
  ].join('\n');
}

function shortened(text: string, wide: boolean): string {
  if (wide || text === '') return text || '<none>';
  const shown = text.slice(0, text.startsWith('sha256:') ? 'sha256:'.length + 12 : 16);
  return shown === text ? text : `${shown}${CUT}`;
}

/** An ID or fingerprint as it was copied from a table, without the sign that it was cut. */
export function withoutCut(copied: string): string {
  return copied.endsWith(CUT) ? copied.slice(0, -CUT.length) : copied;
}

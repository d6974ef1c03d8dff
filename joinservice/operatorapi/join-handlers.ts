import { DAY_MS } from '../../internal/clock/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { unchanged, type KeySpace } from '../../internal/etcd/index.ts';
import {
  keyIdentityOf,
  nodeNameKey,
  readRemovals,
  records,
  type JoinRecord,
} from '../../internal/records/index.ts';
import { formatTaint, isControlPlane, parseRoles, type Role } from '../../internal/role/index.ts';
import type { Call } from '../../internal/rpc/index.ts';
import { isGranted, type OwnerDocuments, type Submission } from '../ownerdocs/index.ts';
import {
  mutationFrom,
  nameOfCaller,
  ownerSignatureMissing,
  checkLabels,
  refuseField,
  rolesFromWire,
  submitterOf,
  taintsFromWire,
  withDocuments,
  type Caller,
} from '../curator/index.ts';
import {
  DecideJoinRequestSchema,
  type Approval,
  type DecideJoinRequest,
} from '../curatorproto/gen/operatorapi_pb.js';
import { isNodeName, JoinError, requestedName, whyStillRemoved } from '../join/index.ts';
import { OperatorApiError } from './errors.ts';
import { isWantedState, joinToWire } from './join-wire.ts';
import { findJoin, listJoins, readSlotQueue } from './find-join.ts';
import { refuseRemoved } from './find-removed.ts';
import { machineTrace } from './machine-trace.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

/** How long an approval by an operator is valid. It is long because the machine may be off when it is approved. */
const APPROVAL_MS = DAY_MS;
/** How many machines that claim a name an error lists. */
const MAX_CLAIMS = 8;
const MAX_REASON = 512;

type JoinParts = Pick<OperatorApiParts, 'etcd' | 'mutations' | 'clock' | 'ownerDocs'>;

/** Join requests: operators list, explain, approve and refuse them. */
export function joinDecisionHandlers(parts: JoinParts): HandlersOf<'listJoins' | 'decideJoin' | 'getTrace'> {
  const { etcd, mutations, ownerDocs } = parts;
  return {
    listJoins: async ({ states }, { signal }) => {
      const [all, positions] = await Promise.all([listJoins(etcd, signal), readSlotQueue(etcd, signal)]);
      const wanted = all.map(({ record }) => record).filter((record) => isWantedState(record, states));
      const newestFirst = wanted.sort((a, b) => b.lastSeenMs - a.lastSeenMs);
      return { joins: newestFirst.map((record) => joinToWire(record, positions.get(record.nodeId))) };
    },
    decideJoin: async (request, call) => {
      const { signal } = call;
      const { nodeId } = (await findAsked(parts, request.join, signal)).record;
      const mutation = mutationFrom(DecideJoinRequestSchema, request, { ...call, subject: nodeId });
      await mutations.run(mutation, async () => {
        const { entry, record: before } = await findJoin(etcd, nodeId, signal);
        const record = await withDecision(parts, { request, before }, call);
        const submission = await ownerDocs.submission(request.documents, submitterOf(call));
        if (record.state === 'approved') await verifyApproval(ownerDocs, { record, submission, signal });
        const plan = {
          when: [unchanged(entry)],
          then: [records.join.put(entry.key, record)],
          detail: detailOf(request, record),
        };
        return withDocuments(plan, submission);
      });
      return { join: joinToWire((await findJoin(etcd, nodeId, signal)).record) };
    },
    getTrace: ({ subject }, { signal }) => machineTrace(parts, subject, signal),
  };
}

/**
 * Finds a request, and says of a removed machine without one that it was removed.
 * @throws OperatorApiError
 */
async function findAsked(parts: Pick<JoinParts, 'etcd' | 'ownerDocs'>, given: string, signal: AbortSignal) {
  try {
    return await findJoin(parts.etcd, given, signal);
  } catch (error) {
    if (findCoded(error)?.code !== 'operatorapi-join-unknown') throw error;
    await refuseClaimed(parts.etcd, given, signal);
    await refuseRemoved(parts, given, signal);
    throw error;
  }
}

/**
 * Refuses a name that machines claim: any machine can claim any name, so a decision by name could admit an attacker.
 * @throws OperatorApiError `operatorapi-join-claimed`
 */
async function refuseClaimed(etcd: KeySpace, given: string, signal: AbortSignal): Promise<void> {
  const ids = (await listJoins(etcd, signal))
    .filter(
      ({ record: { state, claimed } }) =>
        state !== 'joined' && [claimed.hostname, claimed.name].includes(given),
    )
    .map(({ record }) => record.nodeId);
  if (ids.length === 0) return;
  const shown = ids.slice(0, MAX_CLAIMS).join(', ');
  throw new OperatorApiError(
    'operatorapi-join-claimed',
    `machine ${JSON.stringify(given.slice(0, 80))}: a name that a machine gives itself proves nothing, so it cannot be used here; claimed by ${shown}`,
  );
}

/**
 * An operator alone can approve only workers. A control plane needs a grant of an owner for this machine and key.
 * @throws OwnerDocumentError
 */
async function verifyApproval(
  ownerDocs: OwnerDocuments,
  of: { readonly record: JoinRecord; readonly submission: Submission; readonly signal: AbortSignal },
): Promise<void> {
  const { nodeId, pubKey, machine, decision } = of.record;
  const roles = decision?.roles ?? [];
  if (!isControlPlane(roles)) return;
  const subject = { nodeId, pubKeyDer: Buffer.from(pubKey, 'base64'), identity: machine.identity };
  if (isGranted(of.submission.find('grant', nodeId), subject, roles)) return;
  const { document } = await ownerDocs.tryNewest('grant', nodeId, of.signal);
  if (!isGranted(document, subject, roles))
    throw ownerSignatureMissing(`approving ${nodeId} as a control plane`);
}

function alreadyJoined({ nodeId, decision }: JoinRecord): OperatorApiError {
  const as = decision === undefined ? '' : ` as node ${decision.name}`;
  return new OperatorApiError('operatorapi-already-joined', `${nodeId} has already joined${as}`);
}

/** The request with the decision of the operator. */
async function withDecision(
  { etcd, clock, ownerDocs }: JoinParts,
  { request, before }: { readonly request: DecideJoinRequest; readonly before: JoinRecord },
  { peer, signal }: Call<Caller>,
): Promise<JoinRecord> {
  if (before.state === 'joined') throw alreadyJoined(before);
  const by = nameOfCaller(peer);
  const timeMs = clock.nowMs();
  const { decision } = request;
  if (decision.case === 'refuse') {
    if (decision.value.reason.length > MAX_REASON)
      refuseField('reason', `${decision.value.reason.length} characters, at most ${MAX_REASON}`);
    return {
      ...before,
      state: 'refused',
      decision: { name: '', roles: [], labels: {}, by, timeMs, expiresMs: timeMs },
      code: 'join-refused',
      message: decision.value.reason,
    };
  }
  if (decision.case !== 'approve') return refuseField('decision', 'expected approve or refuse');
  const removedAs = [before.machine.identity, keyIdentityOf(Buffer.from(before.pubKey, 'base64'))];
  const whyExcluded = await whyStillRemoved(ownerDocs, await readRemovals(etcd, removedAs, signal), signal);
  if (whyExcluded !== undefined)
    throw new JoinError('join-decommissioned', `cannot approve ${before.nodeId}: ${whyExcluded}`);
  const assignment = assignmentOf(decision.value, before);
  const { name } = assignment;
  const holder = await etcd.get(nodeNameKey(name), { signal });
  if (holder !== undefined && new TextDecoder().decode(holder.value) !== before.nodeId)
    throw new JoinError('join-name-taken', `cannot approve ${before.nodeId} as ${name}: the name is taken`);
  return {
    ...before,
    state: 'approved',
    decision: { ...assignment, roles: [...assignment.roles], by, timeMs, expiresMs: timeMs + APPROVAL_MS },
    code: '',
    message: '',
  };
}

/**
 * The name, roles, labels and taints that an approval assigns. If the operator gave no name, the name that the
 * machine requests is used; everything else comes from the operator.
 */
function assignmentOf(approval: Approval, { claimed, nodeId }: JoinRecord) {
  const name = approval.name === '' ? (requestedName(claimed) ?? nodeId) : approval.name;
  if (!isNodeName(name)) refuseField('name', 'expected at most 63 lower-case letters, digits and dashes');
  const roles: readonly Role[] =
    approval.roles.length === 0 ? parseRoles(['KubernetesWorker']) : rolesFromWire(approval.roles);
  checkLabels(approval.labels);
  const taints = taintsFromWire(approval.taints);
  return {
    name,
    roles,
    labels: { ...approval.labels },
    ...(taints.length === 0 ? {} : { taints: [...taints] }),
  };
}

function detailOf(request: DecideJoinRequest, { machine, decision }: JoinRecord): Record<string, unknown> {
  const { identity, evidenceDigest, policyVersion } = machine;
  const about = { identity, evidenceDigest, policyVersion };
  return request.decision.case === 'refuse'
    ? { verdict: 'refused', reason: request.decision.value.reason, ...about }
    : {
        verdict: 'approved',
        name: decision?.name,
        roles: decision?.roles,
        labels: decision?.labels,
        ...(decision?.taints === undefined ? {} : { taints: decision.taints.map(formatTaint) }),
        ...about,
      };
}

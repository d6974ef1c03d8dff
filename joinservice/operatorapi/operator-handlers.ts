import type { MessageInitShape } from '@bufbuild/protobuf';
import { MINUTE_MS } from '../../internal/clock/index.ts';
import {
  absent,
  remove,
  unchanged,
  type Condition,
  type Entry,
  type KeySpace,
} from '../../internal/etcd/index.ts';
import { ownerPubKeyFromRaw } from '../../internal/attestation/ownerkey/index.ts';
import { fingerprintOfKey, spkiDerOf, verifyCertificateRequest } from '../../internal/pki/index.ts';
import {
  OPERATOR_NAME,
  type OperatorRecord,
  OPERATORS_PREFIX,
  records,
} from '../../internal/records/index.ts';
import { OPERATOR_ROLES } from '../../internal/role/index.ts';
import type { Call } from '../../internal/rpc/index.ts';
import type { Submission } from '../ownerdocs/index.ts';
import {
  mutationFrom,
  ownerSignatureMissing,
  readCluster,
  refuseField,
  submitterOf,
  withDocuments,
  type Caller,
} from '../curator/index.ts';
import {
  DeleteOperatorRequestSchema,
  PutOperatorRequestSchema,
  type DeleteOperatorRequest,
  type OperatorSchema,
  type PutOperatorRequest,
  type RenewOperatorRequest,
} from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError, signed } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';
import { requireOtherOwnershipSigner } from './ownership-handlers.ts';

type OperatorParts = Pick<OperatorApiParts, 'etcd' | 'mutations' | 'clock' | 'ownerDocs'> & {
  readonly signer: Pick<OperatorApiParts['signer'], 'signOperator'>;
};

/**
 * Handlers that manage operators. Like a node, an operator is identified by a recorded key. The certificate only
 * proves that the caller has this key.
 */
export function operatorHandlers(
  parts: OperatorParts,
): HandlersOf<'listOperators' | 'putOperator' | 'renewOperator' | 'deleteOperator'> {
  return {
    listOperators: async (_request, { signal }) => ({
      operators: (await listOperators(parts.etcd, signal)).map(({ record }) => operatorToWire(record)),
    }),
    putOperator: (request, call) => putOperator(parts, request, call),
    renewOperator: (request, call) => renewOperator(parts, request, call),
    deleteOperator: (request, call) => deleteOperator(parts, request, call),
  };
}

async function deleteOperator(
  { etcd, mutations, ownerDocs }: OperatorParts,
  request: DeleteOperatorRequest,
  call: Call<Caller>,
) {
  const { name } = request;
  const mutation = mutationFrom(DeleteOperatorRequestSchema, request, { ...call, subject: name });
  await mutations.run(mutation, async () => {
    const all = await listOperators(etcd, call.signal);
    const plan = planDelete(all, name);
    const signer = await requireOtherSigner(etcd, { all, name, remaining: undefined }, call.signal);
    const submission = await ownerDocs.submission(request.documents, submitterOf(call));
    verifyOperators(submission, othersThan(name, all), `removing operator ${name}`);
    return withDocuments({ ...plan, when: [...plan.when, ...signer] }, submission);
  });
  return {};
}

/**
 * Records an operator, then issues its certificate. If the certificate cannot be issued, a repetition of the call
 * issues it.
 */
async function putOperator(
  { etcd, mutations, clock, signer, ownerDocs }: OperatorParts,
  request: PutOperatorRequest,
  call: Call<Caller>,
) {
  const { name, certificateRequest } = request;
  const { signal } = call;
  const role = OPERATOR_ROLES.find((each) => each === request.role);
  if (role === undefined) return refuseField('role', OPERATOR_ROLES.join(', '));
  if (!OPERATOR_NAME.test(name))
    refuseField('name', 'expected at most 64 lower-case letters, digits and .-_@');
  const fingerprint = fingerprintOfKey(await verifyCertificateRequest(certificateRequest));
  const mutation = mutationFrom(PutOperatorRequestSchema, request, { ...call, subject: name });
  const record: OperatorRecord = { version: 1, name, fingerprint, role, createdMs: clock.nowMs() };
  await mutations.run(mutation, async () => {
    const all = await listOperators(etcd, signal);
    const plan = planPut(all, record);
    const remaining = role === 'owner' ? fingerprint : undefined;
    const submission = await ownerDocs.submission(request.documents, submitterOf(call));
    verifyOperators(submission, [...othersThan(name, all), record], `storing operator ${name}`);
    const otherSigner = await requireOtherSigner(etcd, { all, name, remaining }, signal);
    return withDocuments({ ...plan, when: [...plan.when, ...otherSigner] }, submission);
  });
  return {
    operator: operatorToWire(record),
    certificatePem: await certify(signer, certificateRequest, signal),
    clusterCaPem: (await readCluster(etcd, signal)).caPem,
  };
}

function othersThan(name: string, all: readonly Found[]): readonly OperatorRecord[] {
  return all.map(({ record }) => record).filter((record) => record.name !== name);
}

/** Checks that an owner has signed exactly the operators that exist after the change. @throws OwnerDocumentError */
function verifyOperators(submission: Submission, after: readonly OperatorRecord[], doing: string): void {
  const lines = (all: readonly Pick<OperatorRecord, 'name' | 'fingerprint' | 'role'>[]): string =>
    all
      .map(({ name, fingerprint, role }) => `${name} ${fingerprint} ${role}`)
      .sort()
      .join('\n');
  const signed = submission.find('operators')?.body.operators;
  if (signed === undefined || lines(signed) !== lines(after)) throw ownerSignatureMissing(doing);
  // A removed owner must also be missing from the signed set of owners, or its key could still sign.
  const owners = after.filter(({ role }) => role === 'owner').map(({ fingerprint }) => fingerprint);
  const stray = (submission.signedOwners ?? [])
    .map((key) => fingerprintOfKey(spkiDerOf(ownerPubKeyFromRaw(key))))
    .find((fingerprint) => !owners.includes(fingerprint));
  if (stray !== undefined)
    throw ownerSignatureMissing(`${doing}: the signed set of owners still contains ${stray}`);
}

/** Issues a new certificate for the recorded key. Changes nothing but the audit log. */
async function renewOperator(
  { mutations, signer, clock }: OperatorParts,
  { certificateRequest }: RenewOperatorRequest,
  { peer, signal }: Call<Caller>,
): Promise<{ readonly certificatePem: string }> {
  const fingerprint = fingerprintOfKey(await verifyCertificateRequest(certificateRequest));
  if (peer.kind !== 'operator' || fingerprint !== peer.fingerprint)
    refuseField('certificate_request', 'expected the key of the caller');
  // One idempotency key for each operator key and minute, so that repeated calls cannot fill the audit log.
  const minute = Math.floor(clock.nowMs() / MINUTE_MS);
  const mutation = {
    ...{ method: 'RenewOperator', subject: peer.name, caller: peer, signal },
    idempotencyKey: `renewal-${fingerprint.slice(-16)}-${minute}`,
    request: Buffer.from(fingerprint),
  };
  await mutations.run(mutation, () => Promise.resolve({ when: [], then: [], detail: { fingerprint } }));
  return { certificatePem: await certify(signer, certificateRequest, signal) };
}

interface Found {
  readonly entry: Entry;
  readonly record: OperatorRecord;
}

async function listOperators(etcd: KeySpace, signal: AbortSignal): Promise<readonly Found[]> {
  const { entries } = await etcd.list(OPERATORS_PREFIX, { signal });
  return entries.map((entry) => ({ entry, record: records.operator.decode(entry.key, entry.value) }));
}

/** One record for each name: a new key replaces the old one at once. */
function planPut(all: readonly Found[], record: OperatorRecord) {
  const key = records.operator.key(record.fingerprint);
  const sameKey = all.find(({ entry }) => entry.key === key);
  if (sameKey !== undefined && sameKey.record.name !== record.name)
    refuseField('certificate_request', `its key belongs to operator ${sameKey.record.name}`);
  const before = all.filter((found) => found.record.name === record.name);
  const replaced = before.filter(({ entry }) => entry.key !== key);
  const when: Condition[] = before.map(({ entry }) => unchanged(entry));
  if (sameKey === undefined) when.push(absent(key));
  if (record.role !== 'owner') when.push(...keepOwner(all, record.name));
  const { name, role, fingerprint } = record;
  return {
    when,
    then: [records.operator.put(key, record), ...replaced.map(({ entry }) => remove(entry.key))],
    detail: { name, role, fingerprint, replaced: replaced.map((found) => found.record.fingerprint) },
  };
}

function planDelete(all: readonly Found[], name: string) {
  const gone = all.filter(({ record }) => record.name === name);
  if (gone.length === 0)
    throw new OperatorApiError(
      'operatorapi-operator-unknown',
      `operator ${JSON.stringify(name.slice(0, 80))} not found`,
    );
  return {
    when: [...gone.map(({ entry }) => unchanged(entry)), ...keepOwner(all, name)],
    then: gone.map(({ entry }) => remove(entry.key)),
    detail: { name, fingerprints: gone.map(({ record }) => record.fingerprint) },
  };
}

/** The condition that the ownership of the cluster is not signed with a key that this change takes from an owner. */
async function requireOtherSigner(
  etcd: KeySpace,
  who: {
    readonly all: readonly Found[];
    readonly name: string;
    /** The fingerprint of the key that remains the key of an owner; undefined if no key remains. */
    readonly remaining: string | undefined;
  },
  signal: AbortSignal,
): Promise<readonly Condition[]> {
  const { all, name, remaining } = who;
  const own = all.filter(({ record }) => record.name === name);
  const fingerprints = own.map(({ record }) => record.fingerprint).filter((each) => each !== remaining);
  return requireOtherOwnershipSigner(etcd, { name, fingerprints }, signal);
}

/** The condition that another owner remains; none if the operator is not an owner. @throws OperatorApiError `operatorapi-last-owner` */
function keepOwner(all: readonly Found[], name: string): readonly Condition[] {
  const owners = all.filter(({ record }) => record.role === 'owner');
  if (!owners.some(({ record }) => record.name === name)) return [];
  const other = owners.find(({ record }) => record.name !== name);
  if (other === undefined)
    throw new OperatorApiError('operatorapi-last-owner', `cannot remove the last owner (${name})`);
  return [unchanged(other.entry)];
}

/**
 * Issues the certificate. If the signer fails, the record of the operator stays, and the caller gets the certificate
 * by repeating the call.
 * @throws OperatorApiError `operatorapi-signing-failed`
 */
function certify(signer: OperatorParts['signer'], request: Uint8Array, signal: AbortSignal): Promise<string> {
  return signed('the certificate of an operator', signer.signOperator(request, signal), signal);
}

function operatorToWire(record: OperatorRecord): MessageInitShape<typeof OperatorSchema> {
  const { name, fingerprint, role, createdMs } = record;
  return { name, fingerprint, role, createdMs: BigInt(createdMs) };
}

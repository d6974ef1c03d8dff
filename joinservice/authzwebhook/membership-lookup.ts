import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { OPERATOR_NAME, records } from '../../internal/records/index.ts';
import { isMemberState, KUBERNETES_GROUPS, type RecordedPerson } from '../../internal/role/index.ts';
import type { OwnerDocuments } from '../ownerdocs/index.ts';
import type { Claim, RecordedMember } from './access-review.ts';

/** How long a result is reused: a kubelet sends several requests at once, and each would be a read of etcd. */
const MAX_AGE_MS = 1_000;
const READ_MS = 2_000;
const MAX_CACHED = 10_000;
/** The patterns of IDs; no record has an ID of another form. */
const IDS = { node: /^[A-Za-z0-9._-]{1,128}$/, operator: /^sha256:[0-9a-f]{64}$/ } as const;

/**
 * Looks up a node or an operator. Resolves with undefined if there is no record, or if no owner has signed the record
 * of an operator. Rejects while etcd is unavailable.
 */
export type MembershipLookup = (claim: Claim, signal: AbortSignal) => Promise<RecordedMember | undefined>;

/** A lookup with linearizable reads, one at a time for each identity, each reused for a second. */
export function createMembershipLookup({ etcd, ownerDocs }: LookupReads, clock: Clock): MembershipLookup {
  const cached = new Map<string, { readonly readMs: number; readonly member: Promise<Lookup> }>();
  return async (claim, signal) => {
    if (!IDS[claim.kind].test(claim.id)) return undefined;
    const nowMs = clock.monotonicMs();
    // IDs of nodes and operators differ, so one map has both: only those of operators contain a colon.
    const found = cached.get(claim.id);
    if (found !== undefined && nowMs - found.readMs < MAX_AGE_MS) return found.member;
    if (cached.size >= MAX_CACHED) cached.clear();
    const member = readMember({ etcd, ownerDocs, clock, signal }, claim);
    // The age of a result counts from the start of the read, so no reused result is more than a second out of
    // date.
    cached.set(claim.id, { readMs: nowMs, member });
    // A failed read is not reused.
    member.catch(() => cached.delete(claim.id));
    return member;
  };
}

/**
 * The people whose requests the webhook does not deny, from one linearizable read: the same as the lookup of each would find. Names of
 * an unusual form are left out.
 */
export async function listRecordedPersons(
  {
    ownerDocs,
    clock,
  }: { readonly ownerDocs: Pick<OwnerDocuments, 'signedOperators'>; readonly clock: Clock },
  signal: AbortSignal,
): Promise<readonly RecordedPerson[]> {
  const operators = await withTimeout(
    { what: 'reading the operators', ms: READ_MS, clock, signal },
    (child) => ownerDocs.signedOperators(child),
  );
  return operators
    .filter(({ name }) => OPERATOR_NAME.test(name))
    .map(({ name, fingerprint, role }) => ({ uid: fingerprint, user: name, group: KUBERNETES_GROUPS[role] }));
}

type Lookup = RecordedMember | undefined;

/** The sources of records and of owners' signatures. */
interface LookupReads {
  readonly etcd: KeySpace;
  readonly ownerDocs: Pick<OwnerDocuments, 'recordedOperator'>;
}

async function readMember(
  { etcd, ownerDocs, clock, signal }: LookupReads & { readonly clock: Clock; readonly signal: AbortSignal },
  { kind, id }: Claim,
): Promise<Lookup> {
  const key = records[kind].key(id);
  return withTimeout({ what: `reading ${key}`, ms: READ_MS, clock, signal }, async (child) => {
    if (kind === 'node') {
      const { record } = await records.node.read(etcd, key, child);
      return record && { kind, name: record.name, isMember: isMemberState(record.state) };
    }
    const found = await ownerDocs.recordedOperator(id, child);
    if (found === undefined || found.whyUnsigned !== undefined) return undefined;
    return { kind, name: found.record.name, role: found.record.role };
  });
}

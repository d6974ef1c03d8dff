import type { Secret } from '../secret/index.ts';
import { digestOf } from './algorithms.ts';
import { readPcrs } from './commands/pcr.ts';
import { policyAuthorize, policyCounter, policyGetDigest, verifySignature } from './commands/policies.ts';
import { policyOr, policyPcr, startDryRunSession, type PolicySession } from './commands/sessions.ts';
import type { TpmConnection } from './connection.ts';
import { TpmError, unproved } from './errors.ts';
import type { NvCounter } from './nv-counter.ts';
import {
  createdFor,
  createProved,
  encodeHalves,
  hasPolicy,
  openProved,
  parseProvedSeal,
  readHalves,
  type ExpiringPurpose,
} from './proved-seal.ts';
import {
  expiringPolicy,
  expiryOf,
  readExpiry,
  satisfyExpiry,
  writeExpiry,
  type SealExpiry,
} from './commands/seal-expiry.ts';
import { unsealWithPolicy } from './sealed-object.ts';
import { pcrDigest } from './structures/pcr-selection.ts';
import {
  authorizePolicyDigest,
  counterPolicyDigest,
  orPolicyDigest,
  pcrPolicyDigest,
} from './structures/policy-digest.ts';
import { nameOf } from './structures/public.ts';
import type { TpmSignature } from './structures/signature.ts';
import { policyKeyPublic } from './structures/templates.ts';
import { WireReader, WireWriter } from './wire.ts';

const MAGIC = 0x63545041; // "cTPA"
const DIGEST_BYTES = 32;

/** Who may approve other values of the PCRs than those at the sealing, and for what. */
export interface PolicyAuthority {
  /** x and y of the public key on P-256, 32 bytes each. */
  readonly point: Uint8Array;
  /** What the approvals are for, e.g. one disk: 32 bytes. An approval for anything else does not count. */
  readonly reference: Uint8Array;
}

/** The purpose of a secret whose PCRs the owner of a key may change. */
export interface ApprovablePurpose extends ExpiringPurpose {
  /** undefined: nobody may; the secret opens only with the PCRs at its sealing. */
  readonly authority: PolicyAuthority | undefined;
  /** An approval counts while the counter has at most its generation. */
  readonly counter: NvCounter;
}

/** Values of the PCRs that somebody has approved. The TPM verifies the signature. */
export interface PcrApproval {
  /** Names of the sealed secrets that the approval is for (`nameOfSeal()`), which the caller has authenticated. */
  readonly seals: readonly Uint8Array[];
  readonly generation: bigint;
  readonly software: readonly {
    /** `pcrDigest()` of the values. */
    readonly digest: Uint8Array;
    /** Over `approvedStatement()`. */
    readonly signature: TpmSignature;
  }[];
}

/**
 * Seals a secret under a policy with two branches:
 *
 * ```
 * PolicyOR ─┬─ counter ≤ generation ∧ PCRs as at the sealing
 *           └─ PolicyAuthorize(key, reference): the key has signed "counter ≤ a generation ∧ these PCRs"
 * ```
 *
 * The first branch needs nobody and ends with the first increment of the counter, i.e. with the first approval. With an `expiry`, both branches end when
 * its counter passes its last value: then no approval opens the secret either.
 */
export async function sealApprovable(
  tpm: TpmConnection,
  secret: Secret<Uint8Array>,
  options: Omit<ApprovablePurpose, 'expiryCounter'> & {
    readonly authority: PolicyAuthority;
    readonly generation: bigint;
    readonly expiry?: SealExpiry;
  },
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { purpose, pcrs, authority, counter, generation, expiry } = options;
  const approved = branchOf(authority);
  const policyOf = (digest: Uint8Array): Uint8Array =>
    expiringPolicy(orPolicyDigest([policyFor({ counter, generation, pcrs, digest }), approved]), expiry);
  const halves = await createProved(tpm, { secret, purpose, pcrs, policyOf }, signal);
  const head = writeExpiry(new WireWriter().u32(MAGIC), expiry).u64(generation).bytes(approved);
  return encodeHalves(head, halves).finish();
}

/**
 * Unseals a secret of `sealApprovable()`, which an attacker may have replaced. It was sealed while the PCRs had the values that they
 * have now, as the TPM proves, or the signed approval names this very secret.
 * @param approval undefined if there is none
 * @throws TpmError as `unsealProved()`; `tpm-policy-failed` if the current values of the PCRs are not approved
 */
export async function unsealApprovable(
  tpm: TpmConnection,
  sealed: Uint8Array,
  options: ApprovablePurpose & { readonly approval: PcrApproval | undefined },
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { pcrs, counter, authority, approval } = options;
  const { last, generation, approved, halves } = parseApprovableSeal(sealed);
  const expiry = expiryOf(last, options.expiryCounter);
  const created = createdFor(halves, options);
  const own = policyFor({ counter, generation, pcrs, digest: created.pcrDigest });
  if (!hasPolicy(halves.publicPart, expiringPolicy(orPolicyDigest([own, approved]), expiry)))
    throw unproved('its policy is not that of the PCRs at its sealing, or of an approval');
  const now = pcrDigest(await readPcrs(tpm, { hash: 'sha256', pcrs }, signal), 'sha256');
  const approvedNow = approval?.software.find(({ digest }) => equal(digest, now));
  const satisfied =
    authority !== undefined && approval !== undefined && approvedNow !== undefined
      ? await approvedBranch(tpm, { ...options, authority, approval, ...approvedNow, sealed }, signal)
      : ownBranch(tpm, { ...options, generation, isCurrent: equal(created.pcrDigest, now) }, signal);
  await using opened = await openProved(tpm, { halves, parentName: created.parentName }, signal);
  const satisfy = async (session: PolicySession): Promise<void> => {
    await satisfied(session);
    await policyOr(tpm, session, [own, approved], signal);
    await satisfyExpiry(tpm, { session, expiry }, signal);
  };
  return await unsealWithPolicy(tpm, { ...opened, satisfy }, signal);
}

/**
 * Tests an approval as far as a TPM can before the PCRs have the approved values: it verifies each signature, and a dry-run session
 * computes the policy that a session will have then. @throws TpmError `tpm-refused`, `tpm-seal-unproved`
 */
export async function testApproval(
  tpm: TpmConnection,
  sealed: Uint8Array,
  options: ApprovablePurpose & { readonly authority: PolicyAuthority; readonly approval: PcrApproval },
  signal: AbortSignal,
): Promise<void> {
  const { pcrs, counter, approval } = options;
  const { last, generation, halves } = parseApprovableSeal(sealed);
  const expiry = expiryOf(last, options.expiryCounter);
  const { pcrDigest: digest } = createdFor(halves, options);
  const own = policyFor({ counter, generation, pcrs, digest });
  for (const each of approval.software) {
    const satisfy = await approvedBranch(tpm, { ...options, ...each, sealed }, signal);
    await using session = await startDryRunSession(tpm, signal);
    await satisfy(session, each.digest);
    const reached = await policyGetDigest(tpm, session, signal);
    if (!hasPolicy(halves.publicPart, expiringPolicy(orPolicyDigest([own, reached]), expiry)))
      throw unproved('the approval does not lead to the policy of the secret');
  }
}

/** What an authority signs to approve values of the PCRs (Part 3, 23.16: `approvedPolicy`, then `policyRef`). */
export function approvedStatement(
  approved: PolicyConditions & { readonly reference: Uint8Array },
): Uint8Array {
  return new WireWriter().bytes(policyFor(approved)).bytes(approved.reference).finish();
}

/** The Name of a sealed secret, which commits to its content: no other secret has the same one. @throws TpmError `tpm-malformed` */
export function nameOfSeal(sealed: Uint8Array): Uint8Array {
  return nameOf({ bytes: parseApprovableSeal(sealed).halves.publicPart, nameHash: 'sha256' });
}

/** The generation with which a secret was sealed. @throws TpmError `tpm-malformed` */
export function generationOfSeal(sealed: Uint8Array): bigint {
  return parseApprovableSeal(sealed).generation;
}

/** The last value of its counter with which a secret of `sealApprovable()` or `sealProved()` opens; undefined: it does not end. @throws TpmError `tpm-malformed` */
export function lastValueOfSeal(sealed: Uint8Array): bigint | undefined {
  return isApprovable(sealed) ? parseApprovableSeal(sealed).last : parseProvedSeal(sealed).last;
}

/** Whether a blob is one of `sealApprovable()` that this authority may approve PCRs for. */
export function isApprovableBy(sealed: Uint8Array, authority: PolicyAuthority): boolean {
  if (new WireReader(sealed, 'a sealed secret').u32('magic') !== MAGIC) return false;
  return equal(parseApprovableSeal(sealed).approved, branchOf(authority));
}

/** Whether a blob is one of `sealApprovable()`, and not of `sealProved()`. */
export function isApprovable(sealed: Uint8Array): boolean {
  return new WireReader(sealed, 'a sealed secret').u32('magic') === MAGIC;
}

/** Parses a blob of `sealApprovable()` from disk. @throws TpmError `tpm-malformed` */
function parseApprovableSeal(sealed: Uint8Array) {
  const reader = new WireReader(sealed, 'a sealed secret');
  reader.expect(reader.u32('magic'), MAGIC, 'magic');
  const last = readExpiry(reader);
  const generation = reader.u64('generation');
  const approved = reader.bytes(DIGEST_BYTES, 'policy of an approval');
  const halves = readHalves(reader);
  reader.end();
  return { last, generation, approved, halves };
}

interface PolicyConditions {
  readonly counter: NvCounter;
  readonly generation: bigint;
  readonly pcrs: readonly number[];
  /** `pcrDigest()` of the values. */
  readonly digest: Uint8Array;
}

/** The policy "the counter has at most this generation, and the PCRs have these values". */
function policyFor({ counter, generation, pcrs, digest }: PolicyConditions): Uint8Array {
  return pcrPolicyDigest(pcrs, digest, counterPolicyDigest(counter.definition, generation));
}

function branchOf({ point, reference }: PolicyAuthority): Uint8Array {
  return authorizePolicyDigest(keyNameOf(point), reference);
}

function keyNameOf(point: Uint8Array): Uint8Array {
  return nameOf({ bytes: policyKeyPublic(point), nameHash: 'sha256' });
}

/** Sends the commands of a branch; a dry-run session needs the PCRs that it is to assume. */
type Branch = (session: PolicySession, assumed?: Uint8Array) => Promise<void>;

/** The branch of the PCRs at the sealing. */
function ownBranch(
  tpm: TpmConnection,
  options: Omit<PolicyConditions, 'digest'> & { readonly isCurrent: boolean },
  signal: AbortSignal,
): Branch {
  const { counter, generation, pcrs, isCurrent } = options;
  if (!isCurrent)
    throw new TpmError('tpm-policy-failed', 'unsealing a secret: nobody has approved the current PCRs');
  return async (session) => {
    await policyCounter(tpm, { session, counter: counter.definition, limit: generation }, signal);
    await policyPcr(tpm, { session, pcrs }, signal);
  };
}

/** The branch of an approval. The TPM verifies the signature first, so that a ticket takes no memory of the secret. */
async function approvedBranch(
  tpm: TpmConnection,
  options: ApprovablePurpose & {
    readonly authority: PolicyAuthority;
    readonly approval: PcrApproval;
    readonly digest: Uint8Array;
    readonly signature: TpmSignature;
    readonly sealed: Uint8Array;
  },
  signal: AbortSignal,
): Promise<Branch> {
  const { authority, approval, digest, signature, counter, pcrs, sealed } = options;
  const name = nameOfSeal(sealed);
  if (!approval.seals.some((each) => equal(each, name)))
    throw unproved('the PCRs were approved for another secret');
  const { reference, point } = authority;
  const { generation } = approval;
  const approvedPolicy = policyFor({ counter, generation, pcrs, digest });
  const statement = approvedStatement({ counter, generation, pcrs, digest, reference });
  const publicPart = policyKeyPublic(point);
  const verified = { publicPart, digest: digestOf('sha256', statement), signature };
  const ticket = await verifySignature(tpm, verified, signal);
  return async (session, assumed) => {
    await policyCounter(tpm, { session, counter: counter.definition, limit: generation }, signal);
    await policyPcr(tpm, { session, pcrs, ...(assumed && { expected: assumed }) }, signal);
    // A dry-run session does not compare what it has reached with what was approved.
    if (assumed !== undefined && !equal(await policyGetDigest(tpm, session, signal), approvedPolicy))
      throw unproved('the TPM computes another policy for the approved PCRs');
    const keyName = keyNameOf(point);
    await policyAuthorize(tpm, { session, approvedPolicy, reference, keyName, ticket }, signal);
  };
}

function equal(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}

import type { Secret } from '../secret/index.ts';
import { digestOf } from './algorithms.ts';
import { parseCreationData, verifyCreation, type ProvedHalves } from './commands/creation.ts';
import { loadObject, type SealedObject } from './commands/keys.ts';
import { policyPcr, type PolicySession } from './commands/sessions.ts';
import type { TpmConnection } from './connection.ts';
import { TpmError, unproved } from './errors.ts';
import type { NvCounter } from './nv-counter.ts';
import {
  expiringPolicy,
  expiryOf,
  readExpiry,
  satisfyExpiry,
  writeExpiry,
  type SealExpiry,
} from './commands/seal-expiry.ts';
import { sealToPcrs, unsealWithPolicy } from './sealed-object.ts';
import { openStorage, type Storage } from './storage.ts';
import { pcrPolicyDigest } from './structures/policy-digest.ts';
import { sealedObjectTemplate } from './structures/templates.ts';
import { WireReader, WireWriter } from './wire.ts';

const MAGIC = 0x63545050; // "cTPP"

/**
 * The purpose and the PCRs of a sealed secret. `unsealProved()` with another purpose or other PCRs refuses the secret.
 */
export interface SealPurpose {
  /** Distinguishes the secrets of one program; any text. */
  readonly purpose: string;
  /** SHA-256 bank, 0 to 23, not empty. */
  readonly pcrs: readonly number[];
}

/** The purpose of a secret that may end. */
export interface ExpiringPurpose extends SealPurpose {
  /** The counter that ends secrets of this purpose. A secret that has an end opens for no purpose without a counter. */
  readonly expiryCounter?: NvCounter;
}

/**
 * Seals a secret to this TPM and the current values of the PCRs. Unlike with `sealSecret()`, the TPM also proves later
 * that the secret was sealed while the PCRs had these values. Other software on the same machine can seal a secret of
 * its own to any future values, but the PCRs have other values while that software runs.
 * `expiry`: when the secret ends; undefined: never.
 */
export async function sealProved(
  tpm: TpmConnection,
  secret: Secret<Uint8Array>,
  { purpose, pcrs, expiry }: SealPurpose & { readonly expiry?: SealExpiry },
  signal: AbortSignal,
): Promise<Uint8Array> {
  const policyOf = (digest: Uint8Array): Uint8Array => expiringPolicy(pcrPolicyDigest(pcrs, digest), expiry);
  const halves = await createProved(tpm, { secret, purpose, pcrs, policyOf }, signal);
  return encodeHalves(writeExpiry(new WireWriter().u32(MAGIC), expiry), halves).finish();
}

/**
 * Unseals a secret of `sealProved()`. The sealed secret comes from a disk, so an attacker may have replaced it.
 * @throws TpmError `tpm-policy-failed` when the PCRs have other values or the secret has ended, `tpm-storage-key-changed` for a blob of another
 * TPM, `tpm-credential-rejected` for an altered one, `tpm-seal-unproved` when the secret was sealed for another purpose,
 * to other PCRs, or while the PCRs had other values
 */
export async function unsealProved(
  tpm: TpmConnection,
  sealed: Uint8Array,
  purpose: ExpiringPurpose,
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { pcrs } = purpose;
  const { last, ...halves } = parseProvedSeal(sealed);
  const { pcrDigest, parentName } = createdFor(halves, purpose);
  const expiry = expiryOf(last, purpose.expiryCounter);
  if (!hasPolicy(halves.publicPart, expiringPolicy(pcrPolicyDigest(pcrs, pcrDigest), expiry)))
    throw unproved('the PCRs had other values when the secret was sealed');
  await using opened = await openProved(tpm, { halves, parentName }, signal);
  const satisfy = async (session: PolicySession): Promise<void> => {
    await policyPcr(tpm, { session, pcrs }, signal);
    await satisfyExpiry(tpm, { session, expiry }, signal);
  };
  return await unsealWithPolicy(tpm, { ...opened, satisfy }, signal);
}

/** Parses a blob of `sealProved()` from disk. @throws TpmError `tpm-malformed` */
export function parseProvedSeal(sealed: Uint8Array): ProvedHalves & {
  /** The last value of the counter with which the secret opens; undefined: it does not end. */
  readonly last: bigint | undefined;
} {
  const reader = new WireReader(sealed, 'a sealed secret');
  reader.expect(reader.u32('magic'), MAGIC, 'magic');
  const last = readExpiry(reader);
  const halves = readHalves(reader);
  reader.end();
  return { ...halves, last };
}

/** Seals a secret under a policy, with the proof of its creation for this purpose. */
export async function createProved(
  tpm: TpmConnection,
  options: SealPurpose & {
    readonly secret: Secret<Uint8Array>;
    readonly policyOf: (digest: Uint8Array) => Uint8Array;
  },
  signal: AbortSignal,
): Promise<ProvedHalves> {
  await using storage = await openStorage(tpm, undefined, signal);
  return await sealToPcrs(tpm, { ...options, storage, outsideInfo: labelOf(options.purpose) }, signal);
}

/** The creation data of a sealed secret for this purpose. They count after `openProved()`. @throws TpmError `tpm-seal-unproved` */
export function createdFor(
  { creationData }: Pick<ProvedHalves, 'creationData'>,
  { purpose, pcrs }: SealPurpose,
): Pick<ReturnType<typeof parseCreationData>, 'pcrDigest' | 'parentName'> {
  const created = parseCreationData(creationData);
  if (!equal(created.outsideInfo, labelOf(purpose))) throw unproved('the secret is for another purpose');
  if (created.selection.hash !== 'sha256' || !sameNumbers(created.selection.pcrs, pcrs))
    throw unproved('the secret is for other PCRs');
  return created;
}

/** Loads a sealed secret, after which its creation data are proved. @throws TpmError `tpm-seal-unproved` */
export async function openProved(
  tpm: TpmConnection,
  { halves, parentName }: { readonly halves: ProvedHalves; readonly parentName: Uint8Array },
  signal: AbortSignal,
): Promise<{ readonly storage: Storage; readonly object: SealedObject } & AsyncDisposable> {
  await using parts = new AsyncDisposableStack();
  const storage = parts.use(await openStorage(tpm, parentName, signal));
  const object = parts.use(await loadObject(tpm, storage.key, halves, signal));
  await verifyProof(tpm, { ...halves, ...object, session: storage.session }, signal);
  const owned = parts.move();
  return { storage, object, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Writes the parts of a sealed secret. */
export function encodeHalves(writer: WireWriter, halves: ProvedHalves): WireWriter {
  const { publicPart, privatePart, creationData, ticket } = halves;
  return writer.sized(publicPart).sized(privatePart).sized(creationData).sized(ticket);
}

/** Reads the parts of a sealed secret. @throws TpmError `tpm-malformed` */
export function readHalves(reader: WireReader): ProvedHalves {
  const publicPart = reader.sized('public part', 1024);
  const privatePart = reader.sized('private part', 1024);
  const creationData = reader.sized('creation data', 1024);
  const ticket = reader.sized('ticket', 64);
  return { publicPart, privatePart, creationData, ticket };
}

async function verifyProof(
  tpm: TpmConnection,
  object: Parameters<typeof verifyCreation>[1],
  signal: AbortSignal,
): Promise<void> {
  try {
    await verifyCreation(tpm, object, signal);
  } catch (cause) {
    if (cause instanceof TpmError && cause.code === 'tpm-refused')
      throw unproved('this TPM did not create the secret, or created it under other conditions', cause);
    throw cause;
  }
}

/** Whether the TPM unseals the object under this policy only, and not for an authorization value. */
export function hasPolicy(publicPart: Uint8Array, policy: Uint8Array): boolean {
  const template = sealedObjectTemplate(policy);
  const head = template.subarray(0, -2); // without the size of `unique`, which is empty in a template
  return equal(publicPart.subarray(0, head.length), head);
}

function labelOf(purpose: string): Uint8Array {
  return digestOf('sha256', Buffer.from(`cluster sealed secret v1\0${purpose}`, 'utf8'));
}

function sameNumbers(found: readonly number[], wanted: readonly number[]): boolean {
  const expected = [...new Set(wanted)].sort((a, b) => a - b);
  return found.length === expected.length && found.every((each, at) => each === expected[at]);
}

function equal(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}

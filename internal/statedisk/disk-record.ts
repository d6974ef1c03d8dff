import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { LAYOUT } from '../luks/index.ts';
import type { Secret } from '../secret/index.ts';
import { DISK_KEY_BYTES, WRAPPED_BYTES, type ConsoleRecovery } from './console-recovery.ts';
import { StateDiskError } from './errors.ts';
import { RECIPIENTS_MAC_BYTES } from './recipients-mac.ts';
import { DIGEST_BYTES, type OwnerRecovery } from './recovery-shares.ts';
import { shareSourceSchema, type ShareSource } from './share-source.ts';

/**
 * The length of each of the two slots for records. The slots are at the beginning of the disk, and fill it up to its
 * data.
 */
export const SLOT_BYTES = LAYOUT.dataOffset / 2;
/** The part of a record before its body. A disk writes a sector of 512 bytes whole or not at all. */
export const PREAMBLE_BYTES = 512;
const BODY_OFFSET = 4096;
const MAX_META_BYTES = 64 * 1024;
const MAGIC = Buffer.from('clstdisk', 'ascii');
const VERSION = 1;
const STAGES = { formatting: 1, ready: 2 } as const;
const AT = { version: 8, stage: 12, sequence: 16, metaBytes: 24, checksum: 32, mac: 64, end: 96 } as const;

/** SHA-256 of an order. */
const ORDER_BYTES = 32;

const base64 = z.base64().transform((text) => new Uint8Array(Buffer.from(text, 'base64')));
const base64Of = (...lengths: readonly number[]) => base64.refine((bytes) => lengths.includes(bytes.length));
/** The recovery key for all owners, or a share for each. */
const recovery = z.union([
  base64.transform((sealed): OwnerRecovery => ({ kind: 'key', sealed })),
  z
    .strictObject({
      threshold: z.int().min(2),
      shares: z.array(z.strictObject({ sealed: base64, digest: base64Of(DIGEST_BYTES) })),
    })
    .refine(({ threshold, shares }) => threshold <= shares.length)
    .transform((shared): OwnerRecovery => ({ kind: 'shares', ...shared })),
]);
const metaSchema = z.strictObject({
  uuid: z.uuid(),
  nodeShare: base64,
  clusterShare: z.union([base64, shareSourceSchema]),
  recovery,
  console: z
    .strictObject({ diskKey: base64Of(DISK_KEY_BYTES), wrapped: z.array(base64Of(...WRAPPED_BYTES)).min(1) })
    .optional(),
  recipientsMac: base64Of(RECIPIENTS_MAC_BYTES).optional(),
  approval: base64.optional(),
  rotation: base64Of(ORDER_BYTES).optional(),
  registers: z.record(z.string().regex(/^(?:[0-9]|1[0-9]|2[0-3])$/), z.string().regex(/^[0-9a-f]{64}$/)),
});

/** The content of a record. Nothing in it is secret. */
export interface RecordContent {
  /** UUID of the LUKS header. */
  readonly uuid: string;
  /** The sealed node share. */
  readonly nodeShare: Uint8Array;
  /** The sealed cluster share, or, on a worker that does not keep it, where the machine asks for it. Earlier releases do not read such a record. */
  readonly clusterShare: Uint8Array | ShareSource;
  readonly recovery: OwnerRecovery;
  /** How an owner recovers the disk at the console; undefined on a disk of an earlier release, and after a recovery with other recipients. */
  readonly consoleRecovery: ConsoleRecovery | undefined;
  /** MAC over the recipients of the formatting (`macOfRecipients()`); undefined on a disk of an earlier release. */
  readonly recipientsMac: Uint8Array | undefined;
  /** The newest approval of an owner (`parseApproval()`); undefined while nobody has approved other registers. */
  readonly approval: Uint8Array | undefined;
  /** SHA-256 of the newest order of an owner for new keys; undefined while there was none. Earlier releases do not read a record with it. */
  readonly rotation?: Uint8Array | undefined;
  /** The values of the PCRs when the shares were sealed. They show later which PCR changed. */
  readonly registers: ReadonlyMap<number, Uint8Array>;
  /** The LUKS2 header, `LAYOUT.headerBytes` bytes. */
  readonly header: Uint8Array;
}

/** Whether a machine keeps its cluster share itself, sealed to its TPM. */
export function isSealedShare(share: RecordContent['clusterShare']): share is Uint8Array {
  return share instanceof Uint8Array;
}

/** The content of one of the two slots. */
export type FoundRecord =
  | { readonly kind: 'empty' }
  /** Neither empty nor a record: something else, or a write that was cut. */
  | { readonly kind: 'damaged'; readonly isOurs: boolean }
  | { readonly kind: 'formatting' }
  /** Intact, with content that this release does not know. */
  | { readonly kind: 'unknown'; readonly sequence: bigint }
  | {
      readonly kind: 'ready';
      /** The value of the TPM's counter that the record belongs to. */
      readonly sequence: bigint;
      readonly content: RecordContent;
      /** @throws StateDiskError `statedisk-changed` */
      readonly verify: (key: Secret<Uint8Array>) => void;
    };

/**
 * The record of a disk that is being formatted. It fits into one sector, so a crash leaves either all of it or nothing.
 */
export function encodeFormatting(): Uint8Array {
  const preamble = preambleOf('formatting', 0n, 0);
  checksumOf(preamble, new Uint8Array()).copy(preamble, AT.checksum);
  return preamble;
}

/**
 * The record of a disk in use. The MAC covers every byte of the record: sequence, sealed shares, and the whole header
 * with its key slots.
 * @throws RangeError for a content that `parseRecord()` would not take
 */
export function encodeReady(sequence: bigint, content: RecordContent, key: Secret<Uint8Array>): Uint8Array {
  const { header, registers, approval, rotation, recipientsMac, consoleRecovery: wrapped } = content;
  if (header.length !== LAYOUT.headerBytes)
    throw new RangeError(`a header has ${LAYOUT.headerBytes} bytes, not ${header.length}`);
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const meta = Buffer.from(
    JSON.stringify({
      uuid: content.uuid,
      nodeShare: text(content.nodeShare),
      clusterShare: isSealedShare(content.clusterShare) ? text(content.clusterShare) : content.clusterShare,
      recovery: recoveryJson(content.recovery, text),
      ...(wrapped !== undefined && {
        console: { diskKey: text(wrapped.diskKey), wrapped: wrapped.wrapped.map(text) },
      }),
      ...(recipientsMac !== undefined && { recipientsMac: text(recipientsMac) }),
      ...(approval !== undefined && { approval: text(approval) }),
      ...(rotation !== undefined && { rotation: text(rotation) }),
      registers: Object.fromEntries(
        [...registers].map(([pcr, value]) => [pcr, Buffer.from(value).toString('hex')]),
      ),
    }),
  );
  if (meta.length > MAX_META_BYTES) throw new RangeError(`a record has ${meta.length} bytes of metadata`);
  const body = Buffer.concat([meta, header]);
  // It replaces a good one: with a record that cannot be read the disk would be lost, also for its owner.
  if (contentOf(body, meta.length) === undefined) throw new RangeError('a record that could not be read');
  const preamble = preambleOf('ready', sequence, meta.length);
  checksumOf(preamble, body).copy(preamble, AT.checksum);
  macOf(preamble, body, key).copy(preamble, AT.mac);
  return Buffer.concat([preamble, Buffer.alloc(BODY_OFFSET - PREAMBLE_BYTES), body]);
}

/** A record whose owners open the disk alone is one that earlier releases read too. */
function recoveryJson(recovery: OwnerRecovery, text: (bytes: Uint8Array) => string): string | object {
  if (recovery.kind === 'key') return text(recovery.sealed);
  const { threshold, shares } = recovery;
  return {
    threshold,
    shares: shares.map(({ sealed, digest }) => ({ sealed: text(sealed), digest: text(digest) })),
  };
}

/**
 * Parses one slot of `SLOT_BYTES` bytes, which an attacker may control. Only `verify()` proves that this machine wrote
 * a record.
 */
export function parseRecord(slot: Uint8Array): FoundRecord {
  const bytes = Buffer.from(slot.buffer, slot.byteOffset, slot.length);
  if (bytes.length !== SLOT_BYTES) throw new RangeError(`a slot for a record has ${SLOT_BYTES} bytes`);
  const preamble = bytes.subarray(0, PREAMBLE_BYTES);
  if (!preamble.subarray(0, MAGIC.length).equals(MAGIC))
    return isZero(bytes) ? { kind: 'empty' } : { kind: 'damaged', isOurs: false };
  const damaged = { kind: 'damaged', isOurs: true } as const;
  const stage = preamble.readUInt32LE(AT.stage);
  const metaBytes = preamble.readUInt32LE(AT.metaBytes);
  if (preamble.readUInt32LE(AT.version) !== VERSION || !isZero(preamble.subarray(AT.end))) return damaged;
  if (stage === STAGES.formatting)
    return isIntact(preamble, Buffer.alloc(0)) ? { kind: 'formatting' } : damaged;
  if (stage !== STAGES.ready || metaBytes > MAX_META_BYTES) return damaged;
  const body = bytes.subarray(BODY_OFFSET, BODY_OFFSET + metaBytes + LAYOUT.headerBytes);
  if (!isIntact(preamble, body)) return damaged;
  const content = contentOf(body, metaBytes);
  const sequence = preamble.readBigUInt64LE(AT.sequence);
  if (content === undefined) return { kind: 'unknown', sequence };
  return { kind: 'ready', sequence, content, verify: (key) => verifyMac(preamble, body, key) };
}

function contentOf(body: Buffer, metaBytes: number): RecordContent | undefined {
  const parsed = metaSchema.safeParse(parsedJson(body.toString('utf8', 0, metaBytes)));
  if (!parsed.success) return undefined;
  const { registers, approval, rotation, recipientsMac, console: consoleRecovery, ...rest } = parsed.data;
  return {
    ...rest,
    consoleRecovery,
    recipientsMac,
    approval,
    ...(rotation !== undefined && { rotation }),
    registers: new Map(
      Object.entries(registers).map(([pcr, value]) => [
        Number(pcr),
        new Uint8Array(Buffer.from(value, 'hex')),
      ]),
    ),
    header: new Uint8Array(body.subarray(metaBytes)),
  };
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function verifyMac(preamble: Buffer, body: Buffer, key: Secret<Uint8Array>): void {
  const stored = preamble.subarray(AT.mac, AT.end);
  if (!timingSafeEqual(stored, macOf(preamble, body, key)))
    throw new StateDiskError('statedisk-changed', 'verifying the record of the state disk: the MAC differs');
}

function preambleOf(stage: keyof typeof STAGES, sequence: bigint, metaBytes: number): Buffer {
  const preamble = Buffer.alloc(PREAMBLE_BYTES);
  MAGIC.copy(preamble);
  preamble.writeUInt32LE(VERSION, AT.version);
  preamble.writeUInt32LE(STAGES[stage], AT.stage);
  preamble.writeBigUInt64LE(sequence, AT.sequence);
  preamble.writeUInt32LE(metaBytes, AT.metaBytes);
  return preamble;
}

/** Detects incomplete writes. It does not protect against an attacker. */
function checksumOf(preamble: Buffer, body: Buffer | Uint8Array): Buffer {
  return createHash('sha256').update(preamble.subarray(0, AT.checksum)).update(body).digest();
}

function isIntact(preamble: Buffer, body: Buffer): boolean {
  return preamble.subarray(AT.checksum, AT.mac).equals(checksumOf(preamble, body));
}

function macOf(preamble: Buffer, body: Buffer, key: Secret<Uint8Array>): Buffer {
  return createHmac('sha256', key.reveal()).update(preamble.subarray(0, AT.mac)).update(body).digest();
}

function isZero(bytes: Buffer): boolean {
  return bytes.equals(Buffer.alloc(bytes.length));
}

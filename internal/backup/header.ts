import { verify } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson, ed25519KeyFromRaw, rawFromEd25519Spki } from '../crypto/index.ts';
import { nodeIdOf } from '../pki/index.ts';
import type { ByteReader } from './byte-reader.ts';
import { certificateShape, nodesOf, verifyBackupCertificate } from './certificate.ts';
import { BackupError } from './errors.ts';

/** The first bytes of every backup. */
export const MAGIC = Buffer.from('clbackup', 'latin1');
/**
 * The formats that this program reads; it writes format 4. Format 1 has neither the part `workspace` nor the counts of
 * objects, format 2 has no certificates of schedules, format 3 has no part `objects`.
 */
const OLDEST_VERSION = 1;
const SCHEDULE_VERSION = 3;
const FORMAT_VERSION = 4;
/** Size of an Ed25519 signature. */
export const SIGNATURE_BYTES = 64;
const MAX_HEADER_BYTES = 64 * 1024;

const revision = z.string().regex(/^[0-9]{1,19}$/);

const headerShape = z.strictObject({
  clusterId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  clusterName: z.string().max(64),
  epoch: z.int().positive(),
  takenMs: z.int().positive(),
  /** The backup contains at least everything up to these revisions. */
  revisions: z.strictObject({ state: revision, kubernetes: revision }),
  versions: z.strictObject({ agent: z.string().max(64), kubernetes: z.string().max(64) }),
  /** SubjectPublicKeyInfo (DER, base64) of the node that took the backup: the key that signs the backup. */
  signer: z.string().max(128),
  certificate: certificateShape,
});

/** The part of a backup that can be read without a key. */
export type BackupHeader = z.infer<typeof headerShape>;

/** The owners, cluster and epoch that the reader of a backup trusts. */
export interface BackupTrust {
  /** Raw Ed25519 keys of the owners. With an empty list every backup is refused. */
  readonly owners: readonly Uint8Array[];
  readonly clusterId: string;
  /** Backups of an earlier epoch are refused. */
  readonly epoch: number;
}

/** The signed start of a backup: magic, version, length and header. @throws BackupError `backup-malformed` */
export function encodeHeader(header: BackupHeader): Uint8Array {
  const json = Buffer.from(canonicalJson(headerShape.parse(header)), 'utf8');
  const numbers = Buffer.alloc(6);
  numbers.writeUInt16BE(FORMAT_VERSION, 0);
  numbers.writeUInt32BE(json.length, 2);
  return Buffer.concat([MAGIC, numbers, json]);
}

/** Reads the header of untrusted bytes. Its signature is verified, its certificate is not. @throws BackupError */
export async function readHeader(
  reader: ByteReader,
): Promise<{ readonly header: BackupHeader; readonly bytes: Uint8Array }> {
  const magic = await reader.takeUpTo(MAGIC.length);
  if (!magic.equals(MAGIC))
    throw new BackupError(
      'backup-not-a-backup',
      'reading a backup: the file does not start with the bytes of a backup',
    );
  const version = await reader.take(2);
  if (version.readUInt16BE(0) > FORMAT_VERSION)
    throw new BackupError(
      'backup-version-newer',
      `reading a backup: format ${version.readUInt16BE(0)}, this program reads formats up to ${FORMAT_VERSION}`,
    );
  if (version.readUInt16BE(0) < OLDEST_VERSION) throw malformed('format 0');
  const length = await reader.take(4);
  if (length.readUInt32BE(0) > MAX_HEADER_BYTES) throw malformed('its header is too long');
  const json = await reader.take(length.readUInt32BE(0));
  const bytes = Buffer.concat([magic, version, length, json]);
  const header = headerFrom(json);
  if (header.certificate.version === 2 && version.readUInt16BE(0) < SCHEDULE_VERSION)
    throw malformed(`it has the certificate of a schedule, which needs format ${SCHEDULE_VERSION}`);
  if (!isSigned(header, statementOfHeader(bytes), await reader.take(SIGNATURE_BYTES)))
    throw new BackupError('backup-signature-invalid', 'reading a backup: its header was changed');
  return { header, bytes };
}

/** @throws BackupError `backup-other-cluster`, `backup-certificate-invalid`, `backup-epoch-old` */
export function verifyHeader(header: BackupHeader, trust: BackupTrust): void {
  const { certificate, clusterId, epoch, takenMs } = header;
  verifyBackupCertificate(certificate, { ...trust, nowMs: takenMs });
  const nodeId = takerOf(header);
  const nodes = nodesOf(certificate);
  const differs =
    certificate.clusterId !== clusterId || certificate.epoch !== epoch || !nodes.includes(nodeId);
  if (differs)
    throw new BackupError(
      'backup-certificate-invalid',
      `verifying a backup: its certificate is for ${nodes.join(', ')} in epoch ${certificate.epoch} of ${certificate.clusterId}, but the backup was taken by ${nodeId} in epoch ${epoch} of ${clusterId}`,
    );
  refuseOlderEpoch(header, trust.epoch);
}

/** The ID of the node that took a backup. */
export function takerOf({ signer }: Pick<BackupHeader, 'signer'>): string {
  return nodeIdOf(Buffer.from(signer, 'base64'));
}

/** Refuses a backup from before the last known recovery of its cluster. @throws BackupError `backup-epoch-old` */
export function refuseOlderEpoch({ epoch }: Pick<BackupHeader, 'epoch'>, known: number): void {
  if (epoch < known)
    throw new BackupError(
      'backup-epoch-old',
      `verifying a backup: its epoch is ${epoch}, but the cluster is in epoch ${known}`,
    );
}

/** Whether the node of the header signed a statement. */
export function isSigned(header: BackupHeader, statement: Uint8Array, signature: Uint8Array): boolean {
  const spki = Buffer.from(header.signer, 'base64');
  try {
    return verify(undefined, statement, ed25519KeyFromRaw(rawFromEd25519Spki(spki)), signature);
  } catch {
    return false; // the signer is not a valid key
  }
}

/** The statement that the node signs for the header. */
export function statementOfHeader(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from('cluster/backup/header/v1\0', 'utf8'), bytes]);
}

function headerFrom(json: Buffer): BackupHeader {
  try {
    const header = headerShape.parse(JSON.parse(json.toString('utf8')));
    if (!json.equals(Buffer.from(canonicalJson(header), 'utf8')))
      throw new TypeError('the JSON is not canonical');
    return header;
  } catch (cause) {
    throw malformed('its header is malformed', cause);
  }
}

function malformed(why: string, cause?: unknown): BackupError {
  return new BackupError('backup-malformed', `reading a backup: ${why}`, { cause });
}

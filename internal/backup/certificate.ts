import { createHash } from 'node:crypto';
import { z } from 'zod';
import {
  canonicalJson,
  ed25519PubKeyFrom,
  isSignedByRawEd25519Key,
  isVouchedOwnerKey,
  labeledStatement,
  signEd25519,
  type OwnerVoucher,
} from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { BackupError } from './errors.ts';
import { parseRecipient } from './recovery-key.ts';

/** Size limit of a certificate. */
export const MAX_CERTIFICATE_BYTES = 16 * 1024;
const MAX_RECIPIENTS = 16;
const MAX_VOUCHERS = 16;
const LABEL = 'cluster/backup/certificate/v1\0';

const base64Of = (sizeBytes: number) =>
  z.string().refine((text) => {
    const bytes = Buffer.from(text, 'base64');
    return bytes.length === sizeBytes && bytes.toString('base64') === text;
  }, `base64 of ${sizeBytes} bytes expected`);

/** Shape of a certificate in a header and on the wire. */
export const certificateShape = z.strictObject({
  version: z.literal(1),
  clusterId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  epoch: z.int().positive(),
  /** The node that takes the backup. Its ID is a hash of the key that signs the backup. */
  nodeId: z.string().regex(/^node-[0-9a-f]{32}$/),
  /** Who can decrypt the backup, "age1…". */
  recipients: z.array(z.string().max(128)).min(1).max(MAX_RECIPIENTS),
  /** SHA-256 (hex) of the part `workspace`, which the owner has encrypted; absent if there is none. */
  workspaceSha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  issuedMs: z.int().positive(),
  endsMs: z.int().positive(),
  /** Raw Ed25519 key of the owner who signed it. */
  owner: base64Of(32),
  /** A chain from the first owner to `owner`. */
  vouchers: z.array(z.strictObject({ by: base64Of(32), signature: base64Of(64) })).max(MAX_VOUCHERS),
  signature: base64Of(64),
});

/** An owner's permission for one node to take backups for these recipients. */
export type BackupCertificate = z.infer<typeof certificateShape>;

/** Signs a certificate with an owner's key (Ed25519, PKCS#8 PEM). @throws BackupError `backup-recipient-invalid` */
export function signBackupCertificate(
  content: Omit<BackupCertificate, 'version' | 'owner' | 'vouchers' | 'signature'>,
  owner: { readonly keyPem: Secret<string>; readonly vouchers: readonly OwnerVoucher[] },
): BackupCertificate {
  const pubKey = ed25519PubKeyFrom(owner.keyPem);
  if (pubKey === undefined) throw new TypeError('the owner key is not an Ed25519 key');
  content.recipients.forEach(parseRecipient);
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const vouchers = owner.vouchers.map(({ by, signature }) => ({ by: text(by), signature: text(signature) }));
  const unsigned = { version: 1 as const, ...content, owner: text(pubKey), vouchers };
  return { ...unsigned, signature: text(signEd25519(owner.keyPem, statementOf(unsigned))) };
}

/** Encodes a certificate as canonical JSON. */
export function encodeBackupCertificate(certificate: BackupCertificate): Uint8Array {
  return Buffer.from(canonicalJson(certificate), 'utf8');
}

/**
 * Identifies what the owner signed (SHA-256, hex), by which a node recognizes a certificate that it has used. Vouchers are not part of it:
 * a curator could add or remove one.
 */
export function backupCertificateId(certificate: BackupCertificate): string {
  return createHash('sha256').update(statementOf(certificate)).digest('hex');
}

/** Parses untrusted bytes. The signature is not verified. @throws BackupError `backup-certificate-invalid` */
export function parseBackupCertificate(bytes: Uint8Array): BackupCertificate {
  try {
    if (bytes.length > MAX_CERTIFICATE_BYTES) throw new RangeError(`${bytes.length} bytes`);
    return certificateShape.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (cause) {
    throw new BackupError('backup-certificate-invalid', 'reading a backup certificate: malformed', { cause });
  }
}

/**
 * Verifies that an owner of the cluster signed the certificate.
 * @param nowMs if set, the certificate must be valid at this time
 * @throws BackupError `backup-certificate-invalid`, `backup-other-cluster`
 */
export function verifyBackupCertificate(
  certificate: BackupCertificate,
  trust: { readonly clusterId: string; readonly owners: readonly Uint8Array[]; readonly nowMs?: number },
): void {
  const { signature, clusterId, owner, vouchers, issuedMs, endsMs } = certificate;
  if (clusterId !== trust.clusterId)
    throw new BackupError(
      'backup-other-cluster',
      `verifying a backup: of cluster ${clusterId}, not ${trust.clusterId}`,
    );
  const invalid = (why: string): BackupError =>
    new BackupError('backup-certificate-invalid', `verifying the certificate of a backup: ${why}`);
  const chain = {
    ownerPubKey: bytesFrom(owner),
    vouchers: vouchers.map((each) => ({ by: bytesFrom(each.by), signature: bytesFrom(each.signature) })),
  };
  if (!isVouchedOwnerKey(chain, { clusterId, ownerKeys: trust.owners }))
    throw invalid(`signed by ${owner}, which is no owner of the cluster`);
  if (!isSignedByRawEd25519Key(chain.ownerPubKey, statementOf(certificate), bytesFrom(signature)))
    throw invalid('its signature does not match its content');
  if (trust.nowMs !== undefined && (trust.nowMs > endsMs || trust.nowMs < issuedMs - CLOCK_TOLERANCE_MS))
    throw invalid(`not valid at ${new Date(trust.nowMs).toISOString()}`);
}

const CLOCK_TOLERANCE_MS = 5 * 60_000;

function statementOf(certificate: Omit<BackupCertificate, 'signature'>): Uint8Array {
  const { version, clusterId, epoch, nodeId, recipients, issuedMs, endsMs, owner, workspaceSha256 } =
    certificate;
  // A voucher is a signature by itself, so the owner's signature does not cover the vouchers.
  const signed = {
    ...{ version, clusterId, epoch, nodeId, recipients, issuedMs, endsMs, owner },
    ...(workspaceSha256 === undefined ? {} : { workspaceSha256 }),
  };
  return labeledStatement(LABEL, canonicalJson(signed));
}

function bytesFrom(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

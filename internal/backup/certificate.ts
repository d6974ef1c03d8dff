import { createHash } from 'node:crypto';
import { z } from 'zod';
import { CLOCK_TOLERANCE_MS } from '../clock/index.ts';
import {
  canonicalJson,
  ed25519PubKeyFrom,
  isSignedByRawEd25519Key,
  isVouchedOwnerKey,
  labeledStatement,
  MAX_VOUCHERS,
  type OwnerVoucher,
  signEd25519,
} from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { copyStoreShape, urlOfStore } from './copy-store.ts';
import { BackupError } from './errors.ts';
import { parseRecipient } from './recovery-key.ts';

/** Size limit of a certificate. */
export const MAX_CERTIFICATE_BYTES = 16 * 1024;
const MAX_RECIPIENTS = 16;
/** As many control planes as a cluster can reasonably have. */
const MAX_NODES = 64;
/** Limits of a schedule. */
export const MIN_EVERY_MINUTES = 1;
/** See `MIN_EVERY_MINUTES`. */
export const MAX_EVERY_MINUTES = 31 * 24 * 60;
const MAX_KEEP = 1_000;
const MAX_PATH = 256;
const LABEL = 'cluster/backup/certificate/v1\0';

const base64Of = (sizeBytes: number) =>
  z.string().refine((text) => {
    const bytes = Buffer.from(text, 'base64');
    return bytes.length === sizeBytes && bytes.toString('base64') === text;
  }, `base64 of ${sizeBytes} bytes expected`);

const nodeId = z.string().regex(/^node-[0-9a-f]{32}$/);
const common = {
  clusterId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  epoch: z.int().positive(),
  /** The age recipients whose keys decrypt the backup, "age1…". */
  recipients: z.array(z.string().max(128)).min(1).max(MAX_RECIPIENTS),
  /** SHA-256 (hex) of the part `workspace`, which the owner has encrypted; absent if there is none. */
  workspaceSha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  issuedMs: z.int().positive(),
  endsMs: z.int().positive(),
  /** Raw Ed25519 key of the owner who signed the certificate. */
  owner: base64Of(32),
  /**
   * A chain from the first owner to `owner`: each voucher is the signature of one owner over the key of the next owner.
   */
  vouchers: z.array(z.strictObject({ by: base64Of(32), signature: base64Of(64) })).max(MAX_VOUCHERS),
  signature: base64Of(64),
};

/** Whether a path may be the directory for copies of backups: absolute, in its shortest form, not the root. */
export function isCopyDirectory(path: string): boolean {
  return /^(\/(?!\.{1,2}(\/|$))[\w.@+-]+)+$/.test(path) && path.length <= MAX_PATH;
}

/**
 * The target of copies as records and messages name it: a directory, or the URL of a location in a store; undefined if
 * there is none.
 */
export function copyPlaceOf({ copyTo, copyToStore }: ScheduleCertificate): string | undefined {
  return copyToStore === undefined ? copyTo : urlOfStore(copyToStore);
}

/** A certificate for one backup by one node. */
const onceShape = z.strictObject({
  version: z.literal(1),
  /** The node that takes the backup. Its ID is a hash of the key that signs the backup. */
  nodeId,
  ...common,
});

/** A certificate for all backups that these nodes take on a schedule. */
const scheduleShape = z
  .strictObject({
    version: z.literal(2),
    /** The control planes that may take backups. */
    nodeIds: z.array(nodeId).min(1).max(MAX_NODES),
    /** A backup is due this number of minutes after the previous one. */
    everyMinutes: z.int().min(MIN_EVERY_MINUTES).max(MAX_EVERY_MINUTES),
    /** How many proved backups each control plane keeps. */
    keep: z.int().min(1).max(MAX_KEEP),
    /** Absolute path of the directory to which each of `nodeIds` copies its backups; absent: to no directory. */
    copyTo: z.string().refine(isCopyDirectory).optional(),
    /** Object store to which each of `nodeIds` copies its backups, instead of a directory; absent: to no store. */
    copyToStore: copyStoreShape.optional(),
    ...common,
  })
  .refine(
    ({ copyTo, copyToStore }) => copyTo === undefined || copyToStore === undefined,
    'two targets for copies',
  );

/** Shape of a certificate in a header and on the wire. */
export const certificateShape = z.discriminatedUnion('version', [onceShape, scheduleShape]);

/** An owner's permission to take backups for these recipients. */
export type BackupCertificate = z.infer<typeof certificateShape>;
/** The permission for one backup by one node. */
export type SingleCertificate = z.infer<typeof onceShape>;
/** The permission for all backups of a schedule, with the schedule itself. */
export type ScheduleCertificate = z.infer<typeof scheduleShape>;

/** The fields of a certificate that an owner chooses. `signBackupCertificate()` adds the others. */
export type CertificateContent =
  | Omit<SingleCertificate, 'version' | 'owner' | 'vouchers' | 'signature'>
  | Omit<ScheduleCertificate, 'version' | 'owner' | 'vouchers' | 'signature'>;

/** The nodes that may take a backup with this certificate. */
export function nodesOf(certificate: BackupCertificate): readonly string[] {
  return certificate.version === 1 ? [certificate.nodeId] : certificate.nodeIds;
}

/**
 * Signs a certificate with an owner's key (Ed25519, PKCS#8 PEM): for one backup, or for a schedule if `content` has
 * `nodeIds`.
 * @throws BackupError `backup-recipient-invalid`
 */
export function signBackupCertificate(
  content: CertificateContent,
  owner: { readonly keyPem: Secret<string>; readonly vouchers: readonly OwnerVoucher[] },
): BackupCertificate {
  const pubKey = ed25519PubKeyFrom(owner.keyPem);
  if (pubKey === undefined) throw new TypeError('the owner key is not an Ed25519 key');
  content.recipients.forEach(parseRecipient);
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const vouchers = owner.vouchers.map(({ by, signature }) => ({ by: text(by), signature: text(signature) }));
  const by = { owner: text(pubKey), vouchers };
  const unsigned =
    'nodeIds' in content
      ? { version: 2 as const, ...content, ...by }
      : { version: 1 as const, ...content, ...by };
  return { ...unsigned, signature: text(signEd25519(owner.keyPem, statementOf(unsigned))) };
}

/** Encodes a certificate as canonical JSON. */
export function encodeBackupCertificate(certificate: BackupCertificate): Uint8Array {
  return Buffer.from(canonicalJson(certificate), 'utf8');
}

/**
 * A hash (SHA-256, hex) of the statement that the owner signed. By this hash a node recognizes a certificate that it
 * has used. The hash does not cover the vouchers, because a curator could add or remove one.
 */
export function backupCertificateId(certificate: BackupCertificate): string {
  return createHash('sha256').update(statementOf(certificate)).digest('hex');
}

/** Parses untrusted bytes. The signature is not verified. @throws BackupError `backup-certificate-invalid` */
export function parseBackupCertificate(bytes: Uint8Array): BackupCertificate {
  try {
    if (bytes.length > MAX_CERTIFICATE_BYTES)
      throw new RangeError(`${bytes.length} bytes, at most ${MAX_CERTIFICATE_BYTES} allowed`);
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
      `verifying a backup: its certificate is for cluster ${clusterId}, expected ${trust.clusterId}`,
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

type Unsigned = Omit<SingleCertificate, 'signature'> | Omit<ScheduleCertificate, 'signature'>;

/** A voucher is a signature by itself, so the owner's signature does not cover the vouchers. */
function statementOf(certificate: Unsigned): Uint8Array {
  const signed: Record<string, unknown> = { ...certificate };
  for (const name of ['vouchers', 'signature', ...(certificate.workspaceSha256 ? [] : ['workspaceSha256'])])
    delete signed[name];
  return labeledStatement(LABEL, canonicalJson(signed));
}

function bytesFrom(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

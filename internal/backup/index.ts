/**
 * Domain layer: the backup file of a cluster. One file and an owner key are enough to read it; its header can be read
 * without a key.
 *
 * ```
 * "clbackup", u16 version, u32 length    the start of the file
 * header      canonical JSON             cluster, epoch, time, revisions, versions, the owner's certificate
 * 64 bytes    Ed25519 of the node        over all bytes before it
 * frames      age, X25519 recipients     the parts (`parts.ts`), each with length and SHA-256
 * 64 bytes    Ed25519 of the node        over header, length and SHA-256 of the encrypted content; the end of the file
 * ```
 *
 * The node signs with its machine key, of which its node ID is a hash. An owner signs the certificate: which node may
 * take the backup (or, for a schedule, which nodes may take backups until when), and for which recipients. A node
 * cannot decrypt the file, because it does not have the private keys of the recipients.
 */
export { decryptAge, encryptAge } from './age.ts';
export { readBackupHeader, readBackupParts, verifyBackup, writeBackup } from './backup-file.ts';
export {
  backupCertificateId,
  copyPlaceOf,
  encodeBackupCertificate,
  isCopyDirectory,
  MAX_EVERY_MINUTES,
  MIN_EVERY_MINUTES,
  nodesOf,
  parseBackupCertificate,
  signBackupCertificate,
  verifyBackupCertificate,
  type BackupCertificate,
  type SingleCertificate,
  type ScheduleCertificate,
} from './certificate.ts';
export { COPY_STORE_SECRET, copyPrefixOf, parseCopyStore, type CopyStore } from './copy-store.ts';
export { BackupError } from './errors.ts';
export { OBJECTS_PREFIX, ObjectCounts, resourceOf } from './object-counts.ts';
export { CHANGED, decodeObjects, encodeObjects, type ObjectDigests } from './object-list.ts';
export { encodeFacts, parseFacts, type BackupFacts, type BackupNode, type EtcdFacts } from './facts.ts';
export { refuseOlderEpoch, takerOf, type BackupHeader } from './header.ts';
export type { BackupPart, PartName } from './parts.ts';
export { SCHEDULED_STEP_LOG, SCHEDULED_STEPS, type ScheduledStep } from './steps.ts';
export { parseRecipient, parseRecoveryKey, recoveryKeyOfOwner, type RecoveryKey } from './recovery-key.ts';

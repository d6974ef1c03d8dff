import { z } from 'zod';
import { bytes, hex, version } from './fields.ts';

/** File name of a backup that a control plane keeps: its number and its time. */
export const BACKUP_NAME = /^[0-9]{8}-[0-9]{8}T[0-9]{9}Z\.backup$/;

/** The schedule of backups: bytes that an owner has signed (internal/backup), and the sealed part `workspace` of each backup. */
export const backupScheduleShape = z.strictObject({
  version,
  certificate: bytes,
  workspace: bytes,
  updatedMs: z.int(),
  updatedBy: z.string(),
});

const backupFailure = { timeMs: z.int(), code: z.string().max(128), message: z.string().max(2_000) };

/**
 * The number of the last scheduled backup, and why the last attempt failed. Without `failure`, the last attempt
 * succeeded.
 */
export const backupHeadShape = z.strictObject({
  version,
  seq: z.int().min(0),
  failure: z.strictObject({ nodeId: z.string(), ...backupFailure }).optional(),
});

/** Copies of the backups of one node in the directory that the schedule names. Without a failure, all of its proved backups are there. */
export const backupCopiesShape = z.strictObject({
  version,
  nodeId: z.string(),
  directory: z.string().max(256),
  names: z.array(z.string().regex(BACKUP_NAME)).max(1_000),
  failure: z.strictObject(backupFailure).optional(),
});

/** The node that takes a backup now. Exists on a lease. */
export const backupClaimShape = z.strictObject({ version, nodeId: z.string(), seq: z.int().positive() });

/**
 * Where the unencrypted data of a proof was (`clear`: on an unencrypted disk, because the machine had too little memory), and its
 * space.
 */
export const proofPlaceShape = z.strictObject({
  place: z.enum(['memory', 'encrypted', 'clear']),
  sizeBytes: z.int().positive(),
});

/** A backup that a control plane keeps on its disk. */
export const backupShape = z.strictObject({
  version,
  /** Grows with each backup of the cluster, whatever clocks say. */
  seq: z.int().positive(),
  nodeId: z.string(),
  name: z.string().regex(BACKUP_NAME),
  takenMs: z.int(),
  /** When the content of the backup was restored and compared; absent before that. */
  provedMs: z.int().optional(),
  /** Absent before the proof, and if an earlier release made it. */
  proof: proofPlaceShape.optional(),
  epoch: z.int().positive(),
  /** Of the whole file. */
  sha256: hex,
  sizeBytes: z.int().positive(),
});

/** See `backupShape`. */
export type BackupRecord = z.infer<typeof backupShape>;
/** See `backupCopiesShape`. */
export type BackupCopiesRecord = z.infer<typeof backupCopiesShape>;
/** See `backupHeadShape`. */
export type BackupHeadRecord = z.infer<typeof backupHeadShape>;

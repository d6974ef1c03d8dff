import { z } from 'zod';
import { canonicalJson } from '../crypto/index.ts';
import { BackupError } from './errors.ts';

const etcdFacts = z.strictObject({
  /** Current revision before the snapshot began. The snapshot contains at least all changes up to it. */
  revision: z.string().regex(/^[0-9]{1,19}$/),
  /** etcd's hash of all keys and values up to `revision`; absent when etcd compacted its history during the snapshot. */
  hash: z.int().min(0).optional(),
  /** Number of keys at `revision` by the resource in their name; absent in files of format 1. */
  objects: z.record(z.string().max(256), z.int().positive()).optional(),
});
const nodeFacts = z.object({
  nodeId: z.string().max(64),
  name: z.string().max(253),
  roles: z.array(z.string().max(64)).max(16),
  /** The identity of the machine, e.g. `tpm-ek:90ab…`; absent if no evidence proved one. */
  identity: z.string().max(512).optional(),
});
/** Later versions may add members. */
const factsShape = z.object({
  version: z.literal(1),
  state: etcdFacts,
  kubernetes: etcdFacts,
  /** The members of the cluster; absent in files of older versions. */
  nodes: z.array(nodeFacts).max(4_096).optional(),
});

/** Facts about one etcd, from the node that took the backup. */
export type EtcdFacts = z.infer<typeof etcdFacts>;
/** A member of the cluster that was backed up. */
export type BackupNode = z.infer<typeof nodeFacts>;
/** The members of the cluster, and the facts with which a restored cluster is compared. */
export type BackupFacts = z.infer<typeof factsShape>;

/** Encodes the part `facts`. */
export function encodeFacts(facts: Omit<BackupFacts, 'version'>): Uint8Array {
  return Buffer.from(canonicalJson({ version: 1, ...facts }), 'utf8');
}

/** @throws BackupError `backup-content-invalid` */
export function parseFacts(bytes: Uint8Array): BackupFacts {
  try {
    return factsShape.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (cause) {
    throw new BackupError('backup-content-invalid', 'reading the facts of a backup: malformed', { cause });
  }
}

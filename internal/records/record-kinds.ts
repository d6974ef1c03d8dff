import { z } from 'zod';
import { put, type Condition, type Entry, type KeySpace, type Write } from '../etcd/index.ts';
import { RecordError } from './errors.ts';
import {
  backupClaimShape,
  backupHeadShape,
  backupCopiesShape,
  backupScheduleShape,
  backupShape,
} from './backup-shapes.ts';
import {
  addressShape,
  heartbeatShape,
  identityShape,
  joinShape,
  keptWorkerShape,
  mergedRemovalsShape,
  nodeShape,
  removedShape,
  statusShape,
  traceShape,
} from './node-shapes.ts';
import {
  auditHeadShape,
  auditShape,
  clusterShape,
  collateralShape,
  configurationShape,
  documentShape,
  etcdEpochShape,
  initResultShape,
  keysShape,
  mutationShape,
  operatorShape,
  ownershipShape,
  settingsShape,
} from './record-shapes.ts';

/** The prefix of the cluster's records in etcd. All other keys are relative to it. */
export const CLUSTER_PREFIX = '/cluster/';

/** Prefix of the audit records. */
export const AUDIT_PREFIX = 'audit/';
/** Prefix of the reserved addresses of control planes. */
export const ADDRESSES_PREFIX = 'control-plane-addresses/';

/** Key and encoding of one kind of record. */
export interface RecordKind<T> {
  key(name: string): string;
  encode(record: T): Uint8Array;
  /** The write that stores a record under a key. */
  put(key: string, record: T): Write;
  /** @throws RecordError `records-invalid` */
  decode(key: string, value: Uint8Array): T;
  /** Reads one record. @throws EtcdError; RecordError `records-invalid` */
  read(etcd: KeySpace, key: string, signal: AbortSignal): Promise<StoredRecord<T>>;
}

/** A record as it was read from etcd. `entry` and `record` are undefined if the key does not exist. */
export interface StoredRecord<T> {
  readonly entry: Entry | undefined;
  readonly record: T | undefined;
  /** A condition for a transaction: it holds if the key has not been written or deleted since this read. */
  readonly unchanged: Condition;
}

/** All kinds of records. */
export const records = {
  cluster: kindOf('meta/', clusterShape),
  etcdEpoch: kindOf('meta/', etcdEpochShape),
  settings: kindOf('meta/', settingsShape),
  ownership: kindOf('meta/', ownershipShape),
  auditHead: kindOf('meta/', auditHeadShape),
  keys: kindOf('meta/', keysShape),
  node: kindOf('nodes/', nodeShape, '/record'),
  operator: kindOf('operators/', operatorShape),
  configuration: kindOf('configuration/', configurationShape),
  collateral: kindOf('attestation/', collateralShape),
  initResult: kindOf('init/', initResultShape),
  status: kindOf('nodes/', statusShape, '/status'),
  heartbeat: kindOf('nodes/', heartbeatShape, '/heartbeat'),
  mutation: kindOf('mutations/', mutationShape),
  audit: kindOf(AUDIT_PREFIX, auditShape),
  auditRequests: kindOf('audit-requests/', auditShape),
  join: kindOf('joins/', joinShape),
  identity: kindOf('identities/', identityShape),
  address: kindOf(ADDRESSES_PREFIX, addressShape),
  trace: kindOf('traces/', traceShape),
  removed: kindOf('removed/', removedShape),
  keptWorker: kindOf('kept/workers/', keptWorkerShape),
  mergedRemovals: kindOf('kept/', mergedRemovalsShape),
  document: kindOf('documents/', documentShape),
  backupSchedule: kindOf('backups/', backupScheduleShape),
  backupHead: kindOf('backups/', backupHeadShape),
  backupClaim: kindOf('backups/', backupClaimShape),
  backup: kindOf('backups/kept/', backupShape),
  backupCopies: kindOf('backups/copies/', backupCopiesShape),
} as const;

/** Key of the cluster record, of which there is one. */
export const CLUSTER_KEY = records.cluster.key('cluster');
/** Key of the settings record, of which there is one. */
export const SETTINGS_KEY = records.settings.key('settings');
/** Key of the ownership record, of which there is one. */
export const OWNERSHIP_KEY = records.ownership.key('ownership');
/** Key of the audit head record, of which there is one. */
export const AUDIT_HEAD_KEY = records.auditHead.key('audit');
/** Key of the head of the log of requests, of which there is one. */
const AUDIT_REQUESTS_HEAD_KEY = records.auditHead.key('audit-requests');
/** Key of the key rotation record, of which there is one. */
export const KEYS_KEY = records.keys.key('keys');
/** Key of the configuration record, of which there is one. */
export const CONFIGURATION_KEY = records.configuration.key('current');
/** Key of the collateral record, of which there is one. */
export const COLLATERAL_KEY = records.collateral.key('collateral');
/** Key of the init result record, of which there is one. */
export const INIT_RESULT_KEY = records.initResult.key('result');

/** Prefix of everything about scheduled backups. */
export const BACKUPS_PREFIX = 'backups/';
/** Prefix of the backups that control planes keep, in the order of their numbers. */
export const KEPT_BACKUPS_PREFIX = 'backups/kept/';
/** Prefix of the records about copied backups, one record for each node ID. */
export const BACKUP_COPIES_PREFIX = 'backups/copies/';
/** Key of the schedule of backups, of which there is one. */
export const BACKUP_SCHEDULE_KEY = records.backupSchedule.key('schedule');
/** Key of the number of the last scheduled backup. */
export const BACKUP_HEAD_KEY = records.backupHead.key('head');
/** Key of the node that takes a scheduled backup now. */
export const BACKUP_CLAIM_KEY = records.backupClaim.key('claim');

/** Reserves a node's name; the value is the node's id. */
export function nodeNameKey(name: string): string {
  return `node-names/${name}`;
}

/** Prefix of all records of all nodes: one watch gets their changes in order. */
export const NODES_PREFIX = 'nodes/';
/** Prefix of the identities records. */
export const IDENTITIES_PREFIX = 'identities/';
/** Prefix of the joins records. */
export const JOINS_PREFIX = 'joins/';
/** Prefix of the operators records. */
export const OPERATORS_PREFIX = 'operators/';
/** Prefix of the removed records. */
export const REMOVED_PREFIX = 'removed/';
/** Prefix of everything about the workers that a restore kept. */
export const KEPT_PREFIX = 'kept/';
/** Key of the number of removals that kept workers have added, of which there is one. */
export const MERGED_REMOVALS_KEY = records.mergedRemovals.key('merged');
/** Prefix of the readmissions that owners have signed. */
export const READMISSIONS_PREFIX = 'documents/readmission/';
/** Prefix of the documents records. */
export const DOCUMENTS_PREFIX = 'documents/';
/** Prefix of all documents of kind `owners`. */
export const OWNERS_PREFIX = `${DOCUMENTS_PREFIX}owners/`;

/**
 * The key of a document that an owner has signed. `name` is the subject, because a document replaces an earlier one of the same kind and
 * subject; sets of owners are all kept, by their serial number.
 */
export function documentKey(kind: string, name: string | number): string {
  const last = typeof name === 'number' ? String(name).padStart(16, '0') : name;
  return records.document.key(`${kind}/${last === '' ? 'current' : last}`);
}

/**
 * The two audit logs. `decisions` contains the changes by operators, members and policies. `requests` contains refused
 * and waiting machines, and shares of state disks that were given; anybody on the network can cause such entries. Each log has a hash chain and a limit of its
 * own.
 */
export type AuditLogName = 'decisions' | 'requests';

/** The key of an audit entry. Keys sort in the order of the entries. */
export function auditKey(seq: number, log: AuditLogName = 'decisions'): string {
  const kind = log === 'decisions' ? records.audit : records.auditRequests;
  return kind.key(String(seq).padStart(16, '0'));
}

/** The key of the record that names the last entry of a log. */
export function auditHeadKey(log: AuditLogName): string {
  return log === 'decisions' ? AUDIT_HEAD_KEY : AUDIT_REQUESTS_HEAD_KEY;
}

/** The records of a node. */
export type NodePart = 'record' | 'status' | 'heartbeat';

/** Parses "nodes/ID/PART"; undefined for any other key. */
export function parseNodeKey(key: string): { readonly nodeId: string; readonly part: NodePart } | undefined {
  const [, nodeId, part] = /^nodes\/([^/]+)\/(record|status|heartbeat)$/.exec(key) ?? [];
  return nodeId === undefined ? undefined : { nodeId, part: part as NodePart };
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function kindOf<S extends z.ZodType>(prefix: string, shape: S, suffix = ''): RecordKind<z.infer<S>> {
  const decode = (key: string, value: Uint8Array): z.infer<S> => {
    try {
      return shape.parse(JSON.parse(utf8.decode(value)));
    } catch (error) {
      throw new RecordError('records-invalid', `reading ${key}`, { cause: error });
    }
  };
  const encode = (record: z.infer<S>): Uint8Array =>
    new TextEncoder().encode(JSON.stringify(z.encode(shape, record)));
  return {
    key: (name) => prefix + name + suffix,
    encode,
    put: (key, record) => put(key, encode(record)),
    decode,
    read: async (etcd, key, signal) => {
      const entry = await etcd.get(key, { signal });
      if (entry === undefined) return { entry, record: undefined, unchanged: { kind: 'absent', key } };
      const { value, modRevision } = entry;
      return { entry, record: decode(key, value), unchanged: { kind: 'unchanged', key, modRevision } };
    },
  };
}

import type { z } from 'zod';
import { RecordError } from './errors.ts';
import {
  auditHeadShape,
  auditShape,
  clusterShape,
  collateralShape,
  configurationShape,
  documentShape,
  etcdEpochShape,
  heartbeatShape,
  identityShape,
  initResultShape,
  joinShape,
  keysShape,
  mutationShape,
  nodeShape,
  operatorShape,
  ownershipShape,
  removedShape,
  settingsShape,
  statusShape,
  traceShape,
} from './record-shapes.ts';

/** The part of etcd that is the cluster's own; all keys below are relative to it. */
export const CLUSTER_PREFIX = '/cluster/';

/** Where records of one kind are and what they look like. */
export interface RecordKind<T> {
  key(name: string): string;
  encode(record: T): Uint8Array;
  /** Throws `records-invalid`. */
  decode(key: string, value: Uint8Array): T;
}

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
  audit: kindOf('audit/', auditShape),
  join: kindOf('joins/', joinShape),
  identity: kindOf('identities/', identityShape),
  trace: kindOf('traces/', traceShape),
  removed: kindOf('removed/', removedShape),
  document: kindOf('documents/', documentShape),
} as const;

/** The one record of kinds that have only one. */
export const CLUSTER_KEY = records.cluster.key('cluster');
export const SETTINGS_KEY = records.settings.key('settings');
export const OWNERSHIP_KEY = records.ownership.key('ownership');
export const AUDIT_HEAD_KEY = records.auditHead.key('audit');
export const KEYS_KEY = records.keys.key('keys');
export const CONFIGURATION_KEY = records.configuration.key('current');
export const COLLATERAL_KEY = records.collateral.key('collateral');
export const INIT_RESULT_KEY = records.initResult.key('result');

/** Reserves a node's name; the value is the node's id. */
export function nodeNameKey(name: string): string {
  return `node-names/${name}`;
}

/** Everything about all nodes: one watch sees it in order. */
export const NODES_PREFIX = 'nodes/';
export const AUDIT_PREFIX = 'audit/';
export const IDENTITIES_PREFIX = 'identities/';
export const JOINS_PREFIX = 'joins/';
export const OPERATORS_PREFIX = 'operators/';
export const REMOVED_PREFIX = 'removed/';
export const DOCUMENTS_PREFIX = 'documents/';

/**
 * Where an owner-signed document of a kind is. Documents of one kind and subject replace one another, so `name` is the
 * subject; of the sets of owners, which lead from one to the next, all are kept, by their serial.
 */
export function documentKey(kind: string, name: string | number): string {
  const last = typeof name === 'number' ? String(name).padStart(16, '0') : name;
  return records.document.key(`${kind}/${last === '' ? 'current' : last}`);
}

/** Sorted as text, entries are in order. */
export function auditKey(seq: number): string {
  return records.audit.key(String(seq).padStart(16, '0'));
}

export type NodePart = 'record' | 'status' | 'heartbeat';

/** "nodes/ID/PART" → its parts; undefined for any other key. */
export function parseNodeKey(key: string): { readonly nodeId: string; readonly part: NodePart } | undefined {
  const [, nodeId, part] = /^nodes\/([^/]+)\/(record|status|heartbeat)$/.exec(key) ?? [];
  return nodeId === undefined ? undefined : { nodeId, part: part as NodePart };
}

function kindOf<S extends z.ZodType>(prefix: string, shape: S, suffix = ''): RecordKind<z.infer<S>> {
  return {
    key: (name) => prefix + name + suffix,
    encode: (record) => new TextEncoder().encode(JSON.stringify(shape.parse(record))),
    decode: (key, value) => {
      try {
        return shape.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value)));
      } catch (error) {
        throw new RecordError('records-invalid', `reading ${key}`, { cause: error });
      }
    },
  };
}

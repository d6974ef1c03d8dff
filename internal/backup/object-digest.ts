import { createHash, type Hash } from 'node:crypto';
import { canonicalJson } from '../crypto/index.ts';
import { contentOf, fieldsOf, STORED_PREFIX, type StoredField } from '../kube/stored/index.ts';

/** Fields of `runtime.Unknown`, `runtime.TypeMeta` and all objects (generated.proto of k8s.io/apimachinery). */
const TYPE_META = 1;
const RAW = 2;
const KIND = 2;
const METADATA = 1;
/** Counts changes of the specification, which is compared itself, and of some annotations. */
const GENERATION = 7;
const ANNOTATIONS = 12;
const MANAGED_FIELDS = 17;
const MAP_KEY = 1;
const STATUS = 3;
/**
 * Kinds whose field 3 is their status (generated.proto of k8s.io/api). Other kinds have none, or have data in field 3.
 */
const WITH_STATUS: ReadonlySet<string> = new Set([
  ...['APIService', 'CronJob', 'CustomResourceDefinition', 'DaemonSet', 'Deployment', 'FlowSchema'],
  ...['HorizontalPodAutoscaler', 'Ingress', 'Namespace', 'PersistentVolume', 'PersistentVolumeClaim'],
  ...['PodDisruptionBudget', 'PriorityLevelConfiguration', 'ReplicationController', 'ResourceQuota'],
  ...['Service', 'ServiceCIDR', 'StatefulSet'],
]);

/** Annotations with which controllers count their own work. */
const COUNTERS: ReadonlySet<string> = new Set([
  'deployment.kubernetes.io/revision',
  'deprecated.daemonset.template.generation',
]);

/**
 * SHA-256 (base64) of what a stored object of Kubernetes says, without what Kubernetes writes there by itself: the status,
 * the list of the programs that wrote which field, and the counters of controllers. What is neither protobuf nor JSON, such as an encrypted object, counts
 * byte by byte. Part of the backup format: a change needs a new format, because a drill compares the hashes of two programs.
 */
export function digestOfObject(value: Uint8Array): string {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return digestOfContent(bytes) ?? createHash('sha256').update(bytes).digest('base64');
}

/** Undefined if the bytes are neither protobuf nor JSON as Kubernetes writes it. */
function digestOfContent(bytes: Buffer): string | undefined {
  const hash = createHash('sha256');
  try {
    if (bytes.subarray(0, STORED_PREFIX.length).equals(STORED_PREFIX))
      addProtobuf(hash, bytes.subarray(STORED_PREFIX.length));
    else if (bytes[0] === 0x7b) hash.update(canonicalJson(withoutStatus(JSON.parse(bytes.toString('utf8')))));
    else return undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
  return hash.digest('base64');
}

function withoutStatus(object: unknown): unknown {
  const { status: _status, metadata, ...rest } = object as { metadata?: object; status?: unknown };
  const own = (metadata ?? {}) as { managedFields?: unknown; generation?: unknown };
  const { managedFields: _managed, generation: _generation, ...kept } = own;
  return { ...rest, metadata: kept };
}

function addProtobuf(hash: Hash, unknown: Buffer): void {
  const fields = fieldsOf(unknown);
  const typeMeta = contentOf(fields, TYPE_META);
  const kind = contentOf(fieldsOf(typeMeta), KIND).toString('utf8');
  hash.update(typeMeta);
  for (const { number, whole, content } of fieldsOf(contentOf(fields, RAW))) {
    if (number === STATUS && WITH_STATUS.has(kind)) continue;
    if (number !== METADATA) hash.update(whole);
    else for (const each of fieldsOf(content)) if (!isByKubernetes(each)) hash.update(each.whole);
  }
}

/** Whether Kubernetes writes this field of the metadata by itself. */
function isByKubernetes({ number, content }: StoredField): boolean {
  if (number !== ANNOTATIONS) return number === MANAGED_FIELDS || number === GENERATION;
  return COUNTERS.has(contentOf(fieldsOf(content), MAP_KEY).toString('utf8'));
}

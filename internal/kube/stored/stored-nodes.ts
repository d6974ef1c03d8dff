import { contentOf, encodeField, fieldsOf, STORED_PREFIX, type StoredField } from './stored-fields.ts';

/** Field of `runtime.Unknown` with the object (generated.proto of k8s.io/apimachinery). */
const RAW = 2;
/** Fields of all objects, and of their metadata. */
const METADATA = 1;
const FINALIZERS = 14;
/** Fields of `Pod` and `PodSpec` (generated.proto of k8s.io/api/core/v1). */
const SPEC = 2;
const POD_NODE = 10;
/** Fields of `EndpointSlice` and `Endpoint` (k8s.io/api/discovery/v1). */
const ENDPOINTS = 2;
const ENDPOINT_NODE = 6;
/** Fields of `Endpoints`, `EndpointSubset` and `EndpointAddress` (k8s.io/api/core/v1). */
const SUBSETS = 2;
const ADDRESSES: ReadonlySet<number> = new Set([1, 2]);
const ADDRESS_NODE = 4;

/** What a stored pod says about its node. */
export interface StoredPod {
  /** Empty: the pod is not scheduled. */
  readonly nodeName: string;
  /** A controller acts before the pod is deleted, e.g. the one that counts the pods of a Job. */
  readonly hasFinalizers: boolean;
}

/** Whether the node with this name is gone. */
type IsGone = (nodeName: string) => boolean;

/** The node of a stored pod; undefined if the value is not such an object. */
export function nodeOfPod(value: Uint8Array): StoredPod | undefined {
  return readStored(value, (object) => ({
    nodeName: textOf(contentOf(object, SPEC), POD_NODE),
    hasFinalizers: fieldsOf(contentOf(object, METADATA)).some(({ number }) => number === FINALIZERS),
  }));
}

/** A stored EndpointSlice without the endpoints on nodes that are gone; undefined if it has none. */
export function slicesWithout(value: Uint8Array, isGone: IsGone): Buffer | undefined {
  return changeStored(value, (field) => {
    if (field.number !== ENDPOINTS) return field.whole;
    return isGone(textOf(field.content, ENDPOINT_NODE)) ? undefined : field.whole;
  });
}

/** A stored Endpoints object without the addresses on nodes that are gone; undefined if it has none. */
export function endpointsWithout(value: Uint8Array, isGone: IsGone): Buffer | undefined {
  return changeStored(value, (field) => {
    if (field.number !== SUBSETS) return field.whole;
    const before = fieldsOf(field.content);
    const after = before.filter(
      ({ number, content }) => !(ADDRESSES.has(number) && isGone(textOf(content, ADDRESS_NODE))),
    );
    if (after.length === before.length) return field.whole;
    // An API server refuses a subset without addresses.
    return after.some(({ number }) => ADDRESSES.has(number))
      ? encodeField(SUBSETS, Buffer.concat(after.map(({ whole }) => whole)))
      : undefined;
  });
}

/**
 * Changes or deletes fields of a stored object.
 * @returns undefined if nothing changes, or if the value is not an object in protobuf
 */
function changeStored(
  value: Uint8Array,
  change: (field: StoredField) => Buffer | undefined,
): Buffer | undefined {
  return readStored(value, (object, envelope) => {
    const changed = object.map(change);
    if (changed.every((whole, index) => whole === object[index]?.whole)) return undefined;
    const raw = encodeField(RAW, Buffer.concat(changed.filter((whole) => whole !== undefined)));
    const fields = envelope.map(({ number, whole }) => (number === RAW ? raw : whole));
    return Buffer.concat([STORED_PREFIX, ...fields]);
  });
}

function readStored<T>(
  value: Uint8Array,
  read: (object: readonly StoredField[], envelope: readonly StoredField[]) => T,
): T | undefined {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (!bytes.subarray(0, STORED_PREFIX.length).equals(STORED_PREFIX)) return undefined;
  try {
    const envelope = fieldsOf(bytes.subarray(STORED_PREFIX.length));
    return read(fieldsOf(contentOf(envelope, RAW)), envelope);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function textOf(message: Buffer, number: number): string {
  return contentOf(fieldsOf(message), number).toString('utf8');
}

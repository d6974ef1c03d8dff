import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Change, Condition, Entry, KeyRange, Write } from './key-space.ts';
import {
  Compare_CompareResult,
  Compare_CompareTarget,
  type CompareSchema,
  type RequestOpSchema,
} from './proto/gen/etcdserverpb_pb.js';
import { Event_EventType, type Event, type KeyValue } from './proto/gen/mvccpb_pb.js';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A key as UTF-8. */
export function keyBytes(key: string): Uint8Array {
  return encoder.encode(key);
}

/**
 * The end of the range of all keys with a prefix: the prefix up to its last byte below 0xff, plus one. For
 * an empty prefix it is one zero byte, which etcd reads as "all keys".
 */
export function prefixEnd(prefix: Uint8Array): Uint8Array {
  for (let last = prefix.length - 1; last >= 0; last--) {
    const byte = prefix[last] ?? 0xff;
    if (byte < 0xff) return Uint8Array.from([...prefix.subarray(0, last), byte + 1]);
  }
  return Uint8Array.of(0);
}

/** The range of all keys with a prefix. etcd refuses an empty key; one zero byte means "from the first key". */
export function prefixRange(prefix: string): { readonly key: Uint8Array; readonly rangeEnd: Uint8Array } {
  const key = keyBytes(prefix);
  return { key: key.length === 0 ? Uint8Array.of(0) : key, rangeEnd: prefixEnd(key) };
}

/** An entry from its protobuf message. */
export function entryFromWire(kv: KeyValue): Entry {
  return {
    key: decoder.decode(kv.key),
    value: kv.value,
    createRevision: kv.createRevision,
    modRevision: kv.modRevision,
    leaseId: kv.lease,
  };
}

/** A change from its protobuf message; undefined for an event without key. */
export function changeFromWire(event: Event): Change | undefined {
  if (event.kv === undefined) return undefined;
  if (event.type === Event_EventType.PUT) return { kind: 'put', entry: entryFromWire(event.kv) };
  return { kind: 'delete', key: decoder.decode(event.kv.key), modRevision: event.kv.modRevision };
}

/** Converts a condition into a comparison of an etcd transaction. */
export function conditionToWire(condition: Condition): MessageInitShape<typeof CompareSchema> {
  const key = keyBytes(condition.key);
  switch (condition.kind) {
    case 'absent':
    case 'present':
      return {
        key,
        target: Compare_CompareTarget.CREATE,
        result: condition.kind === 'absent' ? Compare_CompareResult.EQUAL : Compare_CompareResult.GREATER,
        targetUnion: { case: 'createRevision', value: 0n },
      };
    case 'unchanged':
      return {
        key,
        target: Compare_CompareTarget.MOD,
        result: Compare_CompareResult.EQUAL,
        targetUnion: { case: 'modRevision', value: condition.modRevision },
      };
  }
}

/** Converts a write into an operation of an etcd transaction. */
export function writeToWire(write: Write): MessageInitShape<typeof RequestOpSchema> {
  const key = keyBytes(write.key);
  switch (write.kind) {
    case 'put':
      return {
        request: { case: 'requestPut', value: { key, value: write.value, lease: write.leaseId ?? 0n } },
      };
    case 'delete':
      return { request: { case: 'requestDeleteRange', value: { key } } };
  }
}

/** The operation of a transaction that reads a key, or all keys with a prefix. */
export function rangeToWire(range: KeyRange): MessageInitShape<typeof RequestOpSchema> {
  const value = 'key' in range ? { key: keyBytes(range.key) } : prefixRange(range.prefix);
  return { request: { case: 'requestRange', value } };
}

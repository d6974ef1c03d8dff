import { parseHeaderCopy } from './binary-header.ts';
import { refuse } from './errors.ts';
import { LAYOUT } from './layout.ts';
import { checkMetadata, type Metadata } from './metadata.ts';
import {
  canonicalPlainJson,
  isObject,
  parsePlainJson,
  type PlainJson,
  type PlainObject,
} from './plain-json.ts';

/** A header that was checked. Open the disk from the same bytes, never from the disk again: it may have changed. */
export interface LuksHeader extends Metadata {
  readonly uuid: string;
  /** What identifies the header and its keys: everything but counters, the copies' salts and the token. */
  readonly canonical: string;
}

/**
 * Checks the header of a state disk, both copies.
 * @param disk the first 16 MiB (`LAYOUT.dataOffset`) of the disk, controlled by an attacker
 * @throws LuksError
 */
export function parseLuksHeader(disk: Uint8Array): LuksHeader {
  if (disk.length < LAYOUT.dataOffset) refuse('luks-truncated', 'size', disk.length);
  const [first, second] = [parseHeaderCopy(disk, 'first'), parseHeaderCopy(disk, 'second')];
  if (first.uuid !== second.uuid) refuse('luks-copies-differ', 'UUID');
  if (first.json !== second.json) refuse('luks-copies-differ', 'metadata');
  if (first.sequence !== second.sequence) refuse('luks-copies-differ', 'sequence number');
  const json = parsePlainJson(first.json);
  const metadata = checkMetadata(json);
  return { uuid: first.uuid, ...metadata, canonical: canonicalOf(first.uuid, json) };
}

function canonicalOf(uuid: string, json: PlainJson): string {
  const parts: PlainObject = isObject(json) ? json : new Map();
  const covered = new Map([...parts].filter(([name]) => name !== 'tokens'));
  return canonicalPlainJson(
    new Map<string, PlainJson>([
      ['uuid', uuid],
      ['header', covered],
    ]),
  );
}

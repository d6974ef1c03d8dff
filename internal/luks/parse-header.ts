import { parseHeaderCopy } from './binary-header.ts';
import { refuse } from './errors.ts';
import { LAYOUT } from './layout.ts';
import { checkMetadata, type Metadata } from './metadata.ts';
import { parsePlainJson } from './plain-json.ts';

/**
 * A header that was checked. Callers must open the disk with the checked bytes and must not read the header again,
 * because an attacker may have changed it in the meantime.
 */
export interface LuksHeader extends Metadata {
  readonly uuid: string;
}

/**
 * Checks a header of a state disk, both copies. Does not read the areas of the key slots. An attacker who changes these
 * areas changes which keys open the disk. Only a MAC detects this (`internal/statedisk`).
 * @param header `LAYOUT.headerBytes` bytes, controlled by an attacker
 * @throws LuksError
 */
export function parseLuksHeader(header: Uint8Array): LuksHeader {
  if (header.length !== LAYOUT.headerBytes) refuse('luks-truncated', 'size', header.length);
  const [first, second] = [parseHeaderCopy(header, 'first'), parseHeaderCopy(header, 'second')];
  if (first.uuid !== second.uuid) refuse('luks-copies-differ', 'UUID');
  if (first.json !== second.json) refuse('luks-copies-differ', 'metadata');
  if (first.sequence !== second.sequence) refuse('luks-copies-differ', 'sequence number');
  return { uuid: first.uuid, ...checkMetadata(parsePlainJson(first.json)) };
}

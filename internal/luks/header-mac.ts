import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../secret/index.ts';
import { refuse } from './errors.ts';
import type { LuksHeader } from './parse-header.ts';
import { canonicalPlainJson, type PlainJson } from './plain-json.ts';

const LABEL = 'cluster state disk header v1';
const NAME = 'mac';

/**
 * The MAC over a header and its token, under a key derived from the share that the TPM of the machine has sealed. The disk is
 * then bound to the machine: a header of another disk, or one with another slot, has none.
 */
export function headerMac(header: LuksHeader, nodeShare: Secret<Uint8Array>): Uint8Array {
  const key = new Uint8Array(hkdfSync('sha256', nodeShare.reveal(), header.uuid, LABEL, 32));
  const token = new Map([...(header.token ?? [])].filter(([name]) => name !== NAME));
  const covered = new Map<string, PlainJson>([
    ['header', header.canonical],
    ['token', token],
  ]);
  return new Uint8Array(createHmac('sha256', key).update(canonicalPlainJson(covered)).digest());
}

/** @throws LuksError `luks-mac` */
export function verifyHeaderMac(header: LuksHeader, nodeShare: Secret<Uint8Array>): void {
  const stored = header.token?.get(NAME);
  // Compared as text: other texts decode to the same bytes.
  const mac = Buffer.from(typeof stored === 'string' ? stored : '', 'latin1');
  const wanted = Buffer.from(Buffer.from(headerMac(header, nodeShare)).toString('base64'), 'latin1');
  if (mac.length !== wanted.length || !timingSafeEqual(mac, wanted)) refuse('luks-mac', 'MAC');
}

import { readFixture } from '../testing/evidence/index.ts';
import type { NamedFuzzTarget } from '../testing/fuzz.ts';
import { parsePem } from '../attestation/x509/index.ts';
import { p256SpkiOf } from './spki.ts';
import { encodeHello, HEADER_BYTES, parseAlert, parseEvidence, parseHeader, parseHello } from './wire.ts';

const hello = encodeHello({ accepts: [1, 2, 3], nonce: new Uint8Array(32) });
const chain = parsePem(Buffer.from(readFixture('tdx', 'v4-tail.tcb-chain')).toString(), {
  label: 'CERTIFICATE',
  maxBlocks: 4,
});
const codes = ['atls-'];

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'atls/header',
    codes,
    seeds: [hello.subarray(0, HEADER_BYTES)],
    parse: (input) =>
      parseHeader(Buffer.concat([input, Buffer.alloc(HEADER_BYTES)]).subarray(0, HEADER_BYTES)),
  },
  { name: 'atls/hello', codes, seeds: [hello.subarray(HEADER_BYTES)], parse: parseHello },
  { name: 'atls/evidence', codes, seeds: [Buffer.from('0002c0ffee', 'hex')], parse: parseEvidence },
  { name: 'atls/alert', codes, seeds: [Uint8Array.of(4)], parse: parseAlert },
  { name: 'atls/certificate', codes, seeds: chain, parse: p256SpkiOf },
];

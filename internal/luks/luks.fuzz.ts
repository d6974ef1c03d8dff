import type { NamedFuzzTarget } from '../testing/fuzz.ts';
import { parseHeaderCopy } from './binary-header.ts';
import { realHeader, jsonOf } from './fake-header.ts';
import { LAYOUT } from './layout.ts';
import { checkMetadata } from './metadata.ts';
import { parsePlainJson } from './plain-json.ts';

const disk = realHeader();
const codes = ['luks-'];

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'luks/header-copy',
    codes,
    seeds: [disk.subarray(0, LAYOUT.copyBytes)],
    parse: (input) => parseHeaderCopy(input, 'first'),
  },
  {
    name: 'luks/metadata',
    codes,
    seeds: [Buffer.from(jsonOf(disk), 'latin1')],
    parse: (input) => checkMetadata(parsePlainJson(Buffer.from(input).toString('latin1'))),
  },
];

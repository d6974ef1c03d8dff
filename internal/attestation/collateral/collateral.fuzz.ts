import { readFixture } from '../../testing/evidence/index.ts';
import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { encodeBundle, parseBundle } from './collateral-bundle.ts';
import { readCollateralFile } from './read-collateral-file.ts';

const codes = ['collateral-'];
const files = ['v4.collateral', 'v4-tail.tcb-info', 'v4-tail.root-crl', 'v4-tail.tcb-chain'].map((name) =>
  readFixture('tdx', name),
);
const bundle = encodeBundle({ assembledMs: 0, items: files.slice(2).flatMap(readCollateralFile) });

export const targets: readonly NamedFuzzTarget[] = [
  { name: 'collateral/file', codes, seeds: files, parse: readCollateralFile },
  {
    name: 'collateral/bundle',
    codes,
    seeds: [Buffer.from(bundle)],
    parse: (input) => parseBundle(Buffer.from(input).toString('utf8')),
  },
];

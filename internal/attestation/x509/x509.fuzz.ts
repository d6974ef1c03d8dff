import { readFixture } from '../../testing/evidence/index.ts';
import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { parseCertificate } from './certificate.ts';
import { parseCrl } from './crl.ts';
import { parsePem } from './pem.ts';

const codes = ['x509-'];
const chain = readFixture('tdx', 'v4-tail.tcb-chain');
const label = { label: 'CERTIFICATE', maxBlocks: 4 } as const;

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'x509/certificate',
    codes,
    seeds: [readFixture('snp', 'milan.vcek'), ...parsePem(Buffer.from(chain).toString(), label)],
    parse: parseCertificate,
  },
  {
    name: 'x509/crl',
    codes,
    seeds: [readFixture('tdx', 'v4-tail.root-crl'), readFixture('tdx', 'v4-tail.pck-crl')],
    parse: parseCrl,
  },
  {
    name: 'x509/pem',
    codes,
    seeds: [chain],
    parse: (input) => parsePem(Buffer.from(input).toString('latin1'), label),
  },
];

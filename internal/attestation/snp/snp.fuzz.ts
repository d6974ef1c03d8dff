import { readFixture } from '../../testing/evidence/index.ts';
import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { CertificateCache } from '../x509/index.ts';
import { certificatesFromTable, decodeSnpEvidence, encodeSnpEvidence } from './evidence.ts';
import { verifySnpEvidence } from './verify-evidence.ts';
import { parseReport } from './report.ts';
import { amdTrust } from './trust.ts';

const NOW_MS = Date.UTC(2026, 5, 1);
const report = readFixture('snp', 'milan.report');
const vcek = readFixture('snp', 'milan.vcek');
const document = encodeSnpEvidence({ report, certificates: [vcek] });

/** A certificate table of the host: entries of GUID, offset and length, an empty entry, two certificates. */
function certificateTable(): Uint8Array {
  const head = Buffer.alloc(3 * 24);
  for (const [index, size] of [3, 5].entries()) {
    head.fill(index + 1, index * 24, index * 24 + 16);
    head.writeUInt32LE(head.length + index * 3, index * 24 + 16);
    head.writeUInt32LE(size, index * 24 + 20);
  }
  return Buffer.concat([head, Buffer.alloc(8, 7)]);
}

export const targets: readonly NamedFuzzTarget[] = [
  { name: 'snp/report', codes: ['snp-'], seeds: [report], parse: (input) => parseReport(input) },
  { name: 'snp/document', codes: ['snp-'], seeds: [document], parse: decodeSnpEvidence },
  {
    name: 'snp/certificate-table',
    codes: ['snp-'],
    seeds: [certificateTable()],
    parse: certificatesFromTable,
  },
  {
    name: 'snp/verifier',
    codes: ['snp-', 'x509-'],
    seeds: [document, report],
    parse: (input) =>
      verifySnpEvidence(input, {
        trust: amdTrust(),
        cache: new CertificateCache(),
        collateral: { certificates: [vcek], crls: [] },
        nowMs: NOW_MS,
        binding: 'not-judged',
        policy: 'not-judged',
      }),
  },
];

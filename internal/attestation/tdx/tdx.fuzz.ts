import { readFixture } from '../../testing/evidence/index.ts';
import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { CertificateCache } from '../x509/index.ts';
import { decodeTdxEvidence, encodeTdxEvidence } from './evidence.ts';
import { verifyTdxEvidence } from './verify-evidence.ts';
import { intelTrust } from './intel-root.ts';
import { parseQuote } from './quote.ts';

const NOW_MS = Date.UTC(2026, 9, 10);
const v4 = readFixture('tdx', 'v4.quote');
const v5 = readFixture('tdx', 'v5-td15ex.quote');
const cache = new CertificateCache();

export const targets: readonly NamedFuzzTarget[] = [
  { name: 'tdx/quote-v4', codes: ['tdx-'], seeds: [v4], parse: (input) => parseQuote(input) },
  {
    name: 'tdx/quote-v5',
    codes: ['tdx-'],
    seeds: [v5, readFixture('tdx', 'v5-td15.quote')],
    parse: (input) => parseQuote(input),
  },
  {
    name: 'tdx/document',
    codes: ['tdx-'],
    seeds: [encodeTdxEvidence({ quote: v4, eventLog: new Uint8Array(9) })],
    parse: decodeTdxEvidence,
  },
  {
    name: 'tdx/verifier',
    codes: ['tdx-', 'x509-'],
    seeds: [v4, v5],
    parse: (input) =>
      verifyTdxEvidence(input, {
        trust: intelTrust(),
        cache,
        nowMs: NOW_MS,
        policy: 'not-judged',
        binding: 'not-judged',
        collateral: undefined,
      }),
  },
];

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AttestationError, CheckList } from '../../internal/attestation/index.ts';
import { parseEventLog, replayEventLog, verifyEventLog } from '../../internal/attestation/eventlog/index.ts';
import { amdTrust, encodeSnpEvidence, verifySnpEvidence } from '../../internal/attestation/snp/index.ts';
import { intelTrust, verifyTdxEvidence } from '../../internal/attestation/tdx/index.ts';
import { AttestationKeyCache, quoteErrors, verifyQuote } from '../../internal/attestation/tpm/index.ts';
import { CertificateCache } from '../../internal/attestation/x509/index.ts';
import {
  canonicalSignature,
  encodeSignature,
  parseQuoteAttest,
  parseSignature,
} from '../../internal/tpm/index.ts';
import type { PeerCase } from './go-verifiers.ts';

/**
 * Evidence with named parts, and a function that gives our verdict: undefined if it is accepted, otherwise
 * the error code.
 */
export interface Vector {
  readonly name: string;
  readonly peer: PeerCase;
  readonly judge: (parts: PeerCase['parts'], pcrs?: PeerCase['pcrs']) => string | undefined;
}

const ROOT = join(import.meta.dirname, '../..');
const NOW_MS = Date.UTC(2026, 9, 10);

export function fixture(directory: string, name: string): Uint8Array {
  return new Uint8Array(readFileSync(join(ROOT, directory, 'fixtures', name)));
}

const NOT_JUDGED = { binding: 'not-judged', policy: 'not-judged' } as const;

export function snpVector(name: string, cache = new CertificateCache()): Vector {
  const parts = {
    report: fixture('internal/attestation/snp', `${name}.report`),
    vcek: fixture('internal/attestation/snp', `${name}.vcek`),
  };
  const options = {
    ...NOT_JUDGED,
    trust: amdTrust(),
    cache,
    collateral: { certificates: [], crls: [] },
    nowMs: NOW_MS,
  };
  return {
    name: `snp ${name}`,
    peer: { kind: 'snp', nowMs: NOW_MS, parts },
    judge: ({ report = new Uint8Array(), vcek = new Uint8Array() }) =>
      codeOf(() => verifySnpEvidence(encodeSnpEvidence({ report, certificates: [vcek] }), options)),
  };
}

export function tdxVector(
  name: string,
  options: { readonly cut?: number; readonly cache?: CertificateCache } = {},
): Vector {
  const { cut = 0, cache = new CertificateCache() } = options;
  const quote = fixture('internal/attestation/tdx', `${name}.quote`);
  const judging = { ...NOT_JUDGED, trust: intelTrust(), cache, collateral: undefined, nowMs: NOW_MS };
  return {
    name: `tdx ${name}${cut === 0 ? '' : ` without its last ${cut} bytes`}`,
    peer: { kind: 'tdx', nowMs: NOW_MS, parts: { quote: quote.subarray(0, quote.length - cut) } },
    judge: ({ quote: given = new Uint8Array() }) => codeOf(() => verifyTdxEvidence(given, judging)),
  };
}

/**
 * The quote in `cli/attest/fixtures`, with its signature in the canonical form that our verifier requires.
 */
export function tpmVector(): Vector {
  const file = (name: string): Uint8Array => fixture('cli/attest', name);
  const quote = file('quote.msg');
  const statement = parseQuoteAttest(quote);
  const signature = encodeSignature(canonicalSignature(parseSignature(file('quote.sig')), 'p256'));
  // tpm2-tools write C structures: a header of 140 bytes, then one value every 66 bytes.
  const values = file('quote.pcrs');
  const pcrs = new Map(
    statement.selection.pcrs.map((pcr, index) => [pcr, values.subarray(142 + 66 * index, 174 + 66 * index)]),
  );
  const keys = new AttestationKeyCache();
  const parseKey = (bytes: Uint8Array) => keys.parse(bytes);
  const qualifiedNameHex = Buffer.from(statement.qualifiedSigner).toString('hex');
  return {
    name: 'tpm quote',
    peer: {
      kind: 'tpm',
      nowMs: NOW_MS,
      parts: { quote, signature, attestationKey: file('ak.pub').subarray(2), nonce: statement.extraData },
      pcrs,
    },
    judge: (
      {
        quote: attest = quote,
        signature: sig = signature,
        attestationKey = new Uint8Array(),
        nonce = new Uint8Array(),
      },
      given = pcrs,
    ) =>
      codeOf(() => {
        const checks = new CheckList(quoteErrors, 'verifying a TPM quote');
        const genuine = verifyQuote({ attest, signature: sig, attestationKey, pcrValues: given }, checks, {
          qualifiedNameHex,
          parseKey,
        });
        const isBound = Buffer.compare(genuine.statement.extraData, nonce) === 0;
        checks.require('quote-binding', isBound);
      }),
  };
}

/** A public event log. Our verifier judges it against the PCR values that result from replaying it. */
export function logVector(name: string, log: Uint8Array): Vector {
  const pcrs = replayEventLog(parseEventLog(log, 'tpm'), 'sha256');
  return {
    name: `log ${name}`,
    peer: { kind: 'log', nowMs: NOW_MS, parts: { log }, pcrs },
    judge: ({ log: given = new Uint8Array() }, values = pcrs) =>
      codeOf(() => verifyEventLog(parseEventLog(given, 'tpm'), 'sha256', values)),
  };
}

function codeOf(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof AttestationError) return String(error.code);
    throw error;
  }
}

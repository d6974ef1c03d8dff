import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { env } from 'node:process';
import { test } from 'node:test';
import { GoVerifiers } from './go-verifiers.ts';
import { logVector, snpVector, tdxVector, tpmVector, type Vector } from './vectors.ts';

/**
 * Compares the verdicts of our verifiers with those of go-sev-guest, go-tdx-guest and go-attestation about
 * the same mutated evidence. Our verifiers may refuse more, for the reasons listed here. They must not accept
 * anything that the others refuse.
 */
const MUTATIONS = Number(env['DIFFERENTIAL_CASES'] ?? 700);
const SEED = Number(env['DIFFERENTIAL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

/** Maximum number of printed input bytes. The seed and the case number reproduce the complete input. */
const MAX_SHOWN = 400;

interface Compared extends Vector {
  /** Error codes of our verifier for evidence that the Go verifier accepts, and why the refusal is right. */
  readonly stricter: Readonly<Record<string, string>>;
  /** Removes the parts of the evidence that the Go verifier does not support. */
  readonly forPeer?: (parts: Vector['peer']['parts']) => Vector['peer']['parts'];
}

const DER = 'outer tags, lengths or forms of a certificate that Go’s reader does not look at';
const snpStricter = {
  'snp-report-size': 'the peer takes a report with bytes after it',
  'snp-reserved-not-zero': 'the peer does not look at the padding after the signature',
  'snp-signature-range': 'the peer does not look at the padding of the scalars',
  'x509-malformed': DER,
};
const tdxStricter = {
  'tdx-tail': 'the peer takes any bytes after a quote',
  'tdx-quote-malformed': 'the peer takes a gap between parts',
  'x509-pem-malformed': 'the peer takes text between PEM blocks and spare bits in base64',
  'x509-malformed': DER,
};
const tpmStricter = {
  'quote-signature-form': 'the peer takes both s and n - s, and scalars without leading zeros',
  'quote-key-attributes': 'the peer does not judge the attributes of the key',
  'quote-key-scheme': 'the peer does not judge the scheme of the key',
  'quote-key-malformed': 'the peer takes bytes after the public area',
  'quote-key-type': 'the peer does not judge the name algorithm of the key',
  'quote-signature-malformed': 'the peer takes bytes after the signature',
  'quote-signature-algorithm':
    'the peer takes the hash from the key and does not look at the one in the signature',
  'quote-signature-scheme': 'the peer does not compare the scheme of the signature with that of the key',
  'quote-attest-malformed': 'the peer takes bytes after the statement',
};
const logStricter = {
  'eventlog-truncated': 'the peer ends quietly where a log is cut off',
  'eventlog-register': 'the peer passes over events of registers that do not exist',
  'eventlog-digests': 'the peer takes other digests than the header declares',
  'eventlog-header': 'the peer does not look at all of the first event',
  'eventlog-padding': 'the peer takes bytes after the last event',
  'eventlog-replay':
    'the peer compares nothing for a register whose events are all gone, and forgives known faulty firmware',
  'eventlog-locality': 'the peer does not judge StartupLocality',
};

const peers = await GoVerifiers.build();
const goAttestation = await GoVerifiers.moduleDirectory('github.com/google/go-attestation');
/**
 * A firmware log in a buffer that is padded with 0x00 or 0xff. The Go verifier does not support padding, so that
 * verifier gets the log without the padding.
 */
function publicLog(name: string): Compared {
  const log = new Uint8Array(readFileSync(join(goAttestation, 'attest/testdata', name)));
  const isPadded = (given: Uint8Array): boolean =>
    Buffer.compare(given.subarray(0, log.length), log) === 0 &&
    [0x00, 0xff].some((filler) => given.subarray(log.length).every((byte) => byte === filler));
  return {
    ...logVector(name, log),
    stricter: logStricter,
    forPeer: ({ log: given = log }) => ({ log: isPadded(given) ? log : given }),
  };
}

const compared: readonly Compared[] = [
  { ...snpVector('milan'), stricter: snpStricter },
  { ...snpVector('milan-debug'), stricter: snpStricter },
  { ...tdxVector('v4'), stricter: tdxStricter },
  { ...tdxVector('v4-tail', { cut: 39 }), stricter: tdxStricter },
  { ...tpmVector(), stricter: tpmStricter },
  publicLog('crypto_agile_eventlog'),
  publicLog('sb_cert_eventlog'),
];

for (const vector of compared) {
  void test(`${vector.name}: our verifier accepts no mutation that the Go verifier refuses, seed ${SEED}`, async (context) => {
    assert.equal(
      vector.judge(vector.peer.parts, vector.peer.pcrs),
      undefined,
      'our verifier refuses the unchanged vector',
    );
    const { accepted, error } = await peers.judge(vector.peer);
    assert.equal(accepted, true, `the Go verifier refuses the unchanged vector: ${error}`);
    const tally = await compareMutations(vector);
    context.diagnostic(`seed ${SEED}: ${JSON.stringify(tally)}`);
    assert.equal(tally.cases, MUTATIONS);
    assert.ok(tally.bothRefused > 0, 'no mutation was refused by both verifiers, so nothing was compared');
  });
}

// go-tdx-guest cannot read these quotes, so no mutations of them are compared.
for (const name of ['v5-td15', 'v5-td15ex']) {
  void test(`tdx ${name}: our verifier reads quote version 5, which go-tdx-guest 0.3.1 refuses`, async () => {
    const vector = tdxVector(name);
    assert.equal(vector.judge(vector.peer.parts), undefined);
    assert.equal((await peers.judge(vector.peer)).accepted, false);
  });
}

void test('tdx v4-tail: our verifier refuses a quote that is followed by other data, which go-tdx-guest accepts', async () => {
  const vector = tdxVector('v4-tail');
  assert.equal(vector.judge(vector.peer.parts), 'tdx-tail');
  assert.equal((await peers.judge(vector.peer)).accepted, true);
});

void test('cleanup: the program with the Go verifiers is stopped', async () => peers[Symbol.asyncDispose]());

interface Tally {
  cases: number;
  bothRefused: number;
  bothAccepted: number;
  readonly stricter: Record<string, number>;
}

async function compareMutations(vector: Compared): Promise<Tally> {
  const next = xorshift(SEED);
  const tally: Tally = { cases: 0, bothRefused: 0, bothAccepted: 0, stricter: {} };
  for (; tally.cases < MUTATIONS; tally.cases++) {
    const parts = mutateOnePart(vector.peer.parts, next);
    const code = vector.judge(parts, vector.peer.pcrs);
    const { accepted, error } = await peers.judge({
      ...vector.peer,
      parts: vector.forPeer?.(parts) ?? parts,
    });
    if (code === undefined && !accepted) {
      assert.fail(
        `ours is laxer: ${vector.name}, seed ${SEED}, case ${tally.cases}: ${error}; ${describe(parts)}`,
      );
    }
    if (code === undefined) tally.bothAccepted++;
    else if (!accepted) tally.bothRefused++;
    else {
      const reason = vector.stricter[code];
      assert.ok(
        reason,
        `case ${tally.cases}: our verifier refuses with ${code} what the Go verifier accepts, and the list of accepted differences has no reason`,
      );
      tally.stricter[code] = (tally.stricter[code] ?? 0) + 1;
    }
  }
  return tally;
}

function mutateOnePart(parts: Vector['peer']['parts'], next: () => number): Vector['peer']['parts'] {
  const names = Object.keys(parts);
  const name = names[next() % names.length] ?? '';
  return { ...parts, [name]: mutated(parts[name] ?? new Uint8Array(), next) };
}

function mutated(bytes: Uint8Array, next: () => number): Uint8Array {
  const copy = Uint8Array.from(bytes);
  const at = next() % Math.max(bytes.length, 1);
  switch (next() % 8) {
    case 0:
      return copy.subarray(0, at);
    case 1:
      return new Uint8Array(Buffer.concat([copy, Buffer.alloc(1 + (next() % 40), next() % 3)]));
    case 2:
      return new Uint8Array(Buffer.concat([copy.subarray(0, at), copy.subarray(at + 1 + (next() % 4))]));
    case 3:
      return copy.fill(next() & 0xff, at, at + 1 + (next() % 8));
    default:
      return copy.with(at, (copy[at] ?? 0) ^ (1 << (next() % 8)));
  }
}

function describe(parts: Vector['peer']['parts']): string {
  return Object.entries(parts)
    .map(([name, value]) => `${name} ${Buffer.from(value).toString('hex').slice(0, MAX_SHOWN)}`)
    .join(', ');
}

/** A small and fast random number generator; the same seed gives the same numbers. */
function xorshift(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state;
  };
}

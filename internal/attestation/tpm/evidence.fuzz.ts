import { readFixture } from '../../testing/evidence/index.ts';
import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { decodeTpmEvidence, encodeTpmEvidence } from './evidence.ts';
import { verifyTpmEvidence } from './verify-evidence.ts';

interface Recorded {
  readonly binding: string;
  readonly attestationKeyName: string;
  readonly evidence: string;
}

const recorded = JSON.parse(Buffer.from(readFixture('tpm', 'swtpm-quote.json')).toString('utf8')) as Recorded;
const evidence = new Uint8Array(Buffer.from(recorded.evidence, 'base64'));
const binding = new Uint8Array(Buffer.from(recorded.binding, 'hex'));
const options = {
  rules: {
    attestationKeys: 'enrolled',
    requiredPcrs: [0, 4, 15],
    loggedPcrs: [],
    requireSafeClock: false,
    eventLog: 'optional',
  },
  endorsements: { attestationKeys: new Map([[recorded.attestationKeyName, {}]]) },
} as const;
const { proof, eventLog, ...parts } = decodeTpmEvidence(evidence);
/** Evidence with a lock counter certificate that is well-formed but not valid. */
const counted = encodeTpmEvidence({
  ...parts,
  ...proof,
  attachment: eventLog,
  lockCounter: { attest: parts.attest, signature: parts.signature },
});
const codes = ['quote-', 'eventlog-', 'attestation-'];

export const targets: readonly NamedFuzzTarget[] = [
  { name: 'tpm-evidence/document', codes, seeds: [evidence, counted], parse: decodeTpmEvidence },
  {
    name: 'tpm-evidence/verifier',
    codes,
    seeds: [evidence, counted],
    parse: (input) => {
      verifyTpmEvidence(input, binding, options);
      if (Buffer.compare(input, evidence) !== 0) throw new Error('a changed document was accepted');
    },
  },
];

import { createHash } from 'node:crypto';
import {
  AppraisalError,
  AttestationError,
  BINDING_BYTES,
  checkMachine,
  checkRegisters,
  CheckList,
  machineIdentityText,
  warningsOf,
  type MachineIdentity,
  type Policy,
  type Verdict,
} from '../../internal/attestation/index.ts';
import {
  EventlogError,
  eventlogErrors,
  parseEventLog,
  verifyEventLog,
} from '../../internal/attestation/eventlog/index.ts';
import {
  checkClock,
  decodeTpmEvidence,
  nameOfBytes,
  quoteClaims,
  quoteErrors,
  tpmMeasurements,
  TpmValidator,
  verifyQuote,
  verifyQuoteByKey,
  type VerifiedQuote,
  type KnownAttestationKey,
  type QuoteErrorCode,
  type TpmRules,
} from '../../internal/attestation/tpm/index.ts';
import { AttestError } from './errors.ts';
import type { ExplainInputs } from './inputs.ts';
import {
  isRawTpmQuote,
  publicAreasOf,
  readRawTpmQuote,
  type QuoteFile,
  type RawTpmQuote,
} from './tpm-files.ts';

type Checks = CheckList<QuoteErrorCode>;

/** Firmware logs every extension of PCRs 0 to 7. Higher PCRs are compared with the log only if the log mentions them. */
const LAST_FIRMWARE_PCR = 7;

/**
 * Verifies TPM evidence offline. An evidence document with its binding is verified as attested TLS would; for a raw quote,
 * or without a binding, only the possible checks are made.
 */
export async function explainTpm(inputs: ExplainInputs): Promise<Verdict> {
  const { policy, binding, endorsements, nowMs } = inputs;
  const evidence = inputs.evidence();
  if (isRawTpmQuote(evidence)) {
    const quote = readRawTpmQuote(evidence, endorsements);
    return namingFile(quote.files, () => judgeParts(quote, inputs, []));
  }
  const parts = decodeTpmEvidence(evidence);
  const names = publicAreasOf(endorsements).map(nameOfBytes);
  if (binding === 'not-judged') return judgeParts({ ...parts, files: {} }, inputs, names);
  if (binding.length !== BINDING_BYTES) {
    throw new AttestError(
      'attest-option',
      `--binding must have ${BINDING_BYTES} bytes for an evidence document`,
    );
  }
  const attestationKeys = new Map<string, KnownAttestationKey>(names.map((name) => [name, {}] as const));
  const rules = policy === 'not-judged' ? anyPolicy([...parts.pcrValues.keys()]) : policy;
  return new TpmValidator().validate(evidence, binding, {
    nowMs,
    policy: rules,
    collateral: { tpm: { attestationKeys } },
  });
}

/** The file that is malformed, or does not fit the quote, when a check fails. Other checks are about the quote itself. */
const FILE_OF_CHECK: Readonly<Record<string, QuoteFile>> = {
  'key-malformed': 'key',
  'signature-malformed': 'signature',
  'pcr-values': 'PCR values',
  'pcr-digest': 'PCR values',
  'eventlog-missing': 'log',
};

/** Names the file of a raw quote in a refusal of this file. */
function namingFile(files: RawTpmQuote['files'], verify: () => Verdict): Verdict {
  try {
    return verify();
  } catch (error) {
    if (!(error instanceof AttestationError)) throw error;
    const part = FILE_OF_CHECK[error.checks.at(-1)?.name ?? ''];
    const name = part && files[part];
    throw name === undefined ? error : error.within(`reading ${name}`);
  }
}

/**
 * The policy that applies when the caller gave none: any genuine quote that is bound to the request and
 * matches its event log.
 */
function anyPolicy(pcrs: readonly number[]): Policy {
  return {
    version: 'not-judged',
    registers: new Map(),
    machines: 'any',
    tpm: {
      attestationKeys: 'enrolling',
      requiredPcrs: pcrs,
      requireSafeClock: false,
      eventLog: 'optional',
      loggedPcrs: pcrs.filter((pcr) => pcr <= LAST_FIRMWARE_PCR),
    },
  };
}

/** @param enrolled TPM names (hex) of keys passed as enrolled; not the key that comes with a raw quote */
function judgeParts(
  parts: RawTpmQuote,
  { policy, binding }: ExplainInputs,
  enrolled: readonly string[],
): Verdict {
  const list: Checks = new CheckList(quoteErrors, 'verifying a TPM quote');
  const quote = verifyParts(parts, policy, list);
  checkRawBinding(quote, binding, list);
  const eventCount = checkLog(parts, policy, list);
  const measurements = tpmMeasurements(quote.pcrValues);
  const machineIdentity = identityOf(quote, policy, enrolled);
  if (policy !== 'not-judged') {
    const rules = rulesOf(policy);
    checkRequiredPcrs(quote, rules, list);
    checkRegisters(measurements, policy, list.checks);
    checkMachine(machineIdentity, policy, list.checks);
    checkEnrolled(machineIdentity, rules, list);
    checkClock(quote.statement.clock, { lastSeen: undefined, requireSafe: rules.requireSafeClock }, list);
    if (eventCount === undefined && rules.eventLog === 'required')
      // comes last, because a failed check is more informative than a missing log
      throw list.refusal('quote-eventlog-missing');
  }
  return {
    variant: 'tpm',
    accepted: true,
    checks: list.checks,
    measurements,
    machineIdentity,
    claims: claimsOf(quote, eventCount),
    warnings: [...warningsOf(list.checks), ...limitsOf(quote, eventCount)],
    policyVersion: policy === 'not-judged' ? policy : policy.version,
  };
}

/** A verified quote. `key` is missing if only the key itself was given (as PEM), without its public area. */
type JudgedQuote = Pick<VerifiedQuote, 'statement' | 'pcrValues'> & Partial<Pick<VerifiedQuote, 'key'>>;

/**
 * With a policy, the public area of the key is required: a policy decides about machines, and only the public area
 * identifies the machine.
 */
function verifyParts(
  { attestationKey, ...parts }: RawTpmQuote,
  policy: ExplainInputs['policy'],
  list: Checks,
): JudgedQuote & { readonly keyHash: string } {
  if (attestationKey instanceof Uint8Array)
    return { ...verifyQuote({ ...parts, attestationKey }, list, { parentUnknown: true }), keyHash: '' };
  if (policy !== 'not-judged')
    throw new AttestError(
      'attest-evidence-incomplete',
      'a PEM file does not prove that a TPM holds the key: with --policy, give the public area of the key',
    );
  const spki = attestationKey.export({ type: 'spki', format: 'der' });
  return {
    ...verifyQuoteByKey(parts, attestationKey, list),
    keyHash: createHash('sha256').update(spki).digest('hex'),
  };
}

/**
 * In a raw quote of another tool, extraData is the nonce itself. Evidence documents of this project have a
 * hash there.
 */
function checkRawBinding({ statement }: JudgedQuote, binding: ExplainInputs['binding'], list: Checks): void {
  const actual = Buffer.from(statement.extraData).toString('hex');
  if (binding === 'not-judged') return list.skip('quote-binding', { actual });
  const expected = Buffer.from(binding).toString('hex');
  list.require('quote-binding', actual === expected, { expected, actual });
}

/** As in attested TLS, a policy without a TPM section accepts no TPM quote. */
function rulesOf(policy: Policy): TpmRules {
  if (policy.tpm !== undefined) return policy.tpm;
  throw new AppraisalError('attestation-policy-missing', 'the policy has no section for TPM quotes');
}

function checkLog(
  { eventLog, pcrValues }: RawTpmQuote,
  policy: ExplainInputs['policy'],
  list: Checks,
): number | undefined {
  if (eventLog.length === 0) {
    list.skip('quote-eventlog-missing');
    return undefined;
  }
  try {
    const log = parseEventLog(eventLog, 'tpm');
    const loggedPcrs = new Set([
      ...log.events.map((event) => event.register),
      ...(policy === 'not-judged' ? [] : (policy.tpm?.loggedPcrs ?? [])),
    ]);
    const logged = new Map([...pcrValues].filter(([pcr]) => pcr <= LAST_FIRMWARE_PCR || loggedPcrs.has(pcr)));
    verifyEventLog(log, 'sha256', logged);
    list.require('quote-eventlog-missing', true, {
      actual: `event log of PCRs ${[...logged.keys()].join(',')}`,
    });
    return log.events.length;
  } catch (error) {
    if (!(error instanceof EventlogError)) throw error;
    const { code, message, details } = error;
    throw new AttestationError(eventlogErrors, code, message, {
      details,
      checks: list.checks,
      check: 'eventlog-missing',
      cause: error,
    });
  }
}

function checkRequiredPcrs(
  { pcrValues }: JudgedQuote,
  { requiredPcrs: required }: TpmRules,
  list: Checks,
): void {
  const missing = required.filter((pcr) => !pcrValues.has(pcr));
  list.require('quote-pcr-missing', missing.length === 0, {
    expected: required.join(','),
    actual: [...pcrValues.keys()].join(','),
  });
}

/** The identity that the quote proves: pinned if the policy names the key, or the operator passed it as enrolled. */
function identityOf(
  { key, keyHash }: JudgedQuote & { readonly keyHash: string },
  policy: ExplainInputs['policy'],
  enrolled: readonly string[],
): MachineIdentity {
  if (key === undefined) return { kind: 'machine-key', id: keyHash, proof: 'unproved' };
  const identity = { kind: 'tpm-ak', id: key.nameHex, proof: 'unproved' } as const;
  const isNamed =
    policy !== 'not-judged' &&
    typeof policy.machines !== 'string' &&
    policy.machines.has(machineIdentityText(identity));
  return isNamed || enrolled.includes(key.nameHex) ? { ...identity, proof: 'pinned' } : identity;
}

/**
 * Refuses a key that nobody has enrolled, as attested TLS does. Leaving out the option that enrols keys must
 * not make refused evidence accepted.
 */
function checkEnrolled({ id, proof }: MachineIdentity, rules: TpmRules, list: Checks): void {
  if (rules.attestationKeys === 'enrolling') return list.skip('quote-key-unknown', { actual: id });
  list.require('quote-key-unknown', proof !== 'unproved', { expected: 'an enrolled key', actual: id });
}

function claimsOf(quote: JudgedQuote, eventCount: number | undefined): Verdict['claims'] {
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
  const { extraData, qualifiedSigner } = quote.statement;
  return quoteClaims(quote, { extraData: hex(extraData), qualifiedSigner: hex(qualifiedSigner) }, eventCount);
}

function limitsOf({ key }: JudgedQuote, eventCount: number | undefined): string[] {
  return [
    key === undefined
      ? 'The key came as PEM: nothing proves that a TPM holds it. Give the public area (TPMT_PUBLIC) to check its attributes.'
      : 'The machine of the key is unknown: proving it needs the endorsement key of the TPM.',
    ...(eventCount === undefined ? ['No event log: the measured components are unknown.'] : []),
  ];
}

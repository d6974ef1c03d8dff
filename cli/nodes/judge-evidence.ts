import type { Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import {
  AttestationError,
  type Collateral,
  endorsementKeyIdIn,
  machineIdentityText,
  type Policy,
  type Variant,
  type Verdict,
  VARIANTS,
  withLockRegister,
} from '../../internal/attestation/index.ts';
import { MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
} from '../../internal/attestation/policy/index.ts';
import { decodeTpmEvidence, tpmMeasurements } from '../../internal/attestation/tpm/index.ts';
import { attestationSettings, type ClusterConfig } from '../../internal/config/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { meaningOfCode } from '../app/explain.ts';
import { NodesError } from './errors.ts';
import { registerRows, type VerifyReport } from './verify-report.ts';

/** Verifies evidence and compares it with the record of the node. Refused evidence is a result, not an error. */
export async function judge(what: {
  readonly node: Node;
  readonly config: ClusterConfig;
  /** The cluster that the evidence must be bound to. */
  readonly clusterId: string;
  /** The collateral of the workspace. */
  readonly collateral: Collateral;
  /** The kind of evidence, as the node names it. */
  readonly variant: string;
  readonly evidence: Uint8Array;
  readonly binding: Uint8Array;
  readonly nowMs: number;
  /** Reasons why the record of the node is not to be trusted; empty if there are none. */
  readonly contradictions: readonly string[];
}): Promise<Omit<VerifyReport, 'pin'>> {
  const { node, config, evidence, binding, nowMs } = what;
  const policy = policyOf(config, what);
  const frame = {
    node: printable(node.name),
    nodeId: printable(node.nodeId),
    variant: printable(what.variant),
    profile: policy.profile ?? 'measured',
    policy: policy.version,
  };
  try {
    refuseContradictions(node, what.contradictions);
    refuseUnknownMachine(node, what.variant);
    const variant = variantOf(what.variant, node, config);
    const [validator] = createValidators([variant], {
      ...standardValidators({ ownerKeys: [] }),
      'machine-key': () => new MachineKeyValidator({ fingerprints: new Set([keyOf(node)]) }),
    });
    const verdict = await validator.validate(evidence, binding, {
      nowMs,
      policy,
      collateral: { ...what.collateral, ...keysOf(node) },
    });
    compareIdentity(verdict, node);
    return {
      ...frame,
      verdict: 'verified',
      identity: machineIdentityText(verdict.machineIdentity),
      ...proofOf(verdict, node),
      checks: verdict.checks,
      registers: registerRows(policy, verdict.measurements),
      warnings: verdict.warnings,
    };
  } catch (error) {
    const coded = findCoded(error);
    const meaning = meaningOfCode(coded?.code ?? '');
    return {
      ...frame,
      verdict: 'refused',
      identity: printable(node.admission?.identity ?? 'none on record'),
      proof: '',
      proofFrom: 'record',
      code: coded?.code ?? 'internal',
      reason: printable(describeError(error)),
      ...(meaning !== undefined && { meaning }),
      ...(coded !== undefined && { fix: coded.fix }),
      checks: error instanceof AttestationError ? error.checks : [],
      registers: registerRows(policy, shownRegisters(what.variant, evidence)),
      warnings: [],
    };
  }
}

/** Who vouches for the identity of the machine. */
function proofOf(
  { machineIdentity }: Verdict,
  { admission }: Node,
): Pick<VerifyReport, 'proof' | 'proofFrom'> {
  return machineIdentity.kind === 'tpm-ek' && admission !== undefined
    ? { proof: printable(admission.proof), proofFrom: 'record' }
    : { proof: machineIdentity.proof, proofFrom: 'evidence' };
}

/** Registers of refused evidence, to show where they differ. They prove nothing. */
function shownRegisters(variant: string, evidence: Uint8Array): ReadonlyMap<string, Uint8Array> {
  try {
    return variant === 'tpm' ? tpmMeasurements(decodeTpmEvidence(evidence).pcrValues) : new Map();
  } catch (error) {
    if (error instanceof AttestationError) return new Map(); // the refusal already tells that it cannot be decoded
    throw error;
  }
}

/**
 * The configured policy, which accepts only the keys on record, and only a machine whose node lock is bound
 * to this cluster.
 */
function policyOf(
  config: ClusterConfig,
  { node: { admission }, clusterId }: { readonly node: Node; readonly clusterId: string },
): Policy {
  const { policyInput, lockPcr } = attestationSettings(config.attestation);
  const written = withLockRegister(parsePolicy(policyInput), lockPcr, { shows: 'locked', clusterId });
  return {
    ...written,
    ...(admission === undefined ? {} : { machines: 'any-proved' as const }),
    ...(written.tpm === undefined ? {} : { tpm: { ...written.tpm, attestationKeys: 'enrolled' as const } }),
  };
}

/**
 * Refuses the evidence if the record contradicts the known machine: the evidence is verified with the keys in
 * that record.
 */
function refuseContradictions({ name }: Node, contradictions: readonly string[]): void {
  if (contradictions.length === 0) return;
  throw new NodesError('nodes-machine-changed', `verifying ${printable(name)}: ${contradictions.join('; ')}`);
}

/**
 * Refuses evidence if the record does not identify a machine: evidence of any other genuine machine would be
 * accepted too.
 */
function refuseUnknownMachine({ name, admission }: Node, variant: string): void {
  if (admission !== undefined || variant === 'machine-key') return;
  throw new NodesError(
    'nodes-not-verified',
    `verifying ${name}: its record names no machine, so its ${printable(variant)} evidence proves nothing`,
  );
}

/**
 * The variant of evidence to verify: the variant with which the node joined, because the node must not choose a weaker
 * one.
 */
function variantOf(given: string, { name, admission }: Node, config: ClusterConfig): Variant {
  const allowed = attestationSettings(config.attestation).variants;
  const variant = VARIANTS.find((each) => each === given);
  const expected = admission === undefined || admission.variant === '' ? undefined : admission.variant;
  if (variant !== undefined && allowed.includes(variant) && (expected === undefined || expected === variant))
    return variant;
  throw new NodesError(
    'nodes-not-verified',
    `verifying ${name}: evidence of variant ${JSON.stringify(printable(given))}, expected ${expected ?? allowed.join(' or ')}`,
  );
}

function keysOf({ admission }: Node): Pick<Collateral, 'tpm'> {
  if (admission === undefined || admission.akName === '') return { tpm: { attestationKeys: new Map() } };
  const endorsementKeyId = endorsementKeyIdIn(admission.identity);
  const known = endorsementKeyId === undefined ? {} : { endorsementKeyId };
  return { tpm: { attestationKeys: new Map([[admission.akName, known]]) } };
}

/** Refuses evidence of another machine, even if it is genuine. */
function compareIdentity({ machineIdentity }: Verdict, { name, admission }: Node): void {
  const actual = machineIdentityText(machineIdentity);
  const expected = admission?.identity ?? '';
  if (expected === '' || expected === actual || machineIdentity.kind === 'machine-key') return;
  throw new NodesError(
    'nodes-not-verified',
    `verifying ${name}: the machine is ${actual}, on record is ${expected}`,
  );
}

/** Fingerprint of the node key on record: SHA-256 hex without prefix. */
function keyOf(node: Node): string {
  return fingerprintOfKey(Buffer.from(node.publicKey)).replace(/^sha256:/, '');
}

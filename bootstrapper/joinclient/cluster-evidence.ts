import {
  ATLS_TIMERS,
  atlsClientUpgrade,
  RotatingKeys,
  type AttestedPeer,
  type EvidenceRules,
  JOIN_CONTEXT,
} from '../../internal/atls/index.ts';
import type { Collateral, Issuer, Policy, Validator } from '../../internal/attestation/index.ts';
import { MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
} from '../../internal/attestation/policy/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { AttestationSettings } from '../../internal/config/index.ts';
import type { Upgrade } from '../../internal/rpc/index.ts';
import { unjudgedProcessors } from './unjudged-processor.ts';

/**
 * Policy for the evidence of a control-plane node when the provisioning has no section `attestation`, and when a machine asks for the
 * share of its disk: the evidence of a TPM must be genuine and from this session. The owner's signature (`verifyCluster`) proves which
 * cluster the node belongs to; its software is not checked.
 */
const OWNER_VOUCHES: Policy = {
  version: 'owner-signature',
  profile: 'identity',
  registers: new Map(),
  machines: 'any',
  tpm: {
    attestationKeys: 'enrolling',
    requiredPcrs: [7],
    requireSafeClock: false,
    eventLog: 'optional',
    loggedPcrs: [],
  },
};

export interface ClusterEvidenceOptions {
  /** Issuers of the evidence that this machine sends. */
  readonly issuers: readonly [Issuer, ...Issuer[]];
  /** The attestation settings of the cluster, from the provisioning of this machine. */
  readonly attestation: AttestationSettings | undefined;
  readonly clock: Clock;
}

/**
 * When many machines start at once, the join service queues their connections for at most 40 s before TLS.
 * Meanwhile the machine tries other endpoints.
 */
const TIMERS = { ...ATLS_TIMERS, tlsMs: 45_000, helloMs: 45_000, wholeMs: 90_000 };

/**
 * Creates the attested TLS upgrade of one connection to a join service. Each connection needs a new upgrade.
 * `collateral`: that of AMD and Intel which this machine has when a connection is made.
 */
export function createJoinUpgrades(
  options: ClusterEvidenceOptions & { readonly collateral: () => Promise<Pick<Collateral, 'snp' | 'tdx'>> },
): () => Upgrade<AttestedPeer> {
  const { attestation, collateral } = options;
  const policy = attestation === undefined ? OWNER_VOUCHES : policyFrom(attestation);
  const rules = async (): Promise<EvidenceRules> => ({
    policy,
    collateral: { ...(await collateral()), tpm: { attestationKeys: new Map() } },
  });
  return upgradesWith(options, { accepts: validatorsFor(attestation, {}), rules });
}

/**
 * As `createJoinUpgrades()`, for a machine that takes nothing but the share of its disk, which the cluster CA has signed. Its reference
 * values and its collateral may be older than the control planes, so it judges neither software nor processor: the owner's signature over
 * the cluster vouches for both.
 */
export function createShareUpgrades(options: ClusterEvidenceOptions): () => Upgrade<AttestedPeer> {
  const rules: EvidenceRules = {
    policy: OWNER_VOUCHES,
    collateral: { tpm: { attestationKeys: new Map() } },
  };
  const accepts = validatorsFor(options.attestation, unjudgedProcessors());
  return upgradesWith(options, { accepts, rules: () => Promise.resolve(rules) });
}

function upgradesWith(
  { issuers, clock }: ClusterEvidenceOptions,
  peer: {
    readonly accepts: readonly [Validator, ...Validator[]];
    readonly rules: () => Promise<EvidenceRules>;
  },
): () => Upgrade<AttestedPeer> {
  const keys = new RotatingKeys({ clock });
  const { accepts } = peer;
  return () => async (socket, signal) => {
    const rules = await peer.rules();
    const upgrade = atlsClientUpgrade({
      trust: { trust: 'mutual', shows: issuers, accepts, rules: () => rules },
      context: JOIN_CONTEXT,
      keys,
      clock,
      timers: TIMERS,
    });
    return upgrade(socket, signal);
  };
}

/**
 * The reference values that the cluster's own configuration has. Two of its rules are left out, because a
 * machine outside the cluster cannot apply them: it has no list of the members' attestation keys, and the
 * owner's signature proves which machines belong to the cluster.
 */
function policyFrom({ policyInput }: AttestationSettings): Policy {
  const { tpm, ...policy } = parsePolicy(policyInput);
  return {
    ...policy,
    machines: 'any',
    ...(tpm === undefined ? {} : { tpm: { ...tpm, attestationKeys: 'enrolling' } }),
  };
}

function validatorsFor(
  attestation: AttestationSettings | undefined,
  own: Partial<ReturnType<typeof standardValidators>>,
): readonly [Validator, ...Validator[]] {
  const makers = {
    ...standardValidators({ ownerKeys: [] }),
    'machine-key': () => new MachineKeyValidator({ fingerprints: 'any' }),
    ...own,
  };
  return createValidators(attestation?.variants ?? ['tpm', 'machine-key'], makers);
}

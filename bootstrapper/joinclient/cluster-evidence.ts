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

/**
 * Policy for the evidence of a control-plane node when the provisioning has no section `attestation`: the
 * evidence must be genuine and from this session. The owner's signature (`verifyCluster`) proves which
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
  /**
   * Who vouches for the software of the node: these settings, or the owner's signature over the cluster alone, because the machine
   * takes nothing but what the cluster CA has signed (the share of a closed disk).
   */
  readonly software?: 'settings' | 'owner';
  /** The collateral of AMD and Intel that this machine has when a connection is made. */
  readonly collateral: () => Promise<Pick<Collateral, 'snp' | 'tdx'>>;
  readonly clock: Clock;
}

/**
 * When many machines start at once, the join service queues their connections for at most 40 s before TLS.
 * Meanwhile the machine tries other endpoints.
 */
const TIMERS = { ...ATLS_TIMERS, tlsMs: 45_000, helloMs: 45_000, wholeMs: 90_000 };

/** Creates the attested TLS upgrade of one connection to a join service. Each connection needs a new upgrade. */
export function createJoinUpgrades({
  issuers,
  attestation,
  software = 'settings',
  collateral,
  clock,
}: ClusterEvidenceOptions): () => Upgrade<AttestedPeer> {
  const policy = clusterPolicy(attestation, software);
  const keys = new RotatingKeys({ clock });
  const accepts = validatorsFor(attestation);
  return () => async (socket, signal) => {
    const rules: EvidenceRules = {
      policy,
      collateral: { ...(await collateral()), tpm: { attestationKeys: new Map() } },
    };
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

/** What the evidence of a node must show. */
export function clusterPolicy(
  attestation: AttestationSettings | undefined,
  software: 'settings' | 'owner',
): Policy {
  if (attestation === undefined) return OWNER_VOUCHES;
  const policy = policyFrom(attestation);
  return software === 'settings' ? policy : { ...policy, ...OWNER_VOUCHES };
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

function validatorsFor(attestation: AttestationSettings | undefined): readonly [Validator, ...Validator[]] {
  const makers = {
    ...standardValidators({ ownerKeys: [] }),
    'machine-key': () => new MachineKeyValidator({ fingerprints: 'any' }),
  };
  return createValidators(attestation?.variants ?? ['tpm', 'machine-key'], makers);
}

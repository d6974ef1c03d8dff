import type { ClusterConfig } from '../../internal/config/index.ts';
import type { AttestationInForce } from './join-service.ts';

/**
 * Evidence in a cluster whose configuration says nothing about it: which machine it is, by its TPM, and nothing about its
 * software. Who may be a member is for `join.policy` to say, so every machine that proves to be one may ask.
 */
export function identityOnly(_config: ClusterConfig, version: string): AttestationInForce {
  return {
    policy: {
      version: `identity@${version}`,
      profile: 'identity',
      registers: new Map(),
      machines: 'any',
      tpm: {
        attestationKeys: 'enrolling',
        requiredPcrs: [0, 1, 2, 3, 4, 5, 6, 7],
        requireSafeClock: false,
        eventLog: 'optional',
        loggedPcrs: [],
      },
    },
    collateral: {},
    endorsements: { roots: new Set(), authorities: [], pinnedKeys: new Set() },
  };
}

import { attestationSettings } from '../../../internal/config/index.ts';
import type { MachineEvidence } from '../../attest/index.ts';
import type { AskShare } from '../../disk/index.ts';
import {
  createShareUpgrades,
  fileEndpoints,
  knownEndpoints,
  metadataEndpoints,
  type KnownCa,
} from '../../joinclient/index.ts';
import { AGENT_PATHS } from '../../nodestate/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { createAskShare } from './ask-share.ts';
import { ownerKeysOf } from '../open-machine.ts';

/**
 * Asks the signers of the cluster for the share of the disk, as a running member or while the disk is closed. All that a closed machine knows
 * is its provisioning and its record.
 */
export function askShareOf(
  { files, clock }: Pick<AgentPorts, 'files' | 'clock'>,
  { provisioning }: Pick<AgentOptions, 'provisioning'>,
  member: {
    readonly evidence: MachineEvidence;
    readonly readKnownCa?: () => Promise<KnownCa>;
  },
): AskShare {
  const { evidence, ...known } = member;
  const { attestation, cluster, joinEndpoints, metadata } = provisioning;
  return createAskShare(
    {
      ...{ evidence, clock },
      upgrade: createShareUpgrades({
        ...{ issuers: evidence.issuers, clock },
        attestation: attestation === undefined ? undefined : attestationSettings(attestation),
      }),
    },
    {
      sources: [
        knownEndpoints('provisioned', () => joinEndpoints),
        fileEndpoints(files, AGENT_PATHS.cloudInit),
        ...(metadata === undefined ? [] : [metadataEndpoints(metadata.url)]),
      ],
      ownerKeys: ownerKeysOf(provisioning),
      pinned: cluster,
      ...known,
    },
  );
}

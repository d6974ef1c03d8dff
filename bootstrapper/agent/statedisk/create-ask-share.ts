import { attestationSettings } from '../../../internal/config/index.ts';
import type { MachineEvidence } from '../../attest/index.ts';
import type { AskShare, ProbeShare } from '../../disk/index.ts';
import {
  createShareUpgrades,
  fileEndpoints,
  knownEndpoints,
  metadataEndpoints,
  type KnownCa,
} from '../../joinclient/index.ts';
import { AGENT_PATHS } from '../../nodestate/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { createAskShare, createProbeShare } from './ask-share.ts';
import type { ClosedMachine } from './closed-disk.ts';
import { ownerKeysOf } from '../open-machine.ts';

/** What a machine needs to ask the signers of its cluster. */
type AskParameters = readonly [
  ports: Pick<AgentPorts, 'files' | 'clock'>,
  options: Pick<AgentOptions, 'provisioning'>,
  member: { readonly evidence: MachineEvidence; readonly readKnownCa?: () => Promise<KnownCa> },
];

/** Asks the signers of the cluster for the share of a disk that is closed: all that the machine knows is its provisioning and its record. */
export function askShareWhileClosed(
  ports: AskParameters[0],
  options: AskParameters[1],
  { evidence }: Pick<ClosedMachine, 'evidence'>,
): AskShare {
  return askShareWith(ports, options, { evidence });
}

/** Asks the signers of the cluster for the share of the disk, as a running member or while the disk is closed. */
export function askShareWith(...parameters: AskParameters): AskShare {
  return createAskShare(...partsOf(...parameters));
}

/** Asks the signers of the cluster whether they would give the share of the disk. */
export function probeShareWith(...parameters: AskParameters): ProbeShare {
  return createProbeShare(...partsOf(...parameters));
}

function partsOf(
  ...[{ files, clock }, { provisioning }, member]: AskParameters
): Parameters<typeof createAskShare> {
  const { evidence, ...known } = member;
  const { attestation, cluster, joinEndpoints, metadata } = provisioning;
  return [
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
  ];
}

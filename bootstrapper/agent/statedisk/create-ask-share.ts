import { amdTrust } from '../../../internal/attestation/snp/index.ts';
import { intelTrust } from '../../../internal/attestation/tdx/index.ts';
import { attestationSettings } from '../../../internal/config/index.ts';
import type { MachineEvidence } from '../../attest/index.ts';
import { CollateralCache, type CachedCollateral } from '../../collateral/index.ts';
import type { AskShare } from '../../disk/index.ts';
import {
  createJoinUpgrades,
  fileEndpoints,
  knownEndpoints,
  metadataEndpoints,
  type KnownCa,
} from '../../joinclient/index.ts';
import { ChecksummedFile } from '../../membership/index.ts';
import { AGENT_PATHS } from '../../nodestate/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { createAskShare } from './ask-share.ts';
import type { ClosedMachine } from './closed-disk.ts';
import { LOCKED_PATHS } from './locked-files.ts';
import { ownerKeysOf } from '../open-machine.ts';

/** Asks the signers of the cluster for the share of a disk that is closed: all that the machine knows is its provisioning and its record. */
export function askShareWhileClosed(
  ports: AgentPorts,
  options: Pick<AgentOptions, 'provisioning'>,
  { evidence }: Pick<ClosedMachine, 'evidence'>,
): AskShare {
  const { files, clock, log } = ports;
  const collateral = new CollateralCache({
    ...{ files, clock, log: log.child('collateral') },
    saved: new ChecksummedFile<CachedCollateral>(files, LOCKED_PATHS.collateral),
    provisionedPath: AGENT_PATHS.provisionedCollateral,
    trust: { amd: amdTrust(), intel: intelTrust() },
  });
  return askShareWith(ports, options, { evidence, collateral });
}

/** Asks the signers of the cluster for the share of the disk, as a running member or while the disk is closed. */
export function askShareWith(
  { files, clock }: Pick<AgentPorts, 'files' | 'clock'>,
  { provisioning }: Pick<AgentOptions, 'provisioning'>,
  member: {
    readonly evidence: MachineEvidence;
    readonly collateral: CollateralCache;
    readonly readKnownCa?: () => Promise<KnownCa>;
  },
): AskShare {
  const { evidence, collateral, ...known } = member;
  const { attestation, cluster, joinEndpoints, metadata } = provisioning;
  return createAskShare(
    {
      ...{ evidence, clock },
      upgrade: createJoinUpgrades({
        ...{ issuers: evidence.issuers, clock },
        attestation: attestation === undefined ? undefined : attestationSettings(attestation),
        // A machine that was off while the control planes were updated knows the reference values of before only.
        software: 'owner',
        collateral: async () => {
          await collateral.acceptProvisioned();
          return collateral.current;
        },
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

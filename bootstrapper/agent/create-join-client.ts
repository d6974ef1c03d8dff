import { attestationSettings } from '../../internal/config/index.ts';
import { nameFrom } from '../cloudhints/index.ts';
import {
  createJoinUpgrades,
  type EndpointSource,
  ensureTicketKeys,
  fileEndpoints,
  JoinClient,
  knownEndpoints,
  metadataEndpoints,
  proxiesIn,
  resolveWithSystem,
} from '../joinclient/index.ts';
import { readKnownClusterCa } from '../credentials/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES, OPTIONAL_KEY_FILES } from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import type { OpenedParts } from './agent-parts.ts';

/** Creates the join client from the provisioning of this machine. */
export function createJoinClient(parts: OpenedParts): JoinClient {
  const { files, log, provisioning, cloudHints, identity, evidence, collateral } = parts;
  const { nodeId, keyPem } = identity;
  const { attestation, cluster, wantedRoles } = provisioning;
  return new JoinClient(
    {
      ...{ ...parts, log: log.child('join'), lookUp: resolveWithSystem },
      checkMachine: () => parts.checks.checkForJoin(),
      upgrade: createJoinUpgrades({
        ...{ ...parts, issuers: evidence.issuers },
        attestation: attestation === undefined ? undefined : attestationSettings(attestation),
        collateral: async () => {
          await collateral.acceptProvisioned();
          return collateral.current;
        },
      }),
      keys: () => ensureTicketKeys(files, { at: KUBELET_FILES, nodeId, machineKeyPem: keyPem, evidence }),
    },
    {
      ...{ ...parts, ...identity, sources: sourcesOf(parts), pinned: cluster },
      readKnownCa: () => readKnownClusterCa(parts, cluster?.caGeneration),
      proxies: proxiesIn(parts.environment),
      keyNames: Object.keys(CONTROL_PLANE_KEY_FILES),
      optionalKeyNames: Object.keys(OPTIONAL_KEY_FILES),
      introduction: () => ({
        agentVersion: parts.agentVersion,
        hostname: parts.machine.hostname(),
        address: parts.ownAddress(),
        wantedName: nameFrom(provisioning, cloudHints) ?? '',
        wantedRoles: [...wantedRoles],
      }),
    },
  );
}

/**
 * Sources of join endpoints: first the endpoints that operators set on this machine, then the endpoints of the
 * provisioning.
 */
function sourcesOf({ provisioning, operatorEndpoints, files }: OpenedParts): readonly EndpointSource[] {
  const { joinEndpoints, metadata } = provisioning;
  return [
    knownEndpoints('directed', () => operatorEndpoints.list),
    knownEndpoints('provisioned', () => joinEndpoints),
    fileEndpoints(files, AGENT_PATHS.cloudInit),
    ...(metadata === undefined ? [] : [metadataEndpoints(metadata.url)]),
  ];
}

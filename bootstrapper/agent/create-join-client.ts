import { attestationSettings, type Provisioning } from '../../internal/config/index.ts';
import type { MachineEvidence } from '../attest/index.ts';
import type { CollateralCache } from '../collateral/index.ts';
import {
  createJoinUpgrades,
  type EndpointSource,
  ensureTicketKeys,
  FileEndpoints,
  httpGet,
  httpMetadata,
  JoinClient,
  KnownEndpoints,
  MetadataEndpoints,
  proxiesIn,
  resolveWithSystem,
} from '../joinclient/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES, OPTIONAL_KEY_FILES } from '../kubernetes/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import { AGENT_PATHS, type MachineIdentity, type OperatorEndpoints } from '../nodestate/index.ts';

/** Creates the join client from the provisioning of this machine. */
export function createJoinClient(
  { files, clock, log, random, machine, environment }: AgentPorts,
  options: {
    readonly provisioning: Provisioning;
    readonly identity: MachineIdentity;
    readonly evidence: MachineEvidence;
    readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
    readonly operatorEndpoints: OperatorEndpoints;
    readonly ownAddress: () => string;
    readonly version: string;
    /** Checks the requirements that a machine must meet before it becomes a member. */
    readonly checkMachine: () => Promise<void>;
    readonly collateral: CollateralCache;
  },
): JoinClient {
  const { provisioning, identity, evidence, ownerKeys, ownAddress, version, collateral } = options;
  const { nodeId, pubKeyDer, keyPem } = identity;
  const attestation =
    provisioning.attestation === undefined ? undefined : attestationSettings(provisioning.attestation);
  return new JoinClient(
    {
      ...{ evidence, clock, log: log.child('join'), random, lookUp: resolveWithSystem },
      checkMachine: options.checkMachine,
      upgrade: createJoinUpgrades({
        issuers: evidence.issuers,
        attestation,
        collateral: async () => {
          await collateral.acceptProvisioned();
          return collateral.current;
        },
        clock,
      }),
      keys: () => ensureTicketKeys(files, { at: KUBELET_FILES, nodeId, machineKeyPem: keyPem, evidence }),
    },
    {
      sources: sourcesOf(options, files),
      ownerKeys,
      pinned: provisioning.cluster,
      proxies: proxiesIn(environment),
      nodeId,
      pubKeyDer,
      ownAddress,
      keyNames: Object.keys(CONTROL_PLANE_KEY_FILES),
      optionalKeyNames: Object.keys(OPTIONAL_KEY_FILES),
      introduction: () => ({
        agentVersion: version,
        hostname: machine.hostname(),
        address: ownAddress(),
        wantedName: provisioning.nodeName ?? '',
        wantedRoles: [...provisioning.wantedRoles],
      }),
    },
  );
}

/** Sources of endpoints: first those of operators, then the provisioning. */
function sourcesOf(
  {
    provisioning,
    operatorEndpoints,
  }: { readonly provisioning: Provisioning; readonly operatorEndpoints: OperatorEndpoints },
  files: AgentPorts['files'],
): readonly EndpointSource[] {
  const { joinEndpoints, metadata } = provisioning;
  return [
    new KnownEndpoints('directed', () => operatorEndpoints.list),
    new KnownEndpoints('provisioned', () => joinEndpoints),
    new FileEndpoints(files, AGENT_PATHS.cloudInit),
    ...(metadata === undefined ? [] : [new MetadataEndpoints(httpMetadata(metadata.url), httpGet)]),
  ];
}

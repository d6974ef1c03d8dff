import { amdTrust } from '../../internal/attestation/snp/index.ts';
import { intelTrust } from '../../internal/attestation/tdx/index.ts';
import { BlobStore } from '../../internal/bundle/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import { CollateralCache } from '../collateral/index.ts';
import { installSharedKeys, KeyStore } from '../keyrotation/index.ts';
import {
  AGENT_PATHS,
  KEY_PATHS,
  createNodeState,
  type NodeState,
  OperatorEndpoints,
} from '../nodestate/index.ts';
import { FileEventStore, PhaseLog } from '../phases/index.ts';
import type { AgentPorts } from './agent-ports.ts';

/** The parts of the agent that store data on disk. */
export interface OpenStorage {
  readonly state: NodeState;
  /** The keys that all control planes share, with the state of their rotation. */
  readonly keys: KeyStore;
  readonly phases: PhaseLog;
  readonly blobs: BlobStore;
  /** Directories of blobs: first the directory to which the agent writes, then read-only seed directories. */
  readonly blobRoots: readonly [string, ...string[]];
  readonly operatorEndpoints: OperatorEndpoints;
  /** Certificates and revocation lists of AMD and Intel. */
  readonly collateral: CollateralCache;
}

/** Opens the files of earlier runs of the agent, and completes an interrupted rotation of keys. */
export async function openStorage(
  { files, streams, clock, log }: AgentPorts,
  { seedStores }: Pick<Provisioning, 'seedStores'>,
): Promise<OpenStorage> {
  const state = createNodeState(files);
  const keys = new KeyStore(files, KEY_PATHS);
  await installSharedKeys(files, keys, AGENT_PATHS.state);
  const operatorEndpoints = new OperatorEndpoints(state.operatorEndpoints);
  await operatorEndpoints.restore();
  const collateral = new CollateralCache({
    ...{ files, clock, saved: state.collateral },
    provisionedPath: AGENT_PATHS.provisionedCollateral,
    trust: { amd: amdTrust(), intel: intelTrust() },
    log: log.child('collateral'),
  });
  await collateral.restore();
  const events = new FileEventStore(files, AGENT_PATHS.events);
  const blobRoots: OpenStorage['blobRoots'] = [AGENT_PATHS.store, ...seedStores];
  return {
    ...{ state, keys, operatorEndpoints, collateral, blobRoots },
    phases: await PhaseLog.open({ store: events, clock, log: log.child('phases') }),
    blobs: new BlobStore({ files, streams, roots: blobRoots }),
  };
}

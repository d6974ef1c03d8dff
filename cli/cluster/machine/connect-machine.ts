import type { DescribeResponse } from '../../../initproto/gen/init_pb.js';
import { AtlsError, type AttestedPeer } from '../../../internal/atls/index.ts';
import { RpcError } from '../../../internal/rpc/index.ts';
import type { CommandContext, StepProgress } from '../../app/command.ts';
import { PROGRAM_VERSION } from '../../app/version.ts';
import type { MachineRecord, WorkspaceState } from '../../workspace/index.ts';
import type { ClusterConfig } from '../../../internal/config/index.ts';
import { attestationSettings } from '../../../internal/config/index.ts';
import type { Collateral, LockExpectation } from '../../../internal/attestation/index.ts';
import { ClusterError } from '../errors.ts';
import { MachineTrust } from './machine-trust.ts';
import { retryConnection } from '../retry-connection.ts';
import type { InitSession, Machine } from './init-session.ts';
import { provedFingerprint } from './verify-machine.ts';

const ANSWER_MS = 10_000;
const CONNECT_PATIENCE_MS = 90_000;

/** A machine that presented evidence and proved its key, both in the TLS session of `peer`. */
export interface ConnectedMachine {
  readonly described: DescribeResponse;
  readonly peer: AttestedPeer;
  readonly fingerprint: string;
}

/** Returns the evidence that is accepted in the current stage of the init. */
export function machineTrustFor(what: {
  readonly config: ClusterConfig;
  readonly machine: Machine;
  readonly clusterId: string;
  readonly state: WorkspaceState;
  /** Collateral of the workspace. */
  readonly collateral: Collateral;
}): MachineTrust {
  const { config, machine, clusterId, state, collateral } = what;
  return new MachineTrust({
    settings: attestationSettings(config.attestation),
    collateral,
    fingerprint: machine.fingerprint,
    known: knownMachine(state),
    lock: lockExpectation(state, clusterId),
  });
}

/** The machine with which the init was started, if its evidence was recorded. */
export function knownMachine({ init }: WorkspaceState): MachineRecord | undefined {
  return init?.machine;
}

/**
 * The expected node lock: none at first, this cluster's once there is a result. Either is accepted while the
 * request is being sent.
 */
function lockExpectation({ init }: WorkspaceState, clusterId: string): LockExpectation {
  if (init === undefined) return { shows: 'boot-baseline' };
  return { shows: init.stage === 'requested' ? 'either' : 'locked', clusterId };
}

/** Connects, with retries, and requests the description of the machine. Only the program version is sent. */
export async function connectMachine(
  context: CommandContext,
  session: InitSession,
  progress: StepProgress,
): Promise<ConnectedMachine> {
  const { signal, ports } = context;
  const { endpoint } = session.machine;
  const options = {
    clock: ports.clock,
    signal,
    doing: `connecting to ${endpoint}`,
    patienceMs: CONNECT_PATIENCE_MS,
    onLost: (why: string) => progress.update(`retrying: ${why}`),
  };
  return retryConnection(options, async () => {
    const before = session.peer;
    const described = await session.client
      .describe({ clientVersion: PROGRAM_VERSION }, { signal, timeoutMs: ANSWER_MS })
      .catch((error: unknown) => {
        throw translateError(endpoint, error);
      });
    const peer = session.peer;
    // The proof of the key covers one session: after a reconnect the description must be requested again.
    if (peer === undefined || (before !== undefined && before !== peer))
      throw new RpcError('rpc-unreachable', `connecting to ${endpoint}: connection lost`);
    return { described, peer, fingerprint: provedFingerprint(session, peer, described) };
  });
}

/**
 * The owner key is our only evidence, so rejected evidence means an unknown owner key; an unknown machine key means a wrong
 * fingerprint. Other errors already name the check that failed.
 */
function translateError(endpoint: string, error: unknown): unknown {
  if (!(error instanceof AtlsError)) return error;
  if (error.code === 'atls-alert-evidence-rejected') {
    const text = `machine ${endpoint} does not know the owner key of this workspace`;
    return new ClusterError('cluster-owner-refused', text, { cause: error });
  }
  if (error.details['check'] === 'machine-key-unknown') {
    const text = `machine ${endpoint} does not have the expected fingerprint`;
    return new ClusterError('cluster-other-machine', text, { cause: error });
  }
  return error;
}

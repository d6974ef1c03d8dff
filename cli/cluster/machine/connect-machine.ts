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

/** A machine that has shown evidence and proved its key, both in the session of `peer`. */
export interface ConnectedMachine {
  readonly described: DescribeResponse;
  readonly peer: AttestedPeer;
  readonly fingerprint: string;
}

/** What counts as evidence now, by how far the init has come. */
export function machineTrustFor(what: {
  readonly config: ClusterConfig;
  readonly machine: Machine;
  readonly clusterId: string;
  readonly state: WorkspaceState;
  /** The manufacturers' documents of the workspace. */
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

export function knownMachine({ init }: WorkspaceState): MachineRecord | undefined {
  return init?.machine;
}

/** Bound to nobody at first; to this cluster once the result is here; in between, nobody here knows whether it arrived. */
function lockExpectation({ init }: WorkspaceState, clusterId: string): LockExpectation {
  if (init === undefined) return { shows: 'boot-baseline' };
  return { shows: init.stage === 'requested' ? 'either' : 'locked', clusterId };
}

/** Connects, patiently, and asks the machine what it is. Nothing but our version is sent. */
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
        throw translated(endpoint, error);
      });
    const peer = session.peer;
    // The proof of the key is over one session: a connection made anew in between has another one.
    if (peer === undefined || (before !== undefined && before !== peer))
      throw new RpcError('rpc-unreachable', `connecting to ${endpoint}: the connection was made anew`);
    return { described, peer, fingerprint: provedFingerprint(session, peer, described) };
  });
}

/**
 * Of our evidence there is one kind, so a machine that refuses evidence refuses the owner key; and of a machine's key there
 * is one thing to say. Everything else is told as the check that refused.
 */
function translated(endpoint: string, error: unknown): unknown {
  if (!(error instanceof AtlsError)) return error;
  if (error.code === 'atls-alert-evidence-rejected') {
    const text = `connecting to ${endpoint}: it does not know the owner key of this workspace`;
    return new ClusterError('cluster-owner-refused', text, { cause: error });
  }
  if (error.details['check'] === 'machine-key-unknown') {
    const text = `connecting to ${endpoint}: it holds another key than the one that was named`;
    return new ClusterError('cluster-other-machine', text, { cause: error });
  }
  return error;
}

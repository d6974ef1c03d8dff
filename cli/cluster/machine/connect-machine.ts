import type { DescribeResponse } from '../../../initproto/gen/init_pb.js';
import { AtlsError, type AttestedPeer } from '../../../internal/atls/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { hostOf, PORTS } from '../../../internal/endpoint/index.ts';
import { isListening, RpcError } from '../../../internal/rpc/index.ts';
import { VERSION } from '../../../internal/versions/index.ts';
import type { CommandContext, StepProgress } from '../../app/command.ts';
import { readCollateral } from '../../attest/index.ts';
import type { OwnerKey, WorkspaceState } from '../../workspace/index.ts';
import { attestationSettings, type ClusterConfig } from '../../../internal/config/index.ts';
import type { Issuer, LockExpectation } from '../../../internal/attestation/index.ts';
import { ClusterError } from '../errors.ts';
import { MachineTrust } from './machine-trust.ts';
import { isConnectionLoss, retryConnection } from '../retry-connection.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { InitSession, type Machine } from './init-session.ts';
import { otherFingerprint, provedFingerprint } from './verify-machine.ts';

const ANSWER_MS = 10_000;
const CONNECT_PATIENCE_MS = 90_000;

/** A machine that presented evidence and proved its key, both in the TLS session of `peer`. */
export interface ConnectedMachine {
  readonly described: DescribeResponse;
  readonly peer: AttestedPeer;
  readonly fingerprint: string;
}

/** The machine of an init, and the owner who connects to it. */
export interface InitParties {
  readonly workspace: OpenWorkspace;
  readonly config: ClusterConfig;
  readonly machine: Machine;
  /** Proves possession of the owner key. */
  readonly owner: Issuer;
  readonly ownerKey: OwnerKey;
}

/** A session with the machine. Which evidence it accepts depends on the stage of the init. */
export async function openSession(
  { ports: { clock, files }, paths }: CommandContext,
  { workspace, config, machine, owner }: InitParties,
  clusterId: string,
): Promise<InitSession> {
  const state = workspace.state.value;
  const trust = new MachineTrust({
    settings: attestationSettings(config.attestation),
    collateral: (await readCollateral(files, paths.workspace)).forValidators,
    fingerprint: machine.fingerprint,
    known: state.init?.machine,
    lock: lockExpectation(state, clusterId),
  });
  return new InitSession({ machine, owner, trust, clock });
}

/**
 * The expected state of the machine's node lock: unlocked before an init, locked to this cluster once there
 * is a result. While the request is being sent, either is accepted.
 */
function lockExpectation({ init }: WorkspaceState, clusterId: string): LockExpectation {
  if (init === undefined) return { shows: 'boot-baseline' };
  return { shows: init.stage === 'requested' ? 'either' : 'locked', clusterId };
}

/**
 * Connects, with retries, and requests the description of the machine. The request contains nothing but the version of
 * this program. At the first contact, a machine that is a node already is refused at once. Later such a refusal would
 * be wrong, because the machine may just be restarting.
 */
export async function connectMachine(
  context: CommandContext,
  session: InitSession,
  progress: StepProgress,
  isFirstContact = false,
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
      .describe({ clientVersion: VERSION }, { signal, timeoutMs: ANSWER_MS })
      .catch(async (error: unknown) => {
        if (isFirstContact) await refuseNode(endpoint, error);
        throw translateError(session.machine, error);
      });
    const peer = session.peer;
    // The machine proves its key in one session only, so after a reconnect its description is requested
    // again.
    if (peer === undefined || (before !== undefined && before !== peer))
      throw new RpcError('rpc-unreachable', `connecting to ${endpoint}: connection lost`);
    return { described, peer, fingerprint: provedFingerprint(session, peer, described) };
  });
}

/**
 * A machine closes its init port when it has joined a cluster, so retrying a lost connection would be useless.
 * @throws ClusterError `cluster-machine-is-node` if its kubelet responds
 */
export async function refuseNode(endpoint: string, cause: unknown): Promise<void> {
  if (!isConnectionLoss(cause)) return;
  if (!(await isListening(hostOf(endpoint), PORTS.kubelet))) return;
  const text = `machine ${endpoint} is a node of a cluster: its kubelet responds on port ${PORTS.kubelet}`;
  throw new ClusterError('cluster-machine-is-node', text, { cause });
}

/**
 * Our only evidence is the owner key. So if the machine rejects it, the machine does not know this owner key;
 * if we reject the key of the machine, the fingerprint is wrong. Other errors already name the failed check.
 */
export function translateError({ endpoint, fingerprint }: Machine, error: unknown): unknown {
  if (!(error instanceof AtlsError)) return error;
  if (error.code === 'atls-alert-evidence-rejected') {
    const text = `machine ${endpoint} does not know the owner key of this workspace`;
    return new ClusterError('cluster-owner-refused', text, { cause: error });
  }
  if (error.details['check'] === 'machine-key-unknown') {
    const shown = findCoded(error.cause)?.details['actual'];
    return otherFingerprint(endpoint, { shown: `sha256:${String(shown)}`, expected: fingerprint });
  }
  return error;
}

import { ownershipStatement, signEd25519 } from '../../internal/crypto/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { Issuer } from '../../internal/attestation/index.ts';
import type { ClusterConfig } from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { StepProgress } from '../host/index.ts';
import type { InitState, InitStateResult, OwnerKey } from '../workspace/index.ts';
import { CollateralStore } from '../attest/index.ts';
import { ClusterError } from './errors.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import { persist } from './persist.ts';
import { knownMachine, meetMachine, trustFor } from './meet-machine.ts';
import { InitSession, type Machine } from './session.ts';
import { verifyMachine } from './verify-machine.ts';

const ANSWER_MS = 10_000;
/** After it the service is closed, so a lost answer looks like a machine that is gone. */
const PATIENCE_MS = 15_000;

export interface AcknowledgeOptions {
  readonly workspace: OpenWorkspace;
  readonly config: ClusterConfig;
  readonly machine: Machine;
  /** Shows the owner key. */
  readonly owner: Issuer;
  readonly ownerKey: OwnerKey;
}

/** Tells the node that the result is on disk here, signed by the owner; then the request's secrets leave the state. */
export async function acknowledge(context: CommandContext, options: AcknowledgeOptions): Promise<void> {
  const { workspace, config, machine, owner, ownerKey } = options;
  const { init } = workspace.state.value;
  if (init?.result === undefined)
    throw new ClusterError('cluster-not-initialized', 'acknowledging the init: no result');
  const signature = signEd25519(ownerKey.keyPem, statementOf(init.result));
  const state = workspace.state.value;
  const { files } = context.ports;
  const collateral = await new CollateralStore(files, context.paths.workspace).collateral();
  const { clusterId } = init.result;
  const trust = trustFor({ config, machine, clusterId, state, collateral });
  using session = new InitSession({ machine, owner, trust, clock: context.ports.clock });
  await context.host.step('init-acknowledge', 'Acknowledging the cluster', async (progress) => {
    if (trust.isFirstContact) {
      const met = await meetMachine(context, session, progress); // a workspace from before machines were recorded
      await verifyMachine(context, { session, ...met, known: knownMachine(state) });
    }
    await sendAcknowledgement(context, { init, signature, session, progress });
  });
  await workspace.state.update((state) => {
    if (state.init === undefined) return state;
    const { request: _request, ...rest } = state.init;
    return { ...state, init: { ...rest, stage: 'acknowledged' } };
  });
}

async function sendAcknowledgement(
  context: CommandContext,
  what: {
    readonly init: InitState;
    readonly signature: Uint8Array;
    readonly session: InitSession;
    readonly progress: StepProgress;
  },
): Promise<void> {
  const { init, signature, session, progress } = what;
  const { machine } = session;
  const { ports, signal, host } = context;
  try {
    await persist(
      {
        clock: ports.clock,
        signal,
        doing: `acknowledging to ${machine.endpoint}`,
        patienceMs: PATIENCE_MS,
        onLost: (why) => progress.update(`trying again: ${why}`),
      },
      () =>
        session.client.acknowledge(
          { initId: init.id, ownershipSignature: signature },
          { signal, timeoutMs: ANSWER_MS },
        ),
    );
  } catch (error) {
    // The service closes for good once it has been told; the result is complete either way.
    if (!(error instanceof CodedError) || error.code !== 'cluster-unreachable') throw error;
    host.warn(
      'init-acknowledge-unanswered',
      `${machine.endpoint} no longer answers there; an earlier acknowledgement probably reached it`,
    );
  }
}

function statementOf(result: InitStateResult): Uint8Array {
  const { clusterId, clusterCaPem, epoch } = result;
  return ownershipStatement({ clusterId, clusterCaPem, epoch: BigInt(epoch) });
}

import { ownershipStatement, signEd25519 } from '../../internal/crypto/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { InitState, InitStateResult, OwnerKey } from '../workspace/index.ts';
import { ClusterError } from './errors.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import { persist } from './persist.ts';
import { InitSession, type Machine } from './session.ts';

const ANSWER_MS = 10_000;
/** After it the service is closed, so a lost answer looks like a machine that is gone. */
const PATIENCE_MS = 15_000;

export interface AcknowledgeOptions {
  readonly workspace: OpenWorkspace;
  readonly machine: Machine;
  readonly identity: TlsIdentity;
  readonly ownerKey: OwnerKey;
}

/** Tells the node that the result is on disk here, signed by the owner; then the request's secrets leave the state. */
export async function acknowledge(context: CommandContext, options: AcknowledgeOptions): Promise<void> {
  const { workspace, machine, identity, ownerKey } = options;
  const { init } = workspace.state.value;
  if (init?.result === undefined)
    throw new ClusterError('cluster-not-initialized', 'acknowledging the init: no result');
  const signature = signEd25519(ownerKey.keyPem, statementOf(init.result));
  await context.host.step('init-acknowledge', 'Acknowledging the cluster', () =>
    sendAcknowledgement(context, { init, signature, machine, identity }),
  );
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
    readonly machine: Machine;
    readonly identity: TlsIdentity;
  },
): Promise<void> {
  const { init, signature, machine, identity } = what;
  const { ports, signal, host } = context;
  using session = new InitSession(machine, identity);
  try {
    await persist(
      {
        clock: ports.clock,
        signal,
        doing: `acknowledging to ${machine.endpoint}`,
        patienceMs: PATIENCE_MS,
        onLost: () => undefined,
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

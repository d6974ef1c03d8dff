import { ownershipStatement, signEd25519 } from '../../../internal/crypto/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { RpcError } from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import type { StepProgress } from '../../host/index.ts';
import type { InitState, InitStateResult, OwnerKey } from '../../workspace/index.ts';
import { callCurator, newMutation } from '../curator/call-curator.ts';
import { ClusterError } from '../errors.ts';
import { readCaller } from '../curator/caller.ts';
import { isConnectionLoss, retryConnection } from '../retry-connection.ts';
import { connectMachine, openSession, type InitParties } from '../machine/connect-machine.ts';
import type { InitSession } from '../machine/init-session.ts';
import { verifyMachine } from '../machine/verify-machine.ts';

const ANSWER_MS = 10_000;
/**
 * After this time without a response from the machine, the acknowledgement is written to the cluster instead.
 * A restarted agent responds sooner.
 */
const MACHINE_MS = 15_000;
/** How long the command retries: enough for a machine to reboot. After that, the operator repeats the command. */
const PATIENCE_MS = 3 * 60_000;

/**
 * Confirms to the machine, with the owner's signature, that this workspace has saved the result of the init. Then
 * deletes the request of the init, which contains secrets, from the state file of the workspace.
 * @throws ClusterError `cluster-not-initialized`, `cluster-unreachable`
 */
export async function acknowledgeInit(context: CommandContext, parties: InitParties): Promise<void> {
  const { workspace, ownerKey } = parties;
  const { init } = workspace.state.value;
  if (init?.result === undefined)
    throw new ClusterError('cluster-not-initialized', 'acknowledging the init: the state contains no result');
  const epoch = BigInt(init.result.epoch);
  const signature = signEd25519(ownerKey.keyPem, statementOf(init.result));
  using session = await openSession(context, parties, init.result.clusterId);
  await context.host.step('init-acknowledge', 'Acknowledging the init', async (progress) => {
    if (session.trust.isFirstContact) {
      const met = await connectMachine(context, session, progress); // the workspace was written by a version that did not record the machine
      await verifyMachine(context, { session, ...met, known: init.machine });
    }
    await sendAcknowledgement(context, { init, signature, epoch, ownerKey, session, progress });
  });
  await workspace.state.update((state) => {
    if (state.init === undefined) return state;
    const { request: _request, ...rest } = state.init;
    return { ...state, init: { ...rest, stage: 'acknowledged' } };
  });
}

interface Acknowledgement {
  readonly init: InitState;
  readonly signature: Uint8Array;
  readonly epoch: bigint;
  readonly ownerKey: OwnerKey;
  readonly session: InitSession;
  readonly progress: StepProgress;
}

/**
 * Retries until the machine or the cluster has the acknowledgement. The machine closes its init service after the
 * acknowledgement, so a lost response looks like an unreachable machine; therefore the cluster is asked as well.
 * Without the owner's signature on record no machine could join.
 * @throws ClusterError `cluster-unreachable` when neither responds; the same command tries again
 */
async function sendAcknowledgement(context: CommandContext, acknowledgement: Acknowledgement): Promise<void> {
  const { init, signature, session, progress } = acknowledgement;
  const { ports, signal } = context;
  const sinceMs = ports.clock.monotonicMs();
  await retryConnection(
    {
      clock: ports.clock,
      signal,
      doing: `acknowledging to ${session.machine.endpoint} or a curator`,
      patienceMs: PATIENCE_MS,
      onLost: (why) => progress.update(`retrying: ${why}`),
    },
    async () => {
      try {
        const request = { initId: init.id, ownershipSignature: signature };
        await session.client.acknowledge(request, { signal, timeoutMs: ANSWER_MS });
      } catch (error) {
        signal.throwIfAborted();
        if (!isConnectionLoss(error)) throw error;
        session.renew(); // the next attempt must not use the same dead connection
        const isOverdue = ports.clock.monotonicMs() - sinceMs > MACHINE_MS;
        const recorded = await isRecorded(context, acknowledgement, isOverdue);
        if (recorded === true) return;
        throw new RpcError('rpc-unreachable', `machine: ${describeError(error)}; cluster: ${recorded}`);
      }
    },
  );
}

/**
 * Whether the cluster has a record of its owner, else the reason why this is unknown.
 * @param writes whether to write the record if it is missing
 */
async function isRecorded(
  context: CommandContext,
  { init, signature, epoch, ownerKey }: Acknowledgement,
  writes: boolean,
): Promise<true | string> {
  const mutation = newMutation();
  const ownerPublicKey = new Uint8Array(Buffer.from(ownerKey.pubKeyBase64, 'base64'));
  try {
    const { clusterId } = await readCaller(context);
    if (clusterId !== init.result?.clusterId) return 'the identity in use belongs to a different cluster';
    return await callCurator(context, async ({ operatorApi }) => {
      const known = await operatorApi.getOwnership({});
      if (known.ownerPublicKey.length > 0) return true;
      if (!writes) return 'the owner is not on record';
      await operatorApi.putOwnership({ ownerPublicKey, epoch, signature, mutation });
      return true;
    });
  } catch (error) {
    context.signal.throwIfAborted();
    return describeError(error);
  }
}

function statementOf(result: InitStateResult): Uint8Array {
  const { clusterId, clusterCaPem, epoch } = result;
  return ownershipStatement({ clusterId, clusterCaPem, epoch: BigInt(epoch) });
}

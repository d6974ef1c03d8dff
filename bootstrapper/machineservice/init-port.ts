import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import { when } from '../../internal/event/index.ts';
import { implement } from '../../internal/rpc/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import type { MachineEvidence } from '../attest/index.ts';
import type { Enrolment } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import { machineHandlers, type MachineServicePorts } from './machine-handlers.ts';
import { Machine } from '../../initproto/gen/machine_pb.js';
import { PORTS } from '../../internal/endpoint/index.ts';
import { createInitServer, type InitServicePorts } from '../initserver/index.ts';
import { untilInitIsOver } from './until-init-is-over.ts';

/** Time for the response to an acknowledgement to reach the owner before the port closes. */
const CLOSE_MS = 2_000;

/** The services of the init port, and the state that decides when they are available. */
export type InitServerOptions = InitServicePorts &
  MachineServicePorts & {
    readonly enrolment: Enrolment<Membership>;
    readonly evidence: MachineEvidence;
    readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
    /**
     * Whether this machine is a member or joining. If so, the port is opened only if the machine has accepted
     * an init.
     */
    readonly isJoinedOrJoining: () => Promise<boolean>;
  };

/** Serves the init port until the owner has acknowledged the result, and again when enrolment has failed. */
export function initServerRunnable(options: InitServerOptions): Runnable {
  const { job, enrolment, evidence, ownerKeys, clock, fingerprint } = options;
  return async (scope) => {
    scope.waiting('state of earlier runs of the agent');
    if (await hasReasonToServe(scope.signal)) await serveInit(scope);
    else scope.healthy();
    scope.waiting('nothing: no init to serve');
    // After a final failure, owners can still read the reason at this port.
    await when(enrolment.status, ({ state }) => state === 'Failed', scope.signal);
    await listen(scope, () => untilAborted(scope.signal));
  };

  /** Whether an init is in progress, this machine belongs to no cluster, or it has to report why enrolment failed. */
  async function hasReasonToServe(signal: AbortSignal): Promise<boolean> {
    const status = enrolment.status.peek();
    if (status.set && status.value.state === 'Failed') return false; // Failed is final: the stored state is damaged.
    using waiting = childSignal(signal);
    const restored = when(job.restored, () => true, waiting.signal).then(() => 'restored' as const);
    const failed = enrolment.finished(waiting.signal).then(
      () => restored,
      () => 'failed' as const,
    );
    const first = await Promise.race([restored, failed]);
    waiting.abort(new Error('the other event came first'));
    await Promise.allSettled([restored, failed]);
    signal.throwIfAborted();
    if (first === 'failed') return true;
    return !job.acknowledged.peek().set && (job.accepted.peek().set || !(await options.isJoinedOrJoining()));
  }

  async function serveInit(scope: Scope): Promise<void> {
    await listen(scope, async () => {
      scope.healthy();
      await untilInitIsOver(options, scope.signal);
    });
    scope.log.info('init port closed', { port: PORTS.init });
  }

  async function listen(scope: Scope, until: () => Promise<unknown>): Promise<void> {
    await using server = createInitServer(options, {
      ...{ shows: evidence.issuers, ownerKeys, clock, log: scope.log },
      also: [implement(Machine, machineHandlers(options))],
    });
    await server.listenEverywhere(PORTS.init);
    scope.log.info('waiting for an owner', { port: PORTS.init, fingerprint });
    scope.waiting('an owner');
    await until();
    await server.close(CLOSE_MS);
  }
}
